// Cases that a sweep of deaths at steps does not reach: deaths of all ranks, or of two, at the same
// moment; and jobs long enough for memory to be reused.
#include <gtest/gtest.h>

#include "named.h"
#include "player.h"
#include "sweep.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

using journal::Rule;

class Together : public testing::TestWithParam<std::string> {};

// All ranks, or all but one, die at every moment of the run, in several schedules: between prepare
// and acknowledge, in a load, in the bootstrap phase, ...
TEST_P(Together, AtEveryMoment) {
  World world;
  ASSERT_TRUE(find_world(GetParam(), &world));
  Sweep sweep(world);
  const std::uint64_t runs = scaled(world.name == "checkpoints-large" ? 1200 : 4000);
  for (std::uint64_t seed = 0; sweep.failure().empty() && sweep.job().runs() < runs; ++seed) {
    Plan plan = plan_of(seed);
    const std::uint64_t turns = sweep.job().reference().turns;
    const std::uint64_t every = thorough() ? 1 + seed % 3 : 1 + turns / 8;
    for (std::uint64_t t = seed % every; sweep.failure().empty() && t < turns; t += every) {
      const std::uint32_t spared = static_cast<std::uint32_t>(t % (world.ranks + 1));
      plan.deaths.clear();
      for (std::uint32_t r = 0; r < world.ranks; ++r) {
        if (r != spared) plan.deaths.push_back({r, 0, 0, t});
      }
      // And they die once more soon afterwards, in the first steps of the replacements.
      if (t % 2 == 1) plan.deaths.push_back({spared % world.ranks, 1, 1 + t % 40, 0});
      sweep.try_plan(plan);
    }
  }
  EXPECT_EQ(sweep.failure(), "");
  if (!thorough()) return;
  EXPECT_GT(sweep.probes()[Probe::kAllDead], 0u);
  EXPECT_GT(sweep.probes()[Probe::kRestored], 0u);
  EXPECT_GT(sweep.probes()[Probe::kPreparedBefore], 0u);
  EXPECT_GT(sweep.probes()[Probe::kDiedRestored], 0u);
}

std::vector<std::string> names_of_checkpoint_worlds() {
  std::vector<std::string> names;
  for (const World& w : checkpoint_worlds()) names.push_back(w.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Worlds, Together, testing::ValuesIn(names_of_checkpoint_worlds()),
                         name_of_case);

// One program repeats an operation after the load without marking it; the root of another one calls
// from another place in the first iteration than later. No death gives a wrong result: the job
// continues, or stops and reports what must be marked.
class Unproven : public testing::TestWithParam<const char*> {};

struct Endings {
  std::uint64_t finished = 0, asked = 0;
  std::string other;  // the first run that is neither; later runs are not examined
};

// One rank dies, or one rank and a little later its neighbour.
Endings endings_of(const char* name, Rule broken, std::uint64_t seeds,
                   Rule uncovered = Rule::kNone) {
  Endings endings;
  World world;
  EXPECT_TRUE(find_world(name, &world));
  Job job(world);
  const std::uint64_t turns = job.reference().turns;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    Plan plan = plan_of(seed);
    plan.options.broken = broken;
    plan.options.broken_too = uncovered;
    for (std::uint32_t r = 0; r < world.ranks; ++r) {
      for (std::uint64_t t = seed % 3; t < turns; t += 3) {
        plan.deaths = {{r, 0, 0, t}};
        if (t % 5 == 0) plan.deaths.push_back({(r + 1) % world.ranks, 0, 0, t + 7});
        const Result result = job.run(plan);
        if (result.good()) {
          ++endings.finished;
        } else if (result.ending == Ending::kStopped &&
                   result.why.find("must be marked") != std::string::npos) {
          ++endings.asked;
        } else {
          endings.other = std::to_string(seed) + ", " + text_of(plan.deaths) + ": " + result.why;
          return endings;
        }
      }
    }
  }
  return endings;
}

TEST_P(Unproven, NeverWrong) {
  const Endings endings = endings_of(GetParam(), Rule::kNone, scaled(6));
  EXPECT_EQ(endings.other, "");
  EXPECT_GT(endings.finished, 0u);
  EXPECT_GT(endings.asked, 0u);
}

INSTANTIATE_TEST_SUITE_P(Worlds, Unproven, testing::Values("unproven-repeated", "unproven-roles"));

// Ranks that were restarted together are one operation behind the others, which is detected before
// the last of them has entered. Their former contributions would be compared first, so that rule is
// left out.
TEST(UnprovenCall, IsTheReasonForADisagreement) {
  const Endings endings = endings_of("unproven-repeated", Rule::kFindWhyMembersDisagree, 30,
                                     Rule::kCompareContribution);
  EXPECT_NE(endings.other.find("must make the same"), std::string::npos) << endings.other;
}

// All iterations are alike.
World steady(std::uint64_t iterations, std::size_t growth) {
  World world;
  world.name = "steady";
  world.ranks = 3;
  world.body = [iterations, growth](Player& p) {
    Player::Comm all = p.everyone(), pair = p.comm({2, 0});
    const std::uint64_t from = p.load();
    p.end_bootstrap_phase();
    p.grow_models(growth);
    for (std::uint64_t v = from; v < iterations; ++v) {
      p.allreduce(all, 5);
      p.bcast(all, static_cast<std::uint32_t>(v % 3), 20);
      p.allreduce(all, 1);
      p.message(pair, v % 2, 1 - v % 2, 4);
      p.checkpoint(all);
    }
  };
  return world;
}

