// Communicators: what their functions share.
#pragma once

#include "pmpi/handles.h"

namespace rejoin::pmpi {

// Makes a handle usable. Its error handler becomes MPI_ERRORS_ARE_FATAL if it has none yet.
// REQUIRES name and fortran to be set; a null `comm` ends the job.
void open_comm(MPI_Comm handle, Rank::Comm* comm);

}  // namespace rejoin::pmpi
