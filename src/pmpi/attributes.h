// Attributes of communicators.
#pragma once

#include "pmpi/handles.h"

namespace rejoin::pmpi {

// Calls the copy functions of `from`'s attributes. Returns the first error; then `to` has none.
int copy_attributes(MPI_Comm from, MPI_Comm to);

// Calls the delete functions, newest attribute first, and drops the attributes. Stops at the
// first error and returns it.
int delete_attributes(MPI_Comm comm);

}  // namespace rejoin::pmpi
