// Attributes of communicators and datatypes.
#pragma once

#include "pmpi/handles.h"

namespace rejoin::pmpi {

// Calls the copy functions of `from`'s attributes. Returns the first error; then `to` has none.
int copy_attributes(MPI_Comm from, MPI_Comm to);
int copy_attributes(MPI_Datatype from, MPI_Datatype to);

// Calls the delete functions, newest attribute first, and drops the attributes. Stops at the
// first error and returns it.
int delete_attributes(MPI_Comm comm);
int delete_attributes(MPI_Datatype type);

}  // namespace rejoin::pmpi
