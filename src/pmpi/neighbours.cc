// Neighbor_allgather(v), Neighbor_alltoall(v, w): a rank exchanges with its neighbours in the
// topology, block i of a buffer being that of neighbour i.
#include <string.h>

#include <algorithm>

#include "api.h"
#include "copy/copy.h"
#include "engine/collectives.h"
#include "pmpi/buffers.h"
#include "pmpi/call.h"
#include "pmpi/collective.h"
#include "pmpi/datatype.h"
#include "pmpi/topologies.h"

namespace rejoin::pmpi {
namespace {

using recovery::OpKind;
using recovery::Outcome;
using recovery::Signature;

// Describes the blocks of one buffer. Lists that the function does not have are null.
struct Layout {
  const void* buffer;
  MPI_Datatype type;
  int count;                              // of each block, if counts is null
  const int* counts = nullptr;            // in values
  const int* displs = nullptr;            // in extents
  const MPI_Aint* byte_displs = nullptr;  // in bytes, if types is not null
  const MPI_Datatype* types = nullptr;
  bool one = false;  // the same block for all

  MPI_Datatype type_of(std::size_t i) const { return types != nullptr ? types[i] : type; }
  int count_of(std::size_t i) const { return counts != nullptr ? counts[i] : count; }
  std::size_t bytes(std::size_t i) const {
    return static_cast<std::size_t>(count_of(i)) * type_of(i)->size_bytes;
  }
  std::byte* place(std::size_t i) const {
    auto* base = static_cast<std::byte*>(const_cast<void*>(buffer));
    if (byte_displs != nullptr) return base + byte_displs[i];
    if (one) return base;
    const auto extent = static_cast<std::ptrdiff_t>(type->extent_bytes);
    const auto block =
        displs != nullptr ? std::ptrdiff_t{displs[i]} : static_cast<std::ptrdiff_t>(i) * count;
    return base + block * extent;
  }
  void keep(Kept& kept, std::size_t blocks) {
    kept.copy(&counts, blocks);
    kept.copy(&displs, blocks);
    kept.copy(&byte_displs, blocks);
    kept.copy(&types, blocks);
    if (types == nullptr) kept.hold(type);
    for (std::size_t i = 0; types != nullptr && i < blocks; ++i) kept.hold(types[i]);
  }
};

// The neighbours of this rank in the order in which messages are sent or received, and the index of
// the block for each. Neighbours at MPI_PROC_NULL are left out.
class Side {
 public:
  void reserve(std::size_t most) {  // once
    memory_.reserve(most * (sizeof(std::size_t) + sizeof(std::uint32_t)) + 1);
    blocks_ = memory_.as<std::size_t>();
    ranks_ = reinterpret_cast<std::uint32_t*>(blocks_ + most);
  }
  void add(int rank, std::size_t block) {
    if (rank == kNowhere) return;
    ranks_[count_] = static_cast<std::uint32_t>(rank);
    blocks_[count_++] = block;
  }
  std::span<const std::uint32_t> ranks() const { return {ranks_, count_}; }
  std::size_t block(std::size_t message) const { return blocks_[message]; }

