// Barrier, Bcast, Allgather, Allgatherv, which give every member the same result: blocking,
// nonblocking, persistent.
#include "api.h"
#include "pmpi/buffers.h"
#include "pmpi/call.h"
#include "pmpi/collective.h"
#include "pmpi/inter_collectives.h"
#include "pmpi/packed.h"

namespace rejoin::pmpi {
namespace {

using recovery::OpKind;
using recovery::Outcome;
using recovery::ReplicatedSpec;
using recovery::Signature;

// Raises an error if a rank sends another number of bytes than it says that each rank receives.
int check_block(const char* name, MPI_Comm comm, std::size_t sent, std::size_t expected) {
  if (sent == expected) return MPI_SUCCESS;
  return fail(name, comm, sent > expected ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT,
              "this rank sends %zu byte%s and says that each rank receives %zu from it", sent,
              sent == 1 ? "" : "s", expected);
}

struct BarrierPlan {
  using Inter = BarrierPlan;  // an intercommunicator's context has the members of both groups

  int check(const char*, MPI_Comm) { return MPI_SUCCESS; }
  void keep(Kept&) {}
  Signature signature(OpKind kind) const { return signature_of(kind, -1, 0); }

  struct Run {
    explicit Run(const BarrierPlan&) {}
    ReplicatedSpec spec;
    void deliver(const Outcome&) {}
  };
};

struct BcastPlan {
  using Inter = inter::BcastPlan;

  void* buffer;
  int count;
  MPI_Datatype type;
  int root;
  bool at_root;
  std::size_t bytes;

  int check(const char* name, MPI_Comm comm, void* of_message, int values, MPI_Datatype datatype,
            int root_rank) {
    if (const int code = check_buffer(name, comm, "message", of_message, values, datatype)) {
      return code;
    }
    if (const int code = check_root(name, comm, root_rank)) return code;
    buffer = of_message;
    count = values;
    type = datatype;
    root = root_rank;
    at_root = comm->rank() == root;
    bytes = bytes_of(type, count);
    return MPI_SUCCESS;
  }
  void keep(Kept& kept) { kept.hold(type); }
  Signature signature(OpKind kind) const { return signature_of(kind, root, bytes); }

  struct Run {
    explicit Run(const BcastPlan& p)
        : plan(p), input(p.type, p.buffer, p.at_root ? static_cast<std::size_t>(p.count) : 0) {
      spec.input = plan.at_root ? input.data() : nullptr;
      spec.input_bytes = plan.at_root ? plan.bytes : 0;
      spec.result_bytes = plan.bytes;
      spec.early =
          plan.at_root || !is_contiguous(plan.type) ? nullptr : first_byte(plan.type, plan.buffer);
    }
    void deliver(const Outcome& o) {
      // On replay the root's buffer may differ from what all members were given the first time.
      if (!plan.at_root || o.replaces_input) {
        put_values(plan.type, o.data(), plan.bytes, plan.buffer);
      }
    }
    const BcastPlan& plan;
    const PackedInput input;
    ReplicatedSpec spec;
  };
};

struct AllgatherPlan {
  using Inter = inter::AllgatherPlan;

  const void* send;  // this rank's contribution
  MPI_Datatype send_type;
  std::size_t send_count;
  void* receive;
  MPI_Datatype type;
  std::size_t block, all;  // bytes
  std::size_t before;      // bytes of the blocks before this rank's

  int check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
            MPI_Datatype sendtype, void* recvbuf, int recvcount, MPI_Datatype recvtype) {
    if (const int code = check_buffer(name, comm, "receive", recvbuf, recvcount, recvtype)) {
      return code;
    }
    receive = recvbuf;
    type = recvtype;
    block = bytes_of(recvtype, recvcount);
    all = block * comm->comm->members.size;
    before = block * comm->comm->members.rank;
    if (sendbuf == MPI_IN_PLACE) {
      sendbuf = value_at(recvbuf, recvtype, std::ptrdiff_t{comm->rank()} * recvcount);
      sendcount = recvcount;
      sendtype = recvtype;
    } else {
      if (const int code = check_buffer(name, comm, "send", sendbuf, sendcount, sendtype))
        return code;
      if (const int code = check_block(name, comm, bytes_of(sendtype, sendcount), block))
        return code;
    }
    send = sendbuf;
    send_type = sendtype;
    send_count = static_cast<std::size_t>(sendcount);
    return MPI_SUCCESS;
  }
  void keep(Kept& kept) {
    kept.hold(type);
    kept.hold(send_type);
  }
  Signature signature(OpKind kind) const { return signature_of(kind, -1, block); }

