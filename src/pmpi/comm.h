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

// The program has freed it; what is under way on it goes on.
void close(MPI_Comm c);

// Returns how often this process has created a communicator or a persistent collective of `comm`
// with that colour before. Members that create one without communication derive its context from
// this count. Ends the job if the count is not known: after a load, unless the call is marked as
// part of the bootstrap phase, in which all ranks begin at 0.
std::uint64_t count_creation(const char* name, MPI_Comm comm, std::uint64_t colour);

// The colour of a part of a communicator that is known by its members.
std::uint64_t colour_of(WorldRanks members, std::uint64_t start);

// --- Intercommunicators

// An intercommunicator of two groups, which both sides name in the same order.
MPI_Comm open_inter(MPI_Comm parent, std::uint64_t id, WorldRanks first, WorldRanks second);
// The groups of one, in that order.
WorldRanks first_group(MPI_Comm inter);
WorldRanks second_group(MPI_Comm inter);

// MPI_Comm_split and MPI_Comm_create of one, with arguments that were checked.
int split_inter(const char* name, const void* site, MPI_Comm comm, ColourAndKey mine,
                MPI_Comm* newcomm);
int create_inter(const char* name, const void* site, MPI_Comm comm, MPI_Group group,
                 MPI_Comm* newcomm);

}  // namespace rejoin::pmpi
