// The two simulations of bench/scale: without clocks, and with fixed seeds.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "protocol.h"
#include "worth.h"

namespace rejoin::scale {
namespace {

// --- Protocol

std::uint64_t no_time() { return 0; }

TEST(ScaleProtocol, CountsTheMessagesOfEachPhase) {
  constexpr std::uint64_t kHosts = 6, kRanks = 18;
  const std::vector<Phase> phases = simulate_protocol(kHosts, kRanks / kHosts, {}, no_time);
  struct Expected {
    const char* name;
    std::uint64_t reports, orders;
  };
  const Expected expected[] = {
      {"agents", 2 * kHosts, 3 * kHosts},                 // beat and ready; plan, answer, addresses
      {"ranks", 3 * kRanks, kHosts},                      //
      {"set", 5 * kHosts, 3 * kHosts},                    // due, made, stored, kept, settled
      {"rank", 5, 2},                                     // its end, and until it is live
      {"host", kHosts + 4 * kRanks + 3, 3 * kHosts + 2},  // its loss; beat and ready; all go back
      {"beats", 4 * kHosts, 4 * kHosts},                  //
      {"end", 3 * kRanks + 2 * kHosts, kRanks + kHosts},
  };
  ASSERT_EQ(phases.size(), std::size(expected));
  for (std::size_t i = 0; i < phases.size(); ++i) {
    EXPECT_EQ(phases[i].name, expected[i].name);
    EXPECT_EQ(phases[i].reports, expected[i].reports) << phases[i].name;
    EXPECT_EQ(phases[i].orders, expected[i].orders) << phases[i].name;
    EXPECT_EQ(phases[i].code_ns, 0U);
    EXPECT_GE(phases[i].time_ns, phases[i].busy_ns);
  }
}

TEST(ScaleProtocol, BytesGrowWithTheHostsExceptAtTheStart) {
  const std::vector<Phase> few = simulate_protocol(8, 2, {}, no_time);
  const std::vector<Phase> many = simulate_protocol(128, 2, {}, no_time);
  for (std::size_t i = 0; i < few.size(); ++i) {
    const auto before = static_cast<double>(few[i].bytes_in + few[i].bytes_out);
    const double growth = static_cast<double>(many[i].bytes_in + many[i].bytes_out) / before;
    if (few[i].name == "agents") continue;
    EXPECT_LT(growth, 24) << few[i].name;  // 16 times the hosts, and longer numbers
  }
}

// --- Worth

constexpr double kMinute_s = 60, kHour_s = 3600;

// Failures at these times, of these hosts; then none.
Failures given(std::vector<Failure> list) {
  return [list = std::move(list), i = std::size_t{0}]() mutable {
    return i < list.size() ? list[i++] : Failure{INFINITY, 0};
  };
}

TEST(ScaleWorth, DalysPeriods) {  // his figures 3 to 5
  const Files files = {5 * kMinute_s, 10 * kMinute_s};
  EXPECT_NEAR(daly_period_s(files, 24 * kHour_s) / kMinute_s, 117, 0.5);
  EXPECT_NEAR(daly_period_s(files, 6 * kHour_s) / kMinute_s, 57, 0.5);
  EXPECT_NEAR(daly_period_s(files, 15 * kMinute_s) / kMinute_s, 9.1, 0.1);
}

TEST(ScaleWorth, FailAllTakesTheTimeOfDalysFormula) {
  const Files files = {5 * kMinute_s, 10 * kMinute_s};
  const Job job = {500 * kHour_s, 100};
  for (const double mtbf_s : {24 * kHour_s, 6 * kHour_s, 1 * kHour_s}) {
    const double period_s = daly_period_s(files, mtbf_s);
    constexpr int kRuns = 60;
    double sum_s = 0;
    for (int run = 0; run < kRuns; ++run) {
      sum_s += fail_all(job, files, period_s,
                        RandomFailures(job.hosts, mtbf_s * job.hosts, 1, 1000 + run))
                   .time_s;
    }
    const double formula_s = daly_time_s(job.work_s, files, period_s, mtbf_s);
    EXPECT_NEAR(sum_s / kRuns / formula_s, 1, 0.02) << mtbf_s;
  }
}

TEST(ScaleWorth, HostsFailAtTheirRateFromTheStart) {
  for (const double shape : {1.0, 0.7}) {
    constexpr std::uint32_t kHosts = 50'000;
    constexpr double kMtbf_s = 1000, kUntil_s = 2000;
    RandomFailures failures(kHosts, kMtbf_s, shape, 7);
    double early = 0, all = 0;
    for (double at_s = failures().at_s; at_s < kUntil_s; at_s = failures().at_s) {
      early += at_s < kMtbf_s / 4;
      ++all;
    }
    EXPECT_NEAR(all / (kHosts * kUntil_s / kMtbf_s), 1, 0.02) << shape;
    EXPECT_NEAR(early / (kHosts / 4), 1, 0.03) << shape;
  }
}

TEST(ScaleWorth, WithoutFailuresOnlyTheProtectionIsPaidFor) {
  const Job job = {1000, 10};
  EXPECT_DOUBLE_EQ(fail_all(job, {10, 20}, 100, given({})).time_s, 1000 + 9 * 10);
  const Sets sets = {10, 2, 0.05, 5};
  for (const GoesBack who : {GoesBack::kAll, GoesBack::kHost, GoesBack::kRank}) {
    const Outcome o = go_back(job, sets, {10, 20}, INFINITY, who, given({}));
    EXPECT_DOUBLE_EQ(o.time_s, 1000 / 0.95);
    EXPECT_EQ(o.redone_s, 0);
  }
}

TEST(ScaleWorth, AFailureInEachPeriod) {
  const Job job = {1000, 10};
  std::vector<Failure> failures;
  // The job writes a file, works for another 5 s, and begins again in 20 s.
  for (int i = 1; i <= 9; ++i) failures.push_back({i * 115.0 + (i - 1) * 20.0, 0});
  const Outcome o = fail_all(job, {10, 20}, 100, given(failures));
  EXPECT_DOUBLE_EQ(o.time_s, 9 * 135 + 100);
  EXPECT_DOUBLE_EQ(o.redone_s, 9 * 5 * 10);
  // And none is written if it fails before each.
  const auto often = [at_s = 0.0]() mutable { return Failure{at_s += 100, 0}; };
  EXPECT_FALSE(fail_all(job, {10, 20}, 100, often).finished);
}

TEST(ScaleWorth, ALossTakesAllOrOneBack) {
  const Job job = {1000, 10};
  const Sets sets = {10, 2, 0, 5};
  // The set of 100 s is stored at 102 s; at 109 s nine seconds of work are lost.
  const Outcome all = go_back(job, sets, {10, 20}, INFINITY, GoesBack::kAll, given({{109, 3}}));
  EXPECT_DOUBLE_EQ(all.time_s, 1000 + 9 + 5);
  EXPECT_DOUBLE_EQ(all.redone_s, 9 * 10);
  const Outcome one = go_back(job, sets, {10, 20}, INFINITY, GoesBack::kHost, given({{109, 3}}));
  EXPECT_DOUBLE_EQ(one.time_s, 1000 + 9 + 5);
  EXPECT_DOUBLE_EQ(one.redone_s, 9);
  // The set of 100 s is not stored yet at 101 s.
  const Outcome early = go_back(job, sets, {10, 20}, INFINITY, GoesBack::kAll, given({{101, 3}}));
  EXPECT_DOUBLE_EQ(early.redone_s, 11 * 10);
}

TEST(ScaleWorth, ASecondLoss) {
  const Job job = {1000, 10};
  const Sets sets = {10, 2, 0, 5};
  const auto falls = [&](GoesBack who, std::uint32_t second, double at_s) {
    return go_back(job, sets, {10, 20}, INFINITY, who, given({{109, 3}, {at_s, second}})).falls;
  };
  EXPECT_EQ(falls(GoesBack::kAll, 7, 112), 1U);   // while all go back
  EXPECT_EQ(falls(GoesBack::kAll, 7, 115), 0U);   // then
  EXPECT_EQ(falls(GoesBack::kAll, 2, 115), 1U);   // its part lay with the first one
  EXPECT_EQ(falls(GoesBack::kAll, 2, 117), 0U);   // a newer set is stored
  EXPECT_EQ(falls(GoesBack::kHost, 7, 112), 0U);  // both are back later
  EXPECT_EQ(falls(GoesBack::kHost, 2, 112), 1U);
  EXPECT_EQ(falls(GoesBack::kHost, 4, 112), 1U);  // has the part that is being fetched
  EXPECT_EQ(falls(GoesBack::kRank, 2, 112), 0U);
}

}  // namespace
}  // namespace rejoin::scale
