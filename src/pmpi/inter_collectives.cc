// Everything here is an exchange of messages between the groups: block i of a buffer belongs to
// rank i of the other group. Reductions fold what has come in the order of those ranks.
#include "pmpi/inter_collectives.h"

#include <string.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "engine/collectives.h"
#include "pmpi/buffers.h"
#include "pmpi/call.h"
#include "pmpi/reduction.h"

namespace rejoin::pmpi::inter {
namespace {

using recovery::OpKind;
using recovery::Status;

// The blocks of one buffer.
struct Blocks {
  const void* buffer;
  MPI_Datatype type;
  int count;                    // of each block, if counts is null
  const int* counts = nullptr;  // in values
  const int* displs = nullptr;  // in extents; in bytes if types is not null
  const MPI_Datatype* types = nullptr;
  bool one = false;  // the same block for all

  MPI_Datatype type_of(std::size_t i) const { return types != nullptr ? types[i] : type; }
  int count_of(std::size_t i) const { return counts != nullptr ? counts[i] : count; }
  std::size_t bytes(std::size_t i) const { return bytes_of(type_of(i), count_of(i)); }
  std::byte* values(std::size_t i) const {
    if (one) return value_at(buffer, type, 0);
    if (types != nullptr) return static_cast<std::byte*>(const_cast<void*>(buffer)) + displs[i];
    return value_at(buffer, type,
                    displs != nullptr ? displs[i] : static_cast<std::ptrdiff_t>(i) * count);
  }
};

// How engine::Exchange sees what is sent. Each message is copied when it is sent, so one place to
// pack is enough.
class Outgoing {
 public:
  Outgoing(const Blocks& blocks, std::size_t count) : blocks_(blocks) {
    std::size_t most = 0;
    for (std::size_t i = 0; i < count; ++i) most = std::max(most, blocks.bytes(i));
    if (most > 0) packed_.reserve(most);
  }
  engine::Block operator()(std::size_t i) const {
    const MPI_Datatype type = blocks_.type_of(i);
    const std::size_t bytes = blocks_.bytes(i);
    if (bytes == 0) return {nullptr, 0};
    if (is_contiguous(type)) return {first_byte(type, blocks_.values(i)), bytes};
    pack(type, blocks_.values(i), static_cast<std::size_t>(blocks_.count_of(i)), packed_.data());
    return {packed_.data(), bytes};
  }

 private:
  const Blocks& blocks_;
  Scratch packed_;
};

class Incoming {
 public:
  explicit Incoming(const Blocks& blocks) : blocks_(blocks) {}
  std::size_t room(std::size_t i) const { return blocks_.bytes(i); }
  void put(std::size_t i, const std::byte* data, std::size_t bytes) const {
    if (bytes > 0) put_values(blocks_.type_of(i), data, bytes, blocks_.values(i));
  }

 private:
  const Blocks& blocks_;
};

// The operands of a reduction, sent to everybody.
struct Vector {
  const std::byte* data;
  std::size_t bytes;
  engine::Block operator()(std::size_t) const { return {const_cast<std::byte*>(data), bytes}; }
};

// Folds vectors in the order in which they are received.
class Fold {
 public:
  Fold(const engine::Reduction& op, std::size_t count)
      : op_(op), count_(count), bytes_(count * op.element_bytes), memory_(2 * bytes_ + 1) {
    result_ = memory_.data();
    next_ = result_ + bytes_;
  }
  std::size_t room(std::size_t) const { return bytes_; }
  void put(std::size_t i, const std::byte* data, std::size_t bytes) {
    too_short_ |= bytes < bytes_;
    if (i == 0) {
      if (bytes > 0) memcpy(result_, data, bytes);
      return;
    }
    op_.combine(op_, result_, data, next_, std::min(bytes / op_.element_bytes, count_));
    std::swap(result_, next_);
  }
  const std::byte* result() const { return result_; }
  bool too_short() const { return too_short_; }  // some of the vectors

 private:
  const engine::Reduction& op_;
  std::size_t count_, bytes_;
  Scratch memory_;
  std::byte *result_, *next_;
  bool too_short_ = false;
};

// Members of the context whom this rank sends to or receives from.
class Members {
 public:
  explicit Members(MPI_Comm comm) : memory_(comm->peer_count * sizeof(std::uint32_t)) {
    auto* all = memory_.as<std::uint32_t>();
    std::iota(all, all + comm->peer_count, comm->peer_first);
    all_ = {all, comm->peer_count};
  }
  std::span<const std::uint32_t> all() const { return all_; }
  std::span<const std::uint32_t> one(int rank) const {
    return all_.subspan(static_cast<std::size_t>(rank), 1);
  }

