// One operation to which all members contribute and of which all get the same result: a reduction,
// a gathering, a barrier, the making of a communicator. It is executed in attempts among all
// members (engine/attempt.h), begun again after a death.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/attempt.h"
#include "recovery/replicated.h"

namespace rejoin::recovery {

template <journal::Host H>
class AttemptedOp final : public Replicated<H> {
 public:
  // Enters; see Replicated.
  AttemptedOp(Operations<H>& ops, Comm<H>& comm, const Call& call, const ReplicatedSpec& spec,
              Outcome* outcome, bool nonblocking = false)
      : Replicated<H>(ops, comm, call, spec, outcome, nonblocking, true) {}
  ~AttemptedOp() {
    for (unsigned i = 0; i < leased_; ++i) ops_.journal.staging().give_back(staging_[i]);
  }

  // Goes on as far as it can without waiting. thorough: looks at everything that may end the wait,
  // not only at what is most likely to. Not to be called again once it is done or has failed.
  Progress advance(bool thorough) {
    for (;;) {
      if (this->was_woken()) [[unlikely]] {
        if (const Progress p = begin_again(); p != Progress::kPending) return p;
      }
      switch (state_) {
        case State::kEntered:
          if (const Progress p = begin(); p != Progress::kPending) return p;
          break;
        case State::kMayBegin:
          if (e_.sequence >= c_.records.tail() + kSlotsAtOnce &&
              !journal::breaks(ops_.host, Rule::kSlotInTurn)) {
            return Progress::kPending;
          }
          if (nonblocking_ && !repeats_) {
            if (!ops_.repetition.may_do_new()) return Progress::kPending;
            if (this->was_woken()) [[unlikely]]
              break;
          }
          begin_attempt();
          break;
        case State::kAttempt:
          if (const Progress p = advance_attempt(thorough); p != Progress::kPending) return p;
          if (state_ == State::kAttempt && !this->was_woken()) return Progress::kPending;
          break;
        case State::kComplete:
          if (!this->is_next() && !journal::breaks(ops_.host, Rule::kCompleteInOrder)) {
            return Progress::kPending;
          }
          if (this->woken_before_taking()) [[unlikely]]
            break;
          return complete();
      }
    }
  }

 private:
  using Replicated<H>::ops_, Replicated<H>::c_, Replicated<H>::e_, Replicated<H>::spec_;
  using Replicated<H>::nonblocking_, Replicated<H>::fingerprint_;

  // Whatever was done for it is void: the attempt was of an older generation.
  [[gnu::noinline]] Progress begin_again() {
    const Progress p = Replicated<H>::begin_again();
    if (p != Progress::kPending || state_ == State::kEntered) return p;
    repeats_ = ops_.repeats_contribution(c_, e_, &fingerprint_);
    in_early_ = false;
    state_ = State::kMayBegin;
    return Progress::kPending;
  }

  static constexpr std::uint64_t kSlotsAtOnce = journal::kSlots;
  enum class State : std::uint8_t {
    kEntered,
    kMayBegin,  // waits until its slot is free
    kAttempt,
    kComplete,  // waits for the operations before it
  };

  [[gnu::always_inline]] Progress begin() {
    const Progress p = this->look_up([this](bool fills_later) {
      repeats_ = ops_.repeats_contribution(c_, e_, fills_later ? nullptr : &fingerprint_);
    });
    if (p != Progress::kPending || this->was_woken()) return p;
    this->prepare_input();
    if (ops_.repetition.open()) [[unlikely]] {
      repeats_ = ops_.repeats_contribution(c_, e_, &fingerprint_);
      if (!nonblocking_ && ops_.repetition.before_anything_new(e_.call)) return Progress::kPending;
    }
    prepare_attempt();
    state_ = State::kMayBegin;
    return Progress::kPending;
  }

  void prepare_attempt() {
    const std::size_t n = c_.members.size;
    attempt_spec_ = {
        spec_.input,
        spec_.input_bytes,
        spec_.result_bytes,
        spec_.reduction,
        spec_.reduction != nullptr ? c_.fold_order(spec_.reduction->commutative) : nullptr,
        ops_.fold_memory,
        spec_.blocks,
        static_cast<std::byte*>(spec_.early),
        ops_.scratch,
        engine::algorithm_for(c_.members.size, spec_.reduction != nullptr
                                                   ? spec_.input_bytes
                                                   : (spec_.result_bytes + n - 1) / n)};
    attempt_.emplace(ops_.host, ops_.peers, c_.members, attempt_spec_);
  }

