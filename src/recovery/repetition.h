// What former incarnations of this rank have shown to others, and whether this one has repeated all
// of it. PROTOCOL.md, "What is repeated".
//
// Other ranks may have acted on a message that was posted, on a contribution in a slot, or on the
// match of a synchronous message. This incarnation therefore shows nothing new, asks nothing new
// and does not end before it has repeated them all: otherwise both executions would have had
// effects, and the result would be that of no execution.
#pragma once

#include <cstdint>

#include "journal/journal.h"
#include "journal/rules.h"
#include "recovery/communicators.h"
#include "recovery/diagnostics.h"
#include "recovery/divergence.h"
#include "recovery/execution.h"
#include "recovery/inbox.h"
#include "recovery/outbox.h"

namespace rejoin::recovery {

template <journal::Host H>
class Repetition {
 public:
  Repetition(H& host, journal::Journal<H>& journal, Communicators<H>& comms, Inbox<H>& inbox,
             Outbox<H>& outbox, const Execution<H>& execution, Diagnostics& diagnostics,
             Divergence<H>& divergence)
      : host_(host),
        control_(journal::own_control(host)),
        journal_(journal),
        comms_(comms),
        inbox_(inbox),
        outbox_(outbox),
        execution_(execution),
        diagnostics_(diagnostics),
        divergence_(divergence) {
    begin();
  }

  // An incarnation begins.
  void begin() {
    open_ = execution_.incarnation() > 0 && journal_.region().retention().serves_replays();
    show();
  }
  // Something may be left to repeat.
  bool open() const { return open_; }

  // Called before this rank does something that others see and former incarnations have not done,
  // and before a question of the program is answered anew: all that former incarnations have shown
  // must be repeated by then, else this execution has diverged. `call`: the operation's, or
  // kQuestion, or kEnd. Returns whether this process was woken meanwhile: its predecessor may have
  // done already what the caller is about to do. If it has not, the caller calls this again.
  [[gnu::always_inline]] bool before_anything_new(std::uint32_t call) {
    return open_ && check(call);
  }
  // The same where waiting is possible: for a nonblocking operation that acts after it was entered.
  // This process may have been woken meanwhile.
  bool may_do_new() {
    return !open_ || journal::breaks(host_, Rule::kNothingLeft) ||
           look().what == Left::What::kNothing;
  }
  // Returns whether something is left, without taking in messages to find out: perhaps nothing is.
  bool may_be_left() {
    if (!open_) return false;
    if (find(false).what == Left::What::kNothing) close();
    return open_;
  }
  // Looks during a wait, and shows the answer to the agent.
  void look_in_wait() {
    look();
    show();
    if (journal::breaks(host_, Rule::kStandstillDiverges))
      control_->repeating.store(host_, Step::kPosition, 0);
  }

 private:
  [[gnu::noinline]] bool check(std::uint32_t call) {
    if (journal::breaks(host_, Rule::kNothingLeft)) return false;
    const std::uint32_t incarnation = execution_.incarnation();
    const Left left = look();
    if (execution_.incarnation() != incarnation) return true;
    if (left.what == Left::What::kNothing) return false;
    divergence_.report(diagnostics_.other_course(execution_.ordinal(), host_.rank(), call, left));
    close();
    return false;
  }

  // Returns what is left, and closes the repetition if nothing is. While it is open, this costs a
  // look at each channel and each context of this rank.
  Left look() {
    Left left;
    while (open_) {
      // While it takes in messages, this process may be woken as a later incarnation, which has
      // more to repeat.
      const std::uint32_t incarnation = execution_.incarnation();
      left = find(true);
      if (execution_.incarnation() != incarnation) continue;
      if (left.what == Left::What::kNothing) close();
      break;
    }
    return left;
  }
  void close() {
    open_ = false;
    show();
  }

  void show() { control_->repeating.store(host_, Step::kPosition, open_ ? 1 : 0); }

  Left find(bool takes_in) {
    using What = Left::What;
    for (std::uint32_t to = 0; to < outbox_.ranks(); ++to) {
      const std::uint64_t left = outbox_.left_to_repeat(to);
      if (left > 0) return {What::kMessages, left, to};
    }
    std::uint64_t operations = 0;
    for (Comm<H>* c = comms_.first(); c != nullptr; c = c->next) {
      operations += shown_operations(*c->members.mine, c->next_sequence);
    }
    // A process that began at a version does not make all contexts again.
    if (execution_.loaded_version() == 0) operations += of_unknown_contexts();
    if (operations > 0) return {What::kOperations, operations, 0};
    // Which receive is given a message follows from what was posted, but only a look shows it.
    const bool unmatched = inbox_.synchronous() < inbox_.shown_synchronous();
    if (unmatched && takes_in) inbox_.poll_until_empty();
    if (inbox_.synchronous() < inbox_.shown_synchronous()) {
      return {What::kSynchronous, inbox_.shown_synchronous() - inbox_.synchronous(), 0};
    }
    return {};
  }

  // Counts operations from `entered` on with a record or contribution of former incarnations.
  static std::uint64_t shown_operations(const journal::ContextBlock& block, std::uint64_t entered) {
    const std::uint64_t tail = block.records.tail.load(std::memory_order_acquire);
    std::uint64_t n = tail > entered ? tail - entered : 0;
    for (const journal::Contribution& c : block.contribution) {
      const std::uint64_t behind = c.sequence.load(std::memory_order_relaxed);
      n += behind > tail && behind > entered;
    }
    return n;
  }

  // Counts for contexts that this process does not know, except those freed before this point: the
  // others are still to be made.
  std::uint64_t of_unknown_contexts() {
    std::uint64_t n = 0;
    journal::for_each_own_context(host_, [&](const journal::ContextBlock& block) {
      if (comms_.find(block.context) != nullptr) return;
      const std::uint64_t freed = block.freed.load(std::memory_order_relaxed);
      const bool past = freed != 0 && freed <= execution_.ordinal() + 1;
      if (!past) n += shown_operations(block, 0);
    });
    return n;
  }

  H& host_;
  journal::RankControl* const control_;
  journal::Journal<H>& journal_;
  Communicators<H>& comms_;
  Inbox<H>& inbox_;
  Outbox<H>& outbox_;
  const Execution<H>& execution_;
  Diagnostics& diagnostics_;
  Divergence<H>& divergence_;
  bool open_ = false;
};

}  // namespace rejoin::recovery
