// Two deaths: the second at any step after the first, of any rank, the replacement included.
#include <gtest/gtest.h>

#include "named.h"
#include "sweep.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

class TwoDeaths : public testing::TestWithParam<std::string> {};

TEST_P(TwoDeaths, TheSecondAnywhereAfterTheFirst) {
  World world;
  ASSERT_TRUE(find_world(GetParam(), &world));
  Sweep sweep(world);
  const std::uint64_t runs = scaled(world.name == "pipelined" ? 300 : 2500);
  for (std::uint64_t seed = 0; sweep.failure().empty() && sweep.job().runs() < runs; ++seed) {
    sweep.pairs(seed, 600);
  }
  EXPECT_EQ(sweep.failure(), "");
  if (!thorough()) return;
  EXPECT_GT(sweep.probes()[Probe::kReplacementDied], 0u);
  EXPECT_GT(sweep.probes()[Probe::kDiedReplaying], 0u);
  EXPECT_GT(sweep.probes()[Probe::kTwoDead], 0u);
}

INSTANTIATE_TEST_SUITE_P(Worlds, TwoDeaths, testing::ValuesIn(names_of_mortal_worlds(5)),
                         name_of_case);

// Not a share of them, but all, where there are few enough.
TEST(TwoDeaths, AllPairsOfTwoRanks) {
  for (const char* name : {"disagree-root", "small:2:1", "small:2:7"}) {
    World world;
    ASSERT_TRUE(find_world(name, &world));
    Sweep sweep(world);
    const std::uint64_t most = thorough() ? ~std::uint64_t{0} : 300;
    sweep.pairs(0, most);
    EXPECT_EQ(sweep.failure(), "");
  }
}

TEST(TwoDeaths, InSmallRandomWorlds) {
  for (std::uint64_t seed = 0; seed < scaled(60); ++seed) {
    Sweep sweep(random_world(2 + seed % 4, 5000 + seed, true));
    sweep.pairs(seed, 120);
    ASSERT_EQ(sweep.failure(), "");
  }
}

}  // namespace
}  // namespace rejoin::sim
