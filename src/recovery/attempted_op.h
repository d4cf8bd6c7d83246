// One operation to which all members contribute and of which all get the same result: a reduction,
// a gathering, a barrier, the making of a communicator. It is executed in attempts among all
// members (engine/attempt.h), begun again after a death.
//
// If the members are on nodes that share only messages (kSpans), each node makes an attempt among
// its own members. Its leader gives what that yields to the other nodes, and makes the record from
// what all of them give (node_exchange.h); the other members adopt it.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "engine/attempt.h"
#include "recovery/node_exchange.h"
#include "recovery/replicated.h"

namespace rejoin::recovery {

template <journal::Host H, bool kSpans = false>
class AttemptedOp final : public Replicated<H> {
 public:
  // Enters; see Replicated.
  AttemptedOp(Operations<H>& ops, Comm<H>& comm, const Call& call, const ReplicatedSpec& spec,
              Outcome* outcome, bool nonblocking = false)
      : Replicated<H>(ops, comm, call, spec, outcome, nonblocking, true),
        exchange_(ops, comm, e_, spec) {}
  ~AttemptedOp() {
    if constexpr (kSpans) {
      if (near_blocks_ != nullptr) ops_.arena.release(near_blocks_, bytes_of_near_blocks());
    }
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
          if (kSpans && leads() && find_given()) break;
          begin_attempt();
          break;
        case State::kAttempt:
          if (const Progress p = advance_attempt(thorough); p != Progress::kPending) return p;
          if (state_ == State::kAttempt && !this->was_woken()) return Progress::kPending;
          break;
        case State::kGive:
          if (!this->is_next() && !journal::breaks(ops_.host, Rule::kGivenInTurn)) {
            return Progress::kPending;
          }
          if (this->woken_before_taking()) [[unlikely]]
            break;
          give_part();
          break;
        case State::kExchange:
          if (const Progress p = advance_exchange(thorough); p != Progress::kPending) return p;
          if (state_ == State::kExchange && !this->was_woken()) return Progress::kPending;
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

  // Whatever was done for it is void, because the attempt was of an older generation, except what
  // the leader of a node has given to others, which it finds again.
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
    kGive,      // the leader of a node, with what the node's members contribute
    kExchange,  // and with what the leaders give to each other
    kComplete,  // waits for the operations before it
  };
  struct NoExchange {
    NoExchange(const Operations<H>&, const Comm<H>&, const Entry&, const ReplicatedSpec&) {}
  };

  // The members that make the attempt.
  journal::Members& members() {
    if constexpr (kSpans) return c_.span->near;
    return c_.members;
  }
  bool leads() { return members().rank == e_.sequence % members().size; }

  [[gnu::always_inline]] Progress begin() {
    const Progress p = this->look_up([this](bool fills_later) {
      repeats_ = ops_.repeats_contribution(c_, e_, fills_later ? nullptr : &fingerprint_);
    });
    if (p != Progress::kPending || this->was_woken()) return p;
    this->prepare_input();
    if (this->may_repeat()) [[unlikely]] {
      repeats_ = ops_.repeats_contribution(c_, e_, &fingerprint_);
      if (!nonblocking_ && ops_.repetition.before_anything_new(e_.call)) return Progress::kPending;
    }
    prepare_attempt();
    state_ = State::kMayBegin;
    return Progress::kPending;
  }

  void prepare_attempt() {
    if constexpr (kSpans) {
      prepare_attempt_of_node();
    } else {
      prepare_attempt_of_all();
    }
    attempt_.emplace(ops_.host, ops_.peers, members(), attempt_spec_);
  }
  void prepare_attempt_of_all() {
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
        !nonblocking_,
        engine::algorithm_for(c_.members.size, spec_.reduction != nullptr
                                                   ? spec_.input_bytes
                                                   : (spec_.result_bytes + n - 1) / n)};
  }
  // Only the leader needs what it yields.
  void prepare_attempt_of_node() {
    const std::size_t n = members().size;
    const bool gathers = exchange_.gathers();
    const std::size_t bytes = exchange_.part_bytes(c_.span->mine);
    const auto algorithm =
        engine::algorithm_for(members().size, gathers ? (bytes + n - 1) / n : spec_.input_bytes);
    attempt_spec_ = {
        spec_.input,
        spec_.input_bytes,
        bytes,
        gathers ? nullptr : spec_.reduction,
        nullptr,
        nullptr,
        blocks_of_node(),
        nullptr,
        ops_.scratch,
        false,
        algorithm == engine::Algorithm::kFlat ? engine::Algorithm::kLeader : algorithm};
  }
  std::size_t bytes_of_near_blocks() { return (members().size + 1) * sizeof *near_blocks_; }
  const std::size_t* blocks_of_node() {
    if (spec_.blocks == nullptr) return nullptr;
    if (near_blocks_ == nullptr) {
      near_blocks_ = ops_.arena.template make_array<std::size_t>(members().size + 1);
      if (near_blocks_ == nullptr) ops_.journal.out_of_memory();
    }
    near_blocks_[0] = 0;
    for (std::uint32_t i = 0; i < members().size; ++i) {
      const std::uint32_t m = c_.span->of_near(i);
      near_blocks_[i + 1] = near_blocks_[i] + spec_.blocks[m + 1] - spec_.blocks[m];
    }
    return near_blocks_;
  }

