// When snapshots are made: each second, at most 1 % of the time, or 5 % if the journal grows.
#include <gtest/gtest.h>

#include "launcher/agent/snapshot_policy.h"

namespace rejoin::launcher {
namespace {

constexpr std::uint64_t kMs = 1'000'000, kSecond = 1000 * kMs;

TEST(SnapshotPolicy, EachSecondWhereTheyCostLittle) {
  SnapshotPolicy policy({});
  policy.began(5 * kSecond);
  EXPECT_EQ(policy.due_ns(), 6 * kSecond);
  EXPECT_EQ(policy.look(6 * kSecond - 1, 9 * kMs), SnapshotRound::kNone);
  EXPECT_EQ(policy.look(6 * kSecond, 9 * kMs), SnapshotRound::kTogether);
  EXPECT_EQ(policy.due_ns(), 7 * kSecond);
}

TEST(SnapshotPolicy, OnePercentOfTheTime) {
  SnapshotPolicy policy({});
  policy.began(0);
  EXPECT_EQ(policy.look(kSecond, 0), SnapshotRound::kTogether);
  // The pages are copied only from now on, so the cost is 300 ms when the next snapshot is due.
  EXPECT_EQ(policy.look(2 * kSecond, 300 * kMs), SnapshotRound::kNone);
  EXPECT_EQ(policy.due_ns(), 31 * kSecond);
  EXPECT_EQ(policy.look(31 * kSecond, 300 * kMs), SnapshotRound::kTogether);
}

TEST(SnapshotPolicy, TheFirstWaitsForTheMostThatItMayCost) {
  SnapshotPolicy policy({});
  policy.began(0);
  const std::uint64_t pages = 500 * 256, page_ns = 2500;  // 320 ms if all pages are written
  EXPECT_EQ(policy.look(kSecond, SnapshotPolicy::first_cost_ns(pages, page_ns)),
            SnapshotRound::kNone);
  EXPECT_EQ(policy.due_ns(), 16 * kSecond);
}

TEST(SnapshotPolicy, AJournalThatGrowsMayCostFivePercent) {
  SnapshotPolicy policy({});
  policy.began(0);
  EXPECT_EQ(policy.look(kSecond, kMs), SnapshotRound::kTogether);
  policy.asked();
  EXPECT_EQ(policy.due_ns(), kSecond + 20 * kMs);
  EXPECT_EQ(policy.look(kSecond + 20 * kMs, 2 * kMs), SnapshotRound::kNone);
  EXPECT_EQ(policy.look(kSecond + 40 * kMs, 2 * kMs), SnapshotRound::kTogether);
  EXPECT_EQ(policy.due_ns(), kSecond + 40 * kMs + kSecond);  // no other round is requested
}

TEST(SnapshotPolicy, TheGrowthOfAllJournalsCounts) {
  SnapshotPolicy policy({SnapshotOptions::When::kAuto, 0, 1000});
  policy.began(0);
  EXPECT_EQ(policy.look(kSecond, kMs), SnapshotRound::kTogether);
  policy.grown(999, 0, 0);
  EXPECT_EQ(policy.due_ns(), 2 * kSecond);
  policy.grown(1000, 0, 0);
  EXPECT_EQ(policy.due_ns(), kSecond + 20 * kMs);
  EXPECT_EQ(policy.look(kSecond + 20 * kMs, kMs), SnapshotRound::kTogether);
  policy.grown(1999, 0, 0);  // the growth since the last round
  EXPECT_EQ(policy.due_ns(), 2 * kSecond + 20 * kMs);
}

TEST(SnapshotPolicy, AJournalOfSeveralTimesTheSizeIsWorthMore) {
  SnapshotPolicy policy({SnapshotOptions::When::kAuto, 0, 1000});
  policy.began(0);
  EXPECT_EQ(policy.look(kSecond, kMs), SnapshotRound::kTogether);
  policy.grown(2000, 0, 0);
  EXPECT_EQ(policy.due_ns(), kSecond + 10 * kMs);
  policy.grown(5000, 0, 0);
  EXPECT_EQ(policy.due_ns(), kSecond + 4 * kMs);
}

TEST(SnapshotPolicy, NearlyFullJournalsComeFirst) {
  SnapshotPolicy policy({SnapshotOptions::When::kAuto, 0, 1000});
  policy.began(0);
  EXPECT_EQ(policy.look(kSecond, kMs), SnapshotRound::kTogether);
  policy.grown(1, 51, 100);
  EXPECT_EQ(policy.due_ns(), kSecond + 2 * kMs);
  EXPECT_EQ(policy.look(kSecond + 2 * kMs, kMs), SnapshotRound::kTogether);
  policy.grown(2, 51, 100);  // these bytes were reused since then
  EXPECT_EQ(policy.due_ns(), 2 * kSecond + 2 * kMs);
  policy.grown(1001, 0, 0);
  EXPECT_EQ(policy.due_ns(), kSecond + 22 * kMs);
}

TEST(SnapshotPolicy, ARankThatWaitsGetsARoundAtOnce) {
  SnapshotPolicy policy({SnapshotOptions::When::kAuto, 0, 1000});
  policy.began(0);
  EXPECT_EQ(policy.look(kSecond, kMs), SnapshotRound::kTogether);
  policy.grown(1, 76, 100);
  policy.waited_for();
  EXPECT_EQ(policy.look(kSecond, kMs), SnapshotRound::kToTruncate);  // regardless of its cost
  policy.grown(1, 76, 100);  // no more growth than before that round
  policy.waited_for();
  policy.grown(1, 76, 100);
  EXPECT_EQ(policy.look(kSecond + 1, kMs), SnapshotRound::kToTruncate);
  EXPECT_EQ(policy.due_ns(), 2 * kSecond + 1);
}

TEST(SnapshotPolicy, TheJobPaysMoreThanItsDearestRank) {
  EXPECT_EQ(SnapshotPolicy::job_cost_ns(100, 2, 64), 100u);
  EXPECT_EQ(SnapshotPolicy::job_cost_ns(100, 2, 2), 200u);
  EXPECT_EQ(SnapshotPolicy::job_cost_ns(100, 8, 2), 800u);
}

TEST(SnapshotPolicy, APeriodIsKeptWhateverItCosts) {
  SnapshotPolicy policy({SnapshotOptions::When::kPeriod, 10 * kMs, 0});
  policy.began(0);
  EXPECT_EQ(policy.look(10 * kMs, kSecond), SnapshotRound::kTogether);
  EXPECT_EQ(policy.due_ns(), 20 * kMs);
}

TEST(SnapshotPolicy, ASmallJournalIsTruncatedBeforeItIsFull) {
  constexpr std::uint64_t kMiB = 1 << 20;
  constexpr std::uint64_t kMemory = 12'800 * kMiB;
  EXPECT_EQ(SnapshotPolicy::default_every_bytes(20 * kMiB, kMemory), 5 * kMiB);
  EXPECT_EQ(SnapshotPolicy::default_every_bytes(256 * kMiB, kMemory), 64 * kMiB);
  EXPECT_EQ(SnapshotPolicy::default_every_bytes(4'096 * kMiB, kMemory), 64 * kMiB);
  EXPECT_EQ(SnapshotPolicy::default_every_bytes(kMemory, kMemory), 200 * kMiB);
}

TEST(SnapshotPolicy, AHostWithLittleMemoryHasMoreRounds) {
  constexpr std::uint64_t kMiB = 1 << 20, kLimit = 1'000'000 * kMiB;  // of a larger host, or a disk
  EXPECT_EQ(SnapshotPolicy::default_every_bytes(kLimit, 1'024 * kMiB), 64 * kMiB);
  EXPECT_EQ(SnapshotPolicy::default_every_bytes(kLimit, 12'800 * kMiB), 200 * kMiB);
  EXPECT_EQ(SnapshotPolicy::default_every_bytes(kLimit, kLimit), 1'024 * kMiB);
}

TEST(SnapshotPolicy, Off) {
  SnapshotPolicy policy({SnapshotOptions::When::kOff, 0, 0});
  policy.began(0);
  policy.asked();
  EXPECT_EQ(policy.due_ns(), SnapshotPolicy::kNever);
}

// New images take no memory at first; if they come too late, there are none for a while.
TEST(SnapshotPolicy, TheMemoryOfImagesIsBounded) {
  SnapshotPolicy policy({SnapshotOptions::When::kAuto, 0, 1000, 400});
  policy.began(0);
  EXPECT_EQ(policy.look(kSecond, kMs), SnapshotRound::kTogether);
  EXPECT_FALSE(policy.memory_taken(400));
  EXPECT_EQ(policy.due_ns(), 2 * kSecond);
  EXPECT_FALSE(policy.memory_taken(500));
  EXPECT_EQ(policy.due_ns(), kSecond + 20 * kMs);
  EXPECT_TRUE(policy.memory_taken(501));
  SnapshotPolicy unbounded({SnapshotOptions::When::kAuto, 0, 1000, 0});
  unbounded.began(0);
  EXPECT_FALSE(unbounded.memory_taken(~std::uint64_t{0}));
  EXPECT_EQ(unbounded.due_ns(), kSecond);
}

}  // namespace
}  // namespace rejoin::launcher
