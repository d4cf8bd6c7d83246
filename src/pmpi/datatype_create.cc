// The functions that make a datatype from others. They check their arguments, store them for
// MPI_Type_get_contents, and convert them to bytes.
#include <limits.h>

#include "api.h"
#include "datatypes/constructors.h"
#include "pmpi/attributes.h"
#include "pmpi/datatype.h"
#include "pmpi/errors.h"

namespace rejoin::pmpi {
namespace {

using datatypes::Maker;

int fail_argument(const char* name, const char* what, int value) {
  return fail(name, MPI_COMM_WORLD, MPI_ERR_ARG, "the %s is %d; it must be 0 or more", what, value);
}

// Raises an error if `type` cannot be a part of another type.
int check_part(const char* name, MPI_Datatype type) {
  if (!is_type(type)) return fail_no_type(name);
  if (has_map(type)) return MPI_SUCCESS;
  return fail(name, MPI_COMM_WORLD, MPI_ERR_TYPE, "%s does not exist on this platform", type->name);
}

// Checks the arguments that most of these functions have.
int check_old(const char* name, int count, MPI_Datatype old) {
  require_active(name);
  if (count < 0) {
    return fail(name, MPI_COMM_WORLD, MPI_ERR_COUNT, "the count is %d; it must be 0 or more",
                count);
  }
  return check_part(name, old);
}

int check_array(const char* name, const char* what, int count, const void* array) {
  if (count == 0 || array != nullptr) return MPI_SUCCESS;
  return fail(name, MPI_COMM_WORLD, MPI_ERR_ARG, "the %s are a null pointer", what);
}

int check_lengths(const char* name, int count, const int lengths[]) {
  if (const int code = check_array(name, "block lengths", count, lengths)) return code;
  for (int i = 0; i < count; ++i) {
    if (lengths[i] < 0) return fail_argument(name, "block length", lengths[i]);
  }
  return MPI_SUCCESS;
}

// Fills the integers of `contents` one after the other.
class Integers {
 public:
  explicit Integers(Contents* c) : next_(c->integers) {}
  Integers& operator<<(int value) {
    *next_++ = value;
    return *this;
  }
  void add(const int values[], int count) {
    for (int i = 0; i < count; ++i) *next_++ = values[i];
  }