  void begin_attempt() {
    const bool alone = kSpans && members().size == 1;
    const unsigned needed = alone ? 0 : engine::Attempt<H>::staging_needed(attempt_spec_);
    for (; leased_ < needed; ++leased_) {
      staging_[leased_] = ops_.journal.staging().lease();
      if (staging_[leased_] == 0) ops_.journal.out_of_memory();
    }
    this->note_contribution();
    if constexpr (kSpans) {
      // Members of other nodes may wait for this rank in another operation.
      journal::ring_sleepers<Haste::kLater>(ops_.host, c_.members.world, c_.members.size);
      if (alone) {
        state_ = State::kGive;
        return;
      }
    }
    const bool leads = this->leads();
    const std::size_t result_bytes = attempt_spec_.result_bytes;
    const bool small = result_bytes <= journal::kInlineBytes;
    std::byte* out = reinterpret_cast<std::byte*>(&value_);
    journal::Offset extent = 0;
    if (attempt_spec_.algorithm == engine::Algorithm::kSliced) {
      // All members write to the leader's: a record may already refer to the former attempt's.
      const bool fresh = value_ == 0 || !journal::breaks(ops_.host, Rule::kFreshExtent);
      if (leads) value_ = extent = fresh ? this->reserve(result_bytes) : value_;
    } else if (!small && (leads || attempt_spec_.algorithm == engine::Algorithm::kFlat)) {
      // Only this rank writes there, and only a record of its own could refer to it.
      if (value_ == 0) value_ = this->allocate(result_bytes);
      out = journal::own_bytes(ops_.host, value_);
    } else {
      value_ = 0;
    }
    const std::uint32_t chain = c_.chain == journal::kUnlinked ? journal::kUnlinked : e_.chain;
    attempt_->begin(e_.sequence, ops_.comms.generation(c_), chain, e_.call, staging_, out, extent);
    state_ = State::kAttempt;
  }

  [[gnu::noinline]] Progress advance_attempt(bool thorough) {
    switch (attempt_->advance()) {
      case engine::AttemptState::kComplete:
        if (attempt_spec_.algorithm == engine::Algorithm::kSliced) {
          value_ = attempt_->extent();
          in_early_ = !kSpans && spec_.early != nullptr;
        }
        if (!kSpans || leads()) {
          state_ = kSpans ? State::kGive : State::kComplete;
          return Progress::kPending;
        }
        break;
      case engine::AttemptState::kMismatch:
        return this->mismatch({in_communicator(attempt_->slots().disagreeing()),
                               attempt_->slots().disagreeing_call()});
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
    if ((kSpans || attempt_spec_.algorithm == engine::Algorithm::kLeader) && !thorough) {
      const std::uint32_t leader = attempt_->leader();
      if (ops_.peers.tail(members(), leader) > e_.sequence) return give_up(in_communicator(leader));
    }
    if (!thorough) return Progress::kPending;
    if (const std::uint32_t holder = ops_.comms.find_record(c_, e_.sequence); holder != kNobody) {
      return give_up(holder);
    }
    return this->look_for_disagreement(kNobody);
  }

  std::uint32_t in_communicator(std::uint32_t i) const {
    if constexpr (kSpans) return c_.span->of_near(i);
    return i;
  }

  // --- The leader of a node

  // Looks whether it has given its node's part already, in a former incarnation.
  bool find_given() {
    if constexpr (kSpans) {
      const auto given = exchange_.departures().given(journal::Part::kNode, fingerprint_);
      if (!given) return false;
      begin_exchange(given->value, members().size == 1 && !ops_.may_contribute_others());
    }
    return true;
  }
  void give_part() {
    if constexpr (kSpans) {
      const std::size_t bytes = attempt_spec_.result_bytes;
      const bool alone = members().size == 1;  // there was no attempt
      if (alone && bytes > journal::kInlineBytes) {
        value_ = this->allocate(bytes);
        exchange_.put_input(value_, bytes);
      } else if (alone) {
        value_ = 0;
        journal::copy_inline(&value_, spec_.input, bytes);
      }
      exchange_.give(value_, bytes, fingerprint_);
      begin_exchange(value_, alone);
    }
  }
  void begin_exchange(std::uint64_t value, bool is_input) {
    if constexpr (kSpans) {
      exchange_.begin(value, fingerprint_, is_input,
                      nonblocking_ ? nullptr : static_cast<std::byte*>(spec_.early));
    }
    state_ = State::kExchange;
  }
  Progress advance_exchange(bool thorough) {
    if constexpr (kSpans) {
      const Progress p =
          exchange_.advance(thorough, [this](std::size_t bytes) { return this->allocate(bytes); });
      if (p == Progress::kFailed) return this->mismatch(exchange_.departures().other());
      if (p == Progress::kDone) {
        state_ = State::kComplete;
        return Progress::kPending;
      }
      if (thorough) return this->look_for_disagreement(kNobody);
    }
    return Progress::kPending;
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
      ops_.bootstrap.prove(c_, e_.sequence, in_communicator(slots.unproven()),
                           slots.unproven_call());
    }
    ops_.prove_mine(c_, e_);
    ops_.execution.inside();
    if constexpr (kSpans) {
      value_ = exchange_.value();
      in_early_ = exchange_.is_early();
    }
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
  [[no_unique_address]] std::conditional_t<kSpans, NodeExchange<H>, NoExchange> exchange_;
  std::size_t* near_blocks_ = nullptr;  // where the blocks of the node's members begin
};

}  // namespace rejoin::recovery
