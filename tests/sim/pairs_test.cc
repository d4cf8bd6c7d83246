// Two deaths: the second at any step after the first, of any rank, the replacement included.
#include <gtest/gtest.h>

#include "named.h"
#include "sweep.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

constexpr std::uint64_t kAll = ~std::uint64_t{0};

class TwoDeaths : public testing::TestWithParam<std::string> {};

TEST_P(TwoDeaths, TheSecondAnywhereAfterTheFirst) {
  World world;
  ASSERT_TRUE(find_world(GetParam(), &world));
  Sweep sweep(world);
  // Shares of the pairs in several schedules. With --long also all pairs of small jobs, in the
  // schedule of seed 0.
  const bool slow = is_slow(world) || world.snapshot_every_turns != 0;
  const std::uint64_t share = scaled(slow ? 100 : 300);
  const bool all =
      effort() > 1 && world.ranks <= 3 && !slow && world.name != "sliced" && !world.checkpoints;
  sweep.pairs(0, all ? kAll : share);
  const std::uint64_t runs = sweep.job().runs() + scaled(slow ? 600 : 2000);
  // In long jobs few of the second deaths fall into the repair of the first one.
  const auto enough = [&] {
    const bool together = !thorough() || sweep.probes()[Probe::kTwoDead] > 0;
    return sweep.job().runs() >= (together ? runs : 5 * runs);
  };
  for (std::uint64_t seed = 1; sweep.failure().empty() && !enough(); ++seed) {
    sweep.pairs(seed, share);
  }
  EXPECT_EQ(sweep.failure(), "");
  if (!thorough()) return;
  EXPECT_GT(sweep.probes()[Probe::kReplacementDied], 0u);
  EXPECT_GT(sweep.probes()[Probe::kDiedReplaying], 0u);
  EXPECT_GT(sweep.probes()[Probe::kTwoDead], 0u);
}

INSTANTIATE_TEST_SUITE_P(Worlds, TwoDeaths, testing::ValuesIn(names_of_mortal_worlds(5)),
                         name_of_case);

TEST(TwoDeaths, InSmallRandomWorlds) {
  for (std::uint64_t seed = 0; seed < scaled(120); ++seed) {
    Sweep sweep(random_world(2 + seed % 4, 5000 + seed, true));
    sweep.pairs(seed, scaled(120));
    ASSERT_EQ(sweep.failure(), "");
  }
}

}  // namespace
}  // namespace rejoin::sim
