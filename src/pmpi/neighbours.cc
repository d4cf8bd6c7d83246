// Neighbor_allgather(v), Neighbor_alltoall(v, w): a rank exchanges with its neighbours in the
// topology, block i of a buffer being that of neighbour i.
#include <string.h>

#include <algorithm>

#include "api.h"
#include "engine/collectives.h"
#include "pmpi/buffers.h"
#include "pmpi/call.h"
#include "pmpi/datatype.h"
#include "pmpi/topologies.h"

namespace rejoin::pmpi {
namespace {

using recovery::OpKind;
using recovery::Status;

// Where the blocks of one buffer lie. Null lists are those that the function does not have.
struct Layout {
  const void* buffer;
  MPI_Datatype type;
  int count;                              // of each block, if counts is null
  const int* counts = nullptr;            // in elements
  const int* displs = nullptr;            // in elements
  const MPI_Aint* byte_displs = nullptr;  // with types
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
};

// The neighbours of this rank in the order in which messages are sent or received, and the block of
// each. Those at MPI_PROC_NULL are left out.
class Side {
 public:
  explicit Side(std::size_t most)
      : memory_(most * (sizeof(std::size_t) + sizeof(std::uint32_t)) + 1),
        blocks_(memory_.as<std::size_t>()),
        ranks_(reinterpret_cast<std::uint32_t*>(blocks_ + most)) {}
  void add(int rank, std::size_t block) {
    if (rank == kNowhere) return;
    ranks_[count_] = static_cast<std::uint32_t>(rank);
    blocks_[count_++] = block;
  }
  std::span<const std::uint32_t> ranks() const { return {ranks_, count_}; }
  std::size_t block(std::size_t message) const { return blocks_[message]; }

 private:
  Scratch memory_;
  std::size_t* blocks_;
  std::uint32_t* ranks_;
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

// In a grid, block 2d is that of the neighbour before this rank in dimension d, block 2d+1 that of
// the one behind it. They may be the same rank: what it sends forwards comes from before. So
// forwards is sent first, and from before received first.
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
    return fail(name, comm, MPI_ERR_ARG, "the %s counts, displacements or types are a null pointer",
                what);
  }
  // Without neighbours there may be no buffer, but the type and the count are looked at.
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

// What a rank sends to itself must fit what it expects of itself.
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
                  "this rank sends itself %zu bytes but receives only %zu", sent, expected);
    }
  }
  return MPI_SUCCESS;
}

// Blocks as bytes in one piece, packed if their type is not contiguous.
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
      memcpy(first_byte(type, layout_.place(i)), data, bytes);
    } else {
      unpack(type, data, bytes, layout_.place(i));
    }
  }

 private:
  const Side& side_;
  const Layout& layout_;
};

// Of what Outgoing needs at a time.
std::size_t packed_bytes(const Side& side, const Layout& layout) {
  std::size_t most = 0;
  for (std::size_t k = 0; k < side.ranks().size(); ++k) {
    const std::size_t i = side.block(k);
    if (!is_contiguous(layout.type_of(i))) most = std::max(most, layout.bytes(i));
  }
  return most;
}

// v: the blocks differ; w: their types do.
int exchange(const char* name, const void* site, MPI_Comm comm, OpKind kind, bool v, bool w,
             const Layout& out, const Layout& in) {
  if (const int code = check(name, comm)) return code;
  const Topology& t = *comm->topology;
  const int rank = comm->rank();
  const std::size_t sources = source_count(t, rank), destinations = destination_count(t, rank);
  const bool out_v = v && !out.one;
  if (const int code = check_layout(name, comm, "send", out, out_v, w, destinations)) return code;
  if (const int code = check_layout(name, comm, "receive", in, v, w, sources)) return code;
  Side to(destinations), from(sources);
  list_neighbours(t, rank, &to, &from);
  if (const int code = check_own(name, comm, to, out, from, in)) return code;
  Scratch packed(packed_bytes(to, out) + 1);
  const Status status = context->rank
                            ->channel(*comm->comm, call_of(site, kind, -1, 0), nullptr, 0,
                                      engine::Exchange(to.ranks(), Outgoing(to, out, packed.data()),
                                                       from.ranks(), Incoming(from, in)))
                            .status;
  return status == Status::kOk ? MPI_SUCCESS : fail_status(name, comm, status);
}

Layout one_block(const void* buffer, int count, MPI_Datatype type) {
  Layout l = {buffer, type, count};
  l.one = true;
  return l;
}

}  // namespace

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

}  // namespace rejoin::pmpi
