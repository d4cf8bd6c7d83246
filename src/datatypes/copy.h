// Copies data between the places that a type describes and packed memory, which has the data
// without gaps, in the order of the type map. A copy may begin and end anywhere in the packed data,
// also within an element. Does not allocate. Cost: that of the copies, and a few instructions for
// each node of the plan on the way.
#pragma once

#include <cstddef>
#include <cstdint>

#include "datatypes/type.h"

namespace rejoin::datatypes {

// Copy bytes [skip, skip + bytes) of the packed data of `count` values at `buffer`. REQUIRES
// skip + bytes <= count * type.size_bytes(), and that `packed` does not overlap the data.
void pack(const Type& type, const void* buffer, std::uint64_t count, std::uint64_t skip,
          std::byte* packed, std::uint64_t bytes);
void unpack(const Type& type, const std::byte* packed, std::uint64_t bytes, void* buffer,
            std::uint64_t count, std::uint64_t skip);

}  // namespace rejoin::datatypes
