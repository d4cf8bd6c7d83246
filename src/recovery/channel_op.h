// One channel operation: a collective whose members get different bytes. Its steps are messages;
// each message is accepted by (sender, sequence), never by generation: one that was sent before
// another rank's death is still valid, and one that is sent again is recognised and dropped.
//
// What a receiver is given follows from the operation and the order of sending, so no record of a
// message is needed. The record of the operation itself, published at its end, marks it complete.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/broadcast.h"
#include "recovery/entry.h"

namespace rejoin::recovery {

using engine::Progress;

template <engine::Host H>
class ChannelOp {
 public:
  // Enters. `input`, `input_bytes`: this rank's contribution, for the fingerprint only.
  // nonblocking: as ReplicatedOp's.
  ChannelOp(Operations<H>& ops, Comm<H>& comm, const Call& call, const void* input,
            std::size_t input_bytes, bool nonblocking = false)
      : ops_(ops),
        r_(ops.r),
        c_(comm),
        e_(enter(ops, comm, call, true)),
        fingerprint_(input_bytes > 0 ? hash_bytes(input, input_bytes) : 0),
        nonblocking_(nonblocking) {
    outcome_.sequence = e_.sequence;
    outcome_.status = e_.status;
    if (!e_.entered() || e_.record == nullptr) return;
    const bool prepared = call.hint != nullptr && call.hint->prepare != nullptr;
    outcome_.status = check_replay(r_, e_, !prepared, fingerprint_, &outcome_.replaces_input);
    if (outcome_.status == Status::kMismatch) pass_over_sent();
  }
  ChannelOp(const ChannelOp&) = delete;
  ChannelOp& operator=(const ChannelOp&) = delete;

  // Goes on as far as it can without waiting. body(): advances the algorithm, one of
  // engine/collectives.h, over this port (or a wrapper of it). Not to be called again once it is
  // done or has failed.
  template <class Body>
  Progress advance(bool thorough, Body&& body) {
    thorough_ = thorough;
    const bool may_move = outcome_.status == Status::kOk || outcome_.status == Status::kTruncated;
    if (!moved_ && may_move) {
      const Progress p = other_.found() ? settle() : body();
      if (p == Progress::kPending) return p;
      moved_ = true;
    }
    return finish();
  }

  const Outcome& outcome() const { return outcome_; }
  // The message that was received last, while it is being read.
  const Arrived* held() const { return held_; }
  Standing standing() const { return {c_.members.context, e_.sequence, e_.call}; }

  // --- The port

  std::uint32_t size() const { return c_.members.size; }
  std::uint32_t me() const { return c_.members.rank; }

  // Posts one message. `peer`: rank in the communicator, not this rank's. Pending while flow
  // control stops this rank (is_near), which stops a nonblocking operation only when the journal is
  // full. Failed: another member is in a different operation; outcome() has the reason.
  Progress send(std::uint32_t peer, const void* data, std::size_t bytes) {
    const std::uint32_t to = c_.members.world[peer];
    auto& channel = r_.journal.channel(to);
    const std::uint64_t k = r_.progress.sent[to];
    const std::uint32_t hash = hash_bytes(data, bytes);
    const bool posted = k < channel.tail();
    if (posted && !engine::breaks(r_.host, Rule::kResendRecognised)) {
      compare_resent(r_, *channel.at(k), e_.call, c_.members.context, e_.sequence, to, bytes, hash);
      ++r_.progress.sent[to];
      return Progress::kDone;
    }
    r_.before_anything_new(e_.call);
    if (!is_near(peer, bytes)) {
      r_.host.step(Step::kFar);
      if (!nonblocking_) r_.host.give_way();
      if (!thorough_ || engine::breaks(r_.host, Rule::kFarSenderLooks)) return Progress::kPending;
      const auto other = ops_.agreement.find(c_, e_.sequence, e_.signature_hash, peer);
      return other.found() ? fail(other) : Progress::kPending;
    }
    ++r_.progress.sent[to];
    r_.host.step(Step::kPayload);
    const std::uint64_t value = r_.journal.store(data, bytes, [this](std::size_t n) {
      return r_.journal.allocate_message(n, r_.progress.sent);
    });
    r_.journal.post(to, {c_.members.context, e_.sequence, e_.call, hash, bytes, value, bytes, 0});
    return Progress::kDone;
  }

  // Receives the next message of `peer` in this operation. *data: its bytes in the sender's store,
  // valid until the next receive or the end of the operation. Failed: outcome() has the reason.
  Progress receive(std::uint32_t peer, std::size_t max_bytes, const std::byte** data,
                   std::size_t* bytes) {
    const std::uint32_t from = c_.members.world[peer], me = r_.host.rank();
    release();
    // A member with a record of this operation has sent all its messages: so read the record first.
    const bool finished = thorough_ && r_.peers.tail(c_.members, peer) > e_.sequence;
    Arrived* a = r_.mail.take(c_, from, e_.sequence);
    for (bool more = true; a == nullptr && more;) {
      more = r_.mail.poll_next(from, thorough_);
      if (more) a = r_.mail.take(c_, from, e_.sequence);
    }
    if (a == nullptr) {
      if (!thorough_) return Progress::kPending;
      if (finished) {
        return fail(
            {peer, r_.peers.record(c_.members, peer, e_.sequence).call & ~journal::kRecordFailed});
      }
      const auto other = ops_.agreement.find(c_, e_.sequence, e_.signature_hash, peer);
      return other.found() ? fail(other) : Progress::kPending;
    }
    held_ = a;
    const journal::Message& m = a->message;
    if (!r_.peers.is_call(from, m.call, e_.signature_hash)) return fail({peer, m.call});
    if (((m.call | e_.call) & journal::kUnproven) != 0) [[unlikely]]
      prove(peer, m.call);
    if (m.bytes > max_bytes) {  // go on: the other members still need this one
      r_.diagnostics.truncated(me, e_.call, from, m.bytes, max_bytes);
      outcome_.status = Status::kTruncated;
    }
    *bytes = std::min<std::size_t>(m.bytes, max_bytes);
    *data = m.bytes <= journal::kInlineBytes ? reinterpret_cast<const std::byte*>(&m.value)
                                             : r_.peers.payload(m.value, m.bytes).data();
    return Progress::kDone;
  }

