#include "pmpi/inter_collectives.h"

#include <numeric>

namespace rejoin::pmpi::inter {
namespace {

int check_inter_root(const char* name, MPI_Comm comm, int root) {
  if ((root >= 0 && root < comm->peers()) || root == MPI_ROOT || root == MPI_PROC_NULL) {
    return MPI_SUCCESS;
  }
  return fail(name, comm, MPI_ERR_ROOT,
              "the root is %d; it must be MPI_ROOT, MPI_PROC_NULL or between 0 and %d", root,
              comm->peers() - 1);
}

int check_peer_counts(const char* name, MPI_Comm comm, const char* what, const Blocks& b) {
  if (b.counts == nullptr) {
    return fail(name, comm, MPI_ERR_COUNT, "the %s counts are a null pointer", what);
  }
  if (b.displs == nullptr) {
    return fail(name, comm, MPI_ERR_BUFFER, "the %s displacements are a null pointer", what);
  }
  for (int i = 0; i < comm->peers(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    if (const int code = check_buffer(name, comm, what, b.buffer, b.counts[i], b.type_of(k))) {
      return code;
    }
  }
  return MPI_SUCCESS;
}

int check_blocks(const char* name, MPI_Comm comm, const char* what, const Blocks& b) {
  if (b.counts != nullptr || b.displs != nullptr || b.types != nullptr) {
    return check_peer_counts(name, comm, what, b);
  }
  return check_buffer(name, comm, what, b.buffer, b.count, b.type);
}

int check_reduced(const char* name, MPI_Comm comm, const void* sendbuf, const void* recvbuf,
                  MPI_Datatype type, std::size_t bytes, std::size_t received) {
  if (sendbuf == MPI_IN_PLACE) return fail_buffer(name, comm, "send", sendbuf);
  if (sendbuf == recvbuf && bytes > 0) return fail_aliased(name, comm);
  return check_reduction_buffers(name, comm, sendbuf, recvbuf, type, bytes, received);
}

}  // namespace

void Members::take(MPI_Comm comm) {
  auto* all =
      reinterpret_cast<std::uint32_t*>(memory_.reserve(comm->peer_count * sizeof(std::uint32_t)));
  std::iota(all, all + comm->peer_count, comm->peer_first);
  all_ = {all, comm->peer_count};
}

// --- Blocks

int MovePlan::all_to_all(const char* name, MPI_Comm comm, const Blocks& sent,
                         const Blocks& received) {
  if (const int code = check_blocks(name, comm, "send", sent)) return code;
  if (const int code = check_blocks(name, comm, "receive", received)) return code;
  members.take(comm);
  to = from = members.all();
  out = sent;
  in = received;
  return MPI_SUCCESS;
}

int MovePlan::to_root(const char* name, MPI_Comm comm, int root, const Blocks& sent,
                      const Blocks& received) {
  if (const int code = check_inter_root(name, comm, root)) return code;
  if (root == MPI_PROC_NULL) return MPI_SUCCESS;
  members.take(comm);
  if (root == MPI_ROOT) {
    from = members.all();
    in = received;
    return check_blocks(name, comm, "receive", in);
  }
  to = members.one(root);
  out = sent;
  return check_blocks(name, comm, "send", out);
}

int MovePlan::from_root(const char* name, MPI_Comm comm, int root, const Blocks& sent,
                        const Blocks& received) {
  if (const int code = check_inter_root(name, comm, root)) return code;
  if (root == MPI_PROC_NULL) return MPI_SUCCESS;
  members.take(comm);
  if (root == MPI_ROOT) {
    to = members.all();
    out = sent;
    return check_blocks(name, comm, "send", out);
  }
  from = members.one(root);
  in = received;
  return check_blocks(name, comm, "receive", in);
}

int BcastPlan::check(const char* name, MPI_Comm comm, void* buffer, int count,
                     MPI_Datatype datatype, int root) {
  const Blocks block = one_block(buffer, count, datatype);
  return from_root(name, comm, root, block, block);
}

int AllgatherPlan::check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
                         MPI_Datatype sendtype, void* recvbuf, int recvcount,
                         MPI_Datatype recvtype) {
  return all_to_all(name, comm, one_block(sendbuf, sendcount, sendtype),
                    {recvbuf, recvtype, recvcount});
}

int AllgatherPlan::check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
                         MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
                         const int displs[], MPI_Datatype recvtype) {
  const Blocks received = {recvbuf, recvtype, 0, recvcounts, displs};
  if (const int code = check_peer_counts(name, comm, "receive", received)) return code;
  return all_to_all(name, comm, one_block(sendbuf, sendcount, sendtype), received);
}

int GatherPlan::check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
                      MPI_Datatype sendtype, void* recvbuf, int recvcount, MPI_Datatype recvtype,
                      int root) {
  return to_root(name, comm, root, one_block(sendbuf, sendcount, sendtype),
                 {recvbuf, recvtype, recvcount});
}

int GatherPlan::check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
                      MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
                      const int displs[], MPI_Datatype recvtype, int root) {
  const Blocks received = {recvbuf, recvtype, 0, recvcounts, displs};
  if (root == MPI_ROOT) {
    if (const int code = check_peer_counts(name, comm, "receive", received)) return code;
  }
  return to_root(name, comm, root, one_block(sendbuf, sendcount, sendtype), received);
}

int ScatterPlan::check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
                       MPI_Datatype sendtype, void* recvbuf, int recvcount, MPI_Datatype recvtype,
                       int root) {
  return from_root(name, comm, root, {sendbuf, sendtype, sendcount},
                   one_block(recvbuf, recvcount, recvtype));
}

