// Info objects: what their functions and those of communicators share.
#pragma once

#include "pmpi/handles.h"

namespace rejoin::pmpi {

// Returns a new, empty object.
MPI_Info make_info();

}  // namespace rejoin::pmpi
