// The representation "external32" of data (MPI 3.1, 13.5.2): big-endian, of fixed sizes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "datatypes/type.h"

namespace rejoin::datatypes {

// Writes `count` values at `buffer` to `external`, count * type.external_bytes(). false: a value
// does not fit the narrower type that external32 has for it.
bool pack_external(const Type& type, const void* buffer, std::uint64_t count, std::byte* external);
void unpack_external(const Type& type, const std::byte* external, void* buffer,
                     std::uint64_t count);

}  // namespace rejoin::datatypes
