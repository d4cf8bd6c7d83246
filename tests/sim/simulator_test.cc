// The simulator itself: a seed determines a run, and failures are printed so that they can be
// reproduced.
#include <gtest/gtest.h>

#include "engine/transport/sim/fiber.h"
#include "named.h"
#include "player.h"
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

TEST(SameSeed, AFailurePrintsHowToReproduceIt) {
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
  EXPECT_NE(failure.find(again.why), std::string::npos) << failure << again.why;
  EXPECT_NE(job.transcript(plan, 20).find("dies"), std::string::npos);
}

// A program that calls another operation in its replay: the job is stopped, and the place is named.
TEST(Divergence, StopsTheJob) {
  World world;
  world.name = "divergent";
  world.ranks = 2;
  world.body = [](Player& p) {
    Player::Comm all = p.everyone();
    p.allreduce(all, p.incarnation() == 0 ? 1 : 2);
    p.message(all, 0, 1, 1);
    p.barrier(all);
  };
  Job job(world);
  ASSERT_TRUE(job.reference().good());
  Plan plan;
  plan.deaths = {{0, 0, job.reference().ranks[0].steps, 0}};
  const Result result = job.run(plan);
  EXPECT_EQ(result.ending, Ending::kStopped);
  EXPECT_NE(result.why.find("and is MPI_Allreduce of 16 bytes"), std::string::npos) << result.why;
}

TEST(Divergence, OfAMessageStopsTheJob) {
  World world;
  world.name = "divergent message";
  world.ranks = 2;
  world.body = [](Player& p) {
    Player::Comm all = p.everyone();
    p.message(all, 0, 1, p.incarnation() == 0 ? 3 : 4);
    p.barrier(all);
  };
  Job job(world);
  ASSERT_TRUE(job.reference().good());
  unsigned stops = 0;
  for (std::uint64_t step = 1; step <= job.reference().ranks[0].steps; ++step) {
    Plan plan;
    plan.deaths = {{0, 0, step, 0}};
    const Result result = job.run(plan);
    if (result.ending != Ending::kStopped) continue;
    stops += result.why.find("the replay sends rank 1 32 bytes, but the first execution sent 24") !=
             std::string::npos;
  }
  EXPECT_GT(stops, 0u);  // only where it dies between the message and the record of the operation
}

TEST(Deaths, AsText) {
  std::vector<Death> deaths;
  ASSERT_TRUE(parse_deaths("1:0:17,2:t300", &deaths));
  ASSERT_EQ(deaths.size(), 2u);
  EXPECT_EQ(deaths[0], (Death{1, 0, 17, 0}));
  EXPECT_EQ(deaths[1], (Death{2, 0, 0, 300}));
  EXPECT_EQ(text_of(deaths), "1:0:17,2:t300");
  deaths.clear();
  ASSERT_TRUE(parse_deaths("1:i7,0:k8", &deaths));
  ASSERT_EQ(deaths.size(), 2u);
  EXPECT_EQ(deaths[0], (Death{1, 0, 0, 7, 9, engine::Victim::kNewestImage}));
  EXPECT_EQ(deaths[1], (Death{0, 0, 0, 8, 9, engine::Victim::kKeptImage}));
  EXPECT_EQ(text_of(deaths), "1:i7,0:k8");
  EXPECT_FALSE(parse_deaths("1:x7", &deaths));
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
