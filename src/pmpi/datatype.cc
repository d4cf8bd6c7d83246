// MPI_Type_*: the predefined datatypes, and contiguous types and copies made of them.
#include "pmpi/datatype.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <bit>

#include "api.h"
#include "pmpi/context.h"
#include "pmpi/errors.h"
#include "pmpi/fortran.h"

namespace rejoin::pmpi {
namespace {

int check_type(const char* name, MPI_Datatype type) {
  require_active(name);
  if (is_type(type)) return MPI_SUCCESS;
  return fail(name, MPI_COMM_WORLD, MPI_ERR_TYPE,
              "the datatype is MPI_DATATYPE_NULL, or it was freed");
}

MPI_Datatype derive(MPI_Datatype base, int count, int combiner) {
  MPI_Datatype t = make<ompi_datatype_t>();
  *t = *base;
  t->size_bytes = base->size_bytes * static_cast<std::size_t>(count);
  t->extent_bytes = base->extent_bytes * static_cast<std::size_t>(count);
  t->elements = base->elements * static_cast<std::size_t>(count);
  t->base = base;
  t->contiguous_count = count;
  t->combiner = combiner;
  t->handles = 1;
  t->references = 1;
  t->fortran = kNoFortranHandle;
  t->predefined = false;
  t->name[0] = '\0';
  if (!base->predefined) ++base->references;
  return t;
}

// Bytes from the first to behind the last byte of data. Only some of the predefined pairs end in a
// gap.
std::size_t true_extent(MPI_Datatype t) {
  std::size_t gap_bytes = 0;
  switch (t->element) {
    case engine::Element::kDoubleInt:
    case engine::Element::kLongInt:
      gap_bytes = 4;
      break;
    case engine::Element::kLongDoubleInt:
      gap_bytes = 12;
      break;
    default:
      break;
  }
  return t->elements == 0 ? 0 : t->extent_bytes - gap_bytes;
}

template <class Integer>
int get_extents(const char* name, MPI_Datatype type, Integer* lb, Integer* extent, bool is_true) {
  if (const int code = check_type(name, type)) return code;
  *lb = 0;
  *extent = static_cast<Integer>(is_true ? true_extent(type) : type->extent_bytes);
  return MPI_SUCCESS;
}

}  // namespace

void add_reference(MPI_Datatype t) {
  if (!t->predefined) ++t->references;
}

void drop(MPI_Datatype t) {
  if (t->predefined || --t->references > 0) return;
  MPI_Datatype base = t->base;
  destroy(t);
  drop(base);
}

// Only predefined pairs have gaps, so these are not on a path that matters.
void pack(MPI_Datatype type, const void* buffer, std::size_t count, std::byte* to) {
  const std::size_t element = engine::element_bytes(type->element);
  const auto* from = static_cast<const std::byte*>(buffer);
  for (std::size_t i = 0; i < count * type->elements; ++i, from += element) {
    for (std::size_t at = 0; at < element; ++at) {
      if ((type->gaps >> at & 1) == 0) *to++ = from[at];
    }
  }
}

void unpack(MPI_Datatype type, const std::byte* from, std::size_t bytes, void* buffer) {
  const std::size_t element = engine::element_bytes(type->element);
  auto* to = static_cast<std::byte*>(buffer);
  const std::byte* end = from + bytes;
  for (; from < end; to += element) {
    for (std::size_t at = 0; at < element && from < end; ++at) {
      if ((type->gaps >> at & 1) == 0) to[at] = *from++;
    }
  }
}

void copy_without_gaps(MPI_Datatype type, const void* from, std::size_t count, std::byte* to) {
  const std::size_t element = engine::element_bytes(type->element);
  const std::size_t elements = count * type->elements;
  memcpy(to, from, elements * element);
  for (std::size_t i = 0; i < elements; ++i, to += element) {
    for (std::uint32_t gaps = type->gaps; gaps != 0; gaps &= gaps - 1) {
      to[std::countr_zero(gaps)] = std::byte{0};
    }
  }
}

int type_contiguous(int count, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  constexpr const char* kName = "MPI_Type_contiguous";
  if (const int code = check_type(kName, oldtype)) return code;
  if (count < 0) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_COUNT, "the count is %d; it must be 0 or more",
                count);
  }
  *newtype = derive(oldtype, count, MPI_COMBINER_CONTIGUOUS);
  (*newtype)->committed = false;
  (*newtype)->type_class = TypeClass::kNoReduction;
  return MPI_SUCCESS;
}