 private:
  int* next_;
};

Contents* contents_of(int combiner, int integers, int addresses, MPI_Datatype old) {
  Contents* c = make_contents(combiner, integers, addresses, 1);
  c->types[0] = old;
  return c;
}

std::uint64_t plain(int count) { return static_cast<std::uint64_t>(count); }

// Converts a displacement to bytes. False: it is too large (an extent may be up to 2^63 - 1).
bool scale(int displacement, MPI_Datatype old, std::int64_t* bytes) {
  return !__builtin_mul_overflow(std::int64_t{displacement}, old->extent_bytes, bytes);
}

int make_vector(const char* name, int combiner, int count, int block, MPI_Aint stride,
                MPI_Datatype old, MPI_Datatype* newtype) {
  if (const int code = check_old(name, count, old)) return code;
  if (block < 0) return fail_argument(name, "block length", block);
  const bool in_bytes = combiner == MPI_COMBINER_HVECTOR;
  Contents* c = contents_of(combiner, in_bytes ? 2 : 3, in_bytes ? 1 : 0, old);
  Integers integers(c);
  integers << count << block;
  std::int64_t bytes = stride;
  bool fits = true;
  if (in_bytes) {
    c->addresses[0] = stride;
  } else {
    integers << static_cast<int>(stride);
    fits = scale(static_cast<int>(stride), old, &bytes);
  }
  datatypes::Type* map =
      fits ? datatypes::make_vector(kTypeMemory, plain(count), plain(block), bytes, map_of(old))
           : nullptr;
  return make_type(name, map, c, newtype);
}

// Makes an indexed type. Block i has length(i) values. displacement(i, &at) gives its place in
// bytes; false: it is too large.
template <class Length, class Displacement>
datatypes::Type* make_indexed(int count, MPI_Datatype old, Length length,
                              Displacement displacement) {
  Maker maker(kTypeMemory);
  maker.reserve(plain(count));
  const datatypes::Type& map = map_of(old);
  for (int i = 0; i < count; ++i) {
    std::int64_t at;
    if (!displacement(i, &at)) return nullptr;
    maker.add_block(at, plain(length(i)), map);
  }
  return maker.finish();
}

int make_hindexed(const char* name, int count, const int lengths[], const MPI_Aint displacements[],
                  MPI_Datatype old, MPI_Datatype* newtype) {
  if (const int code = check_old(name, count, old)) return code;
  if (const int code = check_lengths(name, count, lengths)) return code;
  if (const int code = check_array(name, "displacements", count, displacements)) return code;
  Contents* c = contents_of(MPI_COMBINER_HINDEXED, 1 + count, count, old);
  (Integers(c) << count).add(lengths, count);
  for (int i = 0; i < count; ++i) c->addresses[i] = displacements[i];
  datatypes::Type* map = make_indexed(
      count, old, [&](int i) { return lengths[i]; },
      [&](int i, std::int64_t* at) {
        *at = displacements[i];
        return true;
      });
  return make_type(name, map, c, newtype);
}

int make_struct(const char* name, int count, const int lengths[], const MPI_Aint displacements[],
                const MPI_Datatype types[], MPI_Datatype* newtype) {
  if (const int code = check_old(name, count, MPI_BYTE)) return code;
  if (const int code = check_lengths(name, count, lengths)) return code;
  if (const int code = check_array(name, "displacements", count, displacements)) return code;
  if (const int code = check_array(name, "datatypes", count, types)) return code;
  for (int i = 0; i < count; ++i) {
    if (is_lower_mark(types[i]) || is_upper_mark(types[i])) continue;
    if (const int code = check_part(name, types[i])) return code;
  }
  Contents* c = make_contents(MPI_COMBINER_STRUCT, 1 + count, count, count);
  (Integers(c) << count).add(lengths, count);
  Maker maker(kTypeMemory);
  maker.reserve(plain(count));
  for (int i = 0; i < count; ++i) {
    c->addresses[i] = displacements[i];
    c->types[i] = types[i];
    if (is_lower_mark(types[i])) {
      maker.mark_lower(displacements[i]);
    } else if (is_upper_mark(types[i])) {
      maker.mark_upper(displacements[i]);
    } else {
      maker.add_block(displacements[i], plain(lengths[i]), map_of(types[i]));
    }
  }
  return make_type(name, maker.finish(), c, newtype);
}

int check_order(const char* name, int order) {
  if (order == MPI_ORDER_C || order == MPI_ORDER_FORTRAN) return MPI_SUCCESS;
  return fail(name, MPI_COMM_WORLD, MPI_ERR_ARG,
              "the order is %d; it must be MPI_ORDER_C or MPI_ORDER_FORTRAN", order);
}

int check_dimensions(const char* name, int dimensions) {
  if (dimensions > 0) return MPI_SUCCESS;
  return fail(name, MPI_COMM_WORLD, MPI_ERR_ARG, "there are %d dimensions; at least 1 is needed",
              dimensions);
}

// Checks the arguments for dimension `d` of a distributed array.
int check_distribution(const char* name, int d, int size, int kind, int argument, int processes) {
  const auto wrong = [&](const char* what) {
    return fail(name, MPI_COMM_WORLD, MPI_ERR_ARG, "dimension %d: %s", d, what);
  };
  if (size < 1) return wrong("its size must be 1 or more");
  if (processes < 1) return wrong("its number of processes must be 1 or more");
  if (kind != MPI_DISTRIBUTE_BLOCK && kind != MPI_DISTRIBUTE_CYCLIC &&
      kind != MPI_DISTRIBUTE_NONE) {
    return wrong("its distribution must be one of MPI_DISTRIBUTE_BLOCK, _CYCLIC and _NONE");
  }
  if (kind == MPI_DISTRIBUTE_NONE && processes != 1) {
    return wrong("its number of processes must be 1, because it is not distributed");
  }
  if (kind == MPI_DISTRIBUTE_NONE || argument == MPI_DISTRIBUTE_DFLT_DARG) return MPI_SUCCESS;
  if (argument < 1) return wrong("its argument must be 1 or more, or MPI_DISTRIBUTE_DFLT_DARG");
  if (kind == MPI_DISTRIBUTE_BLOCK && std::int64_t{argument} * processes < size) {
    return wrong("its blocks (argument times number of processes) have fewer elements than it");
  }
  return MPI_SUCCESS;
}

int block_of(int size, int kind, int argument, int processes) {
  if (kind == MPI_DISTRIBUTE_NONE) return size;
  if (argument != MPI_DISTRIBUTE_DFLT_DARG) return argument;
  return kind == MPI_DISTRIBUTE_CYCLIC ? 1 : (size - 1) / processes + 1;
}

}  // namespace

int type_contiguous(int count, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  constexpr const char* kName = "MPI_Type_contiguous";
  if (const int code = check_old(kName, count, oldtype)) return code;
  Contents* c = contents_of(MPI_COMBINER_CONTIGUOUS, 1, 0, oldtype);
  Integers(c) << count;
  return make_type(kName, datatypes::make_contiguous(kTypeMemory, plain(count), map_of(oldtype)), c,
                   newtype);
}

int type_vector(int count, int blocklength, int stride, MPI_Datatype oldtype,
                MPI_Datatype* newtype) {
  return make_vector("MPI_Type_vector", MPI_COMBINER_VECTOR, count, blocklength, stride, oldtype,
                     newtype);
}
int type_create_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype,
                        MPI_Datatype* newtype) {
  return make_vector("MPI_Type_create_hvector", MPI_COMBINER_HVECTOR, count, blocklength, stride,
                     oldtype, newtype);
}
int type_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype,
                 MPI_Datatype* newtype) {
  return make_vector("MPI_Type_hvector", MPI_COMBINER_HVECTOR, count, blocklength, stride, oldtype,
                     newtype);
}

