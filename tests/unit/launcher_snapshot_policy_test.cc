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
  EXPECT_FALSE(policy.look(6 * kSecond - 1, 9 * kMs));
  EXPECT_TRUE(policy.look(6 * kSecond, 9 * kMs));
  EXPECT_EQ(policy.due_ns(), 7 * kSecond);
}

TEST(SnapshotPolicy, OnePercentOfTheTime) {
  SnapshotPolicy policy({});
  policy.began(0);
  EXPECT_TRUE(policy.look(kSecond, 0));
  // Its pages are copied only now: when the next is due it is found to have cost 300 ms.
  EXPECT_FALSE(policy.look(2 * kSecond, 300 * kMs));
  EXPECT_EQ(policy.due_ns(), 31 * kSecond);
  EXPECT_TRUE(policy.look(31 * kSecond, 300 * kMs));
}

TEST(SnapshotPolicy, TheFirstWaitsForTheMostThatItMayCost) {
  SnapshotPolicy policy({});
  policy.began(0);
  const std::uint64_t pages = 500 * 256, page_ns = 2500;  // 320 ms if all of them are written
  EXPECT_FALSE(policy.look(kSecond, SnapshotPolicy::first_cost_ns(pages, page_ns)));
  EXPECT_EQ(policy.due_ns(), 16 * kSecond);
}

TEST(SnapshotPolicy, AJournalThatGrowsMayCostFivePercent) {
  SnapshotPolicy policy({});
  policy.began(0);
  EXPECT_TRUE(policy.look(kSecond, kMs));
  policy.asked();
  EXPECT_EQ(policy.due_ns(), kSecond + 20 * kMs);
  EXPECT_FALSE(policy.look(kSecond + 20 * kMs, 2 * kMs));
  EXPECT_TRUE(policy.look(kSecond + 40 * kMs, 2 * kMs));
  EXPECT_EQ(policy.due_ns(), kSecond + 40 * kMs + kSecond);  // no more is asked
}

TEST(SnapshotPolicy, WhatCountsIsWhatAllJournalsHaveGrown) {
  SnapshotPolicy policy({SnapshotOptions::When::kAuto, 0, 1000});
  policy.began(0);
  EXPECT_TRUE(policy.look(kSecond, kMs));
  policy.grown(999, 0, 0);
  EXPECT_EQ(policy.due_ns(), 2 * kSecond);
  policy.grown(1000, 0, 0);
  EXPECT_EQ(policy.due_ns(), kSecond + 20 * kMs);
  EXPECT_TRUE(policy.look(kSecond + 20 * kMs, kMs));
  policy.grown(1999, 0, 0);  // since the last round
  EXPECT_EQ(policy.due_ns(), 2 * kSecond + 20 * kMs);
}

TEST(SnapshotPolicy, AJournalOfSeveralTimesTheSizeIsWorthMore) {
  SnapshotPolicy policy({SnapshotOptions::When::kAuto, 0, 1000});
  policy.began(0);
  EXPECT_TRUE(policy.look(kSecond, kMs));
  policy.grown(2000, 0, 0);
  EXPECT_EQ(policy.due_ns(), kSecond + 10 * kMs);
  policy.grown(5000, 0, 0);
  EXPECT_EQ(policy.due_ns(), kSecond + 4 * kMs);
}

TEST(SnapshotPolicy, NearlyFullJournalsComeFirst) {
  SnapshotPolicy policy({SnapshotOptions::When::kAuto, 0, 1000});
  policy.began(0);
  EXPECT_TRUE(policy.look(kSecond, kMs));
  policy.grown(1, 51, 100);
  EXPECT_EQ(policy.due_ns(), kSecond + 4 * kMs);
  EXPECT_TRUE(policy.look(kSecond + 4 * kMs, kMs));
  policy.grown(2, 51, 100);  // used again since then
  EXPECT_EQ(policy.due_ns(), 2 * kSecond + 4 * kMs);
  policy.grown(1001, 0, 0);
  EXPECT_EQ(policy.due_ns(), kSecond + 24 * kMs);
}

TEST(SnapshotPolicy, TheJobPaysMoreThanItsDearestRank) {
  EXPECT_EQ(SnapshotPolicy::job_cost_ns(100, 2, 64), 100u);
  EXPECT_EQ(SnapshotPolicy::job_cost_ns(100, 2, 2), 200u);
  EXPECT_EQ(SnapshotPolicy::job_cost_ns(100, 8, 2), 800u);
}

TEST(SnapshotPolicy, APeriodIsKeptWhateverItCosts) {
  SnapshotPolicy policy({SnapshotOptions::When::kPeriod, 10 * kMs, 0});
  policy.began(0);
  EXPECT_TRUE(policy.look(10 * kMs, kSecond));
  EXPECT_EQ(policy.due_ns(), 20 * kMs);
}

TEST(SnapshotPolicy, ASmallJournalIsTruncatedBeforeItIsFull) {
  constexpr std::uint64_t kMiB = 1 << 20;
  EXPECT_EQ(SnapshotPolicy::default_every_bytes(20 * kMiB), 5 * kMiB);
  EXPECT_EQ(SnapshotPolicy::default_every_bytes(256 * kMiB), 64 * kMiB);
  EXPECT_EQ(SnapshotPolicy::default_every_bytes(10'000 * kMiB), 64 * kMiB);
}

TEST(SnapshotPolicy, Off) {
  SnapshotPolicy policy({SnapshotOptions::When::kOff, 0, 0});
  policy.began(0);
  policy.asked();
  EXPECT_EQ(policy.due_ns(), SnapshotPolicy::kNever);
}

}  // namespace
}  // namespace rejoin::launcher
