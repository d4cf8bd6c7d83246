// The names that Fortran compilers make of an MPI procedure, all those of Open MPI's
// libmpi_mpifh.so.40: in lower case with up to two underscores, in upper case, and two that only
// Open MPI uses.
#pragma once

#define REJOIN_NAME(function, name) \
  extern decltype(function) name __attribute__((weak, alias(#function)));

// REJOIN_NAMES(mpi, MPI, send, Send, SEND) defines the names of ompi_send_f.
#define REJOIN_NAMES(mpi, MPI, lower, Mixed, UPPER)                    \
  REJOIN_NAMES_OF(o##mpi##_##lower##_f, mpi, MPI, lower, Mixed, UPPER) \
  REJOIN_NAMES_OF(o##mpi##_##lower##_f, p##mpi, P##MPI, lower, Mixed, UPPER)

#define REJOIN_NAMES_OF(function, mpi, MPI, lower, Mixed, UPPER) \
  REJOIN_NAME(function, mpi##_##lower)                           \
  REJOIN_NAME(function, mpi##_##lower##_)                        \
  REJOIN_NAME(function, mpi##_##lower##__)                       \
  REJOIN_NAME(function, MPI##_##UPPER)                           \
  REJOIN_NAME(function, MPI##_##Mixed##_f)                       \
  REJOIN_NAME(function, MPI##_##Mixed##_f08)
