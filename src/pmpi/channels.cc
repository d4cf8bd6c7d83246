// Gather(v), Scatter(v), Alltoall(v, w): every member gets something else. In the three ways.
#include "api.h"
#include "engine/collectives.h"
#include "pmpi/buffers.h"
#include "pmpi/call.h"
#include "pmpi/collective.h"
#include "pmpi/inter_collectives.h"
#include "pmpi/packed.h"

namespace rejoin::pmpi {
namespace {

using recovery::OpKind;
using recovery::Outcome;
using recovery::Signature;

// A block as the engine wants it.
struct Block {
  std::byte* data;  // of one that is sent: without gaps. Else only whether there is one.
  std::size_t bytes;
  MPI_Datatype type;
  void* values;

  void put(const std::byte* from, std::size_t size) const { put_values(type, from, size, values); }
};

Block block_of(void* values, int count, MPI_Datatype type) {
  return {first_byte(type, values), bytes_of(type, count), type, values};
}

// The blocks of one buffer, one per member.
struct Blocks {
  void* buffer;
  MPI_Datatype type;
  int count;          // of each block, if counts is null
  const int* counts;  // in values
  const int* displs;  // in extents; in bytes if types is not null
  const MPI_Datatype* types = nullptr;
  std::byte* packed = nullptr;  // where a block with gaps is packed when it is asked for

  MPI_Datatype type_of(std::uint32_t i) const { return types != nullptr ? types[i] : type; }
  int count_of(std::uint32_t i) const { return counts != nullptr ? counts[i] : count; }
  std::size_t bytes(std::uint32_t i) const { return bytes_of(type_of(i), count_of(i)); }
  std::byte* values(std::uint32_t i) const {
    if (types != nullptr) return static_cast<std::byte*>(buffer) + displs[i];
    return value_at(buffer, type, displs != nullptr ? displs[i] : std::ptrdiff_t{i} * count);
  }

  Block operator()(std::uint32_t i) const {
    Block block = block_of(values(i), count_of(i), type_of(i));
    if (packed != nullptr && !is_contiguous(block.type)) {
      pack(block.type, block.values, static_cast<std::size_t>(count_of(i)), packed);
      block.data = packed;
    }
    return block;
  }
  // Before blocks are sent. A message is copied when it is sent, so memory for one is enough.
  void reserve(std::uint32_t members, Scratch* memory) {
    std::size_t most = 0;
    for (std::uint32_t i = 0; i < members; ++i) {
      if (!is_contiguous(type_of(i)) && bytes(i) > most) most = bytes(i);
    }
    if (most > 0) packed = memory->reserve(most);
  }
  void keep(Kept& kept, std::size_t members) {
    kept.copy(&counts, members);
    kept.copy(&displs, members);
    kept.copy(&types, members);
    if (types == nullptr) kept.hold(type);
    for (std::size_t i = 0; types != nullptr && i < members; ++i) kept.hold(types[i]);
  }
};

void* buffer_of(const void* program_memory) { return const_cast<void*>(program_memory); }

// What a rank sends to itself must fit what it expects of itself.
int check_own(const char* name, MPI_Comm comm, std::size_t sent, std::size_t expected) {
  if (sent <= expected) return MPI_SUCCESS;
  return fail(name, comm, MPI_ERR_TRUNCATE,
              "this rank sends itself %zu bytes but receives only %zu", sent, expected);
}

// What all plans here have. What is sent is compared message by message, so an operation needs no
// fingerprint.
struct ChannelPlan {
  std::uint32_t members;
  int root = -1;
  bool at_root = false;
  std::size_t common = 0;  // bytes of a block where all are equal

  void take_members(MPI_Comm comm) { members = comm->comm->members.size; }
  int take_root(const char* name, MPI_Comm comm, int root_rank) {
    take_members(comm);
    if (const int code = check_root(name, comm, root_rank)) return code;
    root = root_rank;
    at_root = comm->rank() == root;
    return MPI_SUCCESS;
  }
  Signature signature(OpKind kind) const { return signature_of(kind, root, common); }
};
struct ChannelRun {
  const void* const input = nullptr;
  const std::size_t input_bytes = 0;
  void deliver(const Outcome&) {}
};

struct GatherPlan : ChannelPlan {
  bool in_place;
  const void* send;
  MPI_Datatype send_type = MPI_BYTE;
  std::size_t send_count = 0, own = 0;  // of what is sent; bytes
  Blocks places;

