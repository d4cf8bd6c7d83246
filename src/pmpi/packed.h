// Access to the program's buffers as data without gaps, for collectives. If a type is contiguous,
// the data is the buffer itself, at no cost.
#pragma once

#include <string.h>

#include "copy/copy.h"
#include "pmpi/datatype.h"

namespace rejoin::pmpi {

// The data of `count` values to send: in the buffer, or a packed copy.
class PackedInput {
 public:
  PackedInput(MPI_Datatype type, const void* buffer, std::size_t count) {
    if (is_contiguous(type)) [[likely]] {
      data_ = first_byte(type, buffer);
    } else {
      pack_values(type, buffer, count);
    }
  }
  const std::byte* data() const { return data_; }

 private:
  void pack_values(MPI_Datatype type, const void* buffer, std::size_t count) {
    std::byte* packed = copy_.reserve(count * type->size_bytes);
    pack(type, buffer, count, packed);
    data_ = packed;
  }

  const std::byte* data_;
  Scratch copy_;
};

// Copies `bytes` of received data into the values at `buffer`, unless `from` is their own data.
inline void put_values(MPI_Datatype type, const std::byte* from, std::size_t bytes, void* buffer) {
  if (!is_contiguous(type)) {
    unpack(type, from, bytes, buffer);
  } else if (std::byte* to = first_byte(type, buffer); to != from) {
    copy_payload(to, from, bytes);
  }
}

// --- Operands of reductions: values at a distance of reduced_bytes, which is the extent unless
// their data would overlap.

// Whether operands are laid out differently from the values in a program's buffer.
inline bool is_spread(MPI_Datatype type) {
  return !type->contiguous && type->element == engine::Element::kNone;
}
// Whether operands are as far apart as values.
inline bool is_at_extent(MPI_Datatype type) {
  return static_cast<std::ptrdiff_t>(type->reduced_bytes) == type->extent_bytes;
}
// Returns the distance from the address that a user's function is given to the first byte of an
// operand: a multiple of 16 where operands are copies, so that what the program has aligned stays
// aligned.
inline std::ptrdiff_t operand_offset(MPI_Datatype type) {
  return is_spread(type) ? type->first_byte & -16 : type->first_byte;
}
// Convert `count` values to operands, and back. REQUIRES is_spread(type). Gaps are set to 0 in the
// operands, and not touched in the program's buffer.
void read_operands(MPI_Datatype type, const void* buffer, std::size_t count, std::byte* operands);
void write_operands(MPI_Datatype type, const std::byte* operands, std::size_t count, void* buffer);

}  // namespace rejoin::pmpi
