// One operation whose result is the same bytes at every member that gets it. It advances without
// waiting; blocking is wait_until(host, [&](bool t) { return op.advance(t) != kPending; }).
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

#include "engine/attempt.h"
#include "engine/broadcast.h"
#include "recovery/entry.h"

namespace rejoin::recovery {

using engine::Progress;

template <engine::Host H>
class ReplicatedOp {
 public:
  // Enters. `spec`, everything that it points to, and the hint of `call` must stay until the
  // operation is over; *outcome holds the result then. Operations of one communicator are entered
  // in the order of the program's calls, and complete in that order, however they are advanced.
  // nonblocking: its end does not coincide with the end of an MPI call, and members that are in
  // later operations already may still read its result.
  ReplicatedOp(Operations<H>& ops, Comm<H>& comm, const Call& call, const ReplicatedSpec& spec,
               Outcome* outcome, bool nonblocking = false)
      : ops_(ops),
        r_(ops.r),
        c_(comm),
        spec_(spec),
        hint_(call.hint),
        is_bcast_(is_broadcast(call.signature)),
        nonblocking_(nonblocking),
        root_(static_cast<std::uint32_t>(call.signature.root)),
        e_(enter(ops, comm, call, false)),
        outcome_(*outcome) {
    outcome_.sequence = e_.sequence;
  }
  ~ReplicatedOp() {
    for (unsigned i = 0; i < leased_; ++i) r_.journal.staging().give_back(staging_[i]);
  }
  ReplicatedOp(const ReplicatedOp&) = delete;
  ReplicatedOp& operator=(const ReplicatedOp&) = delete;

  // Goes on as far as it can without waiting. thorough: looks at everything that may end the wait,
  // not only at what is most likely to. Not to be called again once it is done or has failed.
  Progress advance(bool thorough) {
    for (;;) {
      switch (state_) {
        case State::kEntered:
          if (const Progress p = begin(); p != Progress::kPending) return p;
          break;
        case State::kRoot:
          return advance_root(thorough);
        case State::kReceiver:
          return advance_receiver(thorough);
        case State::kMayBegin:
          if (e_.sequence >= c_.records.tail() + kSlotsAtOnce &&
              !engine::breaks(r_.host, Rule::kSlotInTurn)) {
            return Progress::kPending;
          }
          if (nonblocking_ && !repeats_ && !r_.may_do_new()) return Progress::kPending;
          begin_attempt();
          break;
        case State::kAttempt:
          if (const Progress p = advance_attempt(thorough); p != Progress::kPending) return p;
          if (state_ == State::kAttempt) return Progress::kPending;
          break;
        case State::kComplete:
          if (c_.records.tail() != e_.sequence &&
              !engine::breaks(r_.host, Rule::kCompleteInOrder)) {
            return Progress::kPending;
          }
          return complete();
      }
    }
  }

  Standing standing() const { return {c_.members.context, e_.sequence, e_.call}; }

 private:
  static constexpr std::uint64_t kSlotsAtOnce = journal::kSlots;
  enum class State : std::uint8_t {
    kEntered,
    kRoot,      // of a broadcast
    kReceiver,  // of a broadcast
    kMayBegin,  // waits until its slot is free
    kAttempt,
    kComplete,  // waits for the operations before it
  };

  // --- Look-up

