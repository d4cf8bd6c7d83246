// How many processors ranks are bound to by themselves.
#include <gtest/gtest.h>

#include "launcher/agent/machine.h"

namespace rejoin::launcher {
namespace {

using Counts = std::vector<std::uint32_t>;

TEST(Machine, ARankHasAProcessorForEachOfItsThreads) {
  EXPECT_EQ(processors_for_threads({1, 1, 1, 1}, 4), Counts({1, 1, 1, 1}));
  EXPECT_EQ(processors_for_threads({4, 4}, 8), Counts({4, 4}));
  EXPECT_EQ(processors_for_threads({1, 4, 2}, 12), Counts({1, 4, 2}));
  EXPECT_EQ(processors_for_threads({1, 7}, 8), Counts({1, 7}));
  EXPECT_EQ(processors_for_threads({2}, 2), Counts({2}));
}

TEST(Machine, ARankHasItsShareIfThreadsAreMoreThanProcessors) {
  EXPECT_EQ(processors_for_threads({2, 2}, 2), Counts({1, 1}));
  EXPECT_EQ(processors_for_threads({8, 8, 1}, 8), Counts({4, 3, 1}));
  EXPECT_EQ(processors_for_threads({3, 3, 3}, 8), Counts({3, 3, 2}));
}

// Another job, or the kernel, decides better then.
TEST(Machine, NoRankIsBoundIfHalfOfTheProcessorsAreEnough) {
  EXPECT_EQ(processors_for_threads({1, 1}, 4), Counts());
  EXPECT_EQ(processors_for_threads({2, 2}, 8), Counts());
  EXPECT_EQ(processors_for_threads({1, 1}, 3), Counts({1, 1}));
}

TEST(Machine, NoRankIsBoundIfRanksShareProcessors) {
  EXPECT_EQ(processors_for_threads({1, 1, 1}, 2), Counts());
  EXPECT_EQ(processors_for_threads({}, 2), Counts());
}

}  // namespace
}  // namespace rejoin::launcher
