// Communicators: what their functions share.
#pragma once

#include "pmpi/groups.h"
#include "pmpi/handles.h"

namespace rejoin::pmpi {

// Makes a handle usable. Its error handler becomes MPI_ERRORS_ARE_FATAL if it has none yet.
// REQUIRES name and fortran to be set; a null `comm` ends the job.
void open_comm(MPI_Comm handle, Rank::Comm* comm);

// Collective: every member of `comm` contributes `bytes` of `input` and gets all contributions.
// `layout`: a hash of the arguments that must be equal at all members.
recovery::Outcome meet(const void* site, MPI_Comm comm, recovery::OpKind kind, const void* input,
                       std::size_t bytes, std::uint32_t layout = 0);

// Returns a handle of the communicator with this context id. It inherits only the error handler
// from `parent`.
MPI_Comm open_child(MPI_Comm parent, std::uint64_t id, WorldRanks members);

// Called when the program frees the communicator. Outstanding operations on it continue.
void close(MPI_Comm c);

// Returns how often this process has created a communicator or a persistent collective of `comm`
// with that colour before. Members that create one without communication derive its context from
// this count. Ends the job if the count is not known: after a load, unless the call is marked as
// part of the bootstrap phase, in which all ranks begin at 0.
std::uint64_t count_creation(const char* name, MPI_Comm comm, std::uint64_t colour);

// Returns the colour, a hash, of a part of a communicator that is identified by its members.
std::uint64_t colour_of(WorldRanks members, std::uint64_t start);

// --- Intercommunicators

// Returns a handle of an intercommunicator of two groups, which both sides pass in the same order.
MPI_Comm open_inter(MPI_Comm parent, std::uint64_t id, WorldRanks first, WorldRanks second);
// Return the groups of an intercommunicator, in that order.
WorldRanks first_group(MPI_Comm inter);
WorldRanks second_group(MPI_Comm inter);

// MPI_Comm_split and MPI_Comm_create of an intercommunicator. The arguments were checked.
int split_inter(const char* name, const void* site, MPI_Comm comm, ColourAndKey mine,
                MPI_Comm* newcomm);
int create_inter(const char* name, const void* site, MPI_Comm comm, MPI_Group group,
                 MPI_Comm* newcomm);

}  // namespace rejoin::pmpi
