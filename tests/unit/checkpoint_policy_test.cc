// How often lazy checkpoints are written: recovery/checkpoint_policy.h.
#include "recovery/checkpoint_policy.h"

#include <gtest/gtest.h>

namespace rejoin::recovery {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TEST(LazyDistance, TheFirstOfAProcessIsFollowedAtOnce) {
  EXPECT_EQ(lazy_distance({}, 10, 0), 1u);
  EXPECT_EQ(lazy_distance({0, 100, kMiB}, 10, kMiB), 1u);
}

TEST(LazyDistance, WritingTakesAFiftiethOfTheTime) {
  // A version takes 1 s. 0.1 s of writing is a fiftieth of 5 s; the policy adds one version for
  // safety.
  EXPECT_EQ(lazy_distance({100, 100, 0}, 0.1, 0), 6u);
  EXPECT_EQ(lazy_distance({100, 100, 0}, 0.001, 0), 1u);
  EXPECT_EQ(lazy_distance({100, 100, 0}, 0, 0), 1u);
}

TEST(LazyDistance, AtMostDoublesAndEndsAtAThousand) {
  EXPECT_EQ(lazy_distance({1, 1, 0}, 100, 0), 2u);
  EXPECT_EQ(lazy_distance({2, 2, 0}, 100, 0), 4u);
  EXPECT_EQ(lazy_distance({600, 600, 0}, 100, 0), 1024u);
  EXPECT_EQ(lazy_distance({1024, 1024, 0}, 100, 0), 1024u);
}

TEST(LazyDistance, VersionsThatTakeNoTime) {
  EXPECT_EQ(lazy_distance({4, 0, 0}, 1, 0), 8u);
  EXPECT_EQ(lazy_distance({4, 0, 0}, 1e300, 0), 8u);
  EXPECT_EQ(lazy_distance({4, -1, 0}, 1, 0), 8u) << "a clock that went back";
}

TEST(LazyDistance, TheJournalStaysWithinItsShare) {
  // A version leaves 1 MiB in the journal (which is counted as one byte more).
  EXPECT_EQ(lazy_distance({8, 8, 8 * kMiB}, 100, 10 * kMiB), 9u);
  EXPECT_EQ(lazy_distance({8, 8, 8 * kMiB}, 100, 100 * kMiB), 16u) << "time decides";
  EXPECT_EQ(lazy_distance({8, 8, 8 * kMiB}, 100, kMiB), 1u) << "never 0";
  EXPECT_EQ(lazy_distance({8, 8, 0}, 100, kMiB), 16u);
  EXPECT_EQ(lazy_distance({8, 8, ~std::uint64_t{0}}, 100, kMiB), 1u);
}

}  // namespace
}  // namespace rejoin::recovery
