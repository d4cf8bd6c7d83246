// Communicators: what their functions share.
#pragma once

#include "pmpi/groups.h"
#include "pmpi/handles.h"

namespace rejoin::pmpi {

// Makes a handle usable. Its error handler becomes MPI_ERRORS_ARE_FATAL if it has none yet.
// REQUIRES name and fortran to be set; a null `comm` ends the job.
void open_comm(MPI_Comm handle, Rank::Comm* comm);

// Every member of `comm` contributes `bytes` of `input` and gets all contributions. `layout`: a
// hash of what all of them must have been passed alike.
recovery::Outcome meet(const void* site, MPI_Comm comm, recovery::OpKind kind, const void* input,
                       std::size_t bytes, std::uint32_t layout = 0);

// A handle on a new communicator that has nothing of `parent` but its error handler.
MPI_Comm open_child(MPI_Comm parent, std::uint64_t id, WorldRanks members);

}  // namespace rejoin::pmpi