  int take_own(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
               MPI_Datatype sendtype) {
    in_place = at_root && sendbuf == MPI_IN_PLACE;
    send = sendbuf;
    if (in_place) return MPI_SUCCESS;
    if (const int code = check_buffer(name, comm, "send", sendbuf, sendcount, sendtype))
      return code;
    send_type = sendtype;
    send_count = static_cast<std::size_t>(sendcount);
    own = bytes_of(sendtype, sendcount);
    return MPI_SUCCESS;
  }
  int check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
            MPI_Datatype sendtype, void* recvbuf, int recvcount, MPI_Datatype recvtype,
            int root_rank) {
    if (const int code = take_root(name, comm, root_rank)) return code;
    if (const int code = take_own(name, comm, sendbuf, sendcount, sendtype)) return code;
    common = own;
    if (at_root) {
      if (const int code = check_buffer(name, comm, "receive", recvbuf, recvcount, recvtype)) {
        return code;
      }
      common = bytes_of(recvtype, recvcount);
    }
    places = {recvbuf, recvtype, recvcount, nullptr, nullptr};
    return check_own(name, comm, own, common);
  }
  int check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
            MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int displs[],
            MPI_Datatype recvtype, int root_rank) {
    if (const int code = take_root(name, comm, root_rank)) return code;
    if (const int code = take_own(name, comm, sendbuf, sendcount, sendtype)) return code;
    places = {recvbuf, recvtype, 0, recvcounts, displs};
    if (!at_root) return MPI_SUCCESS;
    if (const int code =
            check_counts(name, comm, "receive", recvbuf, recvcounts, displs, recvtype)) {
      return code;
    }
    return check_own(name, comm, own, bytes_of(recvtype, recvcounts[root]));
  }
  void keep(Kept& kept) {
    kept.hold(send_type);
    if (at_root) places.keep(kept, members);
  }

  struct Run : ChannelRun {
    explicit Run(const GatherPlan& p)
        : contribution(p.send_type, p.send, p.send_count),
          algorithm(static_cast<std::uint32_t>(p.root), p.in_place ? nullptr : contribution.data(),
                    p.own, p.places) {}
    const PackedInput contribution;
    engine::Gather<Blocks> algorithm;
  };
};

struct ScatterPlan : ChannelPlan {
  bool in_place;
  Block own = {};
  Blocks places;

  int take_own(const char* name, MPI_Comm comm, void* recvbuf, int recvcount,
               MPI_Datatype recvtype) {
    in_place = at_root && recvbuf == MPI_IN_PLACE;
    if (in_place) return MPI_SUCCESS;
    if (const int code = check_buffer(name, comm, "receive", recvbuf, recvcount, recvtype)) {
      return code;
    }
    own = block_of(recvbuf, recvcount, recvtype);
    return MPI_SUCCESS;
  }
  int check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
            MPI_Datatype sendtype, void* recvbuf, int recvcount, MPI_Datatype recvtype,
            int root_rank) {
    if (const int code = take_root(name, comm, root_rank)) return code;
    if (at_root) {
      if (const int code = check_buffer(name, comm, "send", sendbuf, sendcount, sendtype))
        return code;
    }
    if (const int code = take_own(name, comm, recvbuf, recvcount, recvtype)) return code;
    common = at_root ? bytes_of(sendtype, sendcount) : own.bytes;
    places = {buffer_of(sendbuf), sendtype, sendcount, nullptr, nullptr};
    return at_root && !in_place ? check_own(name, comm, common, own.bytes) : MPI_SUCCESS;
  }
  int check(const char* name, MPI_Comm comm, const void* sendbuf, const int sendcounts[],
            const int displs[], MPI_Datatype sendtype, void* recvbuf, int recvcount,
            MPI_Datatype recvtype, int root_rank) {
    if (const int code = take_root(name, comm, root_rank)) return code;
    if (const int code = take_own(name, comm, recvbuf, recvcount, recvtype)) return code;
    places = {buffer_of(sendbuf), sendtype, 0, sendcounts, displs};
    if (!at_root) return MPI_SUCCESS;
    if (const int code = check_counts(name, comm, "send", sendbuf, sendcounts, displs, sendtype)) {
      return code;
    }
    return check_own(name, comm, in_place ? 0 : bytes_of(sendtype, sendcounts[root]), own.bytes);
  }
  void keep(Kept& kept) {
    kept.hold(own.type);
    if (at_root) places.keep(kept, members);
  }

  struct Run : ChannelRun {
    explicit Run(const ScatterPlan& p)
        : algorithm(static_cast<std::uint32_t>(p.root), p.own, packing(p, &memory)) {}
    static Blocks packing(const ScatterPlan& p, Scratch* memory) {
      Blocks places = p.places;
      if (p.at_root) places.reserve(p.members, memory);
      return places;
    }
    Scratch memory;
    engine::Scatter<Block, Blocks> algorithm;
  };
};