  // kPending: it has to be executed; state_ says how.
  [[gnu::always_inline]] Progress begin() {
    if (!e_.entered()) return end(e_.status);
    if (e_.record != nullptr) return replay();
    if (c_.members.size == 1) return alone();
    const bool prepared = hint_ != nullptr && hint_->prepare != nullptr;
    if (r_.progress.catching_up) {
      const std::uint32_t holder = r_.comms.find_record(c_, e_.sequence);
      if (holder != kNobody && c_.records.tail() == e_.sequence) {
        fingerprint_ = fingerprint();
        if (!is_bcast_)
          repeats_ = repeats_contribution(r_, c_, e_, prepared ? nullptr : &fingerprint_);
        const Progress p = adopt(holder);
        r_.progress.catching_up = true;  // the next operation may have a record, too
        return p;
      }
    }
    if (prepared) hint_->prepare(hint_->argument);
    fingerprint_ = fingerprint();
    const bool receives = is_bcast_ && c_.members.rank != root_;
    if (r_.repetition.open() && !receives) [[unlikely]] {
      repeats_ = !is_bcast_ && repeats_contribution(r_, c_, e_, &fingerprint_);
      if (!nonblocking_) r_.before_anything_new(e_.call);
    }
    if (is_bcast_) {
      state_ = receives ? State::kReceiver : State::kRoot;
      return Progress::kPending;
    }
    prepare_attempt();
    state_ = State::kMayBegin;
    return Progress::kPending;
  }

  std::uint32_t fingerprint() const {
    return spec_.input != nullptr ? hash_bytes(spec_.input, spec_.input_bytes) : 0;
  }

  [[gnu::noinline]] Progress replay() {
    const bool prepared = hint_ != nullptr && hint_->prepare != nullptr;
    const Status s = check_replay(r_, e_, !prepared, fingerprint(), &outcome_.replaces_input);
    r_.faults.point(r_.progress.ordinal, Moment::kInside);
    if (s == Status::kOk) give(e_.record->value);
    return end(s);
  }

  Progress alone() {
    if (hint_ != nullptr && hint_->prepare != nullptr) hint_->prepare(hint_->argument);
    r_.faults.point(r_.progress.ordinal, Moment::kInside);
    outcome_.at = static_cast<const std::byte*>(spec_.input);
    return end(Status::kOk);
  }

  // Adopts a member's record. REQUIRES that all earlier operations have their records here.
  Progress adopt(std::uint32_t member) {
    const journal::Record record = r_.peers.record(c_.members, member, e_.sequence);
    const std::uint32_t world = c_.members.world[member];
    const bool agrees = r_.peers.is_call(world, record.call, e_.signature_hash);
    if ((record.call & journal::kRecordFailed) != 0 || !agrees) {
      return end(ops_.mismatch(c_, e_.sequence, e_.call, e_.signature_hash,
                               {member, record.call & ~journal::kRecordFailed}));
    }
    if ((record.call & journal::kUnproven) != 0) [[unlikely]]
      ops_.bootstrap.prove(c_, e_.sequence, member, record.call);
    if ((e_.call & journal::kUnproven) != 0) [[unlikely]]
      prove_mine();
    r_.faults.point(r_.progress.ordinal, Moment::kInside);
    commit(record.value);
    if (copier_ && copier_->finish(r_.host, r_.peers, record.value)) {
      outcome_.at = static_cast<const std::byte*>(spec_.early);
    } else {
      give(record.value);
    }
    return end(Status::kOk);
  }

  void prove_mine() {
    if (ops_.bootstrap.prove(c_, e_.sequence, c_.members.rank, e_.call)) {
      e_.call &= ~journal::kUnproven;
    }
  }

  // --- An attempt among all members

  void prepare_attempt() {
    const std::size_t n = c_.members.size;
    attempt_spec_ = {
        spec_.input,
        spec_.input_bytes,
        spec_.result_bytes,
        spec_.reduction,
        spec_.blocks,
        static_cast<std::byte*>(spec_.early),
        r_.scratch,
        engine::algorithm_for(c_.members.size, spec_.reduction != nullptr
                                                   ? spec_.input_bytes
                                                   : (spec_.result_bytes + n - 1) / n)};
    attempt_.emplace(r_.host, r_.peers, c_.members, attempt_spec_);
  }

