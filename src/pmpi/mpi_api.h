// Open MPI's mpi.h, including the functions that MPI 3 removed, so that the compiler compares the
// library's functions with it; without its macros, and without the warnings meant for programs.
#pragma once

#define OMPI_WANT_MPI_INTERFACE_WARNING 0
#define OMPI_OMIT_MPI1_COMPAT_DECLS 0
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
// REQUIRES mpi.h.
#include <mpi-ext.h>

#undef MPI_Aint_add
#undef MPI_Aint_diff
#undef PMPI_Aint_add
#undef PMPI_Aint_diff

// The library defines these two; mpi.h hides them.
extern "C" OMPI_DECLSPEC struct ompi_predefined_datatype_t ompi_mpi_ub;
extern "C" OMPI_DECLSPEC struct ompi_predefined_datatype_t ompi_mpi_lb;

typedef struct ompi_instance_t* MPI_Session;  // as in Open MPI 5
