// What one call costs the busiest rank, and all ranks together, as the number of ranks grows:
// steps in the simulator, which are looks at, and stores to, words that ranks share. Steps do not
// depend on the machine; docs/many-cores.md multiplies them by what a cache line takes.
//
//     ranks [RANKS ...]      default 2 8 16 23 24 32 64 128
//
// Prints a Markdown table.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "player.h"

namespace rejoin::sim {
namespace {

struct Operation {
  const char* title;
  void (*call)(Player&, Player::Comm&);
};

constexpr Operation kOperations[] = {
    {"Barrier", [](Player& p, Player::Comm& all) { p.barrier(all); }},
    {"Allreduce 8 B", [](Player& p, Player::Comm& all) { p.allreduce(all, 1); }},
    {"Allreduce 4 KiB", [](Player& p, Player::Comm& all) { p.allreduce(all, 512); }},
    {"Allreduce 1 MiB", [](Player& p, Player::Comm& all) { p.allreduce(all, 1 << 17); }},
    {"Bcast 8 B", [](Player& p, Player::Comm& all) { p.bcast(all, 0, 1); }},
    {"Reduce 8 B", [](Player& p, Player::Comm& all) { p.reduce(all, 0, 1); }},
    {"Gather 8 B", [](Player& p, Player::Comm& all) { p.gather(all, 0, 1); }},
    {"Alltoall 8 B", [](Player& p, Player::Comm& all) { p.alltoall(all, 1); }},
};

// The steps of each rank in a run with that many calls.
std::vector<double> steps_of(const Operation& operation, std::uint32_t ranks, unsigned calls) {
  World world;
  world.name = operation.title;
  world.ranks = ranks;
  world.body = [&operation, calls](Player& p) {
    Player::Comm all = p.everyone();
    for (unsigned i = 0; i < calls; ++i) operation.call(p, all);
  };
  Job job(world);
  const Result& result = job.reference();
  if (!result.good()) {
    std::fprintf(stderr, "ranks: %s, %u ranks: %s\n", operation.title, ranks, result.why.c_str());
    std::exit(1);
  }
  std::vector<double> steps;
  for (const engine::Simulation::Rank& rank : result.ranks) {
    steps.push_back(static_cast<double>(rank.steps));
  }
  return steps;
}

void print(const std::vector<std::uint32_t>& counts) {
  std::printf("| steps of the busiest rank (of all) |");
  for (const std::uint32_t n : counts) std::printf(" %u |", n);
  std::printf("\n| --- |");
  for (std::size_t i = 0; i < counts.size(); ++i) std::printf(" ---: |");
  std::printf("\n");
  for (const Operation& operation : kOperations) {
    std::printf("| %s |", operation.title);
    for (const std::uint32_t n : counts) {
      constexpr unsigned kBefore = 4;  // calls, which make communicators and memory
      const std::vector<double> begin = steps_of(operation, n, kBefore);
      const std::vector<double> end = steps_of(operation, n, kBefore + 1);
      double busiest = 0, all = 0;
      for (std::uint32_t r = 0; r < n; ++r) {
        busiest = std::max(busiest, end[r] - begin[r]);
        all += end[r] - begin[r];
      }
      std::printf(" %.0f (%.0f) |", busiest, all);
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace rejoin::sim

int main(int count, char** words) {
  std::vector<std::uint32_t> counts;
  for (int i = 1; i < count; ++i) {
    const long n = std::strtol(words[i], nullptr, 10);
    if (n < 2 || n > static_cast<long>(rejoin::sim::kMaxSimRanks)) {
      std::fprintf(stderr, "usage: ranks [RANKS ...], 2 to %u each\n",
                   static_cast<unsigned>(rejoin::sim::kMaxSimRanks));
      return 2;
    }
    counts.push_back(static_cast<std::uint32_t>(n));
  }
  if (counts.empty()) counts = {2, 8, 16, 23, 24, 32, 64, 128};
  rejoin::sim::print(counts);
}
