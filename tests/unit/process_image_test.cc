// The kernel's state that is noted for a clone.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "process_image/uncloned_state.h"

namespace rejoin::process_image {
namespace {

volatile sig_atomic_t alarms;

void count_alarm(int) { alarms = alarms + 1; }

// What happens in a clone, which has the timers that were noted and no pending signal: whether the
// alarm rings `more` times within a second.
bool rings_in_clone(const UnclonedState& state, int more) {
  UnclonedState::stop_timers();
  signal(SIGALRM, SIG_IGN);  // discards the pending signal
  signal(SIGALRM, count_alarm);
  const int before = alarms;
  state.restore_timers();
  state.restore_signals();
  for (int i = 0; i < 1000 && alarms - before < more; ++i) usleep(1000);
  UnclonedState::stop_timers();
  return alarms - before >= more;
}

// The timer expires while signals are blocked, so that its signal is pending when it is noted.
UnclonedState noted_behind_expiry(const itimerval& timer) {
  UnclonedState state;
  state.block_signals();
  setitimer(ITIMER_REAL, &timer, nullptr);
  sigset_t pending;
  do {
    usleep(100);
    sigpending(&pending);
  } while (sigismember(&pending, SIGALRM) != 1);
  state.note_timers();
  return state;
}

TEST(Timers, OneThatHasJustExpiredGoesOnInAClone) {
  EXPECT_TRUE(rings_in_clone(noted_behind_expiry({{0, 2000}, {0, 2000}}), 3));
}

TEST(Timers, OneThatRingsOnceIsNotLost) {
  EXPECT_TRUE(rings_in_clone(noted_behind_expiry({{0, 0}, {0, 2000}}), 1));
}

TEST(Timers, OneThatHasRungDoesNotRingAgain) {
  const itimerval once = {{0, 0}, {0, 100}};
  signal(SIGALRM, count_alarm);
  const int before = alarms;
  setitimer(ITIMER_REAL, &once, nullptr);
  while (alarms == before) usleep(100);
  UnclonedState state;
  state.block_signals();
  state.note_timers();
  state.restore_timers();
  itimerval left = {};
  getitimer(ITIMER_REAL, &left);
  state.restore_signals();
  EXPECT_EQ(left.it_value.tv_sec, 0);
  EXPECT_EQ(left.it_value.tv_usec, 0);
}

}  // namespace
}  // namespace rejoin::process_image
