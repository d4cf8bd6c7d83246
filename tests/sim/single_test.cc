// One death, at every step of every rank, in several schedules of each world.
#include <gtest/gtest.h>

#include <algorithm>

#include "named.h"
#include "sweep.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

class SingleDeath : public testing::TestWithParam<std::string> {};

TEST_P(SingleDeath, AtEveryStep) {
  World world;
  ASSERT_TRUE(find_world(GetParam(), &world));
  Sweep sweep(world);
  const std::uint64_t runs = scaled(is_slow(world) ? 700 : 6000);
  for (std::uint64_t seed = 0; sweep.failure().empty() && sweep.job().runs() < runs; ++seed) {
    sweep.each_point(seed);
    sweep.singles(seed, std::min<std::uint64_t>(runs, is_slow(world) ? 250 : 1000));
  }
  EXPECT_EQ(sweep.failure(), "");
  if (!thorough()) return;
  EXPECT_EQ(sweep.unreached(), "");
}

INSTANTIATE_TEST_SUITE_P(Worlds, SingleDeath,
                         testing::ValuesIn(names_of_mortal_worlds(kMaxSimRanks)), name_of_case);

TEST(SingleDeath, InSmallRandomWorlds) {
  Probes probes;
  for (std::uint64_t seed = 0; seed < scaled(120); ++seed) {
    Sweep sweep(random_world(2 + seed % 4, seed, true));
    sweep.singles(seed, scaled(60));
    sweep.singles(seed + 1000, scaled(60));
    ASSERT_EQ(sweep.failure(), "");
    probes.add(sweep.probes());
  }
  if (!thorough()) return;
  for (unsigned i = 0; i < engine::kPoints; ++i) {
    const auto p = static_cast<Point>(i);
    // This gives the same state as the next point.
    if (p == Point::kPoll || engine::is_of_no_rank(p) || is_of_segments(p)) continue;
    if (is_at(p, Step::kFar)) continue;  // these worlds are too short for it
    if (is_of_requests(p) || is_of_images(p) || is_at(p, Step::kFlag)) continue;
    EXPECT_GT(probes.killed[i], 0u) << name_of(p);
  }
}

// At every step that the engine names some rank has died, and the job continued.
TEST(SingleDeath, SomewhereAtEveryNamedStep) {
  Probes probes;
  for (const std::string& name : names_of_mortal_worlds(5)) {
    World world;
    ASSERT_TRUE(find_world(name, &world));
    Sweep sweep(world);
    sweep.each_point(1);
    sweep.singles(1, scaled(200));
    if (world.checkpoints) sweep.pairs(1, scaled(400));
    ASSERT_EQ(sweep.failure(), "");
    probes.add(sweep.probes());
  }
  if (!thorough()) return;
  for (unsigned i = 0; i < engine::kPoints; ++i) {
    const auto p = static_cast<Point>(i);
    // This gives the same state as the next point.
    if (p == Point::kPoll || engine::is_of_no_rank(p) || is_of_segments(p)) continue;
    EXPECT_GT(probes.killed[i], 0u) << name_of(p);
  }
}

}  // namespace
}  // namespace rejoin::sim
