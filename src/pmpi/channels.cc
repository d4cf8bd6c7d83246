// Gather(v), Scatter(v), where the root has a block for every member: blocking, nonblocking,
// persistent.
#include "api.h"
#include "pmpi/channel_plans.h"

namespace rejoin::pmpi {
namespace {

struct GatherPlan : ChannelPlan {
  using Inter = inter::GatherPlan;
  bool in_place;
  const void* send;
  MPI_Datatype send_type = MPI_BYTE;
  std::size_t send_count = 0, own = 0;  // of this rank's block: values, bytes
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
  using Inter = inter::ScatterPlan;
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
    places = {sendbuf, sendtype, sendcount, nullptr, nullptr};
    return at_root && !in_place ? check_own(name, comm, common, own.bytes) : MPI_SUCCESS;
  }
  int check(const char* name, MPI_Comm comm, const void* sendbuf, const int sendcounts[],
            const int displs[], MPI_Datatype sendtype, void* recvbuf, int recvcount,
            MPI_Datatype recvtype, int root_rank) {
    if (const int code = take_root(name, comm, root_rank)) return code;
    if (const int code = take_own(name, comm, recvbuf, recvcount, recvtype)) return code;
    places = {sendbuf, sendtype, 0, sendcounts, displs};
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
        : algorithm(static_cast<std::uint32_t>(p.root), p.own,
                    p.at_root ? p.places.packed_in(&memory, p.members) : p.places) {}
    Scratch memory;
    engine::Scatter<Block, Blocks> algorithm;
  };
};

}  // namespace

// --- Blocking

int gather(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
           void* recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return check_and_run<GatherPlan>("MPI_Gather", site, comm, OpKind::kGather, sendbuf, sendcount,
                                   sendtype, recvbuf, recvcount, recvtype, root);
}

int gatherv(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
            void* recvbuf, const int recvcounts[], const int displs[], MPI_Datatype recvtype,
            int root, MPI_Comm comm) {
  return check_and_run<GatherPlan>("MPI_Gatherv", site, comm, OpKind::kGatherv, sendbuf, sendcount,
                                   sendtype, recvbuf, recvcounts, displs, recvtype, root);
}

int scatter(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
            void* recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return check_and_run<ScatterPlan>("MPI_Scatter", site, comm, OpKind::kScatter, sendbuf, sendcount,
                                    sendtype, recvbuf, recvcount, recvtype, root);
}

int scatterv(const void* site, const void* sendbuf, const int sendcounts[], const int displs[],
             MPI_Datatype sendtype, void* recvbuf, int recvcount, MPI_Datatype recvtype, int root,
             MPI_Comm comm) {
  return check_and_run<ScatterPlan>("MPI_Scatterv", site, comm, OpKind::kScatterv, sendbuf,
                                    sendcounts, displs, sendtype, recvbuf, recvcount, recvtype,
                                    root);
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

// --- Persistent

int gather_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info,
                MPI_Request* request) {
  return init_collective<GatherPlan>("MPI_Gather_init", comm, OpKind::kIgather, info, request,
                                     sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                     root);
}

int gatherv_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                 const int recvcounts[], const int displs[], MPI_Datatype recvtype, int root,
                 MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return init_collective<GatherPlan>("MPI_Gatherv_init", comm, OpKind::kIgatherv, info, request,
                                     sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                                     recvtype, root);
}

int scatter_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                 int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info,
                 MPI_Request* request) {
  return init_collective<ScatterPlan>("MPI_Scatter_init", comm, OpKind::kIscatter, info, request,
                                      sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                      root);
}

int scatterv_init(const void* sendbuf, const int sendcounts[], const int displs[],
                  MPI_Datatype sendtype, void* recvbuf, int recvcount, MPI_Datatype recvtype,
                  int root, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return init_collective<ScatterPlan>("MPI_Scatterv_init", comm, OpKind::kIscatterv, info, request,
                                      sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount,
                                      recvtype, root);
}

}  // namespace rejoin::pmpi
