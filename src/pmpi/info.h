// Info objects: what their functions and those of communicators share.
#pragma once

#include "pmpi/handles.h"

namespace rejoin::pmpi {

MPI_Info make_info();
MPI_Info copy_info(MPI_Info from);
void destroy_info(MPI_Info info);

}  // namespace rejoin::pmpi