int ScatterPlan::check(const char* name, MPI_Comm comm, const void* sendbuf, const int sendcounts[],
                       const int displs[], MPI_Datatype sendtype, void* recvbuf, int recvcount,
                       MPI_Datatype recvtype, int root) {
  const Blocks sent = {sendbuf, sendtype, 0, sendcounts, displs};
  if (root == MPI_ROOT) {
    if (const int code = check_peer_counts(name, comm, "send", sent)) return code;
  }
  return from_root(name, comm, root, sent, one_block(recvbuf, recvcount, recvtype));
}

int AlltoallPlan::check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
                        MPI_Datatype sendtype, void* recvbuf, int recvcount,
                        MPI_Datatype recvtype) {
  return all_to_all(name, comm, {sendbuf, sendtype, sendcount}, {recvbuf, recvtype, recvcount});
}

int AlltoallPlan::check(const char* name, MPI_Comm comm, const void* sendbuf,
                        const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
                        void* recvbuf, const int recvcounts[], const int rdispls[],
                        MPI_Datatype recvtype) {
  const Blocks sent = {sendbuf, sendtype, 0, sendcounts, sdispls};
  const Blocks received = {recvbuf, recvtype, 0, recvcounts, rdispls};
  if (const int code = check_peer_counts(name, comm, "send", sent)) return code;
  if (const int code = check_peer_counts(name, comm, "receive", received)) return code;
  return all_to_all(name, comm, sent, received);
}

int AlltoallPlan::check(const char* name, MPI_Comm comm, const void* sendbuf,
                        const int sendcounts[], const int sdispls[], const MPI_Datatype sendtypes[],
                        void* recvbuf, const int recvcounts[], const int rdispls[],
                        const MPI_Datatype recvtypes[]) {
  if (sendtypes == nullptr || recvtypes == nullptr) {
    return fail(name, comm, MPI_ERR_TYPE, "the datatypes are a null pointer");
  }
  return all_to_all(name, comm, {sendbuf, MPI_DATATYPE_NULL, 0, sendcounts, sdispls, sendtypes},
                    {recvbuf, MPI_DATATYPE_NULL, 0, recvcounts, rdispls, recvtypes});
}

// --- Vectors

int FoldPlan::bind_all(const char* name, MPI_Comm comm, int values, MPI_Datatype datatype,
                       MPI_Op op) {
  if (const int code = bind(name, comm, values, datatype, op, &bound)) return code;
  type = datatype;
  count = static_cast<std::size_t>(values);
  return MPI_SUCCESS;
}

int FoldPlan::fold_for_all(const char* name, MPI_Comm comm, const void* sendbuf, void* recvbuf) {
  const std::size_t bytes = count * type->reduced_bytes, received = kept * type->reduced_bytes;
  if (const int code = check_reduced(name, comm, sendbuf, recvbuf, type, bytes, received)) {
    return code;
  }
  send = sendbuf;
  receive = recvbuf;
  members.take(comm);
  to = from = members.all();
  return MPI_SUCCESS;
}

int AllreducePlan::check(const char* name, MPI_Comm comm, const void* sendbuf, void* recvbuf,
                         int values, MPI_Datatype datatype, MPI_Op op) {
  if (const int code = bind_all(name, comm, values, datatype, op)) return code;
  kept = count;
  return fold_for_all(name, comm, sendbuf, recvbuf);
}

int ReduceScatterPlan::check(const char* name, MPI_Comm comm, const void* sendbuf, void* recvbuf,
                             int recvcount, MPI_Datatype datatype, MPI_Op op) {
  if (const int code = bind_all(name, comm, recvcount, datatype, op)) return code;
  kept = count;
  count = kept * comm->own_count;
  first = kept * static_cast<std::size_t>(comm->rank());
  return fold_for_all(name, comm, sendbuf, recvbuf);
}

// The groups pass different counts if their sizes differ; the sums of the counts are equal.
int ReduceScatterPlan::check(const char* name, MPI_Comm comm, const void* sendbuf, void* recvbuf,
                             const int recvcounts[], MPI_Datatype datatype, MPI_Op op) {
  if (const int code = bind_all(name, comm, 0, datatype, op)) return code;
  if (recvcounts == nullptr) {
    return fail(name, comm, MPI_ERR_COUNT, "the receive counts are a null pointer");
  }
  for (int i = 0; i < comm->size(); ++i) {
    if (recvcounts[i] < 0) return fail_count(name, comm, recvcounts[i]);
    if (i == comm->rank()) first = count;
    count += static_cast<std::size_t>(recvcounts[i]);
  }
  kept = static_cast<std::size_t>(recvcounts[comm->rank()]);
  return fold_for_all(name, comm, sendbuf, recvbuf);
}

int ReducePlan::check(const char* name, MPI_Comm comm, const void* sendbuf, void* recvbuf,
                      int values, MPI_Datatype datatype, MPI_Op op, int root) {
  if (const int code = check_inter_root(name, comm, root)) return code;
  if (root == MPI_PROC_NULL) return MPI_SUCCESS;
  if (const int code = bind_all(name, comm, values, datatype, op)) return code;
  members.take(comm);
  if (root != MPI_ROOT) {
    send = sendbuf;
    to = members.one(root);
    return check_buffer(name, comm, "send", sendbuf, values, datatype);
  }
  receive = recvbuf;
  kept = count;
  from = members.all();
  return check_buffer(name, comm, "receive", recvbuf, values, datatype);
}

}  // namespace rejoin::pmpi::inter
