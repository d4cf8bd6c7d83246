// Neighbor_allgather(v), Neighbor_alltoall(v, w): a rank exchanges with its neighbours in the
// topology, block i of a buffer being that of neighbour i.
#include <span>

#include "api.h"
#include "engine/collectives.h"
#include "pmpi/blocks.h"
#include "pmpi/buffers.h"
#include "pmpi/call.h"
#include "pmpi/collective.h"
#include "pmpi/topologies.h"

namespace rejoin::pmpi {
namespace {

using recovery::OpKind;
using recovery::Outcome;
using recovery::Signature;

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
// in dimension d, and block 2d+1 to the neighbour behind it. In a periodic dimension of two ranks
// both neighbours are the same rank, and two messages go to it through one channel. The message
// that is sent first is received first, and it goes from a rank to the one behind it: every rank
// sends to the neighbour behind it first, and receives from the neighbour before it first.
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

int check_blocks(const char* name, MPI_Comm comm, const char* what, const Blocks& b, bool v, bool w,
                 std::size_t count) {
  if (b.buffer == MPI_IN_PLACE) return fail_buffer(name, comm, what, b.buffer);
  const bool lists = b.counts != nullptr &&
                     (w ? b.types != nullptr && b.byte_displs != nullptr : b.displs != nullptr);
  if (v && count > 0 && !lists) {
    return fail(name, comm, MPI_ERR_ARG,
                "one of the arrays of %s counts, displacements and types is a null pointer", what);
  }
  // Without neighbours the buffer may be null, but the type and the count are checked.
  if (!v) {
    const void* buffer = count > 0 ? b.buffer : what;
    return check_message_buffer(name, comm, what, buffer, b.count, b.type);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const void* at = w && b.buffer == nullptr ? b.values(i) : b.buffer;
    if (const int code = check_message_buffer(name, comm, what, at, b.count_of(i), b.type_of(i))) {
      return code;
    }
  }
  return w || is_committed(b.type) ? MPI_SUCCESS : fail_type(name, comm, b.type);
}

// Raises an error if a rank sends more to itself than it receives from itself.
int check_own(const char* name, MPI_Comm comm, const Side& to, const Blocks& out, const Side& from,
              const Blocks& in) {
  const auto me = comm->comm->members.rank;
  std::size_t own = 0;
  for (std::size_t k = 0; k < from.ranks().size(); ++k) {
    if (from.ranks()[k] != me) continue;
    while (own < to.ranks().size() && to.ranks()[own] != me) ++own;
    if (own == to.ranks().size()) break;
    const std::size_t sent = out.bytes(to.block(own++));
    if (const int code = pmpi::check_own(name, comm, sent, in.bytes(from.block(k)))) return code;
  }
  return MPI_SUCCESS;
}

// The blocks by message, for engine::Exchange.
struct Messages {
  const Side& side;
  Blocks blocks;

  Block operator()(std::size_t message) const { return blocks(side.block(message)); }
  std::size_t room(std::size_t message) const { return blocks.bytes(side.block(message)); }
  void put(std::size_t message, const std::byte* data, std::size_t bytes) const {
    blocks.put(side.block(message), data, bytes);
  }
};

// The plan of all these collectives. v: block sizes differ; w: types differ, too.
struct NeighbourPlan {
  Blocks out, in;
  std::size_t destinations, sources;
  Side to, from;