int type_indexed(int count, const int array_of_blocklengths[], const int array_of_displacements[],
                 MPI_Datatype oldtype, MPI_Datatype* newtype) {
  constexpr const char* kName = "MPI_Type_indexed";
  if (const int code = check_old(kName, count, oldtype)) return code;
  if (const int code = check_lengths(kName, count, array_of_blocklengths)) return code;
  if (const int code = check_array(kName, "displacements", count, array_of_displacements)) {
    return code;
  }
  Contents* c = contents_of(MPI_COMBINER_INDEXED, 1 + 2 * count, 0, oldtype);
  Integers integers(c);
  (integers << count).add(array_of_blocklengths, count);
  integers.add(array_of_displacements, count);
  datatypes::Type* map = make_indexed(
      count, oldtype, [&](int i) { return array_of_blocklengths[i]; },
      [&](int i, std::int64_t* at) { return scale(array_of_displacements[i], oldtype, at); });
  return make_type(kName, map, c, newtype);
}
int type_create_hindexed(int count, const int array_of_blocklengths[],
                         const MPI_Aint array_of_displacements[], MPI_Datatype oldtype,
                         MPI_Datatype* newtype) {
  return make_hindexed("MPI_Type_create_hindexed", count, array_of_blocklengths,
                       array_of_displacements, oldtype, newtype);
}
int type_hindexed(int count, int array_of_blocklengths[], MPI_Aint array_of_displacements[],
                  MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return make_hindexed("MPI_Type_hindexed", count, array_of_blocklengths, array_of_displacements,
                       oldtype, newtype);
}