 private:
  Scratch memory_;
  std::span<const std::uint32_t> all_;
};
using Ranks = std::span<const std::uint32_t>;

// How engine::Exchange is given what is not copied.
template <class Body>
struct By {
  Body* body;
  engine::Block operator()(std::size_t i) const { return (*body)(i); }
  std::size_t room(std::size_t i) const { return body->room(i); }
  void put(std::size_t i, const std::byte* data, std::size_t bytes) const {
    body->put(i, data, bytes);
  }
};

constexpr Blocks kNothing = {nullptr, nullptr, 0};

// Counts, types and roots are compared by what is sent: the groups may say them differently.
template <class Out, class In>
int run(const char* name, const void* site, MPI_Comm comm, OpKind kind, Ranks to, Out out,
        Ranks from, In in) {
  engine::Exchange algorithm(to, out, from, in);
  const Status status =
      context->rank->channel(*comm->comm, call_of(site, kind, -1, 0), nullptr, 0, algorithm).status;
  return status == Status::kOk ? MPI_SUCCESS : fail_status(name, comm, status);
}

int exchange(const char* name, const void* site, MPI_Comm comm, OpKind kind, Ranks to,
             const Blocks& out, Ranks from, const Blocks& in) {
  const Outgoing outgoing(out, to.size());
  return run(name, site, comm, kind, to, By<const Outgoing>{&outgoing}, from, Incoming(in));
}

int take_part(const char* name, const void* site, MPI_Comm comm, OpKind kind) {
  return exchange(name, site, comm, kind, {}, kNothing, {}, kNothing);
}

int fold(const char* name, const void* site, MPI_Comm comm, OpKind kind, Ranks to, Vector out,
         Ranks from, Fold* in) {
  if (const int code = run(name, site, comm, kind, to, out, from, By<Fold>{in})) return code;
  if (!in->too_short()) return MPI_SUCCESS;
  return fail(name, comm, MPI_ERR_COUNT, "the other group contributes shorter vectors");
}

Blocks one_block(const void* buffer, int count, MPI_Datatype type) {
  Blocks b = {buffer, type, count};
  b.one = true;
  return b;
}

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

// Everybody sends to all of the other group, and receives from all.
int all_to_all(const char* name, const void* site, MPI_Comm comm, OpKind kind, const Blocks& out,
               const Blocks& in) {
  if (const int code = check_blocks(name, comm, "send", out)) return code;
  if (const int code = check_blocks(name, comm, "receive", in)) return code;
  const Members members(comm);
  return exchange(name, site, comm, kind, members.all(), out, members.all(), in);
}

// The other group's blocks come together at the root, at `in`.
int to_root(const char* name, const void* site, MPI_Comm comm, OpKind kind, int root,
            const Blocks& out, const Blocks& in) {
  if (const int code = check_inter_root(name, comm, root)) return code;
  const Members members(comm);
  if (root == MPI_PROC_NULL) {
    return take_part(name, site, comm, kind);
  }
  if (root == MPI_ROOT) {
    if (const int code = check_blocks(name, comm, "receive", in)) return code;
    return exchange(name, site, comm, kind, {}, kNothing, members.all(), in);
  }
  if (const int code = check_blocks(name, comm, "send", out)) return code;
  return exchange(name, site, comm, kind, members.one(root), out, {}, kNothing);
}

// The root's blocks go to the ranks of the other group.
int from_root(const char* name, const void* site, MPI_Comm comm, OpKind kind, int root,
              const Blocks& out, const Blocks& in) {
  if (const int code = check_inter_root(name, comm, root)) return code;
  const Members members(comm);
  if (root == MPI_PROC_NULL) {
    return take_part(name, site, comm, kind);
  }
  if (root == MPI_ROOT) {
    if (const int code = check_blocks(name, comm, "send", out)) return code;
    return exchange(name, site, comm, kind, members.all(), out, {}, kNothing);
  }
  if (const int code = check_blocks(name, comm, "receive", in)) return code;
  return exchange(name, site, comm, kind, {}, kNothing, members.one(root), in);
}

int check_reduced(const char* name, MPI_Comm comm, const void* sendbuf, const void* recvbuf,
                  MPI_Datatype type, std::size_t bytes) {
  if (sendbuf == MPI_IN_PLACE) return fail_buffer(name, comm, "send", sendbuf);
  return check_reduction_buffers(name, comm, sendbuf, recvbuf, type, bytes);
}

// Everybody folds the other group's vectors of `count`, and keeps `kept` of them from `first` on.
int fold_for_all(const char* name, const void* site, MPI_Comm comm, OpKind kind,
                 const void* sendbuf, void* recvbuf, std::size_t count, std::size_t first,
                 std::size_t kept, MPI_Datatype datatype, const BoundReduction& bound) {
  const std::size_t bytes = count * datatype->reduced_bytes;
  if (const int code = check_reduced(name, comm, sendbuf, recvbuf, datatype, bytes)) return code;
  const Contribution input(datatype, sendbuf, count);
  const Members members(comm);
  Fold in(bound.get(), count);
  const Vector out = {input.data(), bytes};
  if (const int code = fold(name, site, comm, kind, members.all(), out, members.all(), &in)) {
    return code;
  }
  Result(datatype, recvbuf).deliver(in.result() + first * datatype->reduced_bytes, kept);
  return MPI_SUCCESS;
}

}  // namespace

int bcast(const void* site, void* buffer, int count, MPI_Datatype datatype, int root,
          MPI_Comm comm) {
  const Blocks block = one_block(buffer, count, datatype);
  return from_root("MPI_Bcast", site, comm, OpKind::kBcast, root, block, block);
}

int allgather(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
              void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return all_to_all("MPI_Allgather", site, comm, OpKind::kAllgather,
                    one_block(sendbuf, sendcount, sendtype), {recvbuf, recvtype, recvcount});
}

int allgatherv(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
               void* recvbuf, const int recvcounts[], const int displs[], MPI_Datatype recvtype,
               MPI_Comm comm) {
  const Blocks in = {recvbuf, recvtype, 0, recvcounts, displs};
  if (const int code = check_peer_counts("MPI_Allgatherv", comm, "receive", in)) return code;
  return all_to_all("MPI_Allgatherv", site, comm, OpKind::kAllgatherv,
                    one_block(sendbuf, sendcount, sendtype), in);
}

int gather(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
           void* recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return to_root("MPI_Gather", site, comm, OpKind::kGather, root,
                 one_block(sendbuf, sendcount, sendtype), {recvbuf, recvtype, recvcount});
}

int gatherv(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
            void* recvbuf, const int recvcounts[], const int displs[], MPI_Datatype recvtype,
            int root, MPI_Comm comm) {
  const Blocks in = {recvbuf, recvtype, 0, recvcounts, displs};
  if (root == MPI_ROOT) {
    if (const int code = check_peer_counts("MPI_Gatherv", comm, "receive", in)) return code;
  }
  return to_root("MPI_Gatherv", site, comm, OpKind::kGatherv, root,
                 one_block(sendbuf, sendcount, sendtype), in);
}

int scatter(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
            void* recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return from_root("MPI_Scatter", site, comm, OpKind::kScatter, root,
                   {sendbuf, sendtype, sendcount}, one_block(recvbuf, recvcount, recvtype));
}

int scatterv(const void* site, const void* sendbuf, const int sendcounts[], const int displs[],
             MPI_Datatype sendtype, void* recvbuf, int recvcount, MPI_Datatype recvtype, int root,
             MPI_Comm comm) {
  const Blocks out = {sendbuf, sendtype, 0, sendcounts, displs};
  if (root == MPI_ROOT) {
    if (const int code = check_peer_counts("MPI_Scatterv", comm, "send", out)) return code;
  }
  return from_root("MPI_Scatterv", site, comm, OpKind::kScatterv, root, out,
                   one_block(recvbuf, recvcount, recvtype));
}

int alltoall(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
             void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return all_to_all("MPI_Alltoall", site, comm, OpKind::kAlltoall, {sendbuf, sendtype, sendcount},
                    {recvbuf, recvtype, recvcount});
}

int alltoallv(const void* site, const void* sendbuf, const int sendcounts[], const int sdispls[],
              MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int rdispls[],
              MPI_Datatype recvtype, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Alltoallv";
  const Blocks out = {sendbuf, sendtype, 0, sendcounts, sdispls};
  const Blocks in = {recvbuf, recvtype, 0, recvcounts, rdispls};
  if (const int code = check_peer_counts(kName, comm, "send", out)) return code;
  if (const int code = check_peer_counts(kName, comm, "receive", in)) return code;
  return all_to_all(kName, site, comm, OpKind::kAlltoallv, out, in);
}

int alltoallw(const void* site, const void* sendbuf, const int sendcounts[], const int sdispls[],
              const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
              const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm) {
  constexpr const char* kName = "MPI_Alltoallw";
  if (sendtypes == nullptr || recvtypes == nullptr) {
    return fail(kName, comm, MPI_ERR_TYPE, "the datatypes are a null pointer");
  }
  return all_to_all(kName, site, comm, OpKind::kAlltoallw,
                    {sendbuf, MPI_DATATYPE_NULL, 0, sendcounts, sdispls, sendtypes},
                    {recvbuf, MPI_DATATYPE_NULL, 0, recvcounts, rdispls, recvtypes});
}

int allreduce(const void* site, const void* sendbuf, void* recvbuf, int count,
              MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Allreduce";
  BoundReduction bound;
  if (const int code = bind(kName, comm, count, datatype, op, &bound)) return code;
  const auto values = static_cast<std::size_t>(count);
  return fold_for_all(kName, site, comm, OpKind::kAllreduce, sendbuf, recvbuf, values, 0, values,
                      datatype, bound);
}

// The groups' counts differ where their sizes do; their sums are the same.
int reduce_scatter(const void* site, const void* sendbuf, void* recvbuf, const int recvcounts[],
                   MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Reduce_scatter";
  BoundReduction bound;
  if (const int code = bind(kName, comm, 0, datatype, op, &bound)) return code;
  if (recvcounts == nullptr) {
    return fail(kName, comm, MPI_ERR_COUNT, "the receive counts are a null pointer");
  }
  std::size_t before = 0, count = 0;
  for (int i = 0; i < comm->size(); ++i) {
    if (recvcounts[i] < 0) return fail_count(kName, comm, recvcounts[i]);
    if (i == comm->rank()) before = count;
    count += static_cast<std::size_t>(recvcounts[i]);
  }
  return fold_for_all(kName, site, comm, OpKind::kReduceScatter, sendbuf, recvbuf, count, before,
                      static_cast<std::size_t>(recvcounts[comm->rank()]), datatype, bound);
}

int reduce_scatter_block(const void* site, const void* sendbuf, void* recvbuf, int recvcount,
                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Reduce_scatter_block";
  BoundReduction bound;
  if (const int code = bind(kName, comm, recvcount, datatype, op, &bound)) return code;
  const auto part = static_cast<std::size_t>(recvcount);
  return fold_for_all(kName, site, comm, OpKind::kReduceScatterBlock, sendbuf, recvbuf,
                      part * comm->own_count, part * static_cast<std::size_t>(comm->rank()), part,
                      datatype, bound);
}

int reduce(const void* site, const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype,
           MPI_Op op, int root, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Reduce";
  constexpr OpKind kKind = OpKind::kReduce;
  if (const int code = check_inter_root(kName, comm, root)) return code;
  if (root == MPI_PROC_NULL) {
    return take_part(kName, site, comm, kKind);
  }
  BoundReduction bound;
  if (const int code = bind(kName, comm, count, datatype, op, &bound)) return code;
  const auto values = static_cast<std::size_t>(count);
  const Members members(comm);
  if (root != MPI_ROOT) {
    if (const int code = check_buffer(kName, comm, "send", sendbuf, count, datatype)) return code;
    const Contribution input(datatype, sendbuf, values);
    const Vector out = {input.data(), reduced_bytes_of(datatype, count)};
    return run(kName, site, comm, kKind, members.one(root), out, {}, Incoming(kNothing));
  }
  if (const int code = check_buffer(kName, comm, "receive", recvbuf, count, datatype)) return code;
  Fold in(bound.get(), values);
  if (const int code = fold(kName, site, comm, kKind, {}, {}, members.all(), &in)) return code;
  Result(datatype, recvbuf).deliver(in.result(), values);
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi::inter