  struct Run {
    explicit Run(const AllgatherPlan& p) : plan(p), input(p.send_type, p.send, p.send_count) {
      std::byte* to = is_contiguous(plan.type) ? first_byte(plan.type, plan.receive) : nullptr;
      spec.input = input.data();
      spec.input_bytes = plan.block;
      spec.result_bytes = plan.all;
      spec.early = early_gathered(spec.input, plan.block, to, plan.all, plan.before);
    }
    void deliver(const Outcome& o) { put_values(plan.type, o.data(), plan.all, plan.receive); }
    const AllgatherPlan& plan;
    const PackedInput input;
    ReplicatedSpec spec;
  };
};

struct AllgathervPlan {
  using Inter = inter::AllgatherPlan;

  const void* send;  // this rank's contribution
  MPI_Datatype send_type;
  std::size_t send_count;
  void* receive;
  MPI_Datatype type;
  const int* displs;
  std::uint32_t members, me;
  Scratch offsets;  // offsets of the members' blocks in the packed result, [members + 1]

  std::size_t* begin() const { return offsets.as<std::size_t>(); }
  std::byte* place(std::uint32_t i) const { return value_at(receive, type, displs[i]); }

  int check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
            MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int recvdispls[],
            MPI_Datatype recvtype) {
    if (const int code =
            check_counts(name, comm, "receive", recvbuf, recvcounts, recvdispls, recvtype)) {
      return code;
    }
    receive = recvbuf;
    type = recvtype;
    displs = recvdispls;
    members = comm->comm->members.size;
    me = comm->comm->members.rank;
    offsets.reserve((members + 1) * sizeof(std::size_t));
    begin()[0] = 0;
    for (std::uint32_t i = 0; i < members; ++i) {
      begin()[i + 1] = begin()[i] + bytes_of(recvtype, recvcounts[i]);
    }
    if (sendbuf == MPI_IN_PLACE) {
      sendbuf = place(me);
      sendcount = recvcounts[me];
      sendtype = recvtype;
    } else {
      if (const int code = check_buffer(name, comm, "send", sendbuf, sendcount, sendtype))
        return code;
      if (const int code = check_block(name, comm, bytes_of(sendtype, sendcount),
                                       begin()[me + 1] - begin()[me])) {
        return code;
      }
    }
    send = sendbuf;
    send_type = sendtype;
    send_count = static_cast<std::size_t>(sendcount);
    return MPI_SUCCESS;
  }
  void keep(Kept& kept) {
    kept.hold(type);
    kept.hold(send_type);
    kept.copy(&displs, members);
  }
  Signature signature(OpKind kind) const {
    const std::uint32_t layout = recovery::hash_bytes(begin(), (members + 1) * sizeof(std::size_t));
    return signature_of(kind, -1, begin()[members], layout);
  }

  struct Run {
    explicit Run(const AllgathervPlan& p) : plan(p), input(p.send_type, p.send, p.send_count) {
      const std::size_t* begin = plan.begin();
      bool packed = is_contiguous(plan.type);
      for (std::uint32_t i = 0; i < plan.members; ++i) {
        packed &= plan.place(i) == plan.place(0) + begin[i];
      }
      std::byte* to = packed ? first_byte(plan.type, plan.place(0)) : nullptr;
      spec.input = input.data();
      spec.input_bytes = begin[plan.me + 1] - begin[plan.me];
      spec.result_bytes = begin[plan.members];
      spec.blocks = begin;
      spec.early =
          early_gathered(spec.input, spec.input_bytes, to, spec.result_bytes, begin[plan.me]);
    }
    void deliver(const Outcome& o) {
      if (o.at == spec.early && spec.early != nullptr) return;
      const std::byte* result = o.data();
      const std::size_t* begin = plan.begin();
      for (std::uint32_t i = 0; i < plan.members; ++i) {
        put_values(plan.type, result + begin[i], begin[i + 1] - begin[i], plan.place(i));
      }
    }
    const AllgathervPlan& plan;
    const PackedInput input;
    ReplicatedSpec spec;
  };
};

}  // namespace