 private:
  Scratch memory_;
  std::size_t* blocks_ = nullptr;
  std::uint32_t* ranks_ = nullptr;
  std::size_t count_ = 0;
};

std::size_t source_count(const Topology& t, int rank) {
  if (t.kind == MPI_CART) return 2 * t.grid().dims.size();
  if (t.kind == MPI_GRAPH) return neighbours_of(t.index(), t.edges(), rank).size();
  return t.sources().size();
}

std::size_t destination_count(const Topology& t, int rank) {
  return t.kind == MPI_DIST_GRAPH ? t.destinations().size() : source_count(t, rank);
}

// Lists the neighbours in a topology. In a grid, block 2d belongs to the neighbour before this rank
// in dimension d, and block 2d+1 to the neighbour behind it. Both may be the same rank, and two
// messages then go each way in one channel. Every rank therefore sends to the neighbour behind it
// first, and receives from the neighbour before it first.
void list_neighbours(const Topology& t, int rank, Side* to, Side* from) {
  if (t.kind == MPI_CART) {
    for (int d = 0; d < t.ndims(); ++d) {
      const auto block = 2 * static_cast<std::size_t>(d);
      const int before = shifted(t.grid(), rank, d, -1), behind = shifted(t.grid(), rank, d, 1);
      from->add(before, block);
      from->add(behind, block + 1);
      to->add(behind, block + 1);
      to->add(before, block);
    }
    return;
  }
  const bool graph = t.kind == MPI_GRAPH;
  const Ints both = graph ? neighbours_of(t.index(), t.edges(), rank) : Ints();
  const Ints sources = graph ? both : t.sources(), destinations = graph ? both : t.destinations();
  for (std::size_t i = 0; i < sources.size(); ++i) from->add(sources[i], i);
  for (std::size_t i = 0; i < destinations.size(); ++i) to->add(destinations[i], i);
}

int check(const char* name, MPI_Comm comm) {
  if (!is_comm(comm)) return fail_comm(name, comm);
  if (comm->topology != nullptr) return MPI_SUCCESS;
  return fail(name, comm, MPI_ERR_TOPOLOGY, "the communicator has no topology");
}

int check_layout(const char* name, MPI_Comm comm, const char* what, const Layout& layout, bool v,
                 bool w, std::size_t blocks) {
  if (layout.buffer == MPI_IN_PLACE) return fail_buffer(name, comm, what, layout.buffer);
  const bool lists =
      layout.counts != nullptr &&
      (w ? layout.types != nullptr && layout.byte_displs != nullptr : layout.displs != nullptr);
  if (v && blocks > 0 && !lists) {
    return fail(name, comm, MPI_ERR_ARG,
                "one of the arrays of %s counts, displacements and types is a null pointer", what);
  }
  // Without neighbours the buffer may be null, but the type and the count are checked.
  if (!v) {
    const void* buffer = blocks > 0 ? layout.buffer : what;
    return check_message_buffer(name, comm, what, buffer, layout.count, layout.type);
  }
  for (std::size_t i = 0; i < blocks; ++i) {
    const void* at = w && layout.buffer == nullptr ? layout.place(i) : layout.buffer;
    if (const int code =
            check_message_buffer(name, comm, what, at, layout.count_of(i), layout.type_of(i))) {
      return code;
    }
  }
  return w || is_committed(layout.type) ? MPI_SUCCESS : fail_type(name, comm, layout.type);
}

// Raises an error if a rank sends more to itself than it receives from itself.
int check_own(const char* name, MPI_Comm comm, const Side& to, const Layout& out, const Side& from,
              const Layout& in) {
  const auto me = comm->comm->members.rank;
  std::size_t own = 0;
  for (std::size_t k = 0; k < from.ranks().size(); ++k) {
    if (from.ranks()[k] != me) continue;
    while (own < to.ranks().size() && to.ranks()[own] != me) ++own;
    if (own == to.ranks().size()) break;
    const std::size_t sent = out.bytes(to.block(own++)), expected = in.bytes(from.block(k));
    if (sent > expected) {
      return fail(name, comm, MPI_ERR_TRUNCATE,
                  "this rank sends itself %zu byte%s but receives only %zu", sent,
                  sent == 1 ? "" : "s", expected);
    }
  }
  return MPI_SUCCESS;
}

// The blocks to send, as contiguous bytes: packed if their type is not contiguous.
class Outgoing {
 public:
  Outgoing(const Side& side, const Layout& layout, std::byte* packed)
      : side_(side), layout_(layout), packed_(packed) {}
  engine::Block operator()(std::size_t message) const {
    const std::size_t i = side_.block(message);
    const MPI_Datatype type = layout_.type_of(i);
    const std::size_t bytes = layout_.bytes(i);
    if (is_contiguous(type)) return {first_byte(type, layout_.place(i)), bytes};
    pack(type, layout_.place(i), static_cast<std::size_t>(layout_.count_of(i)), packed_);
    return {packed_, bytes};
  }

 private:
  const Side& side_;
  const Layout& layout_;
  std::byte* packed_;
};

class Incoming {
 public:
  Incoming(const Side& side, const Layout& layout) : side_(side), layout_(layout) {}
  std::size_t room(std::size_t message) const { return layout_.bytes(side_.block(message)); }
  void put(std::size_t message, const std::byte* data, std::size_t bytes) const {
    const std::size_t i = side_.block(message);
    const MPI_Datatype type = layout_.type_of(i);
    if (bytes == 0) return;
    if (is_contiguous(type)) {
      copy_payload(first_byte(type, layout_.place(i)), data, bytes);
    } else {
      unpack(type, data, bytes, layout_.place(i));
    }
  }

 private:
  const Side& side_;
  const Layout& layout_;
};

// Returns the size of the largest packed block: Outgoing packs one block at a time.
std::size_t packed_bytes(const Side& side, const Layout& layout) {
  std::size_t most = 0;
  for (std::size_t k = 0; k < side.ranks().size(); ++k) {
    const std::size_t i = side.block(k);
    if (!is_contiguous(layout.type_of(i))) most = std::max(most, layout.bytes(i));
  }
  return most;
}

// The plan of all these collectives. v: block sizes differ; w: types differ, too.
struct NeighbourPlan {
  Layout out, in;
  std::size_t destinations, sources;
  Side to, from;