  void begin_attempt() {
    const unsigned needed = engine::Attempt<H>::staging_needed(attempt_spec_);
    for (; leased_ < needed; ++leased_) {
      staging_[leased_] = r_.journal.staging().lease();
      if (staging_[leased_] == 0) r_.journal.out_of_memory();
    }
    note_contribution();
    const bool leads = c_.members.rank == e_.sequence % c_.members.size;
    const bool small = spec_.result_bytes <= journal::kInlineBytes;
    std::byte* out = reinterpret_cast<std::byte*>(&value_);
    journal::Offset extent = 0;
    if (attempt_spec_.algorithm == engine::Algorithm::kSliced) {
      // All members write to the leader's: a record may already refer to the former attempt's.
      const bool fresh = value_ == 0 || !engine::breaks(r_.host, Rule::kFreshExtent);
      if (leads) value_ = extent = fresh ? reserve(spec_.result_bytes) : value_;
    } else if (!small && (leads || attempt_spec_.algorithm == engine::Algorithm::kFlat)) {
      // Only this rank writes there, and only a record of its own could refer to it.
      if (value_ == 0) value_ = allocate(spec_.result_bytes);
      out = journal::own_bytes(r_.host, value_);
    } else {
      value_ = 0;
    }
    const std::uint32_t chain = c_.chain == engine::kUnlinked ? engine::kUnlinked : e_.chain;
    attempt_->begin(e_.sequence, r_.comms.generation(c_), chain, e_.call, staging_, out, extent);
    state_ = State::kAttempt;
  }

  // Notes the contribution for the next incarnation, before any other member can see it.
  void note_contribution() {
    journal::Contribution& mine = c_.members.mine->contribution[e_.sequence % journal::kSlots];
    if (mine.sequence.load(std::memory_order_relaxed) == e_.sequence + 1) return;
    mine.what.store(r_.host, Step::kContribution,
                    journal::Contribution::make(fingerprint_, e_.call), std::memory_order_relaxed);
    mine.sequence.store(r_.host, Step::kContribution, e_.sequence + 1);
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
        return mismatch({attempt_->slots().disagreeing(), attempt_->slots().disagreeing_call()});
      case engine::AttemptState::kNoMemory:
        r_.journal.out_of_memory();
      case engine::AttemptState::kBroken:
        return give_up(r_.comms.find_record(c_, e_.sequence));
      case engine::AttemptState::kPending:
        break;
    }
    if (!engine::breaks(r_.host, Rule::kNewGeneration) &&
        (r_.comms.generation(c_) & 0xffffu) != attempt_->slots().generation()) {
      return give_up(r_.comms.find_record(c_, e_.sequence));
    }
    if (attempt_spec_.algorithm == engine::Algorithm::kLeader && !thorough) {
      const std::uint32_t leader = attempt_->leader();
      if (r_.peers.tail(c_.members, leader) > e_.sequence) return give_up(leader);
    }
    if (!thorough) return Progress::kPending;
    if (const std::uint32_t holder = r_.comms.find_record(c_, e_.sequence); holder != kNobody) {
      return give_up(holder);
    }
    const auto other = ops_.agreement.find(c_, e_.sequence, e_.signature_hash, kNobody);
    return other.found() ? mismatch(other) : Progress::kPending;
  }

  // Adopts the holder's record; without a holder begins again.
  Progress give_up(std::uint32_t holder) {
    if (holder == kNobody) {
      state_ = State::kMayBegin;
      return Progress::kPending;
    }
    return c_.records.tail() == e_.sequence ? adopt(holder) : Progress::kPending;
  }

  Progress mismatch(const typename Agreement<H>::Other& other) {
    if (c_.records.tail() != e_.sequence) return Progress::kPending;
    return end(ops_.mismatch(c_, e_.sequence, e_.call, e_.signature_hash, other));
  }

  Progress complete() {
    const auto& slots = attempt_->slots();
    if (slots.unproven() != kNobody) [[unlikely]] {
      ops_.bootstrap.prove(c_, e_.sequence, slots.unproven(), slots.unproven_call());
    }
    if ((e_.call & journal::kUnproven) != 0) [[unlikely]]
      prove_mine();
    r_.faults.point(r_.progress.ordinal, Moment::kInside);
    commit(value_);
    if (in_early_) {
      outcome_.at = static_cast<const std::byte*>(spec_.early);
    } else {
      give(value_);
    }
    return end(Status::kOk);
  }

