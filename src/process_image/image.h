// Images of this process: made at the entry of an MPI operation, woken by the agent when the rank
// has died (docs/snapshots.md).
//
// An image is a clone of this process, made by a helper: a clone that shares this process's memory
// and ends at once. The image is therefore a child of the agent, and the program does not see it.
// It sleeps in a read from its own connection to the agent. Whenever the agent asks, the image
// clones itself once more, and that clone goes on as the rank's next incarnation, behind freeze().
// The image stays as it is.
#pragma once

#include "recovery/attach.h"

namespace rejoin::process_image {

// Prepares this process to be frozen, which obstacles may still prevent (obstacles.h). Called once,
// from MPI_Init. woken() is called in an image that has been woken, when it is the rank.
void install(recovery::Rank& rank, void (*woken)());

}  // namespace rejoin::process_image
