// Programs that are not deterministic: whichever rank dies, the job ends with the results of some
// run without deaths, or it is stopped because a replay differed.
#include <gtest/gtest.h>

#include "named.h"
#include "sweep.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

std::vector<std::string> names_of_bit_worlds() {
  std::vector<std::string> names;
  for (const World& w : bit_worlds()) {
    if (can_simulate(w)) names.push_back(w.name);
  }
  return names;
}

class Bits : public testing::TestWithParam<std::string> {};

TEST_P(Bits, GiveResultsOfSomeRunWithoutDeaths) {
  World world;
  ASSERT_TRUE(find_world(GetParam(), &world));
  Sweep sweep(world);
  const std::uint64_t runs = scaled(6000);
  for (std::uint64_t seed = 0; sweep.failure().empty() && sweep.job().runs() < runs; ++seed) {
    sweep.singles(seed, scaled(300));
    sweep.pairs(seed, scaled(400));
    for (std::uint64_t i = 0; i < scaled(50); ++i) sweep.by_chance(seed * 1000 + i);
    if (world.snapshot_every_turns != 0) sweep.images(seed, scaled(150));
  }
  EXPECT_EQ(sweep.failure(), "");
  if (!thorough()) return;
  EXPECT_GT(sweep.probes()[Probe::kDiverged] + sweep.probes()[Probe::kStoodStill], 0u);
}

INSTANTIATE_TEST_SUITE_P(Worlds, Bits, testing::ValuesIn(names_of_bit_worlds()), name_of_case);

}  // namespace
}  // namespace rejoin::sim
