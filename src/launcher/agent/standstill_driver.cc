#include "launcher/agent/standstill_driver.h"

#include <string>

namespace rejoin::launcher {

Look StandstillDriver::look_at_ranks() const {
  using Presence = RankLook::Presence;
  constexpr auto kAcquire = std::memory_order_acquire;
  Look look(plan_.ranks);
  bool all_sleep = true;
  for (const std::uint32_t r : plan_.local) {
    const journal::RankControl* c = segment_.control(r);
    const std::uint32_t initialized = c->initialized.load(kAcquire);
    look[r].incarnation = c->incarnation.load(kAcquire);
    look[r].ordinal = c->ordinal.load(kAcquire);
    look[r].context = c->context.load(kAcquire);
    look[r].sequence = c->sequence.load(kAcquire);
    look[r].asleep = segment_.header()->asleep[r].load(kAcquire) != 0;
    look[r].bell = c->bell.load(kAcquire) != 0;
    if (initialized == 2 && !core_.dying(r)) look[r].presence = Presence::kLeft;
    if (initialized == 1 && core_.running(r)) look[r].presence = Presence::kPresent;
    all_sleep = all_sleep && (look[r].asleep || look[r].presence == Presence::kLeft);
  }
  if (!all_sleep) return look;
  // The kernel is asked only if every rank seems to sleep.
  for (const std::uint32_t r : plan_.local) {
    if (look[r].presence != Presence::kPresent) continue;
    const pid_t pid = processes_.pid_of(r);
    look[r].process_state = state_letter(pid);
    const auto& may_call = segment_.control(r)->threads_may_call;
    look[r].threads_may_call = may_call.load(kAcquire) != 0 && threads_of(pid) > 1;
  }
  return look;
}

bool StandstillDriver::look() {
  // Ranks of other nodes may have something to send; so far nothing is known of them here.
  if (plan_.local.size() != plan_.ranks) return false;
  if (!standstill_.judge(look_at_ranks(), loop_.now_ns()).empty()) return false;
  // A replay that blocks before it has repeated everything has diverged: a rank that repeats its
  // first execution never waits there.
  for (const std::uint32_t r : plan_.local) {
    const auto& repeating = segment_.control(r)->repeating;
    if (repeating.load(std::memory_order_acquire) == 0) continue;
    reporter_.happened(
        r, Event::Deadlock{
               "the replay of rank " + std::to_string(r) +
               " waits for an event that did not occur in the first execution. The program is not "
               "deterministic, given what it receives; see docs/fault-model.md"});
    return true;
  }
  reporter_.happened(0, Event::Deadlock{});
  return true;
}

}  // namespace rejoin::launcher
