// Images of processes die: before the agent knows of them, while they are kept, while they are
// woken, alone and with their ranks. The job goes on, or ends because a rank and its image are
// dead.
#include <gtest/gtest.h>

#include "named.h"
#include "sweep.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

std::vector<std::string> names_of_image_worlds() {
  std::vector<std::string> names;
  for (const World& w : image_worlds()) {
    if (can_simulate(w)) names.push_back(w.name);
  }
  return names;
}

class DeadImages : public testing::TestWithParam<std::string> {};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeadImages);

TEST_P(DeadImages, AtEveryTurn) {
  World world;
  ASSERT_TRUE(find_world(GetParam(), &world));
  Sweep sweep(world);
  const std::uint64_t runs = scaled(1500);
  for (std::uint64_t seed = 0; sweep.failure().empty() && sweep.job().runs() < runs; ++seed) {
    sweep.images(seed, scaled(150));
  }
  EXPECT_EQ(sweep.failure(), "");
  if (!thorough()) return;
  for (const Probe p : {Probe::kImageDied, Probe::kOtherImageDied, Probe::kImageDiedWaking,
                        Probe::kImageAgain, Probe::kLost, Probe::kWoken}) {
    EXPECT_GT(sweep.probes()[p], 0u) << name_of(p);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, DeadImages, testing::ValuesIn(names_of_image_worlds()),
                         name_of_case);

}  // namespace
}  // namespace rejoin::sim
