// Images of processes die: before the agent knows of them, while they are kept, while they are
// woken, alone and with their ranks. The job continues, or ends because a rank and its image are
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
    // With a full journal the next death ends the job.
    const bool fills = w.journal_limit_bytes != 0 && !w.never_full;
    if (can_simulate(w) && !fills) names.push_back(w.name);
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
  for (const Probe p :
       {Probe::kImageDied, Probe::kOtherImageDied, Probe::kImageDiedWaking, Probe::kImageAgain,
        Probe::kImageAfterUnregistered, Probe::kLost, Probe::kWoken}) {
    EXPECT_GT(sweep.probes()[p], 0u) << name_of(p);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, DeadImages, testing::ValuesIn(names_of_image_worlds()),
                         name_of_case);

// Rules of the agent's core are left out, each with the failure that follows. tests/unit has all
// rules.
struct Case {
  const char* name;
  launcher::ImageRule rule;
  const char* says;  // a part of the failure's text
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

using launcher::ImageRule;

const Case kCases[] = {
    {"KeepRegistered", ImageRule::kKeepRegistered, "not there yet"},
    {"FormerUntilThen", ImageRule::kFormerUntilThen, "is ended that is kept"},
    {"WakeKept", ImageRule::kWakeKept, ""},
    {"KeepFirst", ImageRule::kKeepFirst, "is ended that is kept"},
    {"OfThisIncarnation", ImageRule::kOfThisIncarnation, "former incarnation"},
    {"NumberWanted", ImageRule::kNumberWanted, "marks go back"},
    {"MainWhileNoneKept", ImageRule::kMainWhileNoneKept, "main is started"},
    {"DecideAgain", ImageRule::kDecideAgain, "deadlock"},
    {"ForgetEnded", ImageRule::kForgetEnded, "deadlock"},
};

class LeftOut : public testing::TestWithParam<Case> {};

TEST_P(LeftOut, IsNoticed) {
  const Case c = GetParam();
  World world;
  ASSERT_TRUE(find_world("images", &world));
  if (!can_simulate(world)) GTEST_SKIP();
  Sweep sweep(world);
  sweep.leave_out(c.rule);
  constexpr std::uint64_t kSeeds = 200;
  for (std::uint64_t seed = 0; sweep.failure().empty() && seed < kSeeds; ++seed) {
    sweep.images(seed, 100);
  }
  ASSERT_NE(sweep.failure(), "") << "nothing noticed";
  EXPECT_NE(sweep.failure().find(c.says), std::string::npos) << sweep.failure();
}

INSTANTIATE_TEST_SUITE_P(Rules, LeftOut, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<Case>& c) {
                           return std::string(c.param.name);
                         });

// The only sign that this rule is left out: no other image is made.
TEST(LeftOutRule, EndedUnregisteredIsNoticed) {
  World world;
  ASSERT_TRUE(find_world("images", &world));
  if (!can_simulate(world) || !thorough()) GTEST_SKIP();
  Sweep sweep(world);
  sweep.leave_out(ImageRule::kEndedUnregistered);
  for (std::uint64_t seed = 0; sweep.probes()[Probe::kOtherImageDied] < 30; ++seed) {
    ASSERT_TRUE(sweep.images(seed, 100)) << sweep.failure();
  }
  EXPECT_EQ(sweep.probes()[Probe::kImageAfterUnregistered], 0u);
}

}  // namespace
}  // namespace rejoin::sim