// Each iteration creates a communicator.
World made_and_freed(std::uint64_t iterations) {
  World world;
  world.name = "made-and-freed";
  world.ranks = 3;
  world.body = [iterations](Player& p) {
    Player::Comm all = p.everyone();
    const std::uint64_t from = p.load();
    p.end_bootstrap_phase();
    for (std::uint64_t v = from; v < iterations; ++v) {
      Player::Comm once = p.comm({2, 0, 1}, 100 + v);
      p.allreduce(once, 1);
      p.allreduce(once, 5);
      p.bcast(once, static_cast<std::uint32_t>(v % 3), 20);
      p.free(once);
      p.checkpoint(all);
    }
  };
  return world;
}

struct Used {
  std::uint64_t permanent, payload;
  std::uint64_t zones;   // of all ranks
  std::uint64_t others;  // payload outside of all zones
};

Used used(const Job& job) {
  Used u = {};
  for (std::uint32_t r = 0; r < job.world().ranks; ++r) {
    u.permanent += journal::control_of(job.base(), r)->permanent_bump.load();
    u.payload += journal::control_of(job.base(), r)->payload_bump.load();
    const journal::RegionHead* head = journal::region_of(job.base(), r);
    u.zones += head->zones;
    for (std::uint32_t z = 0; z < head->zones; ++z) {
      const journal::Zone& zone = head->zone[z];
      u.others -= zone.bytes + journal::round_up_line(zone.label.capacity);
    }
  }
  u.others += u.payload;
  return u;
}

TEST(Memory, IsReused) {
  Job shorter(steady(30, 0)), longer(steady(200, 0));
  for (std::uint64_t seed = 0; seed < scaled(6); ++seed) {
    const Result a = shorter.run(plan_of(seed)), b = longer.run(plan_of(seed));
    ASSERT_TRUE(a.good() && b.good()) << a.why << b.why;
    EXPECT_EQ(used(shorter).others, used(longer).others) << seed;
    // The number of zones that are not past at a time depends on the schedule. Each rank has at
    // most one for every version to which some rank may go back.
    EXPECT_LE(used(longer).zones, longer.world().ranks * (journal::kVersions - 1)) << seed;
    EXPECT_EQ(used(shorter).permanent, used(longer).permanent) << seed;
  }
}

// With a full journal the memory of messages is reused once they are received.
TEST(Memory, OfMessagesIsReused) {
  World world;
  ASSERT_TRUE(find_world("messages-limit", &world));
  Job job(world);
  for (std::uint64_t seed = 0; seed < scaled(3); ++seed) {
    const Result result = job.run(plan_of(seed));
    ASSERT_TRUE(result.good()) << result.why;
    // A rank sends more than twice as many bytes as the first five zones hold.
    EXPECT_LE(used(job).zones, 5 * world.ranks) << seed;
  }
}

// A rank that dies often does not use more memory each time.
TEST(Memory, IsReusedAfterDeaths) {
  Job job(steady(300, 0));
  const Used undisturbed = used(job);
  const std::uint64_t turns = job.reference().turns;
  for (std::uint64_t deaths : {10, 40}) {
    Plan plan;
    for (std::uint64_t i = 1; i <= deaths; ++i)
      plan.deaths.push_back({1, 0, 0, i * turns / (deaths + 1)});
    const Result result = job.run(plan);
    ASSERT_TRUE(result.good()) << result.why;
    EXPECT_EQ(result.deaths, deaths);
    constexpr std::uint64_t kZonesBytes = 12 << 20;
    EXPECT_LT(used(job).payload, undisturbed.payload + kZonesBytes) << deaths;
    EXPECT_LT(used(job).permanent, undisturbed.permanent + (64 << 10)) << deaths;
  }
}

// Returns the size in bytes of the tables of contexts, which have an entry for every communicator
// that ever existed.
std::uint64_t tables(const Job& job) {
  std::uint64_t bytes = 0;
  for (std::uint32_t r = 0; r < job.world().ranks; ++r) {
    const std::uint32_t count = journal::region_of(job.base(), r)->contexts.tables.load();
    for (std::uint32_t k = 0; k < count; ++k) {
      bytes += (std::uint64_t{journal::kFirstTableEntries} << k) * sizeof(journal::ContextEntry);
    }
  }
  return bytes;
}

// Blocks of freed communicators are reused for later ones, with everything that belongs to them.
TEST(Memory, OfCommunicatorsIsReused) {
  Job shorter(made_and_freed(40)), longer(made_and_freed(240));
  for (std::uint64_t seed = 0; seed < scaled(6); ++seed) {
    const Result a = shorter.run(plan_of(seed)), b = longer.run(plan_of(seed));
    ASSERT_TRUE(a.good() && b.good()) << a.why << b.why;
    const std::uint64_t before = used(shorter).permanent - tables(shorter);
    const std::uint64_t after = used(longer).permanent - tables(longer);
    // The number of blocks that are not past depends on the schedule; it is less than 200.
    EXPECT_LE(after, before + 3 * longer.world().ranks * sizeof(journal::ContextBlock)) << seed;
  }
}

// Models that grow a little each time.
TEST(Memory, OfGrowingModelsIsReused) {
  Job job(steady(200, 100));
  const Job constant(steady(200, 0));
  // At the end a model has 200 * 100 elements: four versions of two models, each in its final place
  // and in smaller ones before.
  const std::uint64_t last = 200 * 100 * sizeof(Element);
  EXPECT_LT(used(job).payload, used(constant).payload + 3 * 2 * 4 * 2 * last);
}

}  // namespace
}  // namespace rejoin::sim
