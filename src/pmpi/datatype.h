// Datatypes: what communication needs of them.
#pragma once

#include "pmpi/handles.h"

namespace rejoin::pmpi {

// Copies `count` values to `to` (count * extent_bytes) and clears the padding in them: what the
// program contributes to a reduction is then a function of the values alone, also when it does it
// again.
void copy_without_gaps(MPI_Datatype type, const void* from, std::size_t count, std::byte* to);

// Whether the data of any number of values is one piece of memory, and where that begins.
inline bool is_contiguous(MPI_Datatype type) { return type->size_bytes == type->extent_bytes; }
inline std::byte* first_byte(MPI_Datatype, const void* buffer) {
  return static_cast<std::byte*>(const_cast<void*>(buffer));
}

// Copies the data of `count` values to `to`, without what lies between; count * size_bytes.
void pack(MPI_Datatype type, const void* buffer, std::size_t count, std::byte* to);
// The other way. `bytes` may end in the middle of a value.
void unpack(MPI_Datatype type, const std::byte* from, std::size_t bytes, void* buffer);

// A request or another type uses it; it may be freed meanwhile.
void add_reference(MPI_Datatype type);
void drop(MPI_Datatype type);

}  // namespace rejoin::pmpi
