// Alltoall(v, w), where every member has a block for every other: blocking, nonblocking,
// persistent.
#include "api.h"
#include "pmpi/channel_plans.h"

namespace rejoin::pmpi {
namespace {

struct AlltoallPlan : ChannelPlan {
  using Inter = inter::AlltoallPlan;
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
    return take_blocks(name, comm, {sendbuf, sendtype, sendcount, nullptr, nullptr});
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
    return take_blocks(name, comm, {sendbuf, sendtype, 0, sendcounts, sdispls});
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
    return take_blocks(name, comm, {sendbuf, MPI_DATATYPE_NULL, 0, sendcounts, sdispls, sendtypes});
  }
  void keep(Kept& kept) {
    in.keep(kept, members);
    out.keep(kept, members);
  }

  struct Run : ChannelRun {
    explicit Run(const AlltoallPlan& p)
        : out(p.out.packed_in(&memory, p.members)),
          algorithm(out, p.in, out.packed == nullptr && out.buffer != p.in.buffer) {}
    Scratch memory;
    const Blocks out;
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

}  // namespace

// --- Blocking

int alltoall(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
             void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return check_and_run<AlltoallPlan>("MPI_Alltoall", site, comm, OpKind::kAlltoall, sendbuf,
                                     sendcount, sendtype, recvbuf, recvcount, recvtype);
}

int alltoallv(const void* site, const void* sendbuf, const int sendcounts[], const int sdispls[],
              MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int rdispls[],
              MPI_Datatype recvtype, MPI_Comm comm) {
  return check_and_run<AlltoallPlan>("MPI_Alltoallv", site, comm, OpKind::kAlltoallv, sendbuf,
                                     sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls,
                                     recvtype);
}

int alltoallw(const void* site, const void* sendbuf, const int sendcounts[], const int sdispls[],
              const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
              const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm) {
  return check_and_run<AlltoallPlan>("MPI_Alltoallw", site, comm, OpKind::kAlltoallw, sendbuf,
                                     sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls,
                                     recvtypes);
}

// --- Nonblocking

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

// --- Persistent

int alltoall_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                  int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                  MPI_Request* request) {
  return init_collective<AlltoallPlan>("MPI_Alltoall_init", comm, OpKind::kIalltoall, info, request,
                                       sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype);
}

int alltoallv_init(const void* sendbuf, const int sendcounts[], const int sdispls[],
                   MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
                   const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                   MPI_Request* request) {
  return init_collective<AlltoallPlan>("MPI_Alltoallv_init", comm, OpKind::kIalltoallv, info,
                                       request, sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                                       recvcounts, rdispls, recvtype);
}

int alltoallw_init(const void* sendbuf, const int sendcounts[], const int sdispls[],
                   const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
                   const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                   MPI_Info info, MPI_Request* request) {
  return init_collective<AlltoallPlan>("MPI_Alltoallw_init", comm, OpKind::kIalltoallw, info,
                                       request, sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
                                       recvcounts, rdispls, recvtypes);
}

}  // namespace rejoin::pmpi
