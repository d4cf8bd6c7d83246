// The blocks of a buffer of a collective whose members get different bytes: one for each member,
// rank of the other group, or neighbour.
#pragma once

#include <algorithm>
#include <cstddef>

#include "pmpi/buffers.h"
#include "pmpi/collective.h"
#include "pmpi/packed.h"

namespace rejoin::pmpi {

// A block of the program's buffer, with the members that engine::Block has.
struct Block {
  std::byte* data;  // the first byte; to send: of bytes without gaps
  std::size_t bytes;
  MPI_Datatype type;
  void* values;

  // Where received bytes may be stored without put(), which then copies nothing. Null: the values
  // have gaps.
  std::byte* place() const { return is_contiguous(type) ? data : nullptr; }
  void put(const std::byte* from, std::size_t size) const { put_values(type, from, size, values); }
};

inline Block block_of(void* values, int count, MPI_Datatype type) {
  return {first_byte(type, values), bytes_of(type, count), type, values};
}

// Describes the blocks of one buffer, and gives them to the algorithms of engine/collectives.h.
// Lists that the function does not have are null.
struct Blocks {
  const void* buffer = nullptr;
  MPI_Datatype type = nullptr;
  int count = 0;                // of each block, if counts is null
  const int* counts = nullptr;  // in values
  const int* displs = nullptr;  // in extents; in bytes if types is not null
  const MPI_Datatype* types = nullptr;
  const MPI_Aint* byte_displs = nullptr;  // instead of displs
  bool one = false;                       // the same block for all
  std::byte* packed = nullptr;            // where a block with gaps is packed when it is asked for

  MPI_Datatype type_of(std::size_t i) const { return types != nullptr ? types[i] : type; }
  int count_of(std::size_t i) const { return counts != nullptr ? counts[i] : count; }
  std::size_t bytes(std::size_t i) const { return bytes_of(type_of(i), count_of(i)); }
  std::byte* values(std::size_t i) const {
    auto* base = static_cast<std::byte*>(const_cast<void*>(buffer));
    if (one) return base;
    if (byte_displs != nullptr) return base + byte_displs[i];
    if (types != nullptr) return base + displs[i];
    return value_at(base, type,
                    displs != nullptr ? displs[i] : static_cast<std::ptrdiff_t>(i) * count);
  }

  Block operator()(std::size_t i) const {
    Block block = block_of(values(i), count_of(i), type_of(i));
    if (packed != nullptr && !is_contiguous(block.type)) {
      pack(block.type, block.values, static_cast<std::size_t>(count_of(i)), packed);
      block.data = packed;
    }
    return block;
  }
  std::size_t room(std::size_t i) const { return bytes(i); }
  void put(std::size_t i, const std::byte* data, std::size_t size) const {
    if (size > 0) put_values(type_of(i), data, size, values(i));
  }

  // Returns the same blocks, to be sent. `memory`: holds one packed block, because a message is
  // copied when it is sent.
  Blocks packed_in(Scratch* memory, std::size_t blocks) const {
    std::size_t most = 0;
    for (std::size_t i = 0; i < blocks; ++i) {
      if (!is_contiguous(type_of(i))) most = std::max(most, bytes(i));
    }
    Blocks sent = *this;
    if (most > 0) sent.packed = memory->reserve(most);
    return sent;
  }
  void keep(Kept& kept, std::size_t blocks) {
    kept.copy(&counts, blocks);
    kept.copy(&displs, blocks);
    kept.copy(&byte_displs, blocks);
    kept.copy(&types, blocks);
    if (types == nullptr) kept.hold(type);
    for (std::size_t i = 0; types != nullptr && i < blocks; ++i) kept.hold(types[i]);
  }
};

inline Blocks one_block(const void* buffer, int count, MPI_Datatype type) {
  Blocks blocks = {buffer, type, count};
  blocks.one = true;
  return blocks;
}

// Raises an error if a rank sends more to itself than it receives from itself.
inline int check_own(const char* name, MPI_Comm comm, std::size_t sent, std::size_t expected) {
  if (sent <= expected) return MPI_SUCCESS;
  return fail(name, comm, MPI_ERR_TRUNCATE,
              "this rank sends itself %zu byte%s but receives only %zu", sent, sent == 1 ? "" : "s",
              expected);
}

}  // namespace rejoin::pmpi
