// The duration of a replay, estimated from samples.
#include "recovery/replay_clock.h"

#include <gtest/gtest.h>

namespace rejoin::recovery {
namespace {

constexpr std::uint64_t kReadingNs = 30;

// Calls of MPI, as the shim makes them. Each takes call_ns, without the readings of the clock.
class Calls {
 public:
  explicit Calls(ReplayClock& clock) : clock_(clock) {}
  void call(std::uint64_t call_ns) {
    if (--until_ != 0) {
      now_ns_ += call_ns;
      return;
    }
    ++measured_;
    clock_.begin(now_ns_);
    now_ns_ += call_ns + kReadingNs;
    until_ = clock_.end(now_ns_);
  }
  int measured() const { return measured_; }

 private:
  ReplayClock& clock_;
  std::uint64_t now_ns_ = 1'000'000;
  std::uint32_t until_ = 1;
  int measured_ = 0;
};

TEST(ReplayClock, FewCallsAreAllMeasured) {
  ReplayClock clock;
  clock.start(kReadingNs);
  Calls calls(clock);
  std::uint64_t all_ns = 0;
  for (std::uint64_t i = 1; i <= 64; ++i) {
    calls.call(100 * i);
    all_ns += 100 * i;
  }
  EXPECT_EQ(clock.total_ns(), all_ns);
  EXPECT_EQ(calls.measured(), 64);
}

TEST(ReplayClock, ManyCallsAreSampled) {
  ReplayClock clock;
  clock.start(kReadingNs);
  Calls calls(clock);
  std::uint64_t all_ns = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const std::uint64_t call_ns = i % 8 == 0 ? 5000 : 40;  // the program repeats every 8 calls
    calls.call(call_ns);
    all_ns += call_ns;
  }
  EXPECT_LT(calls.measured(), 5000);
  EXPECT_NEAR(static_cast<double>(clock.total_ns()), static_cast<double>(all_ns), 0.01 * 1e6 * 660);
}

TEST(ReplayClock, ACallThatIsShorterThanAReadingCountsNothing) {
  ReplayClock clock;
  clock.start(100);
  clock.begin(1000);
  EXPECT_EQ(clock.end(1040), 1u);
  EXPECT_EQ(clock.total_ns(), 0u);
}

// The call in which the rank goes live may include waiting for the other ranks.
TEST(ReplayClock, TheCallInWhichTheReplayEndsDoesNotCount) {
  ReplayClock clock;
  clock.start(0);
  clock.begin(1000);
  EXPECT_EQ(clock.end(1040), 1u);
  clock.begin(2000);
  EXPECT_TRUE(clock.is_measuring());
  clock.stop();
  EXPECT_FALSE(clock.is_measuring());
  EXPECT_EQ(clock.end(9000), 1u);  // so that the next call finds the clock stopped
  EXPECT_FALSE(clock.is_running());
  EXPECT_EQ(clock.total_ns(), 40u);
}

}  // namespace
}  // namespace rejoin::recovery
