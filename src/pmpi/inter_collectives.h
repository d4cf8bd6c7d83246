// Collectives of an intercommunicator, as plans (collective.h): what a group contributes goes to
// the other group. check() REQUIRES is_inter(comm) and takes the arguments of the C function. Where
// there is a root, the root passes MPI_ROOT, the other ranks of its group pass MPI_PROC_NULL, and
// the ranks of the other group pass the root's rank.
//
// All of them are exchanges of messages between the groups: block i of a buffer belongs to rank i
// of the other group. Reductions fold received vectors in the order of those ranks. What a rank
// sends does not depend on what it receives, so a plan may be run as a nonblocking operation.
#pragma once

#include <string.h>

#include <algorithm>
#include <optional>
#include <span>

#include "copy/copy.h"
#include "engine/collectives.h"
#include "pmpi/blocks.h"
#include "pmpi/buffers.h"
#include "pmpi/call.h"
#include "pmpi/collective.h"
#include "pmpi/reduction.h"

namespace rejoin::pmpi::inter {

using recovery::OpKind;
using recovery::Outcome;
using recovery::Signature;

// Numbers of members of the context.
using Ranks = std::span<const std::uint32_t>;

// The operands of a reduction, which are the same for every destination.
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
      copy_payload(result_, data, bytes);
      return;
    }
    op_.combine(op_, result_, data, next_, std::min(bytes / op_.element_bytes, count_));
    std::swap(result_, next_);
  }
  const std::byte* result() const { return result_; }
  bool too_short() const { return too_short_; }  // whether a vector was too short

 private:
  const engine::Reduction& op_;
  std::size_t count_, bytes_;
  Scratch memory_;
  std::byte *result_, *next_;
  bool too_short_ = false;
};

// The ranks of the other group that this rank sends to or receives from.
class Members {
 public:
  void take(MPI_Comm comm);  // once
  Ranks all() const { return all_; }
  Ranks one(int rank) const { return all_.subspan(static_cast<std::size_t>(rank), 1); }

 private:
  Scratch memory_;
  Ranks all_;
};

// A reference to a Fold that engine::Exchange, which copies its arguments, may copy.
struct FoldReference {
  Fold* fold;
  std::size_t room(std::size_t i) const { return fold->room(i); }
  void put(std::size_t i, const std::byte* data, std::size_t bytes) const {
    fold->put(i, data, bytes);
  }
};

// Returns the signature. It does not contain counts, types and roots, because the groups may pass
// different ones; the messages are compared instead.
inline Signature signature_between(OpKind kind) { return signature_of(kind, -1, 0); }

// Sends blocks to ranks of the other group, and receives blocks from them.
struct MovePlan {
  Members members;
  Ranks to, from;
  Blocks out, in;

  void keep(Kept& kept) {
    out.keep(kept, to.size());
    in.keep(kept, from.size());
  }
  Signature signature(OpKind kind) const { return signature_between(kind); }

  struct Run {
    explicit Run(const MovePlan& p)
        : algorithm(p.to, p.out.packed_in(&memory, p.to.size()), p.from, p.in) {}
    void deliver(const Outcome&) {}
    const void* const input = nullptr;
    const std::size_t input_bytes = 0;
    Scratch memory;
    engine::Exchange<Blocks, Blocks> algorithm;
  };

 protected:
  // Every rank sends to all ranks of the other group, and receives from all of them.
  int all_to_all(const char* name, MPI_Comm comm, const Blocks& sent, const Blocks& received);
  // The root receives the blocks of the other group's ranks in `received`.
  int to_root(const char* name, MPI_Comm comm, int root, const Blocks& sent,
              const Blocks& received);
  // The root's blocks go to the ranks of the other group.
  int from_root(const char* name, MPI_Comm comm, int root, const Blocks& sent,
                const Blocks& received);
};

// Sends a vector to ranks of the other group, and folds the vectors that it receives from them.
struct FoldPlan {
  BoundReduction bound;  // set if this rank sends or receives
  const void* send = nullptr;
  void* receive = nullptr;
  MPI_Datatype type = nullptr;
  std::size_t count = 0;            // values in a vector
  std::size_t first = 0, kept = 0;  // this rank gets values [first, first + kept) of the result
  Members members;
  Ranks to, from;

