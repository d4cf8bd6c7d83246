// What the two kinds of operations have in common whose result is the same bytes at every member
// that gets it: how a record answers one, and how one ends with a record.
#pragma once

#include <cstddef>
#include <cstdint>

#include "copy/copy.h"
#include "recovery/operations.h"

namespace rejoin::recovery {

using journal::Haste;
using journal::Progress;

// The kind of operation adds how it is executed. It advances without waiting; blocking is
// wait_until(host, [&](bool thorough) { return op.advance(thorough) != kPending; }).
template <journal::Host H>
class Replicated {
 public:
  Replicated(const Replicated&) = delete;
  Replicated& operator=(const Replicated&) = delete;

  Standing standing() const { return Operations<H>::standing(c_, e_); }

 protected:
  // Enters. `spec`, everything that it points to, and the hint of `call` must stay until the
  // operation is over; *outcome holds the result then. Operations of one communicator are entered
  // in the order of the program's calls, and complete in that order, however they are advanced.
  // nonblocking: its end does not coincide with the end of an MPI call, and members that are in
  // later operations already may still read its result. all_enter: no member completes it before
  // all have entered.
  Replicated(Operations<H>& ops, Comm<H>& comm, const Call& call, const ReplicatedSpec& spec,
             Outcome* outcome, bool nonblocking, bool all_enter)
      : ops_(ops),
        c_(comm),
        spec_(spec),
        hint_(call.hint),
        nonblocking_(nonblocking),
        closes_zones_(all_enter && !nonblocking),
        e_(ops.enter(comm, call, is_for_one())),
        outcome_(*outcome),
        incarnation_(ops.execution.incarnation()) {
    outcome_.sequence = e_.sequence;
  }
  ~Replicated() = default;

  // --- A process that was woken in the middle of it, as the rank's next incarnation

  // Whether this process was woken since it entered, or since the last call.
  [[gnu::always_inline]] bool was_woken() const {
    return incarnation_ != ops_.execution.incarnation();
  }
  // Looks for this rank's own record, which its predecessor may have made. kPending: there is none,
  // and the operation is to be executed from its beginning.
  [[gnu::noinline]] Progress begin_again() {
    incarnation_ = ops_.execution.incarnation();
    if (!e_.entered()) return Progress::kPending;
    const bool has_record = c_.members.size > 1 && e_.sequence < c_.records.tail();
    if (has_record && !journal::breaks(ops_.host, Rule::kOwnRecordInWait)) {
      e_.record = c_.records.at(e_.sequence);
      ops_.execution.count_replayed();
      return replay();
    }
    ops_.execution.become_live(c_.members.size > 1);
    return Progress::kPending;
  }
  // Called before this rank takes something. True: it was woken meanwhile, and begins again.
  [[gnu::always_inline]] bool woken_before_taking() {
    return ops_.taking.before() != Imaged::kNone && was_woken();
  }

  // --- The beginning

  // kPending: the operation has to be executed, behind prepare_input(): no record answers it, or a
  // member's record cannot be adopted yet, because earlier operations of this rank have none.
  // check_adopted(fills_later) is called before another member's record is adopted; fills_later:
  // the program fills the input only if the operation is executed, so there are no bytes to
  // compare.
  template <class Check>
  [[gnu::always_inline]] Progress look_up(Check&& check_adopted) {
    if (!e_.entered()) return end(e_.status);
    if (e_.record != nullptr) return replay();
    if (c_.members.size == 1) return alone();
    if (!ops_.execution.is_catching_up()) return Progress::kPending;
    const std::uint32_t holder = ops_.comms.find_record(c_, e_.sequence);
    if (holder == kNobody || !is_next()) return Progress::kPending;
    fingerprint_ = fingerprint();
    check_adopted(fills_later());
    const Progress p = adopt(holder);
    ops_.execution.may_be_behind();
    return p;
  }
  // Fills the input, if the program has left that to now.
  void prepare_input() {
    if (fills_later()) hint_->prepare(hint_->argument);
    fingerprint_ = fingerprint_of_input();
  }

  // Whether a former incarnation may have contributed to this operation. That the repetition is
  // over does not tell: it counts an operation as repeated when it is entered, before it is
  // compared.
  [[gnu::always_inline]] bool may_repeat() const {
    if (journal::breaks(ops_.host, Rule::kCompareEntered)) return ops_.repetition.open();
    return ops_.execution.incarnation() > 0;
  }
  // Notes the contribution for the next incarnation, before any other member can see it.
  void note_contribution() {
    journal::Contribution& mine = c_.members.mine->contribution[e_.sequence % journal::kSlots];
    if (mine.sequence.load(std::memory_order_relaxed) == e_.sequence + 1) return;
    mine.what.store(ops_.host, Step::kContribution,
                    journal::Contribution::make(fingerprint_, e_.call), std::memory_order_relaxed);
    mine.sequence.store(ops_.host, Step::kContribution, e_.sequence + 1);
  }

  // Adopts a member's record. REQUIRES is_next(). early(value) returns whether the result lies at
  // spec.early already.
  template <class Early>
  Progress adopt(std::uint32_t member, Early&& early) {
    if (woken_before_taking()) [[unlikely]]
      return Progress::kPending;
    const journal::Record record = ops_.peers.record(c_.members, member, e_.sequence);
    const std::uint32_t world = c_.members.world[member];
    const bool agrees = ops_.peers.is_call(world, record.call, e_.signature_hash);
    if ((record.call & journal::kRecordFailed) != 0 || !agrees) {
      return end(ops_.mismatch(c_, e_, {member, record.call & ~journal::kRecordFailed}));
    }
    if ((record.call & journal::kUnproven) != 0) [[unlikely]]
      ops_.bootstrap.prove(c_, e_.sequence, member, record.call);
    ops_.prove_mine(c_, e_);
    // Copy first: the record of this rank shows a sender that it has read the payload.
    const bool is_there = early(record.value);
    ops_.execution.inside();
    commit(record.value);
    give(record.value, is_there);
    return end(Status::kOk);
  }
  Progress adopt(std::uint32_t member) {
    return adopt(member, [](std::uint64_t) { return false; });
  }