int type_create_indexed_block(int count, int blocklength, const int array_of_displacements[],
                              MPI_Datatype oldtype, MPI_Datatype* newtype) {
  constexpr const char* kName = "MPI_Type_create_indexed_block";
  if (const int code = check_old(kName, count, oldtype)) return code;
  if (blocklength < 0) return fail_argument(kName, "block length", blocklength);
  if (const int code = check_array(kName, "displacements", count, array_of_displacements)) {
    return code;
  }
  Contents* c = contents_of(MPI_COMBINER_INDEXED_BLOCK, 2 + count, 0, oldtype);
  (Integers(c) << count << blocklength).add(array_of_displacements, count);
  datatypes::Type* map = make_indexed(
      count, oldtype, [&](int) { return blocklength; },
      [&](int i, std::int64_t* at) { return scale(array_of_displacements[i], oldtype, at); });
  return make_type(kName, map, c, newtype);
}

int type_create_hindexed_block(int count, int blocklength, const MPI_Aint array_of_displacements[],
                               MPI_Datatype oldtype, MPI_Datatype* newtype) {
  constexpr const char* kName = "MPI_Type_create_hindexed_block";
  if (const int code = check_old(kName, count, oldtype)) return code;
  if (blocklength < 0) return fail_argument(kName, "block length", blocklength);
  if (const int code = check_array(kName, "displacements", count, array_of_displacements)) {
    return code;
  }
  Contents* c = contents_of(MPI_COMBINER_HINDEXED_BLOCK, 2, count, oldtype);
  Integers(c) << count << blocklength;
  for (int i = 0; i < count; ++i) c->addresses[i] = array_of_displacements[i];
  datatypes::Type* map = make_indexed(
      count, oldtype, [&](int) { return blocklength; },
      [&](int i, std::int64_t* at) {
        *at = array_of_displacements[i];
        return true;
      });
  return make_type(kName, map, c, newtype);
}

int type_create_struct(int count, const int array_of_block_lengths[],
                       const MPI_Aint array_of_displacements[], const MPI_Datatype array_of_types[],
                       MPI_Datatype* newtype) {
  return make_struct("MPI_Type_create_struct", count, array_of_block_lengths,
                     array_of_displacements, array_of_types, newtype);
}
int type_struct(int count, int array_of_blocklengths[], MPI_Aint array_of_displacements[],
                MPI_Datatype array_of_types[], MPI_Datatype* newtype) {
  return make_struct("MPI_Type_struct", count, array_of_blocklengths, array_of_displacements,
                     array_of_types, newtype);
}

int type_create_subarray(int ndims, const int size_array[], const int subsize_array[],
                         const int start_array[], int order, MPI_Datatype oldtype,
                         MPI_Datatype* newtype) {
  constexpr const char* kName = "MPI_Type_create_subarray";
  if (const int code = check_old(kName, 0, oldtype)) return code;
  if (const int code = check_dimensions(kName, ndims)) return code;
  if (const int code = check_order(kName, order)) return code;
  if (const int code = check_array(kName, "sizes", ndims, size_array)) return code;
  if (const int code = check_array(kName, "subsizes", ndims, subsize_array)) return code;
  if (const int code = check_array(kName, "starts", ndims, start_array)) return code;
  for (int d = 0; d < ndims; ++d) {
    const int size = size_array[d], part = subsize_array[d], start = start_array[d];
    if (size >= 1 && part >= 1 && part <= size && start >= 0 && start <= size - part) continue;
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_ARG,
                "dimension %d: the subarray (%d elements from element %d on) is not within the "
                "array (%d elements)",
                d, part, start, size);
  }
  Contents* c = contents_of(MPI_COMBINER_SUBARRAY, 3 * ndims + 2, 0, oldtype);
  Integers integers(c);
  integers << ndims;
  for (const int* array : {size_array, subsize_array, start_array}) integers.add(array, ndims);
  integers << order;
  return make_type(kName,
                   datatypes::make_subarray(kTypeMemory, ndims, size_array, subsize_array,
                                            start_array, order == MPI_ORDER_C, map_of(oldtype)),
                   c, newtype);
}

