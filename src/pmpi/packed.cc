#include "pmpi/packed.h"

namespace rejoin::pmpi {

void read_operands(MPI_Datatype type, const void* buffer, std::size_t count, std::byte* operands) {
  const std::size_t bytes = count * type->size_bytes;
  if (bytes == 0) return;
  memset(operands, 0, count * type->reduced_bytes);
  const PackedInput values(type, buffer, count);
  operands -= operand_offset(type);
  if (is_at_extent(type)) return unpack(type, values.data(), bytes, operands);
  for (std::size_t i = 0; i < count; ++i, operands += type->reduced_bytes) {
    unpack(type, values.data() + i * type->size_bytes, type->size_bytes, operands);
  }
}

void write_operands(MPI_Datatype type, const std::byte* operands, std::size_t count, void* buffer) {
  const std::size_t bytes = count * type->size_bytes;
  if (bytes == 0) return;
  Scratch packed(bytes);
  operands -= operand_offset(type);
  if (is_at_extent(type)) {
    pack(type, operands, count, packed.data());
  } else {
    for (std::size_t i = 0; i < count; ++i, operands += type->reduced_bytes) {
      pack(type, operands, 1, packed.data() + i * type->size_bytes);
    }
  }
  unpack(type, packed.data(), bytes, buffer);
}

}  // namespace rejoin::pmpi