struct AlltoallPlan : ChannelPlan {
  Blocks out, in;

  int check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
            MPI_Datatype sendtype, void* recvbuf, int recvcount, MPI_Datatype recvtype) {
    if (const int code = check_buffer(name, comm, "receive", recvbuf, recvcount, recvtype)) {
      return code;
    }
    in = {recvbuf, recvtype, recvcount, nullptr, nullptr};
    common = bytes_of(recvtype, recvcount);
    if (sendbuf == MPI_IN_PLACE) return take_blocks(name, comm, in);
    if (const int code = check_buffer(name, comm, "send", sendbuf, sendcount, sendtype))
      return code;
    return take_blocks(name, comm, {buffer_of(sendbuf), sendtype, sendcount, nullptr, nullptr});
  }
  int check(const char* name, MPI_Comm comm, const void* sendbuf, const int sendcounts[],
            const int sdispls[], MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
            const int rdispls[], MPI_Datatype recvtype) {
    if (const int code =
            check_counts(name, comm, "receive", recvbuf, recvcounts, rdispls, recvtype)) {
      return code;
    }
    in = {recvbuf, recvtype, 0, recvcounts, rdispls};
    if (sendbuf == MPI_IN_PLACE) return take_blocks(name, comm, in);
    if (const int code = check_counts(name, comm, "send", sendbuf, sendcounts, sdispls, sendtype)) {
      return code;
    }
    return take_blocks(name, comm, {buffer_of(sendbuf), sendtype, 0, sendcounts, sdispls});
  }
  int check(const char* name, MPI_Comm comm, const void* sendbuf, const int sendcounts[],
            const int sdispls[], const MPI_Datatype sendtypes[], void* recvbuf,
            const int recvcounts[], const int rdispls[], const MPI_Datatype recvtypes[]) {
    if (const int code =
            check_typed(name, comm, "receive", recvbuf, recvcounts, rdispls, recvtypes))
      return code;
    in = {recvbuf, MPI_DATATYPE_NULL, 0, recvcounts, rdispls, recvtypes};
    if (sendbuf == MPI_IN_PLACE) return take_blocks(name, comm, in);
    if (const int code = check_typed(name, comm, "send", sendbuf, sendcounts, sdispls, sendtypes))
      return code;
    return take_blocks(name, comm,
                       {buffer_of(sendbuf), MPI_DATATYPE_NULL, 0, sendcounts, sdispls, sendtypes});
  }
  void keep(Kept& kept) {
    in.keep(kept, members);
    out.keep(kept, members);
  }

  struct Run : ChannelRun {
    explicit Run(const AlltoallPlan& p) : algorithm(packing(p, &memory), p.in) {}
    static Blocks packing(const AlltoallPlan& p, Scratch* memory) {
      Blocks out = p.out;
      out.reserve(p.members, memory);
      return out;
    }
    Scratch memory;
    engine::Alltoall<Blocks, Blocks> algorithm;
  };

 private:
  int take_blocks(const char* name, MPI_Comm comm, const Blocks& sent) {
    take_members(comm);
    out = sent;
    const auto me = comm->comm->members.rank;
    return check_own(name, comm, out.bytes(me), in.bytes(me));
  }
  static int check_typed(const char* name, MPI_Comm comm, const char* what, const void* buffer,
                         const int counts[], const int displs[], const MPI_Datatype types[]) {
    if (types == nullptr) {
      return fail(name, comm, MPI_ERR_TYPE, "the %s datatypes are a null pointer", what);
    }
    if (counts == nullptr || displs == nullptr) {
      return check_counts(name, comm, what, buffer, counts, displs, MPI_BYTE);
    }
    for (int i = 0; i < comm->size(); ++i) {
      if (const int code = check_buffer(name, comm, what, buffer, counts[i], types[i])) return code;
    }
    return MPI_SUCCESS;
  }
};

template <class Plan, class... Arguments>
int check_and_run(const char* name, const void* site, MPI_Comm comm, OpKind kind,
                  Arguments... arguments) {
  if (!is_comm(comm)) return fail_comm(name);
  Plan plan;
  if (const int code = plan.check(name, comm, arguments...)) return code;
  return run(name, site, comm, kind, plan);
}

}  // namespace

// --- Blocking

int gather(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
           void* recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  if (is_inter(comm))
    return inter::gather(site, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root,
                         comm);
  return check_and_run<GatherPlan>("MPI_Gather", site, comm, OpKind::kGather, sendbuf, sendcount,
                                   sendtype, recvbuf, recvcount, recvtype, root);
}

