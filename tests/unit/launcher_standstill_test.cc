// When all ranks count as blocked, and everything that must prevent that.
#include <gtest/gtest.h>

#include "launcher/agent/standstill.h"

namespace rejoin::launcher {
namespace {

using Presence = RankLook::Presence;

constexpr std::uint64_t kMs = 1'000'000;

// A rank that sleeps in operation 7.
RankLook sleeper() {
  RankLook look;
  look.presence = Presence::kPresent;
  look.ordinal = 7;
  look.sequence = 6;
  look.asleep = true;
  look.process_state = 'S';
  return look;
}

RankLook left() {
  RankLook look;
  look.presence = Presence::kLeft;
  return look;
}

// Two ranks; `change` is applied to the second.
template <class Change>
Look with(Change change) {
  Look look = {sleeper(), sleeper()};
  change(look[1]);
  return look;
}

TEST(Standstill, OneLook) {
  EXPECT_EQ(why_not_still({sleeper(), sleeper()}), "");
  EXPECT_EQ(why_not_still({sleeper(), left()}), "");
  EXPECT_EQ(why_not_still({left(), left()}), "no rank waits");
  EXPECT_EQ(why_not_still(with([](RankLook& r) { r.asleep = false; })), "rank 1 does not sleep");
  EXPECT_EQ(why_not_still(with([](RankLook& r) { r.bell = true; })), "rank 1 has been rung");
  EXPECT_EQ(why_not_still(with([](RankLook& r) { r.presence = Presence::kAbsent; })),
            "rank 1 is not running yet, or again");
  EXPECT_EQ(why_not_still(with([](RankLook& r) { r.threads_may_call = true; })),
            "rank 1 has threads that may call MPI");
  for (const char state : {'T', 't', 'R', 'D', 'Z', '?'}) {
    EXPECT_EQ(why_not_still(with([state](RankLook& r) { r.process_state = state; })),
              "rank 1 is stopped, or about to run");
  }
}

TEST(Standstill, IsBelievedAfterSeveralLooksOverMoreThanASleep) {
  Standstill standstill;
  const Look look = {sleeper(), left(), sleeper()};
  for (std::uint64_t at = 0; at < 900; at += 200) {
    EXPECT_NE(standstill.judge(look, at * kMs), "") << at;
  }
  EXPECT_EQ(standstill.judge(look, 1000 * kMs), "");
}

TEST(Standstill, IsNotBelievedAfterManyLooksAtOnce) {
  Standstill standstill;
  for (int i = 0; i < 100; ++i) EXPECT_NE(standstill.judge({sleeper()}, i * kMs), "");
}

TEST(Standstill, ARankThatOnlyLooksAgainDoesNotMatter) {
  Standstill standstill;
  const Look look = {sleeper(), sleeper()};
  const Look awake = with([](RankLook& r) { r.asleep = false; });
  for (std::uint64_t at = 0; at < 800; at += 200) standstill.judge(look, at * kMs);
  EXPECT_EQ(standstill.judge(awake, 900 * kMs), "rank 1 does not sleep");
  EXPECT_EQ(standstill.judge(look, 1000 * kMs), "");
}

// Every change between two looks starts the detection again.
TEST(Standstill, AChangeStartsTheDetectionAgain) {
  const Look others[] = {
      with([](RankLook& r) { r.ordinal = 8; }),
      with([](RankLook& r) { r.sequence = 7; }),
      with([](RankLook& r) { r.context = 1; }),
      with([](RankLook& r) { r.incarnation = 1; }),
      {sleeper(), left()},
  };
  for (const Look& other : others) {
    Standstill standstill;
    for (std::uint64_t at = 0; at <= 800; at += 200) {
      EXPECT_NE(standstill.judge({sleeper(), sleeper()}, at * kMs), "");
    }
    EXPECT_NE(standstill.judge(other, 1000 * kMs), "");
    EXPECT_NE(standstill.judge({sleeper(), sleeper()}, 1200 * kMs), "");
  }
}

TEST(Standstill, LooksThatAreFarApartDoNotCount) {
  Standstill standstill;
  for (std::uint64_t at = 0; at < 10; ++at) {
    EXPECT_NE(standstill.judge({sleeper()}, at * 2000 * kMs), "");
  }
}

}  // namespace
}  // namespace rejoin::launcher
