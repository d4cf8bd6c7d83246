// What a rank does while it waits for anything: its nonblocking operations go on, and others see
// what has to be over first. PROTOCOL.md, "Nonblocking operations".
#pragma once

#include <cstdint>

#include "journal/own.h"
#include "journal/rules.h"
#include "recovery/nonblocking.h"
#include "recovery/repetition.h"
#include "recovery/taking.h"

namespace rejoin::recovery {

template <journal::Host H>
class Waits {
 public:
  Waits(H& host, Repetition<H>& repetition, Taking& taking)
      : host_(host),
        control_(journal::own_control(host)),
        repetition_(repetition),
        taking_(taking) {}

  // Whether nonblocking operations are outstanding.
  bool any() const { return outstanding_.any(); }
  // Starts one that was just entered.
  void start(Nonblocking& op) {
    outstanding_.start(op, !journal::breaks(host_, Rule::kSendOnEntering));
  }

  // Called before the program waits for `s`, while nonblocking operations are outstanding: until
  // end() others see the oldest one of that communicator, because it has to be over first.
  [[gnu::noinline]] void begin(const Standing& s) {
    awaited_ = s;
    show_awaited();
  }
  void end() { awaited_.context = 0; }

  // Advances nonblocking operations; called in a wait before anything else is looked at. A rank
  // that waits makes an image that is wanted at once, although it takes nothing yet.
  void advance(bool thorough) {
    if (outstanding_.any()) [[unlikely]]
      advance_all(thorough);
    if (!thorough) return;
    if (repetition_.open()) [[unlikely]]
      repetition_.look_in_wait();
    taking_.before();
  }

 private:
  [[gnu::noinline]] void advance_all(bool thorough) {
    if (journal::breaks(host_, Rule::kAdvanceOutstanding)) return;
    if (outstanding_.advance(thorough)) show_awaited();
  }

  void show_awaited() {
    if (awaited_.context == 0) return;
    const Nonblocking* oldest = outstanding_.oldest_of(awaited_.context);
    const Standing& s = oldest != nullptr ? oldest->standing() : awaited_;
    const std::uint32_t moves = control_->moves.load(std::memory_order_relaxed);
    control_->moves.store(host_, Step::kStanding, moves + 1, std::memory_order_relaxed);
    journal::order_stores();
    host_.step(Step::kStanding);
    control_->context.store(host_, Step::kSame, s.context);
    control_->sequence.store(host_, Step::kSame, s.sequence);
    control_->call.store(host_, Step::kSame, s.call);
    control_->moves.store(host_, Step::kStanding, moves + 2);
  }

  H& host_;
  journal::RankControl* const control_;
  Repetition<H>& repetition_;
  Taking& taking_;
  Outstanding outstanding_;
  Standing awaited_;
};

}  // namespace rejoin::recovery