  // --- Broadcast: the root's published record is the broadcast. The root does not wait for the
  // other members, but for readers that are far behind.

  [[gnu::always_inline]] Progress advance_root(bool thorough) {
    if (!readers_are_near() || !readers_have_room()) return wait_for_readers(thorough);
    if (c_.records.tail() != e_.sequence) return Progress::kPending;
    if (nonblocking_ && !r_.may_do_new()) return Progress::kPending;
    std::uint64_t value;
    if (spec_.result_bytes < engine::kPipelinedBytes) {
      r_.host.step(Step::kPayload);
      value = r_.journal.store(spec_.input, spec_.result_bytes,
                               [this](std::size_t bytes) { return allocate(bytes); });
    } else {
      value = reserve(spec_.result_bytes);
      if (engine::breaks(r_.host, Rule::kPayloadBeforeRecord)) commit(value);
      if (!engine::publish_chunks(r_.host, c_.members, e_.sequence, r_.incarnation, spec_.input,
                                  spec_.result_bytes, value)) {
        r_.journal.out_of_memory();
      }
    }
    r_.faults.point(r_.progress.ordinal, Moment::kInside);
    if (c_.records.tail() == e_.sequence) commit(value);
    give(value);
    return end(Status::kOk);
  }

  [[gnu::noinline]] Progress wait_for_readers(bool thorough) {
    r_.host.step(Step::kFar);
    if (!nonblocking_) r_.host.give_way();
    if (!thorough || engine::breaks(r_.host, Rule::kFarSenderLooks)) return Progress::kPending;
    const auto other = ops_.agreement.find(c_, e_.sequence, e_.signature_hash, kNobody);
    return other.found() ? mismatch(other) : Progress::kPending;
  }
  // With a full journal records wrap: also those of nonblocking operations.
  bool readers_are_near() {
    const bool wraps = r_.journal.region().recycling();
    if (nonblocking_ && !wraps) return true;
    return r_.comms.all_within(c_, e_.sequence,
                               nonblocking_
                                   ? journal::kReadersWithin
                                   : engine::operations_ahead(r_.host, spec_.result_bytes, wraps));
  }
  // With a full journal zones are reused, so no reader may still be in them.
  bool readers_have_room() {
    if (nonblocking_ || !r_.journal.region().recycling()) return true;  // its payload is in no zone
    // Results of other communicators lie in the same zones, so all ranks have to be past them.
    if (c_.members.size != r_.header->ranks) return true;
    // The zones that were closed when this rank began to recycle may hold the results of the
    // operation before this one.
    if (r_.recycled_in == 0) {
      r_.recycled_in = c_.members.context;
      r_.recycled_at = e_.sequence;
      return true;
    }
    // A member with a record of an operation may still be reading its bytes; a member with a record
    // of the next one is not.
    const bool past_recycling =
        r_.recycled_in == c_.members.context && e_.sequence > r_.recycled_at + 1;
    if (!past_recycling || r_.journal.region().has_room(spec_.result_bytes)) return true;
    if (!r_.comms.all_within(c_, e_.sequence, 1)) return false;
    recycle();
    return true;
  }
  [[gnu::noinline]] void recycle_if_all_entered() {
    if (c_.members.size == r_.header->ranks && !is_bcast_) recycle();
  }
  void recycle() {
    r_.recycled_in = c_.members.context;
    r_.recycled_at = e_.sequence;
    r_.journal.region().recycle();
  }

