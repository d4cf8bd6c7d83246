// The types that the MPI face and the rooms of the recovery exchange.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/reduction.h"
#include "journal/layout.h"

namespace rejoin::recovery {

using journal::Signature;

// Values are part of the journal's format.
enum class OpKind : std::uint16_t {
  kBarrier = 1,
  kBcast,
  kAllreduce,
  kAllgather,
  kAllgatherv,
  kReduceScatter,
  kReduceScatterBlock,
  kReduce,
  kGather,
  kGatherv,
  kScatter,
  kScatterv,
  kAlltoall,
  kAlltoallv,
  kAlltoallw,
  kScan,
  kExscan,
  kCommDup,
  kCommSplit,
  kCommCreate,
  kCommCreateGroup,
  kInit,
  kFinalize,
  kCheckpoint,
  kLoad,
  // Between two ranks: no signature but the kind.
  kSend,
  kSsend,
  kBsend,
  kRsend,
  kIsend,
  kIssend,
  kIbsend,
  kIrsend,
  kRecv,
  kIrecv,
  kMrecv,
  kImrecv,
  kSendrecv,
  kSendrecvReplace,
  kProbe,
  kMprobe,
  kImprobe,
  kStart,
  kStartall,
  kWait,
  kWaitall,
  kWaitany,
  kWaitsome,
  kCancel,
  kCartCreate,
  kCartSub,
  kGraphCreate,
  kDistGraphCreate,
  kDistGraphCreateAdjacent,
  kNeighborAllgather,
  kNeighborAllgatherv,
  kNeighborAlltoall,
  kNeighborAlltoallv,
  kNeighborAlltoallw,
  kIntercommCreate,
  kIntercommMerge,
  // Nonblocking. MPI does not let them match blocking ones, so they have kinds of their own.
  kIbarrier,
  kIbcast,
  kIallreduce,
  kIallgather,
  kIallgatherv,
  kIreduceScatter,
  kIreduceScatterBlock,
  kIreduce,
  kIgather,
  kIgatherv,
  kIscatter,
  kIscatterv,
  kIalltoall,
  kIalltoallv,
  kIalltoallw,
  kIscan,
  kIexscan,
  kIneighborAllgather,
  kIneighborAllgatherv,
  kIneighborAlltoall,
  kIneighborAlltoallv,
  kIneighborAlltoallw,
  kCommIdup,
};
// Whether the root's published record is the operation.
inline bool is_broadcast(const Signature& s) {
  const auto kind = static_cast<OpKind>(s.kind);
  return kind == OpKind::kBcast || kind == OpKind::kIbcast;
}
// What an operation moves, as far as all members agree on it.
struct Shape {
  std::size_t element_bytes;  // 1: plain bytes
  std::uint64_t count;
};
Shape shape_of(const Signature& signature);

const char* name_of(OpKind kind);  // "Allreduce"; with the MPI_ prefix in messages to users

enum class Status {
  kOk,
  kMismatch,   // members disagree about this operation; text in last_error()
  kTruncated,  // a message is longer than the receiver allows; text in last_error()
  kRefused,    // not possible here; text in last_error()
  kNoMemory,   // more than --bootstrap-limit; text in last_error()
  kKey,        // a bootstrap key that was used before; text in last_error()
};

// What the program has said about its next operation.
struct Hint {
  bool bootstrap = false;
  std::uint64_t key = 0;             // a hash; 0: by call site
  void (*prepare)(void*) = nullptr;  // fills the input
  void* argument = nullptr;
};

// What the MPI face knows of a call. `site` is the return address of the MPI function; or, if
// `function` is not null, the name of a file (const char*), and the call is made from
// FILE:LINE::FUNCTION.
struct Call {
  Signature signature;
  const void* site;
  const char* function = nullptr;
  std::uint32_t line = 0;
  const Hint* hint = nullptr;  // for the time of the call
};

// The models given to a checkpoint. After the call nothing points to the caller's memory.
struct Models {
  const void* global = nullptr;
  std::size_t global_bytes = 0;
  const void* local = nullptr;
  std::size_t local_bytes = 0;
  std::uint64_t next = 0;  // rank 0: the version that is written next; 0: the one behind this one
  bool compared = true;    // false: only rank 0 has the global model
};

struct Loaded {
  std::uint64_t version;  // 0: none
  const std::byte* global;
  std::size_t global_bytes;
  const std::byte* local;
  std::size_t local_bytes;
  std::uint64_t observations;  // bytes of the log that lie before the version
  bool restored;               // by an earlier incarnation, not by --resume
};

inline constexpr std::uint32_t kNobody = ~std::uint32_t{0};

// An operation whose result is the same bytes at every member that gets it: Barrier, Bcast,
// Allreduce, Allgather(v), Reduce_scatter, making communicators; a large Reduce among several nodes
// (engine::is_reduced_by_nodes).
struct ReplicatedSpec {
  const void* input = nullptr;  // this rank's contribution; must not change until the call returns
  std::size_t input_bytes = 0;  // Allreduce: of the vector. Bcast: root only. Allgather: own
  std::size_t result_bytes = 0;
  const engine::Reduction* reduction = nullptr;  // Allreduce, Reduce and Reduce_scatter
  // Reduce: the only member that gets the result; data() of the others is nothing.
  std::uint32_t only = kNobody;
  // Allgather(v): byte offset of member i's block in the packed result, [size + 1] entries; null:
  // all blocks have input_bytes.
  const std::size_t* blocks = nullptr;
  // If not null: result_bytes of the caller's memory, which may be written before the commit. Must
  // not overlap `input`, except for an input of Allgather(v) that lies at its place in it.
  void* early = nullptr;
};

// The outcome of an operation.
struct Outcome {
  Status status = Status::kOk;
  // The operation as its record names it. A bootstrap replay gives the recorded one.
  std::uint64_t sequence = 0;
  const std::byte* at = nullptr;  // null: the result is in `small`
  std::uint64_t small = 0;
  // The bytes that the root of this broadcast contributed now differ from the recorded ones.
  bool replaces_input = false;

  // result_bytes of it: in shared memory, at `early` or in here; until the next operation.
  const std::byte* data() const {
    return at != nullptr ? at : reinterpret_cast<const std::byte*>(&small);
  }
};

}  // namespace rejoin::recovery
