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
#include "recovery/mail.h"
#include "recovery/progress.h"

namespace rejoin::recovery {

template <engine::Host H>
class Repetition {
 public:
  Repetition(H& host, journal::Journal<H>& journal, Communicators<H>& comms, Mail<H>& mail,
             const ProgramProgress& progress)
      : host_(host),
        control_(journal::own_control(host)),
        journal_(journal),
        comms_(comms),
        mail_(mail),
        progress_(progress) {}

  void begin(std::uint32_t incarnation) {
    open_ = incarnation > 0 && !journal_.region().recycling();
    show();
  }
  // Something may be left to repeat.
  bool open() const { return open_; }
  void close() {
    open_ = false;
    show();
  }

  // Returns what is left, and closes the repetition if nothing is. While it is open, this costs a
  // look at each channel and each context of this rank. unknown_contexts: includes contexts that
  // this process has not made again yet.
  Left look(bool unknown_contexts) {
    Left left;
    if (!open_) return left;
    left = find(unknown_contexts);
    if (left.what == Left::What::kNothing) close();
    return left;
  }
  // Calls look() in a wait, and shows the answer to the agent.
  void look_in_wait(bool unknown_contexts) {
    look(unknown_contexts);
    show();
    if (engine::breaks(host_, Rule::kStandstillDiverges))
      control_->repeating.store(host_, Step::kPosition, 0);
  }

 private:
  void show() { control_->repeating.store(host_, Step::kPosition, open_ ? 1 : 0); }

  Left find(bool unknown_contexts) {
    using What = Left::What;
    for (std::uint32_t to = 0; to < progress_.ranks; ++to) {
      const std::uint64_t shown = journal_.shown_messages(to);
      if (shown > progress_.sent[to]) return {What::kMessages, shown - progress_.sent[to], to};
    }
    std::uint64_t operations = 0;
    for (Comm<H>* c = comms_.first(); c != nullptr; c = c->next) {
      operations += shown_operations(*c->members.mine, c->next_sequence);
    }
    if (unknown_contexts) operations += of_unknown_contexts();
    if (operations > 0) return {What::kOperations, operations, 0};
    // Which receive is given a message follows from what was posted, but only a look shows it.
    if (mail_.synchronous() < mail_.shown_synchronous()) mail_.poll_until_empty();
    if (mail_.synchronous() < mail_.shown_synchronous()) {
      return {What::kSynchronous, mail_.shown_synchronous() - mail_.synchronous(), 0};
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
      const bool past = freed != 0 && freed <= progress_.ordinal + 1;
      if (!past) n += shown_operations(block, 0);
    });
    return n;
  }

  H& host_;
  journal::RankControl* const control_;
  journal::Journal<H>& journal_;
  Communicators<H>& comms_;
  Mail<H>& mail_;
  const ProgramProgress& progress_;
  bool open_ = false;
};

}  // namespace rejoin::recovery
