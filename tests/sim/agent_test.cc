// Decisions of the launcher's cores, over simulated processes: which ranks are restarted, and when
// the job ends instead.
#include <gtest/gtest.h>

#include <csignal>

#include "named.h"
#include "sweep.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

constexpr std::uint64_t kStartUpSteps = 3;  // start, register, welcome

World mix() {
  World world;
  EXPECT_TRUE(find_world("mix", &world));
  return world;
}

bool ends_with_text(const Result& result, const char* text) {
  return result.ending == Ending::kStopped && result.why.find(text) != std::string::npos;
}

// Each incarnation dies at one of its steps, up to its last. A run without the last death gives the
// number of steps, because both runs are the same up to this death.
TEST(Restarts, AreAsManyAsAllowed) {
  Job job(mix());
  constexpr std::uint32_t kMost = 3;
  for (std::uint64_t seed = 0; seed < scaled(40); ++seed) {
    Plan plan = plan_of(seed);
    plan.max_restarts = kMost;
    for (std::uint32_t i = 0; i <= kMost; ++i) {
      const Result so_far = job.run(plan);
      ASSERT_TRUE(so_far.good()) << seed << ": " << so_far.why;
      ASSERT_EQ(so_far.ranks[1].incarnation, i) << seed;
      const std::uint64_t steps = so_far.ranks[1].steps;
      ASSERT_GT(steps, kStartUpSteps);
      plan.deaths.push_back({1, i, seed < 4 ? steps : 1 + journal::mix(seed * 8 + i) % steps});
    }
    const Result one_more = job.run(plan);
    EXPECT_EQ(one_more.deaths, kMost + 1);
    EXPECT_TRUE(ends_with_text(one_more, "3 times already, so the job ends (--max-restarts)"))
        << seed << ": " << one_more.why;
  }
}

// Runs a job with two deaths of a rank by these signals, for all pairs of its first steps. Returns
// how many deaths ended the job.
unsigned jobs_ended(Job& job, int first, int second) {
  unsigned ended = 0;
  for (std::uint64_t i = 1; i < 16; ++i) {
    for (std::uint64_t k = 1; k < 16; ++k) {
      Plan plan = plan_of(i);
      plan.deaths = {{2, 0, i, 0, first}, {2, 1, k, 0, second}};
      const Result result = job.run(plan);
      EXPECT_EQ(result.deaths, 2u);
      if (result.good()) continue;
      EXPECT_TRUE(ends_with_text(result, "it died there by the same cause before")) << result.why;
      ++ended;
    }
  }
  return ended;
}

TEST(Restarts, DoNotRepeatAFault) {
  Job job(mix());
  EXPECT_GT(jobs_ended(job, SIGSEGV, SIGSEGV), kStartUpSteps * kStartUpSteps - 1);
  EXPECT_EQ(jobs_ended(job, SIGSEGV, SIGFPE), 0u);
  EXPECT_EQ(jobs_ended(job, SIGKILL, SIGKILL), 0u);
}

// Deaths before the ranks have registered: all pairs of ranks and places, and all ranks together.
TEST(StartUp, DeathsAreSurvived) {
  Job job(mix());
  for (std::uint64_t seed = 0; seed < scaled(40); ++seed) {
    Plan plan = plan_of(seed);
    for (std::uint64_t i = 1; i <= kStartUpSteps; ++i) {
      for (std::uint64_t k = 1; k <= kStartUpSteps; ++k) {
        for (const std::uint32_t again : {0u, 1u}) {
          plan.deaths = {{0, 0, i}, {again == 0 ? 1u : 0u, again, k}};
          const Result two = job.run(plan);
          ASSERT_TRUE(two.good()) << seed << ' ' << i << ' ' << k << ": " << two.why;
        }
      }
      plan.deaths = {{0, 0, i}, {1, 0, i}, {2, 0, i}};
      const Result all = job.run(plan);
      ASSERT_TRUE(all.good()) << seed << ' ' << i << ": " << all.why;
      EXPECT_EQ(all.deaths, 3u);
    }
    for (std::uint64_t time = 1; time < 40; ++time) {
      plan.deaths = {{static_cast<std::uint32_t>(seed % 3), 0, 0, time}};
      const Result one = job.run(plan);
      ASSERT_TRUE(one.good()) << seed << " t" << time << ": " << one.why;
    }
  }
  if (!thorough()) return;
  EXPECT_GT(job.probes()[Probe::kDiedRegistering], 0u);
  EXPECT_GT(job.probes()[Probe::kRegisteredLate], 0u);
  EXPECT_GT(job.probes()[Probe::kSecondRefused], 0u);
}

}  // namespace
}  // namespace rejoin::sim
