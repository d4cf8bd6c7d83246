// MPI_Type_get_envelope, MPI_Type_get_contents, and the names of datatypes.
#include <stdio.h>
#include <string.h>

#include "api.h"
#include "pmpi/datatype.h"
#include "pmpi/errors.h"

namespace rejoin::pmpi {

int type_get_envelope(MPI_Datatype type, int* num_integers, int* num_addresses, int* num_datatypes,
                      int* combiner) {
  constexpr const char* kName = "MPI_Type_get_envelope";
  if (const int code = check_type(kName, type)) return code;
  const Contents* c = type->contents;
  *num_integers = c == nullptr ? 0 : c->integer_count;
  *num_addresses = c == nullptr ? 0 : c->address_count;
  *num_datatypes = c == nullptr ? 0 : c->type_count;
  *combiner = c == nullptr ? MPI_COMBINER_NAMED : c->combiner;
  return MPI_SUCCESS;
}

int type_get_contents(MPI_Datatype mtype, int max_integers, int max_addresses, int max_datatypes,
                      int array_of_integers[], MPI_Aint array_of_addresses[],
                      MPI_Datatype array_of_datatypes[]) {
  constexpr const char* kName = "MPI_Type_get_contents";
  if (const int code = check_type(kName, mtype)) return code;
  if (mtype->predefined) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_TYPE, "%s is predefined and has no contents",
                mtype->name);
  }
  const Contents& c = *mtype->contents;
  if (max_integers < c.integer_count || max_addresses < c.address_count ||
      max_datatypes < c.type_count) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_ARG,
                "the arrays are shorter than MPI_Type_get_envelope says");
  }
  if ((c.integer_count > 0 && array_of_integers == nullptr) ||
      (c.address_count > 0 && array_of_addresses == nullptr) ||
      (c.type_count > 0 && array_of_datatypes == nullptr)) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_ARG, "an array is a null pointer");
  }
  for (int i = 0; i < c.integer_count; ++i) array_of_integers[i] = c.integers[i];
  for (int i = 0; i < c.address_count; ++i) array_of_addresses[i] = c.addresses[i];
  for (int i = 0; i < c.type_count; ++i) {
    MPI_Datatype t = c.types[i];
    array_of_datatypes[i] = t;
    if (t->predefined) continue;
    t->magic = Magic::kType;  // a separate handle, which the program frees
    ++t->handles;
    ++t->references;
  }
  return MPI_SUCCESS;
}

int type_set_name(MPI_Datatype type, const char* type_name) {
  constexpr const char* kName = "MPI_Type_set_name";
  if (const int code = check_type(kName, type)) return code;
  if (type_name == nullptr) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_ARG, "the name is a null pointer");
  }
  snprintf(type->name, sizeof type->name, "%s", type_name);
  return MPI_SUCCESS;
}

int type_get_name(MPI_Datatype type, char* type_name, int* resultlen) {
  constexpr const char* kName = "MPI_Type_get_name";
  if (const int code = check_type(kName, type)) return code;
  *resultlen = give_text(type_name, MPI_MAX_OBJECT_NAME, type->name);
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
