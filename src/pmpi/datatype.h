// Datatypes: what communication needs of them, and what the files datatype*.cc share.
#pragma once

#include "pmpi/context.h"
#include "pmpi/handles.h"

namespace rejoin::pmpi {

// Copies `count` values to `to` (count * extent_bytes) and clears the padding in them: what the
// program contributes to a reduction is then a function of the values alone, also when it does it
// again. REQUIRES an element.
void copy_without_gaps(MPI_Datatype type, const void* from, std::size_t count, std::byte* to);

// Whether the data of any number of values is one piece of memory, and where that begins.
inline bool is_contiguous(MPI_Datatype type) { return type->contiguous; }
inline std::byte* first_byte(MPI_Datatype type, const void* buffer) {
  return static_cast<std::byte*>(const_cast<void*>(buffer)) + type->first_byte;
}

// Copies the data of `count` values to `to`, without gaps: count * size_bytes.
void pack(MPI_Datatype type, const void* buffer, std::size_t count, std::byte* to);
// Copies `bytes` of packed data, which begin `skip` bytes after the first value's data, into the
// values at `buffer`. Both ends may be within a value.
void unpack(MPI_Datatype type, const std::byte* from, std::size_t bytes, void* buffer,
            std::size_t skip = 0);

// Called when a request or another type begins to use the type. The program may free its handle
// meanwhile; drop() ends the use.
void add_reference(MPI_Datatype type);
void drop(MPI_Datatype type);

// Returns the type map. REQUIRES has_map(type): some predefined types have no values.
const datatypes::Type& map_of(MPI_Datatype type);
inline bool has_map(MPI_Datatype type) {
  return !type->predefined || type->element != engine::Element::kNone;
}
// Whether this is MPI_LB or MPI_UB of MPI 1: bounds of a type that the program sets.
bool is_lower_mark(MPI_Datatype type);
bool is_upper_mark(MPI_Datatype type);
// Whether MPI_Type_create_f90_* has made the type, which then counts as predefined.
bool is_f90(MPI_Datatype type);
// Returns the type's code in the signature of a reduction.
std::uint16_t type_code(MPI_Datatype type);

// The arguments of the function that made a type, as MPI_Type_get_contents gives them back.
struct Contents {
  int combiner;
  int integer_count, address_count, type_count;
  int* integers;
  MPI_Aint* addresses;
  MPI_Datatype* types;  // with a reference to each
};

inline constexpr datatypes::Memory kTypeMemory = {allocate, release};

// Raises the error of a function that was given a null or freed type.
int fail_no_type(const char* name);
inline int check_type(const char* name, MPI_Datatype type) {
  require_active(name);
  return is_type(type) ? MPI_SUCCESS : fail_no_type(name);
}

// Makes contents with room for the arguments.
Contents* make_contents(int combiner, int integers, int addresses, int types);
// Makes the new type, which owns `contents` (all arguments) and the map from now on. A null map:
// the type is too large, which is raised as an error.
int make_type(const char* name, datatypes::Type* map, Contents* contents, MPI_Datatype* newtype);

}  // namespace rejoin::pmpi
