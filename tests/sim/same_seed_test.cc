// A seed is all there is to know of a run.
#include <gtest/gtest.h>

#include "engine/transport/sim/fiber.h"
#include "named.h"
#include "sweep.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

TEST(SameSeed, SameTrace) {
  for (const std::string& name : names_of_mortal_worlds(24)) {
    World world;
    ASSERT_TRUE(find_world(name, &world));
    Job job(world), other(world);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      Plan plan = plan_of(seed);
      plan.deaths = random_deaths(seed, world.ranks, job.reference().turns);
      const Result a = job.run(plan);
      const Result b = other.run(plan);
      EXPECT_EQ(a.hash, b.hash) << name << " " << seed;
      EXPECT_EQ(a.turns, b.turns) << name << " " << seed;
    }
  }
}

TEST(SameSeed, AnotherSeedIsAnotherTrace) {
  World world;
  ASSERT_TRUE(find_world("mix", &world));
  Job job(world);
  EXPECT_NE(job.run(plan_of(1)).hash, job.run(plan_of(2)).hash);
}

TEST(SameSeed, AFailureTellsHowToSeeItAgain) {
  World world;
  ASSERT_TRUE(find_world("leaves", &world));
  Sweep sweep(world);
  sweep.set_mutant(engine::Mutant::kTornCommit);
  sweep.singles(0, ~std::uint64_t{0});
  const std::string failure = sweep.failure();
  const std::size_t at = failure.find(" --deaths ");
  ASSERT_NE(at, std::string::npos) << failure;
  ASSERT_NE(failure.find("simulate leaves --seed 0"), std::string::npos) << failure;
  Plan plan = plan_of(0);
  plan.options.mutant = engine::Mutant::kTornCommit;
  const std::string list = failure.substr(at + 10, failure.find(' ', at + 10) - at - 10);
  ASSERT_TRUE(parse_deaths(list, &plan.deaths));
  Job job(world);
  const Result again = job.run(plan);
  EXPECT_FALSE(again.good());
  EXPECT_EQ(failure.find(again.why) == std::string::npos, false) << failure << again.why;
  EXPECT_NE(job.transcript(plan, 20).find("dies"), std::string::npos);
}

TEST(Deaths, AsText) {
  std::vector<Death> deaths;
  ASSERT_TRUE(parse_deaths("1:0:17,2:t300", &deaths));
  ASSERT_EQ(deaths.size(), 2u);
  EXPECT_EQ(deaths[0], (Death{1, 0, 17, 0}));
  EXPECT_EQ(deaths[1], (Death{2, 0, 0, 300}));
  EXPECT_EQ(text_of(deaths), "1:0:17,2:t300");
  EXPECT_FALSE(parse_deaths("1:0", &deaths));
  EXPECT_FALSE(parse_deaths("1:0:0", &deaths));
}

struct Counter {
  engine::Fiber fiber;
  int value = 0;
};

void count(void* argument) {
  auto* c = static_cast<Counter*>(argument);
  for (;;) {
    ++c->value;
    c->fiber.suspend();
  }
}

TEST(Fiber, GoesOnWhereItWasAndCanBeAbandoned) {
  Counter a, b;
  a.fiber.start(count, &a);
  b.fiber.start(count, &b);
  for (int i = 0; i < 3; ++i) a.fiber.resume();
  b.fiber.resume();
  EXPECT_EQ(a.value, 3);
  EXPECT_EQ(b.value, 1);
  a.fiber.start(count, &a);  // the first execution never ends
  a.fiber.resume();
  EXPECT_EQ(a.value, 4);
}

}  // namespace
}  // namespace rejoin::sim