int gatherv(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
            void* recvbuf, const int recvcounts[], const int displs[], MPI_Datatype recvtype,
            int root, MPI_Comm comm) {
  if (is_inter(comm))
    return inter::gatherv(site, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype,
                          root, comm);
  return check_and_run<GatherPlan>("MPI_Gatherv", site, comm, OpKind::kGatherv, sendbuf, sendcount,
                                   sendtype, recvbuf, recvcounts, displs, recvtype, root);
}

int scatter(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
            void* recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  if (is_inter(comm))
    return inter::scatter(site, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root,
                          comm);
  return check_and_run<ScatterPlan>("MPI_Scatter", site, comm, OpKind::kScatter, sendbuf, sendcount,
                                    sendtype, recvbuf, recvcount, recvtype, root);
}

int scatterv(const void* site, const void* sendbuf, const int sendcounts[], const int displs[],
             MPI_Datatype sendtype, void* recvbuf, int recvcount, MPI_Datatype recvtype, int root,
             MPI_Comm comm) {
  if (is_inter(comm))
    return inter::scatterv(site, sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount,
                           recvtype, root, comm);
  return check_and_run<ScatterPlan>("MPI_Scatterv", site, comm, OpKind::kScatterv, sendbuf,
                                    sendcounts, displs, sendtype, recvbuf, recvcount, recvtype,
                                    root);
}

int alltoall(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
             void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  if (is_inter(comm))
    return inter::alltoall(site, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
  return check_and_run<AlltoallPlan>("MPI_Alltoall", site, comm, OpKind::kAlltoall, sendbuf,
                                     sendcount, sendtype, recvbuf, recvcount, recvtype);
}

int alltoallv(const void* site, const void* sendbuf, const int sendcounts[], const int sdispls[],
              MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int rdispls[],
              MPI_Datatype recvtype, MPI_Comm comm) {
  if (is_inter(comm))
    return inter::alltoallv(site, sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts,
                            rdispls, recvtype, comm);
  return check_and_run<AlltoallPlan>("MPI_Alltoallv", site, comm, OpKind::kAlltoallv, sendbuf,
                                     sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls,
                                     recvtype);
}

int alltoallw(const void* site, const void* sendbuf, const int sendcounts[], const int sdispls[],
              const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
              const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm) {
  if (is_inter(comm))
    return inter::alltoallw(site, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts,
                            rdispls, recvtypes, comm);
  return check_and_run<AlltoallPlan>("MPI_Alltoallw", site, comm, OpKind::kAlltoallw, sendbuf,
                                     sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls,
                                     recvtypes);
}

// --- Nonblocking

int igather(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
            void* recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
            MPI_Request* request) {
  return begin_collective<GatherPlan>("MPI_Igather", site, comm, OpKind::kIgather, request, sendbuf,
                                      sendcount, sendtype, recvbuf, recvcount, recvtype, root);
}

int igatherv(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
             void* recvbuf, const int recvcounts[], const int displs[], MPI_Datatype recvtype,
             int root, MPI_Comm comm, MPI_Request* request) {
  return begin_collective<GatherPlan>("MPI_Igatherv", site, comm, OpKind::kIgatherv, request,
                                      sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                                      recvtype, root);
}

int iscatter(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
             void* recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
             MPI_Request* request) {
  return begin_collective<ScatterPlan>("MPI_Iscatter", site, comm, OpKind::kIscatter, request,
                                       sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                       root);
}

int iscatterv(const void* site, const void* sendbuf, const int sendcounts[], const int displs[],
              MPI_Datatype sendtype, void* recvbuf, int recvcount, MPI_Datatype recvtype, int root,
              MPI_Comm comm, MPI_Request* request) {
  return begin_collective<ScatterPlan>("MPI_Iscatterv", site, comm, OpKind::kIscatterv, request,
                                       sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount,
                                       recvtype, root);
}

int ialltoall(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
              void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
              MPI_Request* request) {
  return begin_collective<AlltoallPlan>("MPI_Ialltoall", site, comm, OpKind::kIalltoall, request,
                                        sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype);
}

int ialltoallv(const void* site, const void* sendbuf, const int sendcounts[], const int sdispls[],
               MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int rdispls[],
               MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  return begin_collective<AlltoallPlan>("MPI_Ialltoallv", site, comm, OpKind::kIalltoallv, request,
                                        sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts,
                                        rdispls, recvtype);
}

int ialltoallw(const void* site, const void* sendbuf, const int sendcounts[], const int sdispls[],
               const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
               const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
               MPI_Request* request) {
  return begin_collective<AlltoallPlan>("MPI_Ialltoallw", site, comm, OpKind::kIalltoallw, request,
                                        sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
                                        recvcounts, rdispls, recvtypes);
}

}  // namespace rejoin::pmpi