// --- Blocking

int barrier(const void* site, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Barrier";
  if (!is_any_comm(comm)) [[unlikely]]
    return fail_comm(kName);
  return run(kName, site, comm, OpKind::kBarrier, BarrierPlan());
}

int bcast(const void* site, void* buffer, int count, MPI_Datatype datatype, int root,
          MPI_Comm comm) {
  constexpr const char* kName = "MPI_Bcast";
  if (!is_comm(comm)) [[unlikely]] {
    return run_on_inter<BcastPlan>(kName, site, comm, OpKind::kBcast, buffer, count, datatype,
                                   root);
  }
  BcastPlan plan;
  if (const int code = plan.check(kName, comm, buffer, count, datatype, root)) return code;
  return run(kName, site, comm, OpKind::kBcast, plan);
}

int allgather(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
              void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Allgather";
  if (!is_comm(comm)) [[unlikely]] {
    return run_on_inter<AllgatherPlan>(kName, site, comm, OpKind::kAllgather, sendbuf, sendcount,
                                       sendtype, recvbuf, recvcount, recvtype);
  }
  AllgatherPlan plan;
  if (const int code =
          plan.check(kName, comm, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype)) {
    return code;
  }
  return run(kName, site, comm, OpKind::kAllgather, plan);
}

int allgatherv(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
               void* recvbuf, const int recvcounts[], const int displs[], MPI_Datatype recvtype,
               MPI_Comm comm) {
  constexpr const char* kName = "MPI_Allgatherv";
  if (!is_comm(comm)) [[unlikely]] {
    return run_on_inter<AllgathervPlan>(kName, site, comm, OpKind::kAllgatherv, sendbuf, sendcount,
                                        sendtype, recvbuf, recvcounts, displs, recvtype);
  }
  AllgathervPlan plan;
  if (const int code = plan.check(kName, comm, sendbuf, sendcount, sendtype, recvbuf, recvcounts,
                                  displs, recvtype)) {
    return code;
  }
  return run(kName, site, comm, OpKind::kAllgatherv, plan);
}

// --- Nonblocking

int ibarrier(const void* site, MPI_Comm comm, MPI_Request* request) {
  return begin_collective<BarrierPlan>("MPI_Ibarrier", site, comm, OpKind::kIbarrier, request);
}

int ibcast(const void* site, void* buffer, int count, MPI_Datatype datatype, int root,
           MPI_Comm comm, MPI_Request* request) {
  return begin_collective<BcastPlan>("MPI_Ibcast", site, comm, OpKind::kIbcast, request, buffer,
                                     count, datatype, root);
}

int iallgather(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
               void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
               MPI_Request* request) {
  return begin_collective<AllgatherPlan>("MPI_Iallgather", site, comm, OpKind::kIallgather, request,
                                         sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                         recvtype);
}

int iallgatherv(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
                void* recvbuf, const int recvcounts[], const int displs[], MPI_Datatype recvtype,
                MPI_Comm comm, MPI_Request* request) {
  return begin_collective<AllgathervPlan>("MPI_Iallgatherv", site, comm, OpKind::kIallgatherv,
                                          request, sendbuf, sendcount, sendtype, recvbuf,
                                          recvcounts, displs, recvtype);
}

// --- Persistent

int barrier_init(MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return init_collective<BarrierPlan>("MPI_Barrier_init", comm, OpKind::kIbarrier, info, request);
}

int bcast_init(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm,
               MPI_Info info, MPI_Request* request) {
  return init_collective<BcastPlan>("MPI_Bcast_init", comm, OpKind::kIbcast, info, request, buffer,
                                    count, datatype, root);
}

int allgather_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                   int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                   MPI_Request* request) {
  return init_collective<AllgatherPlan>("MPI_Allgather_init", comm, OpKind::kIallgather, info,
                                        request, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                        recvtype);
}

int allgatherv_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                    const int recvcounts[], const int displs[], MPI_Datatype recvtype,
                    MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return init_collective<AllgathervPlan>("MPI_Allgatherv_init", comm, OpKind::kIallgatherv, info,
                                         request, sendbuf, sendcount, sendtype, recvbuf, recvcounts,
                                         displs, recvtype);
}

}  // namespace rejoin::pmpi