int type_dup(MPI_Datatype type, MPI_Datatype* newtype) {
  if (const int code = check_type("MPI_Type_dup", type)) return code;
  *newtype = derive(type, 1, MPI_COMBINER_DUP);
  return MPI_SUCCESS;
}

int type_commit(MPI_Datatype* type) {
  if (const int code = check_type("MPI_Type_commit", type == nullptr ? nullptr : *type))
    return code;
  (*type)->committed = (*type)->element != engine::Element::kNone;
  return MPI_SUCCESS;
}

int type_free(MPI_Datatype* type) {
  constexpr const char* kName = "MPI_Type_free";
  if (const int code = check_type(kName, type == nullptr ? nullptr : *type)) return code;
  if ((*type)->predefined) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_TYPE, "%s is predefined and cannot be freed",
                (*type)->name);
  }
  if (--(*type)->handles == 0) {
    forget(&context->types, (*type)->fortran);
    (*type)->fortran = kNoFortranHandle;
    (*type)->magic = Magic::kNone;
  }
  drop(*type);
  *type = MPI_DATATYPE_NULL;
  return MPI_SUCCESS;
}

int type_size(MPI_Datatype type, int* size) {
  if (const int code = check_type("MPI_Type_size", type)) return code;
  *size = type->size_bytes > INT_MAX ? MPI_UNDEFINED : static_cast<int>(type->size_bytes);
  return MPI_SUCCESS;
}
int type_size_x(MPI_Datatype type, MPI_Count* size) {
  if (const int code = check_type("MPI_Type_size_x", type)) return code;
  *size = static_cast<MPI_Count>(type->size_bytes);
  return MPI_SUCCESS;
}

int type_get_extent(MPI_Datatype type, MPI_Aint* lb, MPI_Aint* extent) {
  return get_extents("MPI_Type_get_extent", type, lb, extent, false);
}
int type_get_extent_x(MPI_Datatype type, MPI_Count* lb, MPI_Count* extent) {
  return get_extents("MPI_Type_get_extent_x", type, lb, extent, false);
}
int type_get_true_extent(MPI_Datatype datatype, MPI_Aint* true_lb, MPI_Aint* true_extent) {
  return get_extents("MPI_Type_get_true_extent", datatype, true_lb, true_extent, true);
}
int type_get_true_extent_x(MPI_Datatype datatype, MPI_Count* true_lb, MPI_Count* true_extent) {
  return get_extents("MPI_Type_get_true_extent_x", datatype, true_lb, true_extent, true);
}
int type_extent(MPI_Datatype type, MPI_Aint* extent) {
  MPI_Aint lb;
  return get_extents("MPI_Type_extent", type, &lb, extent, false);
}
int type_lb(MPI_Datatype type, MPI_Aint* lb) {
  MPI_Aint extent;
  return get_extents("MPI_Type_lb", type, lb, &extent, false);
}
int type_ub(MPI_Datatype mtype, MPI_Aint* ub) {
  MPI_Aint lb;
  return get_extents("MPI_Type_ub", mtype, &lb, ub, false);
}

int type_set_name(MPI_Datatype type, const char* type_name) {
  if (const int code = check_type("MPI_Type_set_name", type)) return code;
  snprintf(type->name, sizeof type->name, "%s", type_name);
  return MPI_SUCCESS;
}

int type_get_name(MPI_Datatype type, char* type_name, int* resultlen) {
  if (const int code = check_type("MPI_Type_get_name", type)) return code;
  strcpy(type_name, type->name);
  *resultlen = static_cast<int>(strlen(type_name));
  return MPI_SUCCESS;
}

int type_get_envelope(MPI_Datatype type, int* num_integers, int* num_addresses, int* num_datatypes,
                      int* combiner) {
  if (const int code = check_type("MPI_Type_get_envelope", type)) return code;
  *num_integers = type->combiner == MPI_COMBINER_CONTIGUOUS;
  *num_addresses = 0;
  *num_datatypes = type->combiner != MPI_COMBINER_NAMED;
  *combiner = type->combiner;
  return MPI_SUCCESS;
}