 private:
  // Returns whether flow control lets this rank send this many bytes to a member: the member is not
  // more operations behind than operations_ahead(). The distance counts operations, not messages,
  // because messages may lie there for any time between two calls. A member that was too far behind
  // has to halve the distance, so that its position is not read for every operation afterwards.
  bool is_near(std::uint32_t peer, std::size_t bytes) {
    const bool wraps = r_.journal.region().recycling();
    if (nonblocking_ && !wraps) return true;
    const std::uint64_t distance =
        engine::operations_ahead(r_.host, bytes * c_.members.size, wraps);
    return r_.comms.all_within(c_, e_.sequence, distance) ||
           r_.peers.tail(c_.members, peer) + (distance + 1) / 2 > e_.sequence;
  }

  // The message that was received last has been read.
  void release() {
    if (held_ != nullptr) r_.mail.consume(held_);
    held_ = nullptr;
  }

  void prove(std::uint32_t peer, std::uint32_t call) {
    if ((call & journal::kUnproven) != 0) ops_.bootstrap.prove(c_, e_.sequence, peer, call);
    if ((e_.call & journal::kUnproven) == 0) return;
    if (ops_.bootstrap.prove(c_, e_.sequence, c_.members.rank, e_.call)) {
      e_.call &= ~journal::kUnproven;
    }
  }

  Progress fail(const typename Agreement<H>::Other& other) {
    other_ = other;
    return settle();
  }

  // Records the disagreement once all earlier operations of the context have their records.
  Progress settle() {
    // A replay: the operation has its record, but a message that it received then is gone, or is
    // another one now.
    if (e_.record != nullptr) {
      r_.diagnostics.recorded_mismatch();
      outcome_.status = Status::kMismatch;
      return Progress::kFailed;
    }
    const bool in_turn = c_.records.tail() == e_.sequence;
    if (!in_turn && !engine::breaks(r_.host, Rule::kMismatchInTurn)) return Progress::kPending;
    outcome_.status = ops_.mismatch(c_, e_.sequence, e_.call, e_.signature_hash, other_);
    return Progress::kFailed;
  }

  // Messages that a former incarnation has sent in this operation, before it learned of the
  // disagreement, are not sent again.
  void pass_over_sent() {
    if (engine::breaks(r_.host, Rule::kMismatchNotRepeated)) return;
    for (std::uint32_t i = 0; i < c_.members.size; ++i) {
      const std::uint32_t to = c_.members.world[i];
      std::uint64_t& k = r_.progress.sent[to];
      for (const std::uint64_t shown = r_.journal.shown_messages(to); k < shown; ++k) {
        const journal::ChannelEntry& m = *r_.journal.channel(to).at(k);
        if (m.context != c_.members.context || m.key != e_.sequence) break;
      }
    }
  }

  // Publishes the record, when the operations before it have theirs.
  Progress finish() {
    release();
    const bool live = e_.entered() && e_.record == nullptr && c_.members.size > 1;
    if (live && c_.records.tail() < e_.sequence) return Progress::kPending;
    if (nonblocking_ && r_.journal.region().recycling() && !readers_are_near()) {
      return Progress::kPending;
    }
    r_.faults.point(r_.progress.ordinal, Moment::kInside);
    if (live && c_.records.tail() == e_.sequence) {
      r_.journal.commit(c_.records, e_.sequence, {e_.call, fingerprint_, 0});
      engine::ring_sleepers(r_.host, c_.members.world, c_.members.size);
      r_.progress.catching_up = false;
      ops_.bootstrap.prove_others(c_, e_.sequence);
    }
    if (live && outcome_.status == Status::kOk) {
      ops_.bootstrap.note_live(e_.call);
    }
    if (outcome_.status == Status::kMismatch) unlink_chain(r_, c_);
    if (!nonblocking_) r_.leave(outcome_.status);
    return outcome_.status == Status::kOk ? Progress::kDone : Progress::kFailed;
  }

  // With a full journal records wrap: a member may still look for an earlier record of this rank.
  bool readers_are_near() { return r_.comms.all_within(c_, e_.sequence, journal::kReadersWithin); }

  Operations<H>& ops_;
  Rooms<H>& r_;
  Comm<H>& c_;
  Entry e_;
  const std::uint32_t fingerprint_;
  const bool nonblocking_;
  Outcome outcome_;
  typename Agreement<H>::Other other_;  // the member that disagrees, if one was found
  bool thorough_ = false;
  bool moved_ = false;       // all messages are sent and received
  Arrived* held_ = nullptr;  // the message that is being read
};

}  // namespace rejoin::recovery
