// The programs that are simulated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job.h"

namespace rejoin::sim {

// Small programs made for one thing each.
const std::vector<World>& named_worlds();

// Those of them that make checkpoints.
std::vector<World> checkpoint_worlds();

// Those that break its rule of what is to be marked, and must not be wrong for that.
std::vector<World> unproven_worlds();

// A random legal program: random communicators in random order of members, random operations in an
// order that all ranks keep. Small: a few operations, for sweeps; else many, large ones too.
World random_world(std::uint32_t ranks, std::uint64_t seed, bool small);

// By its name: that of a named world, or "random:RANKS:SEED", "small:RANKS:SEED". False: no such
// world.
bool find_world(const std::string& name, World* world);

}  // namespace rejoin::sim