  [[gnu::always_inline]] Progress advance_receiver(bool thorough) {
    if (c_.root_seen != root_) {
      c_.root_seen = root_;
      c_.root_tail = 0;
    }
    std::uint32_t holder = root_;
    if (c_.root_tail <= e_.sequence) {
      r_.host.step(Step::kLook);
      c_.root_tail = r_.peers.tail(c_.members, root_);
    }
    if (c_.root_tail <= e_.sequence) {
      holder = thorough ? r_.comms.find_record(c_, e_.sequence) : kNobody;
      if (holder == kNobody) {
        if (spec_.early != nullptr && spec_.result_bytes >= engine::kPipelinedBytes) {
          if (!copier_) {
            copier_.emplace(static_cast<std::byte*>(spec_.early), spec_.result_bytes);
          }
          copier_->advance(r_.host, r_.peers, c_.members, root_, e_.sequence);
        }
        if (!thorough) return Progress::kPending;
        const auto other = ops_.agreement.find(c_, e_.sequence, e_.signature_hash, root_);
        return other.found() ? mismatch(other) : Progress::kPending;
      }
    }
    return c_.records.tail() == e_.sequence ? adopt(holder) : Progress::kPending;
  }

  // --- Payload. With a full journal zones are reused as soon as all members have entered a later
  // operation; a nonblocking one may not be over by then.

  journal::Offset reserve(std::size_t bytes) {
    const bool kept = nonblocking_ && r_.journal.region().recycling();
    return kept ? r_.journal.allocate_kept(bytes) : r_.journal.reserve(bytes);
  }
  journal::Offset allocate(std::size_t bytes) {
    return nonblocking_ ? r_.journal.allocate_kept(bytes) : r_.journal.allocate(bytes);
  }

  // --- The end

  void commit(std::uint64_t value) {
    if (engine::breaks(r_.host, Rule::kRecordBeforeReturn)) return;
    r_.journal.commit(c_.records, e_.sequence, {e_.call, fingerprint_, value});
    if (!engine::breaks(r_.host, Rule::kRingAfterRecord)) {
      engine::ring_sleepers(r_.host, c_.members.world, c_.members.size);
    }
    r_.progress.catching_up = false;
    ops_.bootstrap.prove_others(c_, e_.sequence);
  }

  void give(std::uint64_t value) {
    if (spec_.result_bytes > journal::kInlineBytes) {
      outcome_.at = r_.peers.payload(value, spec_.result_bytes).data();
    } else {
      outcome_.small = value;
    }
  }

  Progress end(Status status) {
    if (status == Status::kOk && e_.record == nullptr && e_.entered()) {
      ops_.bootstrap.note_live(e_.call);
      if (r_.journal.region().recycling() && !nonblocking_) [[unlikely]]
        recycle_if_all_entered();
    }
    if (status == Status::kOk && e_.keep_as != 0 && c_.members.size > 1) {
      status = ops_.bootstrap.keep(c_, e_.keep_as, e_.sequence, spec_.result_bytes);
    }
    if (status == Status::kMismatch) unlink_chain(r_, c_);
    outcome_.status = status;
    if (!nonblocking_) [[likely]]
      r_.leave(status);
    return status == Status::kOk ? Progress::kDone : Progress::kFailed;
  }

  Operations<H>& ops_;
  Rooms<H>& r_;
  Comm<H>& c_;
  const ReplicatedSpec& spec_;
  const Hint* const hint_;
  const bool is_bcast_;
  const bool nonblocking_;
  const std::uint32_t root_;
  State state_ = State::kEntered;
  engine::AttemptSpec attempt_spec_;
  std::optional<engine::Attempt<H>> attempt_;
  std::optional<engine::ChunkCopier> copier_;  // of a large broadcast
  Entry e_;
  Outcome& outcome_;  // written where the caller reads it: it is on the path of 100 ns
  std::uint64_t value_ = 0;
  std::uint32_t fingerprint_ = 0;
  bool repeats_ = false;   // a former incarnation has contributed to it
  bool in_early_ = false;  // the result lies at spec_.early already
  unsigned leased_ = 0;
  journal::Offset staging_[2] = {};
};

}  // namespace rejoin::recovery
