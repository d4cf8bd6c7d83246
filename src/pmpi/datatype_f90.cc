// MPI_Type_create_f90_*: the types of numbers with a precision and a range. They count as
// predefined: one for each pair of arguments, committed, never freed.
#include <float.h>

#include "api.h"
#include "datatypes/constructors.h"
#include "pmpi/datatype.h"
#include "pmpi/errors.h"

namespace rejoin::pmpi {

struct F90Type {
  int precision, range;
  MPI_Datatype type;
  F90Type* next;
};

bool is_f90(MPI_Datatype type) {
  const Contents* c = type->contents;
  return c != nullptr &&
         (c->combiner == MPI_COMBINER_F90_REAL || c->combiner == MPI_COMBINER_F90_COMPLEX ||
          c->combiner == MPI_COMBINER_F90_INTEGER);
}

namespace {

// A kind of number, with the decimal digits and the decimal exponent that it is sure to represent.
struct Kind {
  int precision, range;
  MPI_Datatype real, complex;
};

const Kind* find_kind(int precision, int range) {
  static const Kind kinds[] = {
      {FLT_DIG, FLT_MAX_10_EXP, MPI_REAL4, MPI_COMPLEX8},
      {DBL_DIG, DBL_MAX_10_EXP, MPI_REAL8, MPI_COMPLEX16},
      {LDBL_DIG, LDBL_MAX_10_EXP, MPI_LONG_DOUBLE, MPI_C_LONG_DOUBLE_COMPLEX},
      {33, LDBL_MAX_10_EXP, MPI_REAL16, MPI_COMPLEX32},
  };
  // Normal values near zero reach one power of ten less far than those near the maximum.
  const auto reaches = [&](const Kind& k) {
    return (precision == MPI_UNDEFINED || precision <= k.precision) &&
           (range == MPI_UNDEFINED || range <= k.range - 1);
  };
  for (const Kind& k : kinds) {
    if (reaches(k)) return &k;
  }
  return nullptr;
}

// Returns the type with these arguments; makes it at the first call. `precision` is not used for
// integers, which have no such argument.
int create(const char* name, int combiner, int precision, int range, MPI_Datatype base,
           MPI_Datatype* newtype) {
  F90Type** place = &context->f90_types;
  for (; *place != nullptr; place = &(*place)->next) {
    const F90Type& t = **place;
    if (t.type->contents->combiner == combiner && t.precision == precision && t.range == range) {
      *newtype = t.type;
      return MPI_SUCCESS;
    }
  }
  const bool is_integer = combiner == MPI_COMBINER_F90_INTEGER;
  Contents* c = make_contents(combiner, is_integer ? 1 : 2, 0, 0);
  if (!is_integer) c->integers[0] = precision;
  c->integers[c->integer_count - 1] = range;
  MPI_Datatype t;
  if (const int code = make_type(name, datatypes::make_dup(kTypeMemory, map_of(base)), c, &t)) {
    return code;
  }
  t->element = base->element;
  t->elements = base->elements;
  t->gaps = base->gaps;
  t->type_class = base->type_class;
  t->reduced_bytes = base->reduced_bytes;
  t->committed = true;
  *place = make<F90Type>();
  **place = {precision, range, t, nullptr};
  *newtype = t;
  return MPI_SUCCESS;
}

int create_floating(const char* name, int combiner, int precision, int range,
                    MPI_Datatype* newtype) {
  require_active(name);
  const bool nothing = precision == MPI_UNDEFINED && range == MPI_UNDEFINED;
  const Kind* k = nothing ? nullptr : find_kind(precision, range);
  if (k == nullptr) {
    return fail(name, MPI_COMM_WORLD, MPI_ERR_ARG,
                "there is no type of precision %d and range %d (%d is MPI_UNDEFINED)", precision,
                range, MPI_UNDEFINED);
  }
  return create(name, combiner, precision, range,
                combiner == MPI_COMBINER_F90_REAL ? k->real : k->complex, newtype);
}

}  // namespace

int type_create_f90_real(int p, int r, MPI_Datatype* newtype) {
  return create_floating("MPI_Type_create_f90_real", MPI_COMBINER_F90_REAL, p, r, newtype);
}
int type_create_f90_complex(int p, int r, MPI_Datatype* newtype) {
  return create_floating("MPI_Type_create_f90_complex", MPI_COMBINER_F90_COMPLEX, p, r, newtype);
}
int type_create_f90_integer(int r, MPI_Datatype* newtype) {
  constexpr const char* kName = "MPI_Type_create_f90_integer";
  require_active(kName);
  if (r > 18) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_ARG,
                "there is no integer type of so many digits; the most is 18");
  }
  const MPI_Datatype base = r > 9   ? MPI_INTEGER8
                            : r > 4 ? MPI_INTEGER4
                            : r > 2 ? MPI_INTEGER2
                                    : MPI_INTEGER1;
  return create(kName, MPI_COMBINER_F90_INTEGER, 0, r, base, newtype);
}

}  // namespace rejoin::pmpi