  void keep(Kept& held) { held.hold(type); }
  Signature signature(OpKind kind) const { return signature_between(kind); }

  struct Run {
    explicit Run(const FoldPlan& p)
        : plan(p), algorithm(p.to, take_input(), p.from, FoldReference{make_fold()}) {}
    void deliver(const Outcome&) {
      if (!fold || fold->too_short()) return;
      Result(plan.type, plan.receive)
          .deliver(fold->result() + plan.first * plan.type->reduced_bytes, plan.kept);
    }
    const char* wrong_counts() const {
      return fold && fold->too_short() ? "the other group contributes fewer elements" : nullptr;
    }
    const FoldPlan& plan;
    const void* const input = nullptr;
    const std::size_t input_bytes = 0;
    std::optional<Contribution> contribution;
    std::optional<Fold> fold;
    engine::Exchange<Vector, FoldReference> algorithm;

   private:
    Vector take_input() {
      if (plan.to.empty()) return {nullptr, 0};
      contribution.emplace(plan.type, plan.send, plan.count);
      return {contribution->data(), plan.count * plan.type->reduced_bytes};
    }
    Fold* make_fold() {
      if (plan.from.empty()) return nullptr;
      return &fold.emplace(plan.bound.get(), plan.type->reduced_bytes == 0 ? 0 : plan.count);
    }
  };

 protected:
  int bind_all(const char* name, MPI_Comm comm, int values, MPI_Datatype datatype, MPI_Op op);
  // Every rank folds the other group's vectors.
  int fold_for_all(const char* name, MPI_Comm comm, const void* sendbuf, void* recvbuf);
};

struct BcastPlan : MovePlan {
  int check(const char* name, MPI_Comm comm, void* buffer, int count, MPI_Datatype datatype,
            int root);
};
struct AllgatherPlan : MovePlan {
  int check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
            MPI_Datatype sendtype, void* recvbuf, int recvcount, MPI_Datatype recvtype);
  int check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
            MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int displs[],
            MPI_Datatype recvtype);
};
struct GatherPlan : MovePlan {
  int check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
            MPI_Datatype sendtype, void* recvbuf, int recvcount, MPI_Datatype recvtype, int root);
  int check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
            MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int displs[],
            MPI_Datatype recvtype, int root);
};
struct ScatterPlan : MovePlan {
  int check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
            MPI_Datatype sendtype, void* recvbuf, int recvcount, MPI_Datatype recvtype, int root);
  int check(const char* name, MPI_Comm comm, const void* sendbuf, const int sendcounts[],
            const int displs[], MPI_Datatype sendtype, void* recvbuf, int recvcount,
            MPI_Datatype recvtype, int root);
};
struct AlltoallPlan : MovePlan {
  int check(const char* name, MPI_Comm comm, const void* sendbuf, int sendcount,
            MPI_Datatype sendtype, void* recvbuf, int recvcount, MPI_Datatype recvtype);
  int check(const char* name, MPI_Comm comm, const void* sendbuf, const int sendcounts[],
            const int sdispls[], MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
            const int rdispls[], MPI_Datatype recvtype);
  int check(const char* name, MPI_Comm comm, const void* sendbuf, const int sendcounts[],
            const int sdispls[], const MPI_Datatype sendtypes[], void* recvbuf,
            const int recvcounts[], const int rdispls[], const MPI_Datatype recvtypes[]);
};
struct AllreducePlan : FoldPlan {
  int check(const char* name, MPI_Comm comm, const void* sendbuf, void* recvbuf, int values,
            MPI_Datatype datatype, MPI_Op op);
};
struct ReduceScatterPlan : FoldPlan {
  int check(const char* name, MPI_Comm comm, const void* sendbuf, void* recvbuf, int recvcount,
            MPI_Datatype datatype, MPI_Op op);
  int check(const char* name, MPI_Comm comm, const void* sendbuf, void* recvbuf,
            const int recvcounts[], MPI_Datatype datatype, MPI_Op op);
};
struct ReducePlan : FoldPlan {
  int check(const char* name, MPI_Comm comm, const void* sendbuf, void* recvbuf, int values,
            MPI_Datatype datatype, MPI_Op op, int root);
};

}  // namespace rejoin::pmpi::inter
