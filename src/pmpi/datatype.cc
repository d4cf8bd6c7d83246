// Datatypes: the handles and what they refer to, and the maps of the predefined ones.
#include "pmpi/datatype.h"

#include <stdio.h>
#include <string.h>

#include <bit>

#include "api.h"
#include "copy/copy.h"
#include "datatypes/constructors.h"
#include "datatypes/copy.h"
#include "pmpi/attributes.h"
#include "pmpi/errors.h"
#include "pmpi/fortran.h"

namespace rejoin::pmpi {
namespace {

using datatypes::Basic;
using datatypes::External;
using engine::Element;

enum Predefined {
#define X(object, name, type_class, element, size, gaps) k_##object,
#include "pmpi/datatypes.def"
#undef X
  kPredefinedCount,
};

Basic basic_of(Element element) {
  const auto bytes = static_cast<std::uint8_t>(engine::element_bytes(element));
  Basic b = {static_cast<std::uint8_t>(element), bytes, bytes, 1, bytes, External::kSame};
  switch (element) {
    case Element::kComplexLongDouble:
      b.external = External::kQuad;
      [[fallthrough]];
    case Element::kComplexFloat:
    case Element::kComplexDouble:
    case Element::kComplexFloat128:
      b.parts = 2;
      b.alignment = static_cast<std::uint8_t>(bytes / 2);
      break;
    case Element::kLongDouble:
      b.external = External::kQuad;
      break;
    default:
      break;
  }
  return b;
}

// Returns basic type `b` for a C type that is narrower in external32.
Basic narrowed(Basic b, std::uint8_t external_bytes, External external) {
  b.external_bytes = external_bytes;
  b.external = external;
  return b;
}

const datatypes::Type* make_pair(const Basic& first, const Basic& second) {
  datatypes::Maker maker(kTypeMemory);
  const std::int64_t at =
      (first.bytes + second.alignment - 1) / second.alignment * std::int64_t{second.alignment};
  datatypes::Type* types[2] = {datatypes::make_basic(kTypeMemory, first),
                               datatypes::make_basic(kTypeMemory, second)};
  for (int i = 0; i < 2; ++i) {
    maker.own(types[i]);
    maker.add_block(i * at, 1, *types[i]);
  }
  return maker.finish();
}

const datatypes::Type* make_predefined(int which, Element element) {
  const Basic integer = basic_of(Element::kInt32);
  const Basic long_integer = narrowed(basic_of(Element::kInt64), 4, External::kSigned);
  switch (which) {
    case k_ompi_mpi_long:
      return datatypes::make_basic(kTypeMemory, long_integer);
    case k_ompi_mpi_unsigned_long:
      return datatypes::make_basic(kTypeMemory,
                                   narrowed(basic_of(Element::kUint64), 4, External::kUnsigned));
    case k_ompi_mpi_wchar:
      return datatypes::make_basic(kTypeMemory,
                                   narrowed(basic_of(Element::kInt32), 2, External::kUnsigned));
    case k_ompi_mpi_2cplex:
      return make_pair(basic_of(Element::kComplexFloat), basic_of(Element::kComplexFloat));
    case k_ompi_mpi_2dblcplex:
      return make_pair(basic_of(Element::kComplexDouble), basic_of(Element::kComplexDouble));
    default:
      break;
  }
  switch (element) {
    case Element::kFloatInt:
      return make_pair(basic_of(Element::kFloat), integer);
    case Element::kDoubleInt:
      return make_pair(basic_of(Element::kDouble), integer);
    case Element::kLongInt:
      return make_pair(long_integer, integer);
    case Element::kIntInt:
      return make_pair(integer, integer);
    case Element::kShortInt:
      return make_pair(basic_of(Element::kInt16), integer);
    case Element::kLongDoubleInt:
      return make_pair(basic_of(Element::kLongDouble), integer);
    case Element::kFloatFloat:
      return make_pair(basic_of(Element::kFloat), basic_of(Element::kFloat));
    case Element::kDoubleDouble:
      return make_pair(basic_of(Element::kDouble), basic_of(Element::kDouble));
    default:
      return datatypes::make_basic(kTypeMemory, basic_of(element));
  }
}

std::size_t bytes_of(const Contents& c) {
  return sizeof c + static_cast<std::size_t>(c.address_count) * sizeof(MPI_Aint) +
         static_cast<std::size_t>(c.type_count) * sizeof(MPI_Datatype) +
         static_cast<std::size_t>(c.integer_count) * sizeof(int);
}

// Sets the members of `t` that reductions use.
void set_reduced(MPI_Datatype t) {
  const Contents& c = *t->contents;
  const bool alike = c.combiner == MPI_COMBINER_DUP || c.combiner == MPI_COMBINER_CONTIGUOUS;
  if (alike && c.types[0]->element != Element::kNone) {
    const MPI_Datatype base = c.types[0];
    const int count = c.combiner == MPI_COMBINER_DUP ? 1 : c.integers[0];
    t->element = base->element;
    t->elements = base->elements * static_cast<std::size_t>(count);
    t->gaps = base->gaps;
    if (c.combiner == MPI_COMBINER_DUP) t->type_class = base->type_class;
    t->reduced_bytes = static_cast<std::size_t>(t->extent_bytes);
    return;
  }
  const datatypes::Bounds& data = t->map->true_bounds();
  const std::int64_t span =
      data.upper - (t->contiguous ? data.lower : data.lower & -16);  // operand_offset()
  if (t->size_bytes == 0) {
    t->reduced_bytes = 0;
  } else if (t->extent_bytes >= span) {
    t->reduced_bytes = static_cast<std::size_t>(t->extent_bytes);
  } else {  // the data of neighbouring values is interleaved, or in falling order
    t->reduced_bytes = (static_cast<std::size_t>(span) + 15) / 16 * 16;
  }
}

}  // namespace

int fail_no_type(const char* name) {
  return fail(name, MPI_COMM_WORLD, MPI_ERR_TYPE,
              "the datatype is MPI_DATATYPE_NULL, or it was freed");
}

const datatypes::Type& map_of(MPI_Datatype t) {
  if (!t->predefined) return *t->map;
  if (context->maps == nullptr) {
    constexpr std::size_t kBytes = kPredefinedCount * sizeof *context->maps;
    context->maps = static_cast<const datatypes::Type**>(memset(allocate(kBytes), 0, kBytes));
  }
  const datatypes::Type*& map = context->maps[t->fortran];
  if (map == nullptr) map = make_predefined(t->fortran, t->element);
  return *map;
}

bool is_lower_mark(MPI_Datatype t) {
  return is_type(t) && t->predefined && t->fortran == k_ompi_mpi_lb;
}
bool is_upper_mark(MPI_Datatype t) {
  return is_type(t) && t->predefined && t->fortran == k_ompi_mpi_ub;
}

// The code of a derived type is 15 bits of a hash of its element sequence. Two sequences have the
// same code with a probability of 2^-15. Members that pass such types to one reduction then get no
// error, and each combines the others' bytes as its own type; likewise a replay that passes another
// type than the record has is then noticed only by its contribution.
std::uint16_t type_code(MPI_Datatype t) {
  if (t->element != Element::kNone) return static_cast<std::uint16_t>(t->element);
  return static_cast<std::uint16_t>(0x8000 | (t->map->signature().hash & 0x7fff));
}

void add_reference(MPI_Datatype t) {
  if (!t->predefined) ++t->references;
}

void drop(MPI_Datatype t) {
  if (t->predefined || --t->references > 0) return;
  Contents* c = t->contents;
  destroy(kTypeMemory, const_cast<datatypes::Type*>(t->map));
  destroy(t);
  for (int i = 0; i < c->type_count; ++i) drop(c->types[i]);
  release(c, bytes_of(*c));
}

void pack(MPI_Datatype type, const void* buffer, std::size_t count, std::byte* to) {
  if (count * type->size_bytes == 0) return;
  datatypes::pack(map_of(type), buffer, count, 0, to, count * type->size_bytes);
}

void unpack(MPI_Datatype type, const std::byte* from, std::size_t bytes, void* buffer,
            std::size_t skip) {
  if (bytes == 0 || type->size_bytes == 0) return;
  const std::size_t count = (skip + bytes + type->size_bytes - 1) / type->size_bytes;
  datatypes::unpack(map_of(type), from, bytes, buffer, count, skip);
}

void copy_without_gaps(MPI_Datatype type, const void* from, std::size_t count, std::byte* to) {
  const std::size_t element = engine::element_bytes(type->element);
  const std::size_t elements = count * type->elements;
  copy_payload(to, from, elements * element);
  for (std::size_t i = 0; i < elements; ++i, to += element) {
    for (std::uint32_t gaps = type->gaps; gaps != 0; gaps &= gaps - 1) {
      to[std::countr_zero(gaps)] = std::byte{0};
    }
  }
}

Contents* make_contents(int combiner, int integers, int addresses, int types) {
  Contents counts = {combiner, integers, addresses, types, nullptr, nullptr, nullptr};
  auto* c = static_cast<Contents*>(allocate(bytes_of(counts)));
  *c = counts;
  c->addresses = reinterpret_cast<MPI_Aint*>(c + 1);
  c->types = reinterpret_cast<MPI_Datatype*>(c->addresses + addresses);
  c->integers = reinterpret_cast<int*>(c->types + types);
  return c;
}

int make_type(const char* name, datatypes::Type* map, Contents* contents, MPI_Datatype* newtype) {
  if (map == nullptr) {
    release(contents, bytes_of(*contents));
    return fail(name, MPI_COMM_WORLD, MPI_ERR_ARG,
                "the type would reach over more than 2^63 - 1 bytes");
  }
  MPI_Datatype t = make<ompi_datatype_t>();
  t->magic = Magic::kType;
  t->size_bytes = map->size_bytes();
  t->extent_bytes = map->extent();
  t->first_byte = map->true_bounds().lower;
  t->map = map;
  t->contents = contents;
  t->handles = 1;
  t->references = 1;
  t->fortran = kNoFortranHandle;
  t->contiguous = map->is_contiguous();
  for (int i = 0; i < contents->type_count; ++i) add_reference(contents->types[i]);
  set_reduced(t);
  *newtype = t;
  return MPI_SUCCESS;
}

int type_commit(MPI_Datatype* type) {
  constexpr const char* kName = "MPI_Type_commit";
  if (const int code = check_type(kName, type == nullptr ? nullptr : *type)) return code;
  (*type)->committed = has_map(*type);
  return MPI_SUCCESS;
}

int type_free(MPI_Datatype* type) {
  constexpr const char* kName = "MPI_Type_free";
  if (const int code = check_type(kName, type == nullptr ? nullptr : *type)) return code;
  if ((*type)->predefined) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_TYPE, "%s is predefined and cannot be freed",
                (*type)->name);
  }
  if (is_f90(*type)) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_TYPE,
                "a type of MPI_Type_create_f90_* is predefined and cannot be freed");
  }
  if ((*type)->handles == 1) {
    if (const int code = delete_attributes(*type)) {
      return fail(kName, MPI_COMM_WORLD, code, "the delete function of an attribute returned %d",
                  code);
    }
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

}  // namespace rejoin::pmpi