int type_get_contents(MPI_Datatype mtype, int max_integers, int, int max_datatypes,
                      int array_of_integers[], MPI_Aint[], MPI_Datatype array_of_datatypes[]) {
  constexpr const char* kName = "MPI_Type_get_contents";
  if (const int code = check_type(kName, mtype)) return code;
  const bool contiguous = mtype->combiner == MPI_COMBINER_CONTIGUOUS;
  if (mtype->combiner == MPI_COMBINER_NAMED) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_TYPE, "%s is predefined and has no contents",
                mtype->name);
  }
  if (max_integers < contiguous || max_datatypes < 1) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_ARG,
                "the arrays are shorter than MPI_Type_get_envelope says");
  }
  if (contiguous) array_of_integers[0] = mtype->contiguous_count;
  MPI_Datatype base = mtype->base;
  array_of_datatypes[0] = base;
  if (!base->predefined) {  // a handle of its own, that the program frees
    base->magic = Magic::kType;
    ++base->handles;
    ++base->references;
  }
  return MPI_SUCCESS;
}

int type_match_size(int typeclass, int size, MPI_Datatype* type) {
  constexpr const char* kName = "MPI_Type_match_size";
  require_active(kName);
  struct Match {
    int type_class, size;
    MPI_Datatype type;
  };
  const Match matches[] = {
      {MPI_TYPECLASS_INTEGER, 1, MPI_INTEGER1},   {MPI_TYPECLASS_INTEGER, 2, MPI_INTEGER2},
      {MPI_TYPECLASS_INTEGER, 4, MPI_INTEGER4},   {MPI_TYPECLASS_INTEGER, 8, MPI_INTEGER8},
      {MPI_TYPECLASS_REAL, 4, MPI_REAL4},         {MPI_TYPECLASS_REAL, 8, MPI_REAL8},
      {MPI_TYPECLASS_REAL, 16, MPI_REAL16},       {MPI_TYPECLASS_COMPLEX, 8, MPI_COMPLEX8},
      {MPI_TYPECLASS_COMPLEX, 16, MPI_COMPLEX16}, {MPI_TYPECLASS_COMPLEX, 32, MPI_COMPLEX32},
  };
  for (const Match& m : matches) {
    if (m.type_class == typeclass && m.size == size) {
      *type = m.type;
      return MPI_SUCCESS;
    }
  }
  return fail(kName, MPI_COMM_WORLD, MPI_ERR_ARG, "there is no type of %d bytes in this class",
              size);
}

int get_address(const void* location, MPI_Aint* address) {
  *address = reinterpret_cast<MPI_Aint>(location);
  return MPI_SUCCESS;
}
int address(void* location, MPI_Aint* to) { return get_address(location, to); }
MPI_Aint aint_add(MPI_Aint base, MPI_Aint disp) { return base + disp; }
MPI_Aint aint_diff(MPI_Aint addr1, MPI_Aint addr2) { return addr1 - addr2; }

int alloc_mem(MPI_Aint size, MPI_Info, void* baseptr) {
  constexpr const char* kName = "MPI_Alloc_mem";
  require_active(kName);
  if (size < 0) return fail(kName, MPI_COMM_WORLD, MPI_ERR_ARG, "the size is negative");
  // The size class is needed again: it stands in the cache line before the memory.
  const std::size_t bytes = static_cast<std::size_t>(size) + engine::kLine;
  void* memory = context->rank->arena().allocate(bytes);
  if (memory == nullptr) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_NO_MEM, "no memory for %lld bytes",
                static_cast<long long>(size));
  }
  *static_cast<std::size_t*>(memory) = bytes;
  *static_cast<void**>(baseptr) = static_cast<std::byte*>(memory) + engine::kLine;
  return MPI_SUCCESS;
}

int free_mem(void* base) {
  require_active("MPI_Free_mem");
  if (base == nullptr) return MPI_SUCCESS;
  std::byte* memory = static_cast<std::byte*>(base) - engine::kLine;
  release(memory, *reinterpret_cast<std::size_t*>(memory));
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
