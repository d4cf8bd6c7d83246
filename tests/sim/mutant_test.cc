// The simulator can fail: each rule that its agent or its host breaks on purpose is noticed, within
// the same sweep that finds nothing otherwise.
#include <gtest/gtest.h>

#include "named.h"
#include "sweep.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

using engine::Mutant;

struct Case {
  const char* name;
  Mutant mutant;
  const char* says;             // a part of the failure
  const char* world = nullptr;  // null: any of some
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class Broken : public testing::TestWithParam<Case> {};

TEST_P(Broken, IsNoticed) {
  const Case c = GetParam();
  for (const char* name : {"mix", "leaves", "cycle", "staging", "five"}) {
    if (c.world != nullptr) name = c.world;
    World world;
    ASSERT_TRUE(find_world(name, &world));
    Sweep sweep(world);
    sweep.set_mutant(c.mutant);
    for (std::uint64_t seed = 0; sweep.failure().empty() && sweep.job().runs() < 12000; ++seed) {
      sweep.singles(seed, 450);
      if (world.checkpoints) sweep.pairs(seed, 1000);
    }
    if (sweep.failure().empty()) continue;
    EXPECT_NE(sweep.failure().find(c.says), std::string::npos) << sweep.failure();
    return;
  }
  ADD_FAILURE() << "nothing noticed";
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Broken,
    testing::Values(
        Case{"RespawnBeforeBreak", Mutant::kRespawnBeforeBreak, "I1"},
        Case{"SilentDeath", Mutant::kSilentDeath, "deadlock"},
        Case{"NoEpoch", Mutant::kNoEpoch, ""}, Case{"LostRing", Mutant::kLostRing, "deadlock"},
        Case{"ForgetfulSleep", Mutant::kForgetfulSleep, "deadlock"},
        Case{"NotReaped", Mutant::kNotReaped, "I6"}, Case{"TornCommit", Mutant::kTornCommit, ""},
        Case{"JournalLost", Mutant::kJournalLost, "I5"},
        Case{"LoadsTooNew", Mutant::kLoadsTooNew, "some rank",
             "checkpoints-two"},
        Case{"PreparesEarly", Mutant::kPreparesEarly, "checkpoint", "checkpoints-ahead"},
        Case{"HearsTheDead", Mutant::kHearsTheDead, "deadlock"},
        Case{"WelcomesTwo", Mutant::kWelcomesTwo, "I6"},
        Case{"RestartsFinalized", Mutant::kRestartsFinalized, "has ended well"}),
    [](const testing::TestParamInfo<Case>& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace rejoin::sim