  // --- The end

  // Whether all earlier operations have their records here.
  bool is_next() const { return c_.records.tail() == e_.sequence; }
  // Whether only one member gets the result: there is none for the bootstrap cache.
  bool is_for_one() const { return spec_.only != kNobody; }

  Progress mismatch(const typename Operations<H>::Other& other) {
    if (woken_before_taking()) [[unlikely]]
      return Progress::kPending;
    return is_next() ? end(ops_.mismatch(c_, e_, other)) : Progress::kPending;
  }
  // Looks for a member that is inside another operation. A member inside a checkpoint counts only
  // if this rank waits for it. waits_for: the only member that it waits for, or kNobody for all.
  Progress look_for_disagreement(std::uint32_t waits_for) {
    const auto other = ops_.find_disagreement(c_, e_, waits_for);
    return other.found() ? mismatch(other) : Progress::kPending;
  }

  void commit(std::uint64_t value) {
    H& host = ops_.host;
    if (journal::breaks(host, Rule::kRecordBeforeReturn)) return;
    ops_.comms.commit(c_, e_.sequence, {e_.call, fingerprint_, value});
    if (!journal::breaks(host, Rule::kRingAfterRecord)) {
      journal::ring_sleepers<Haste::kLater>(host, c_.members.world, c_.members.size);
    }
    ops_.execution.caught_up();
    ops_.bootstrap.prove_others(c_, e_.sequence);
  }

  void give(std::uint64_t value, bool early) {
    if (is_for_one() && spec_.only != c_.members.rank) return;
    if (early) {
      outcome_.at = static_cast<const std::byte*>(spec_.early);
    } else if (spec_.result_bytes > journal::kInlineBytes) {
      outcome_.at = journal::is_in_pieces(value)
                        ? put_together(value)
                        : ops_.peers.payload(value, spec_.result_bytes).data();
    } else {
      outcome_.small = value;
    }
  }

  Progress end(Status status) {
    if (status == Status::kOk && e_.record == nullptr && e_.entered()) {
      ops_.bootstrap.note_live(e_.call);
      if (closes_zones_) ops_.zones.close_behind(c_, e_.sequence);
    }
    if (status == Status::kOk && e_.keep_as != 0 && c_.members.size > 1) {
      status = ops_.bootstrap.keep(c_, e_.keep_as, e_.sequence, spec_.result_bytes);
    }
    if (status == Status::kMismatch) ops_.unlink_chain(c_);
    outcome_.status = status;
    if (!nonblocking_) [[likely]]
      ops_.execution.leave(status);
    return status == Status::kOk ? Progress::kDone : Progress::kFailed;
  }

  // Copies a result that lies in pieces to the program's buffer, or to memory of this process.
  [[gnu::noinline]] const std::byte* put_together(std::uint64_t value) {
    auto* to = static_cast<std::byte*>(spec_.early);
    if (to == nullptr) to = ops_.memory_to_join(spec_.result_bytes);
    ops_.peers.for_each_piece(value, spec_.result_bytes,
                              [&](std::uint64_t at, const std::byte* from, std::uint64_t bytes) {
                                copy_payload(to + at, from, bytes);
                              });
    return to;
  }

  // --- Places for results

  journal::Offset reserve(std::size_t bytes) {
    return nonblocking_ ? ops_.journal.reserve_nonblocking(bytes) : ops_.journal.reserve(bytes);
  }
  journal::Offset allocate(std::size_t bytes) {
    return nonblocking_ ? ops_.journal.allocate_nonblocking(bytes) : ops_.journal.allocate(bytes);
  }

  Operations<H>& ops_;
  Comm<H>& c_;
  const ReplicatedSpec& spec_;
  const Hint* const hint_;
  const bool nonblocking_;
  const bool closes_zones_;  // of results, if the journal is full
  Entry e_;
  Outcome& outcome_;           // written where the caller reads it: it is on the path of 100 ns
  std::uint32_t incarnation_;  // that this process was when it entered, or began again
  std::uint32_t fingerprint_ = 0;

 private:
  bool fills_later() const { return hint_ != nullptr && hint_->prepare != nullptr; }
  // 0 if the input is not filled yet.
  std::uint32_t fingerprint() const { return fills_later() ? 0 : fingerprint_of_input(); }
  std::uint32_t fingerprint_of_input() const {
    return spec_.input != nullptr ? hash_bytes(spec_.input, spec_.input_bytes) : 0;
  }

  [[gnu::noinline]] Progress replay() {
    const Status s = ops_.check_replay(e_, !fills_later(), fingerprint(), &outcome_.replaces_input);
    ops_.execution.inside();
    if (s == Status::kOk) give(e_.record->value, false);
    return end(s);
  }

  Progress alone() {
    if (fills_later()) hint_->prepare(hint_->argument);
    ops_.execution.inside();
    outcome_.at = static_cast<const std::byte*>(spec_.input);
    return end(Status::kOk);
  }
};

}  // namespace rejoin::recovery