  int check(const char* name, MPI_Comm comm, bool v, bool w, const Layout& sent,
            const Layout& received) {
    if (const int code = pmpi::check(name, comm)) return code;
    const Topology& t = *comm->topology;
    const int rank = comm->rank();
    out = sent;
    in = received;
    sources = source_count(t, rank);
    destinations = destination_count(t, rank);
    const bool out_v = v && !out.one;
    if (const int code = check_layout(name, comm, "send", out, out_v, w, destinations)) return code;
    if (const int code = check_layout(name, comm, "receive", in, v, w, sources)) return code;
    to.reserve(destinations);
    from.reserve(sources);
    list_neighbours(t, rank, &to, &from);
    return check_own(name, comm, to, out, from, in);
  }
  void keep(Kept& kept) {
    out.keep(kept, destinations);
    in.keep(kept, sources);
  }
  Signature signature(OpKind kind) const { return signature_of(kind, -1, 0); }

  struct Run {
    explicit Run(const NeighbourPlan& p)
        : packed(packed_bytes(p.to, p.out) + 1),
          algorithm(p.to.ranks(), Outgoing(p.to, p.out, packed.data()), p.from.ranks(),
                    Incoming(p.from, p.in)) {}
    void deliver(const Outcome&) {}
    const void* const input = nullptr;
    const std::size_t input_bytes = 0;
    const Scratch packed;
    engine::Exchange<Outgoing, Incoming> algorithm;
  };
};

Layout one_block(const void* buffer, int count, MPI_Datatype type) {
  Layout l = {buffer, type, count};
  l.one = true;
  return l;
}

int exchange(const char* name, const void* site, MPI_Comm comm, OpKind kind, bool v, bool w,
             const Layout& out, const Layout& in) {
  NeighbourPlan plan;
  if (const int code = plan.check(name, comm, v, w, out, in)) return code;
  return run(name, site, comm, kind, plan);
}

}  // namespace

// --- Blocking

int neighbor_allgather(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
                       void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return exchange("MPI_Neighbor_allgather", site, comm, OpKind::kNeighborAllgather, false, false,
                  one_block(sendbuf, sendcount, sendtype), {recvbuf, recvtype, recvcount});
}

int neighbor_allgatherv(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
                        void* recvbuf, const int recvcounts[], const int displs[],
                        MPI_Datatype recvtype, MPI_Comm comm) {
  return exchange("MPI_Neighbor_allgatherv", site, comm, OpKind::kNeighborAllgatherv, true, false,
                  one_block(sendbuf, sendcount, sendtype),
                  {recvbuf, recvtype, 0, recvcounts, displs});
}

int neighbor_alltoall(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
                      void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return exchange("MPI_Neighbor_alltoall", site, comm, OpKind::kNeighborAlltoall, false, false,
                  {sendbuf, sendtype, sendcount}, {recvbuf, recvtype, recvcount});
}

int neighbor_alltoallv(const void* site, const void* sendbuf, const int sendcounts[],
                       const int sdispls[], MPI_Datatype sendtype, void* recvbuf,
                       const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                       MPI_Comm comm) {
  return exchange("MPI_Neighbor_alltoallv", site, comm, OpKind::kNeighborAlltoallv, true, false,
                  {sendbuf, sendtype, 0, sendcounts, sdispls},
                  {recvbuf, recvtype, 0, recvcounts, rdispls});
}

int neighbor_alltoallw(const void* site, const void* sendbuf, const int sendcounts[],
                       const MPI_Aint sdispls[], const MPI_Datatype sendtypes[], void* recvbuf,
                       const int recvcounts[], const MPI_Aint rdispls[],
                       const MPI_Datatype recvtypes[], MPI_Comm comm) {
  return exchange("MPI_Neighbor_alltoallw", site, comm, OpKind::kNeighborAlltoallw, true, true,
                  {sendbuf, MPI_DATATYPE_NULL, 0, sendcounts, nullptr, sdispls, sendtypes},
                  {recvbuf, MPI_DATATYPE_NULL, 0, recvcounts, nullptr, rdispls, recvtypes});
}

// --- Nonblocking

int ineighbor_allgather(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
                        void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                        MPI_Request* request) {
  return begin_collective<NeighbourPlan>(
      "MPI_Ineighbor_allgather", site, comm, OpKind::kIneighborAllgather, request, false, false,
      one_block(sendbuf, sendcount, sendtype), Layout{recvbuf, recvtype, recvcount});
}

int ineighbor_allgatherv(const void* site, const void* sendbuf, int sendcount,
                         MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
                         const int displs[], MPI_Datatype recvtype, MPI_Comm comm,
                         MPI_Request* request) {
  return begin_collective<NeighbourPlan>(
      "MPI_Ineighbor_allgatherv", site, comm, OpKind::kIneighborAllgatherv, request, true, false,
      one_block(sendbuf, sendcount, sendtype), Layout{recvbuf, recvtype, 0, recvcounts, displs});
}

int ineighbor_alltoall(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
                       void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                       MPI_Request* request) {
  return begin_collective<NeighbourPlan>(
      "MPI_Ineighbor_alltoall", site, comm, OpKind::kIneighborAlltoall, request, false, false,
      Layout{sendbuf, sendtype, sendcount}, Layout{recvbuf, recvtype, recvcount});
}

int ineighbor_alltoallv(const void* site, const void* sendbuf, const int sendcounts[],
                        const int sdispls[], MPI_Datatype sendtype, void* recvbuf,
                        const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                        MPI_Comm comm, MPI_Request* request) {
  return begin_collective<NeighbourPlan>("MPI_Ineighbor_alltoallv", site, comm,
                                         OpKind::kIneighborAlltoallv, request, true, false,
                                         Layout{sendbuf, sendtype, 0, sendcounts, sdispls},
                                         Layout{recvbuf, recvtype, 0, recvcounts, rdispls});
}

int ineighbor_alltoallw(const void* site, const void* sendbuf, const int sendcounts[],
                        const MPI_Aint sdispls[], const MPI_Datatype sendtypes[], void* recvbuf,
                        const int recvcounts[], const MPI_Aint rdispls[],
                        const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Request* request) {
  return begin_collective<NeighbourPlan>(
      "MPI_Ineighbor_alltoallw", site, comm, OpKind::kIneighborAlltoallw, request, true, true,
      Layout{sendbuf, MPI_DATATYPE_NULL, 0, sendcounts, nullptr, sdispls, sendtypes},
      Layout{recvbuf, MPI_DATATYPE_NULL, 0, recvcounts, nullptr, rdispls, recvtypes});
}

// --- Persistent

int neighbor_allgather_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype,
                            void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                            MPI_Info info, MPI_Request* request) {
  return init_collective<NeighbourPlan>(
      "MPI_Neighbor_allgather_init", comm, OpKind::kIneighborAllgather, info, request, false, false,
      one_block(sendbuf, sendcount, sendtype), Layout{recvbuf, recvtype, recvcount});
}

