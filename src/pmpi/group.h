// Groups: what their functions and those of communicators share.
#pragma once

#include "pmpi/groups.h"
#include "pmpi/handles.h"

namespace rejoin::pmpi {

inline WorldRanks ranks_of(MPI_Group g) { return {g->members, static_cast<std::size_t>(g->size)}; }
// Returns the world ranks of this rank's own group.
inline WorldRanks ranks_of(MPI_Comm c) {
  return {c->comm->members.world + c->own_first, c->own_count};
}
// Returns the world ranks of the group that sources and destinations refer to.
inline WorldRanks peers_of(MPI_Comm c) {
  return {c->comm->members.world + c->peer_first, c->peer_count};
}

// Returns MPI_IDENT, MPI_SIMILAR or MPI_UNEQUAL.
int comparison(WorldRanks a, WorldRanks b);

// Returns a new handle with a copy of the world ranks; MPI_GROUP_EMPTY if there are none.
MPI_Group make_group(const std::uint32_t* members, int size);

}  // namespace rejoin::pmpi
