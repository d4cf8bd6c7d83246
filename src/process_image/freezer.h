// Images of this process: made at the entry of an MPI operation, by a clone (cloner.h) that sleeps
// until the rank has died (image.h).
#pragma once

#include "recovery/attach.h"

namespace rejoin::process_image {

// Prepares this process to be frozen, which obstacles may still prevent (obstacles.h). Called once,
// from MPI_Init. woken() is called in an image that has been woken, when it is the rank.
void install(recovery::Rank& rank, void (*woken)());

}  // namespace rejoin::process_image
