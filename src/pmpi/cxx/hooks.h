// What libmpi_cxx.so.40 uses of libmpi.so.40 besides MPI.
#pragma once

struct ompi_predefined_errhandler_t;

extern "C" {

// Raises the error of a function that is not supported on MPI_COMM_WORLD. Returns its code.
__attribute__((visibility("default"))) int rejoin_unsupported(const char* function);

// Open MPI's name for an error handler that only C++ has.
extern __attribute__((
    visibility("default"))) struct ompi_predefined_errhandler_t ompi_mpi_errors_throw_exceptions;
}