int type_create_darray(int size, int rank, int ndims, const int gsize_array[],
                       const int distrib_array[], const int darg_array[], const int psize_array[],
                       int order, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  constexpr const char* kName = "MPI_Type_create_darray";
  if (const int code = check_old(kName, 0, oldtype)) return code;
  if (const int code = check_dimensions(kName, ndims)) return code;
  if (const int code = check_order(kName, order)) return code;
  for (const int* array : {gsize_array, distrib_array, darg_array, psize_array}) {
    if (const int code = check_array(kName, "descriptions of dimensions", ndims, array)) {
      return code;
    }
  }
  if (size < 1 || rank < 0 || rank >= size) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_ARG,
                "the rank is %d, which is not one of %d processes", rank, size);
  }
  std::int64_t processes = 1;
  for (int d = 0; d < ndims; ++d) {
    const int code = check_distribution(kName, d, gsize_array[d], distrib_array[d], darg_array[d],
                                        psize_array[d]);
    if (code != MPI_SUCCESS) return code;
    if (processes <= size) processes *= psize_array[d];
  }
  if (processes != size) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_ARG,
                "the product of the numbers of processes of all dimensions is not %d, the number "
                "of processes",
                size);
  }
  Scratch memory(plain(ndims) * sizeof(datatypes::Distribution));
  auto* dealt = memory.as<datatypes::Distribution>();
  int place = rank;  // the number in the grid of processes, whose last dimension varies fastest
  for (int d = ndims - 1; d >= 0; --d) {
    dealt[d] = {gsize_array[d],
                block_of(gsize_array[d], distrib_array[d], darg_array[d], psize_array[d]),
                psize_array[d], place % psize_array[d]};
    place /= psize_array[d];
  }
  Contents* c = contents_of(MPI_COMBINER_DARRAY, 4 * ndims + 4, 0, oldtype);
  Integers integers(c);
  integers << size << rank << ndims;
  for (const int* array : {gsize_array, distrib_array, darg_array, psize_array}) {
    integers.add(array, ndims);
  }
  integers << order;
  return make_type(
      kName,
      datatypes::make_darray(kTypeMemory, ndims, dealt, order == MPI_ORDER_C, map_of(oldtype)), c,
      newtype);
}

int type_create_resized(MPI_Datatype oldtype, MPI_Aint lb, MPI_Aint extent, MPI_Datatype* newtype) {
  constexpr const char* kName = "MPI_Type_create_resized";
  if (const int code = check_old(kName, 0, oldtype)) return code;
  Contents* c = contents_of(MPI_COMBINER_RESIZED, 0, 2, oldtype);
  c->addresses[0] = lb;
  c->addresses[1] = extent;
  return make_type(kName, datatypes::make_resized(kTypeMemory, map_of(oldtype), lb, extent), c,
                   newtype);
}

int type_dup(MPI_Datatype type, MPI_Datatype* newtype) {
  constexpr const char* kName = "MPI_Type_dup";
  if (const int code = check_old(kName, 0, type)) return code;
  Contents* c = contents_of(MPI_COMBINER_DUP, 0, 0, type);
  if (const int code =
          make_type(kName, datatypes::make_dup(kTypeMemory, map_of(type)), c, newtype)) {
    return code;
  }
  (*newtype)->committed = type->committed;
  const int code = copy_attributes(type, *newtype);
  if (code == MPI_SUCCESS) return code;
  (*newtype)->magic = Magic::kNone;
  drop(*newtype);
  *newtype = MPI_DATATYPE_NULL;
  return fail(kName, MPI_COMM_WORLD, code, "the copy function of an attribute returned %d", code);
}

}  // namespace rejoin::pmpi
