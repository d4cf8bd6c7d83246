// A rank: the one rule of recovery around every operation, and nothing else.
//
//     entering an operation, look for my record of it; else for somebody's record of it; else run
//     it
//
// BasicRank is written over a Host (engine/transport/*/host.h): the real one maps a segment and
// sleeps on futexes, the simulated one yields to a scheduler at every publish. One thread at a time
// may be inside a rank (MPI_THREAD_SERIALIZED).
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/reduction.h"
#include "engine/segment.h"

namespace rejoin::recovery {

using engine::Signature;

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
};
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
  kExhausted,  // more communicators than kMaxContexts, or no memory for the shim itself
  kRefused,    // not possible here; text in last_error()
};

// What the MPI face knows of a call. `site` is the return address of the MPI function; or, if
// `function` is not null, the name of a file (const char*), and the call is made from
// FILE:LINE::FUNCTION.
struct Call {
  Signature signature;
  const void* site;
  const char* function = nullptr;
  std::uint32_t line = 0;
};

// What the program has said about its next operation.
struct Hint {
  bool bootstrap = false;
  std::uint64_t key = 0;             // a hash; 0: by call site
  void (*prepare)(void*) = nullptr;  // fills the input
  void* argument = nullptr;
};

// Of a checkpoint. Kept from the call on: nothing points to the caller's memory.
struct Models {
  const void* global = nullptr;
  std::size_t global_bytes = 0;
  const void* local = nullptr;
  std::size_t local_bytes = 0;
  std::uint64_t next_lazy = 0;  // rank 0's word on which lazy checkpoint all ranks write next
  bool compared = true;         // false: only rank 0 has the global model
};

struct Loaded {
  std::uint64_t version;  // 0: none
  const std::byte* global;
  std::size_t global_bytes;
  const std::byte* local;
  std::size_t local_bytes;
  std::uint64_t observations;  // bytes of the log that lie before the version
  bool restored;               // by an earlier life of this job, not by --resume
};

// An operation whose result is the same bytes at every member that gets it.
struct Uniform {
  const void* input = nullptr;  // my contribution; stays untouched until the call returns
  std::size_t input_bytes = 0;  // Allreduce: bytes of the vector. Bcast: root only. Allgather: mine
  std::size_t result_bytes = 0;
  const engine::Reduction* reduction = nullptr;  // Allreduce and Reduce_scatter
  // Allgather(v): byte offset of member i's block in the packed result, [size + 1] entries; null:
  // all blocks have input_bytes.
  const std::size_t* blocks = nullptr;
  // If not null: result_bytes of the caller's memory, apart from `input`, which may be written
  // before the commit. When the call returns kOk and *result == early, the result lies there
  // already.
  void* early = nullptr;
};

// The class itself: recovery/basic_rank.h. For the real host:
//
//   using Rank = recovery::BasicRank<engine::ShmHost>;
//
//   Rank::Comm* make_comm(context, members, size), free_comm(comm)
//   Status uniform(comm, call, uniform, &result)
//   Rank::Operation op(rank, comm, call, input, input_bytes);   everything that is not uniform
//     op.send(peer, data, bytes); op.receive(peer, max_bytes, &data, &bytes); return op.finish();
//   The algorithms over send and receive: engine/collectives.h.

}  // namespace rejoin::recovery
