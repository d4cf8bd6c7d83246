// How a process becomes a rank: it registers with the agent and is handed the host segment.
#pragma once

#include <cstddef>

#include "engine/transport/shm/host.h"
#include "recovery/rank.h"

namespace rejoin::recovery {

using Rank = BasicRank<engine::ShmHost>;

// The rank that this process is. The first call does the work, later ones return the same. A
// program that is itself linked against libmpi.so.40 has been attached when it was loaded, so that
// what it sees before MPI_Init is observed too. Started without ftrun, the process is a world of
// one over a segment of its own. nullptr: `error` says why and what to do. Not thread-safe.
Rank* attach(char* error, std::size_t error_bytes);

// The same, or nullptr as long as this process is no rank. Cheap; safe at any time.
Rank* attached_rank();

}  // namespace rejoin::recovery