  void begin_attempt() {
    const unsigned needed = engine::Attempt<H>::staging_needed(attempt_spec_);
    for (; leased_ < needed; ++leased_) {
      staging_[leased_] = ops_.journal.staging().lease();
      if (staging_[leased_] == 0) ops_.journal.out_of_memory();
    }
    note_contribution();
    const bool leads = c_.members.rank == e_.sequence % c_.members.size;
    const bool small = spec_.result_bytes <= journal::kInlineBytes;
    std::byte* out = reinterpret_cast<std::byte*>(&value_);
    journal::Offset extent = 0;
    if (attempt_spec_.algorithm == engine::Algorithm::kSliced) {
      // All members write to the leader's: a record may already refer to the former attempt's.
      const bool fresh = value_ == 0 || !journal::breaks(ops_.host, Rule::kFreshExtent);
      if (leads) value_ = extent = fresh ? this->reserve(spec_.result_bytes) : value_;
    } else if (!small && (leads || attempt_spec_.algorithm == engine::Algorithm::kFlat)) {
      // Only this rank writes there, and only a record of its own could refer to it.
      if (value_ == 0) value_ = this->allocate(spec_.result_bytes);
      out = journal::own_bytes(ops_.host, value_);
    } else {
      value_ = 0;
    }
    const std::uint32_t chain = c_.chain == journal::kUnlinked ? journal::kUnlinked : e_.chain;
    attempt_->begin(e_.sequence, ops_.comms.generation(c_), chain, e_.call, staging_, out, extent);
    state_ = State::kAttempt;
  }

  // Notes the contribution for the next incarnation, before any other member can see it.
  void note_contribution() {
    journal::Contribution& mine = c_.members.mine->contribution[e_.sequence % journal::kSlots];
    if (mine.sequence.load(std::memory_order_relaxed) == e_.sequence + 1) return;
    mine.what.store(ops_.host, Step::kContribution,
                    journal::Contribution::make(fingerprint_, e_.call), std::memory_order_relaxed);
    mine.sequence.store(ops_.host, Step::kContribution, e_.sequence + 1);
  }

  [[gnu::noinline]] Progress advance_attempt(bool thorough) {
    switch (attempt_->advance()) {
      case engine::AttemptState::kComplete:
        if (attempt_spec_.algorithm == engine::Algorithm::kSliced) {
          value_ = attempt_->extent();
          in_early_ = spec_.early != nullptr;
        }
        state_ = State::kComplete;
        return Progress::kPending;
      case engine::AttemptState::kMismatch:
        return this->mismatch(
            {attempt_->slots().disagreeing(), attempt_->slots().disagreeing_call()});
      case engine::AttemptState::kNoMemory:
        ops_.journal.out_of_memory();
      case engine::AttemptState::kBroken:
        return give_up(ops_.comms.find_record(c_, e_.sequence));
      case engine::AttemptState::kPending:
        break;
    }
    if (!journal::breaks(ops_.host, Rule::kNewGeneration) &&
        (ops_.comms.generation(c_) & 0xffffu) != attempt_->slots().generation()) {
      return give_up(ops_.comms.find_record(c_, e_.sequence));
    }
    if (attempt_spec_.algorithm == engine::Algorithm::kLeader && !thorough) {
      const std::uint32_t leader = attempt_->leader();
      if (ops_.peers.tail(c_.members, leader) > e_.sequence) return give_up(leader);
    }
    if (!thorough) return Progress::kPending;
    if (const std::uint32_t holder = ops_.comms.find_record(c_, e_.sequence); holder != kNobody) {
      return give_up(holder);
    }
    return this->look_for_disagreement(kNobody);
  }

  // Adopts the holder's record; without a holder begins again.
  Progress give_up(std::uint32_t holder) {
    if (holder == kNobody) {
      state_ = State::kMayBegin;
      return Progress::kPending;
    }
    return this->is_next() ? this->adopt(holder) : Progress::kPending;
  }

  Progress complete() {
    const auto& slots = attempt_->slots();
    if (slots.unproven() != kNobody) [[unlikely]] {
      ops_.bootstrap.prove(c_, e_.sequence, slots.unproven(), slots.unproven_call());
    }
    ops_.prove_mine(c_, e_);
    ops_.execution.inside();
    this->commit(value_);
    this->give(value_, in_early_);
    return this->end(Status::kOk);
  }

  State state_ = State::kEntered;
  engine::AttemptSpec attempt_spec_;
  std::optional<engine::Attempt<H>> attempt_;
  std::uint64_t value_ = 0;
  bool repeats_ = false;   // a former incarnation has contributed to it
  bool in_early_ = false;  // the result lies at spec_.early already
  unsigned leased_ = 0;
  journal::Offset staging_[2] = {};
};

}  // namespace rejoin::recovery
