// The programs that are simulated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job.h"

namespace rejoin::sim {

// Small programs, each for one purpose.
const std::vector<World>& named_worlds();

// Programs that make checkpoints.
std::vector<World> checkpoint_worlds();
// Seven lazy checkpoints, of which the first and every third is written.
void make_lazy_checkpoints(Player& p);

// Programs that send messages between two ranks.
std::vector<World> message_worlds();

// Programs with several outstanding collectives.
std::vector<World> nonblocking_worlds();

// Programs whose ranks make images of their processes.
std::vector<World> image_worlds();

// Programs that make checkpoints in jobs that could have images.
std::vector<World> recovery_point_worlds();

// Programs that are not deterministic, for separate tests: their replays may diverge.
std::vector<World> bit_worlds();

// Worlds for separate tests: programs that do not mark what they repeat, and one whose logs wrap.
std::vector<World> more_checkpoint_worlds();

// A random legal program: random communicators with members in random order, and random operations
// in an order that is the same at all ranks. Small: a few operations, for sweeps; else many
// operations, with large ones.
World random_world(std::uint32_t ranks, std::uint64_t seed, bool small);

// A random program of a random selection of all kinds of operations, in a job with or without
// checkpoints, images and a journal limit: World::says names what was drawn.
World swarm_world(std::uint64_t seed);
// Finds a world by its name: that of a named world, or "random:RANKS:SEED", "small:RANKS:SEED",
// "swarm:SEED"; or "apart:NAME", that world on two nodes that share only messages. Returns false if
// there is no such world.
bool find_world(const std::string& name, World* world);

}  // namespace rejoin::sim