  int check(const char* name, MPI_Comm comm, bool v, bool w, const Blocks& sent,
            const Blocks& received) {
    if (const int code = pmpi::check(name, comm)) return code;
    const Topology& t = *comm->topology;
    const int rank = comm->rank();
    out = sent;
    in = received;
    sources = source_count(t, rank);
    destinations = destination_count(t, rank);
    const bool out_v = v && !out.one;
    if (const int code = check_blocks(name, comm, "send", out, out_v, w, destinations)) return code;
    if (const int code = check_blocks(name, comm, "receive", in, v, w, sources)) return code;
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
        : algorithm(p.to.ranks(), Messages{p.to, p.out.packed_in(&memory, p.destinations)},
                    p.from.ranks(), Messages{p.from, p.in}) {}
    void deliver(const Outcome&) {}
    const void* const input = nullptr;
    const std::size_t input_bytes = 0;
    Scratch memory;
    engine::Exchange<Messages, Messages> algorithm;
  };
};

int exchange(const char* name, const void* site, MPI_Comm comm, OpKind kind, bool v, bool w,
             const Blocks& out, const Blocks& in) {
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
                  {sendbuf, MPI_DATATYPE_NULL, 0, sendcounts, nullptr, sendtypes, sdispls},
                  {recvbuf, MPI_DATATYPE_NULL, 0, recvcounts, nullptr, recvtypes, rdispls});
}

// --- Nonblocking

int ineighbor_allgather(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
                        void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                        MPI_Request* request) {
  return begin_collective<NeighbourPlan>(
      "MPI_Ineighbor_allgather", site, comm, OpKind::kIneighborAllgather, request, false, false,
      one_block(sendbuf, sendcount, sendtype), Blocks{recvbuf, recvtype, recvcount});
}

int ineighbor_allgatherv(const void* site, const void* sendbuf, int sendcount,
                         MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
                         const int displs[], MPI_Datatype recvtype, MPI_Comm comm,
                         MPI_Request* request) {
  return begin_collective<NeighbourPlan>(
      "MPI_Ineighbor_allgatherv", site, comm, OpKind::kIneighborAllgatherv, request, true, false,
      one_block(sendbuf, sendcount, sendtype), Blocks{recvbuf, recvtype, 0, recvcounts, displs});
}

int ineighbor_alltoall(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
                       void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                       MPI_Request* request) {
  return begin_collective<NeighbourPlan>(
      "MPI_Ineighbor_alltoall", site, comm, OpKind::kIneighborAlltoall, request, false, false,
      Blocks{sendbuf, sendtype, sendcount}, Blocks{recvbuf, recvtype, recvcount});
}

int ineighbor_alltoallv(const void* site, const void* sendbuf, const int sendcounts[],
                        const int sdispls[], MPI_Datatype sendtype, void* recvbuf,
                        const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                        MPI_Comm comm, MPI_Request* request) {
  return begin_collective<NeighbourPlan>("MPI_Ineighbor_alltoallv", site, comm,
                                         OpKind::kIneighborAlltoallv, request, true, false,
                                         Blocks{sendbuf, sendtype, 0, sendcounts, sdispls},
                                         Blocks{recvbuf, recvtype, 0, recvcounts, rdispls});
}

int ineighbor_alltoallw(const void* site, const void* sendbuf, const int sendcounts[],
                        const MPI_Aint sdispls[], const MPI_Datatype sendtypes[], void* recvbuf,
                        const int recvcounts[], const MPI_Aint rdispls[],
                        const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Request* request) {
  return begin_collective<NeighbourPlan>(
      "MPI_Ineighbor_alltoallw", site, comm, OpKind::kIneighborAlltoallw, request, true, true,
      Blocks{sendbuf, MPI_DATATYPE_NULL, 0, sendcounts, nullptr, sendtypes, sdispls},
      Blocks{recvbuf, MPI_DATATYPE_NULL, 0, recvcounts, nullptr, recvtypes, rdispls});
}

// --- Persistent

int neighbor_allgather_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype,
                            void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                            MPI_Info info, MPI_Request* request) {
  return init_collective<NeighbourPlan>(
      "MPI_Neighbor_allgather_init", comm, OpKind::kIneighborAllgather, info, request, false, false,
      one_block(sendbuf, sendcount, sendtype), Blocks{recvbuf, recvtype, recvcount});
}

int neighbor_allgatherv_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype,
                             void* recvbuf, const int recvcounts[], const int displs[],
                             MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                             MPI_Request* request) {
  return init_collective<NeighbourPlan>("MPI_Neighbor_allgatherv_init", comm,
                                        OpKind::kIneighborAllgatherv, info, request, true, false,
                                        one_block(sendbuf, sendcount, sendtype),
                                        Blocks{recvbuf, recvtype, 0, recvcounts, displs});
}

int neighbor_alltoall_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                           int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                           MPI_Request* request) {
  return init_collective<NeighbourPlan>(
      "MPI_Neighbor_alltoall_init", comm, OpKind::kIneighborAlltoall, info, request, false, false,
      Blocks{sendbuf, sendtype, sendcount}, Blocks{recvbuf, recvtype, recvcount});
}

int neighbor_alltoallv_init(const void* sendbuf, const int sendcounts[], const int sdispls[],
                            MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
                            const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
                            MPI_Info info, MPI_Request* request) {
  return init_collective<NeighbourPlan>("MPI_Neighbor_alltoallv_init", comm,
                                        OpKind::kIneighborAlltoallv, info, request, true, false,
                                        Blocks{sendbuf, sendtype, 0, sendcounts, sdispls},
                                        Blocks{recvbuf, recvtype, 0, recvcounts, rdispls});
}

int neighbor_alltoallw_init(const void* sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
                            const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
                            const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                            MPI_Info info, MPI_Request* request) {
  return init_collective<NeighbourPlan>(
      "MPI_Neighbor_alltoallw_init", comm, OpKind::kIneighborAlltoallw, info, request, true, true,
      Blocks{sendbuf, MPI_DATATYPE_NULL, 0, sendcounts, nullptr, sendtypes, sdispls},
      Blocks{recvbuf, MPI_DATATYPE_NULL, 0, recvcounts, nullptr, recvtypes, rdispls});
}

}  // namespace rejoin::pmpi
