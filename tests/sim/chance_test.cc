// Random programs on up to 256 ranks, random schedules, deaths by chance.
#include <gtest/gtest.h>

#include "named.h"
#include "sweep.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

// The seeds are divided, so that the tests can run in parallel.
class Chance : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Chance, RandomWorlds) {
  const std::uint64_t first = GetParam() * 1000000;
  Probes probes;
  const std::uint32_t most_ranks = thorough() ? kMaxSimRanks : 24;
  for (std::uint64_t i = 0; i < scaled(150); ++i) {
    ASSERT_EQ(sweep_random_world(first + i, most_ranks, &probes), "");
  }
  if (!thorough()) return;
  for (unsigned i = 0; i < kProbeCount; ++i) {
    const auto p = static_cast<Probe>(i);
    if (p == Probe::kMismatch || p == Probe::kMismatchReplayed || p == Probe::kToldAtCheckpoint)
      continue;  // because these programs are legal
    if (is_of_image_worlds(p) || is_of_bit_worlds(p) || is_of_limit_worlds(p))
      continue;  // because these programs make no images
    // A receiver is seldom slow enough in these worlds; the world "chunks" is made for that.
    if (p == Probe::kHeadStart || p == Probe::kHeadStartLost) continue;
    EXPECT_GT(probes[p], 0u) << name_of(p);
  }
  for (unsigned i = 0; i < engine::kPoints; ++i) {
    const auto p = static_cast<Point>(i);
    // Few programs reach these steps. SingleDeath.InSmallRandomWorlds has a death at each of them,
    // and SingleDeath.SomewhereAtEveryNamedStep at kFar.
    const bool seldom = is_at(p, Step::kMatched) || is_at(p, Step::kWritten) ||
                        is_at(p, Step::kOpened) || is_at(p, Step::kReads) || is_at(p, Step::kFar) ||
                        is_at(p, Step::kFlag) || is_of_segments(p);
    if (engine::is_of_no_rank(p) || seldom || is_of_requests(p) || is_of_images(p)) continue;
    EXPECT_GT(probes.killed[i], 0u) << name_of(p);
  }
}

INSTANTIATE_TEST_SUITE_P(Shares, Chance, testing::Range(std::uint64_t{0}, std::uint64_t{4}));

class Swarm : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Swarm, FinishesAfterTheLastDeath) {
  const std::uint64_t first = GetParam() * 1000000;
  Probes probes;
  double slowest = 0;
  for (std::uint64_t i = 0; i < scaled(250); ++i) {
    ASSERT_EQ(sweep_swarm(first + i, &probes, &slowest), "");
  }
  if (!thorough()) return;
  EXPECT_GT(probes[Probe::kWoken], 0u);
  EXPECT_GT(probes[Probe::kRestored], 0u);
}

INSTANTIATE_TEST_SUITE_P(Shares, Swarm, testing::Range(std::uint64_t{0}, std::uint64_t{4}));

TEST(Chance, TwoHundredAndFiftySixRanks) {
  for (std::uint64_t seed = 0; seed < scaled(3); ++seed) {
    Sweep sweep(random_world(thorough() ? 256 : 40, seed, false));
    sweep.by_chance(seed * 7 + 1);
    sweep.by_chance(seed * 7 + 2);
    ASSERT_EQ(sweep.failure(), "");
  }
}

// Named worlds with many deaths.
TEST(Chance, NamedWorlds) {
  for (const std::string& name : names_of_mortal_worlds(24)) {
    World world;
    ASSERT_TRUE(find_world(name, &world));
    Sweep sweep(world);
    const std::uint64_t runs = scaled(is_slow(world) ? 30 : 400);
    for (std::uint64_t seed = 1; seed <= runs; ++seed) sweep.by_chance(seed);
    EXPECT_EQ(sweep.failure(), "");
  }
}

TEST(Schedules, WithoutDeaths) {
  for (const World& world : named_worlds()) {
    Sweep sweep(world);
    const std::uint64_t runs = scaled(world.journal_limit_bytes > 0 ? 4 : 100);
    for (std::uint64_t seed = 0; seed < runs; ++seed) sweep.undisturbed(seed);
    EXPECT_EQ(sweep.failure(), "");
  }
}

}  // namespace
}  // namespace rejoin::sim
