// Every program again, on two nodes that share only messages: deaths of ranks, and of their images.
#include <gtest/gtest.h>

#include "named.h"
#include "sweep.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

std::vector<std::string> names_of_worlds() {
  std::vector<std::string> names = names_of_mortal_worlds(kMaxSimRanks);
  for (const World& w : bit_worlds()) names.push_back(w.name);
  return names;
}

// Kills ranks, and their images if there are some, one after the other. Returns what went wrong.
std::string failure_of(const World& world) {
  Sweep sweep(world);
  sweep.singles(0, scaled(is_slow(world) ? 20 : 100));
  if (sweep.failure().empty()) sweep.singles(1, scaled(is_slow(world) ? 20 : 100));
  const bool fills = world.journal_limit_bytes != 0 && !world.never_full;
  if (world.snapshot_every_turns != 0 && !fills && sweep.failure().empty()) {
    sweep.images(2, scaled(40));
  }
  return sweep.failure();
}

void expect_no_failure(const std::string& name) {
  World world;
  ASSERT_TRUE(find_world(name, &world));
  if (!can_simulate(world)) GTEST_SKIP();
  EXPECT_EQ(failure_of(world), "");
}

class NodesApart : public testing::TestWithParam<std::string> {};

TEST_P(NodesApart, SurviveDeaths) { expect_no_failure("apart:" + GetParam()); }

// Relays copy nothing of versions.
std::vector<std::string> names_of_worlds_with_segments() {
  std::vector<std::string> names;
  for (const std::string& name : names_of_worlds()) {
    World world;
    const bool found = find_world("segments:" + name, &world);
    const bool has_checkpoints = world.checkpoints || name.starts_with("disagree-checkpoint") ||
                                 name == "disagree-far" || name == "back-checkpoints";
    if (found && !has_checkpoints) names.push_back(name);
  }
  return names;
}

// The same where each node has a segment of its own, and relays lose their connections.
class NodesWithSegments : public testing::TestWithParam<std::string> {};

TEST_P(NodesWithSegments, SurviveDeathsAndCuts) { expect_no_failure("segments:" + GetParam()); }

INSTANTIATE_TEST_SUITE_P(Worlds, NodesWithSegments,
                         testing::ValuesIn(names_of_worlds_with_segments()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Worlds, NodesApart, testing::ValuesIn(names_of_worlds()), name_of_case);

// Ranks die when they have asked another node for the bytes of a message again.
TEST(Lent, RanksDieWhileTheyAsk) {
  World world;
  ASSERT_TRUE(find_world("segments:images-lent", &world));
  Sweep sweep(world);
  for (std::uint64_t seed = 0; seed < scaled(20); ++seed) {
    sweep.pairs(seed, scaled(200));
    ASSERT_EQ(sweep.failure(), "");
  }
  if (!thorough()) return;
  EXPECT_GT(sweep.probes().killed[static_cast<unsigned>(engine::point_of(Step::kAsk))], 0u);
}

}  // namespace
}  // namespace rejoin::sim
