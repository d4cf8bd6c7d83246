// What libmpi_mpifh.so.40 asks libmpi.so.40 besides MPI and its table of calls (calls.h).
#pragma once

#include "pmpi/mpi_api.h"

extern "C" {

#pragma GCC visibility push(default)

// Raises the error of a function that is not supported on MPI_COMM_WORLD. Returns its code.
int rejoin_unsupported(const char* function);

// `op` calls its function with `callback` as a fifth argument. Open MPI's name.
void ompi_op_set_cxx_callback(MPI_Op op, MPI_User_function* callback);

// The function of `errhandler` is Fortran's: it is given integers.
void rejoin_errhandler_set_fortran(MPI_Errhandler errhandler);

// The functions of a generalized request are Fortran's.
void rejoin_grequest_set_fortran(MPI_Request request);

// Attributes as Fortran sees them: INTEGER in MPI 1, INTEGER(KIND=MPI_ADDRESS_KIND) since.
// `is_integer`: the former. Functions are Fortran's then, and are given such values. `object`: 'c',
// 't' or 'w', for the attributes of communicators, datatypes or windows.
int rejoin_keyval_create(const char* name, char object, void* copy, void* remove, int* keyval,
                         MPI_Aint extra_state, int is_integer);
int rejoin_attribute_set(const char* name, MPI_Comm comm, int keyval, MPI_Aint value,
                         int is_integer);
int rejoin_attribute_get(const char* name, MPI_Comm comm, int keyval, MPI_Aint* value, int* flag);
int rejoin_type_attribute_set(const char* name, MPI_Datatype type, int keyval, MPI_Aint value);
int rejoin_type_attribute_get(const char* name, MPI_Datatype type, int keyval, MPI_Aint* value,
                              int* flag);

#pragma GCC visibility pop
}