int neighbor_allgatherv_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype,
                             void* recvbuf, const int recvcounts[], const int displs[],
                             MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                             MPI_Request* request) {
  return init_collective<NeighbourPlan>("MPI_Neighbor_allgatherv_init", comm,
                                        OpKind::kIneighborAllgatherv, info, request, true, false,
                                        one_block(sendbuf, sendcount, sendtype),
                                        Layout{recvbuf, recvtype, 0, recvcounts, displs});
}

int neighbor_alltoall_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                           int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                           MPI_Request* request) {
  return init_collective<NeighbourPlan>(
      "MPI_Neighbor_alltoall_init", comm, OpKind::kIneighborAlltoall, info, request, false, false,
      Layout{sendbuf, sendtype, sendcount}, Layout{recvbuf, recvtype, recvcount});
}

int neighbor_alltoallv_init(const void* sendbuf, const int sendcounts[], const int sdispls[],
                            MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
                            const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
                            MPI_Info info, MPI_Request* request) {
  return init_collective<NeighbourPlan>("MPI_Neighbor_alltoallv_init", comm,
                                        OpKind::kIneighborAlltoallv, info, request, true, false,
                                        Layout{sendbuf, sendtype, 0, sendcounts, sdispls},
                                        Layout{recvbuf, recvtype, 0, recvcounts, rdispls});
}

int neighbor_alltoallw_init(const void* sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
                            const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
                            const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                            MPI_Info info, MPI_Request* request) {
  return init_collective<NeighbourPlan>(
      "MPI_Neighbor_alltoallw_init", comm, OpKind::kIneighborAlltoallw, info, request, true, true,
      Layout{sendbuf, MPI_DATATYPE_NULL, 0, sendcounts, nullptr, sdispls, sendtypes},
      Layout{recvbuf, MPI_DATATYPE_NULL, 0, recvcounts, nullptr, rdispls, recvtypes});
}

}  // namespace rejoin::pmpi
