// What libmpi_mpifh.so.40 uses of libmpi.so.40 besides MPI and its table of calls (calls.h).
#pragma once

#include "pmpi/mpi_api.h"

extern "C" {

#pragma GCC visibility push(default)

// Raises the error of a function that is not supported on MPI_COMM_WORLD. Returns its code.
int rejoin_unsupported(const char* function);

// Makes `op` call its function with `callback` as a fifth argument. Open MPI has a function with
// this name.
void ompi_op_set_cxx_callback(MPI_Op op, MPI_User_function* callback);

// Marks the function of `errhandler` as one of Fortran, which takes integers as handles.
void rejoin_errhandler_set_fortran(MPI_Errhandler errhandler);

// Marks the functions of a generalized request as those of Fortran.
void rejoin_grequest_set_fortran(MPI_Request request);

// Attributes as Fortran sees them: INTEGER in MPI 1 (`is_integer`), and since MPI 2
// INTEGER(KIND=MPI_ADDRESS_KIND). The functions of the keyval are Fortran's and take such values.
// `object`: 'c', 't' or 'w', for the attributes of communicators, datatypes or windows.
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
