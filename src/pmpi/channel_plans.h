// Shared by the plans of collectives that give members different bytes: channels.cc, alltoall.cc.
#pragma once

#include "engine/collectives.h"
#include "pmpi/buffers.h"
#include "pmpi/call.h"
#include "pmpi/collective.h"
#include "pmpi/inter_collectives.h"
#include "pmpi/packed.h"

namespace rejoin::pmpi {

using recovery::OpKind;
using recovery::Outcome;
using recovery::Signature;

// A block of the program's buffer, with the members that engine::Block has.
struct Block {
  std::byte* data;  // to send: the bytes without gaps; to receive: only whether it is null counts
  std::size_t bytes;
  MPI_Datatype type;
  void* values;

  void put(const std::byte* from, std::size_t size) const { put_values(type, from, size, values); }
};

inline Block block_of(void* values, int count, MPI_Datatype type) {
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
  // To be called before blocks are sent. A message is copied when it is sent, so memory for one
  // block is enough.
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

inline void* buffer_of(const void* program_memory) { return const_cast<void*>(program_memory); }

// Raises an error if a rank sends more to itself than it receives from itself.
inline int check_own(const char* name, MPI_Comm comm, std::size_t sent, std::size_t expected) {
  if (sent <= expected) return MPI_SUCCESS;
  return fail(name, comm, MPI_ERR_TRUNCATE,
              "this rank sends itself %zu byte%s but receives only %zu", sent, sent == 1 ? "" : "s",
              expected);
}

// The base of all plans here. A replay compares what is sent message by message, so an operation
// needs no fingerprint.
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

template <class Plan, class... Arguments>
int check_and_run(const char* name, const void* site, MPI_Comm comm, OpKind kind,
                  Arguments... arguments) {
  if (!is_comm(comm)) return run_on_inter<Plan>(name, site, comm, kind, arguments...);
  Plan plan;
  if (const int code = plan.check(name, comm, arguments...)) return code;
  return run(name, site, comm, kind, plan);
}

}  // namespace rejoin::pmpi
