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
#include "engine/collectives.h"
#include "recovery/inbox.h"
#include "recovery/operations.h"
#include "recovery/outbox.h"

namespace rejoin::recovery {

using journal::Haste;
using journal::Progress;

template <journal::Host H>
class ChannelOp {
 public:
  // Enters. `input`, `input_bytes`: this rank's contribution, for the fingerprint only.
  // nonblocking: as ReplicatedOp's.
  ChannelOp(Operations<H>& ops, Inbox<H>& inbox, Outbox<H>& outbox, Comm<H>& comm, const Call& call,
            const void* input, std::size_t input_bytes, bool nonblocking = false)
      : ops_(ops),
        inbox_(inbox),
        outbox_(outbox),
        c_(comm),
        e_(ops.enter(comm, call, true)),
        fingerprint_(input_bytes > 0 ? hash_bytes(input, input_bytes) : 0),
        nonblocking_(nonblocking),
        fills_later_(call.hint != nullptr && call.hint->prepare != nullptr),
        incarnation_(ops.execution.incarnation()) {
    outcome_.sequence = e_.sequence;
    outcome_.status = e_.status;
    if (e_.entered() && e_.record != nullptr) compare_with_record();
  }
  ChannelOp(const ChannelOp&) = delete;
  ChannelOp& operator=(const ChannelOp&) = delete;

  // Goes on as far as it can without waiting. body(): advances the algorithm, one of
  // engine/collectives.h, over this port (or a wrapper of it). Not to be called again once it is
  // done or has failed.
  template <class Body>
  Progress advance(bool thorough, Body&& body) {
    thorough_ = thorough;
    if (was_woken()) [[unlikely]]
      go_on_woken();
    const bool may_move = outcome_.status == Status::kOk || outcome_.status == Status::kTruncated;
    if (!moved_ && may_move) {
      const Progress p = other_.found() ? settle() : body();
      if (p == Progress::kPending) {
        if (other_.found()) outbox_.finish_writing();  // receive() is not called any more
        return p;
      }
      moved_ = true;
      if (was_woken()) [[unlikely]]
        go_on_woken();
    }
    return finish();
  }

  const Outcome& outcome() const { return outcome_; }
  // The message that was received last, while it is being read.
  const Arrived* held() const { return held_; }
  Standing standing() const { return Operations<H>::standing(c_, e_); }

  // --- The port

  std::uint32_t size() const { return c_.members.size; }
  std::uint32_t me() const { return c_.members.rank; }

  // Posts one message. `peer`: rank in the communicator, not this rank's. Pending while flow
  // control stops this rank (is_near), which stops a nonblocking operation only when the journal is
  // full. Failed: another member is in a different operation; outcome() has the reason.
  Progress send(std::uint32_t peer, const void* data, std::size_t bytes,
                engine::Sent sent = engine::Sent::kStored) {
    H& host = ops_.host;
    const std::uint32_t to = c_.members.world[peer];
    const typename Outbox<H>::Label label = {c_.members.context, e_.sequence, e_.call};
    const std::uint32_t hash = hash_bytes(data, bytes);
    const auto repeat = [&] {
      outbox_.repeat(to, label, bytes, hash, data);
      return Progress::kDone;
    };
    if (outbox_.is_posted(to)) return repeat();
    while (ops_.repetition.before_anything_new(e_.call)) {
      if (outbox_.is_posted(to)) return repeat();
    }
    const bool readable = sent != engine::Sent::kStored && !nonblocking_;
    if (!outbox_.is_near(c_, e_.sequence, peer, bytes, nonblocking_, readable)) {
      host.step(Step::kFar);
      if (!nonblocking_) host.give_way();
      if (!thorough_ || journal::breaks(host, Rule::kFarSenderLooks)) return Progress::kPending;
      const auto other = ops_.find_disagreement(c_, e_, peer);
      return other.found() ? fail(other) : Progress::kPending;
    }
    outbox_.begin(to);
    if (readable && outbox_.may_be_read(to, bytes)) [[unlikely]] {
      outbox_.post(to, label, bytes, hash, outbox_.allocate(bytes), 0, data);
      if (sent == engine::Sent::kReadable) outbox_.finish_writing();
      return Progress::kDone;
    }
    const std::uint64_t value =
        ops_.journal.store(data, bytes, [this](std::size_t n) { return outbox_.allocate(n); });
    outbox_.post(to, label, bytes, hash, value, bytes, nullptr);
    return Progress::kDone;
  }

  // Receives the next message of `peer` in this operation. *data: its bytes in the sender's store,
  // valid until the next receive or the end of the operation; or `to`, if that is not null and they
  // are there already: it has max_bytes bytes of memory for them. While it is pending, the rest of
  // what this rank has sent is written. Failed: outcome() has the reason.
  Progress receive(std::uint32_t peer, std::size_t max_bytes, const std::byte** data,
                   std::size_t* bytes, std::byte* to = nullptr) {
    if (!is_partial_) {
      if (const Progress p = take(peer, max_bytes, to); p != Progress::kDone) {
        if (p == Progress::kPending) write_meanwhile();
        return p;
      }
    }
    const journal::Message& m = held_->message;
    if (is_partial_) {
      write_meanwhile();
      ops_.host.step(journal::Step::kReceive);
      const std::uint64_t written =
          ops_.peers.written(held_->from, ops_.host.rank(), held_->index).bytes;
      const bool trust =
          journal::breaks(ops_.host, is_read_ ? Rule::kReadWhenWhole : Rule::kWholeMessage);
      if (written < m.bytes && !trust) return Progress::kPending;
      is_partial_ = false;
    }
    *bytes = std::min<std::size_t>(m.bytes, max_bytes);
    *data = is_read_                           ? to
            : m.bytes <= journal::kInlineBytes ? reinterpret_cast<const std::byte*>(&m.value)
                                               : ops_.peers.payload(m.value, m.bytes).data();
    return Progress::kDone;
  }

 private:
  // Takes the next message of `peer`, which becomes held_. It is partial if bytes of it may still
  // be missing in the journal.
  Progress take(std::uint32_t peer, std::size_t max_bytes, std::byte* to) {
    const std::uint32_t from = c_.members.world[peer], me = ops_.host.rank();
    release();
    // A member with a record of this operation has sent all its messages: so read the record first.
    const bool finished = thorough_ && ops_.peers.tail(c_.members, peer) > e_.sequence;
    Arrived* a = inbox_.take(c_, from, e_.sequence);
    for (bool more = true; a == nullptr && more;) {
      more = inbox_.poll_next(from, thorough_);
      if (more) a = inbox_.take(c_, from, e_.sequence);
    }
    if (a == nullptr) {
      if (!thorough_) return Progress::kPending;
      if (was_woken()) [[unlikely]] {
        // All ranks may have gone back, so the member may have no record any more.
        if (!journal::breaks(ops_.host, Rule::kFinishedBehindImage)) return Progress::kPending;
        ops_.peers.tail(c_.members, peer);
      }
      if (finished) {
        return fail({peer, ops_.peers.record(c_.members, peer, e_.sequence).call &
                               ~journal::kRecordFailed});
      }
      const auto other = ops_.find_disagreement(c_, e_, peer);
      return other.found() ? fail(other) : Progress::kPending;
    }
    held_ = a;
    const journal::Message& m = a->message;
    if (!ops_.peers.is_call(from, m.call, e_.signature_hash)) return fail({peer, m.call});
    if (((m.call | e_.call) & journal::kUnproven) != 0) [[unlikely]]
      prove(peer, m.call);
    if (m.bytes > max_bytes) {  // go on: the other members still need this one
      ops_.diagnostics.truncated(me, e_.call, from, m.bytes, max_bytes);
      outcome_.status = Status::kTruncated;
    }
    is_partial_ = m.written < m.bytes;
    is_read_ =
        to != nullptr && inbox_.read_directly(*a, to, std::min<std::uint64_t>(m.bytes, max_bytes));
    return Progress::kDone;
  }

  // Copies a piece of this rank's last message to the journal; all of it in the look before a
  // sleep, from which no event would wake this rank for the rest.
  void write_meanwhile() {
    if (thorough_) outbox_.finish_writing();
    outbox_.write_some();
  }

  // Whether this process was woken since it entered, or since advance() was called.
  bool was_woken() const { return incarnation_ != ops_.execution.incarnation(); }
  void compare_with_record() {
    outcome_.status = ops_.check_replay(e_, !fills_later_, fingerprint_, &outcome_.replaces_input);
    const bool passes = !journal::breaks(ops_.host, Rule::kMismatchNotRepeated);
    if (outcome_.status == Status::kMismatch && passes) outbox_.pass_over(c_.members, e_.sequence);
  }
  // This process was woken in the middle of the operation. It goes on by its own counts of
  // messages; its predecessor may have completed the operation.
  [[gnu::noinline]] void go_on_woken() {
    incarnation_ = ops_.execution.incarnation();
    other_ = {};  // it is looked for again
    const bool has_record = c_.members.size > 1 && e_.sequence < c_.records.tail();
    if (!e_.entered() || e_.record != nullptr) return;
    if (!has_record || journal::breaks(ops_.host, Rule::kOwnRecordInWait)) {
      return ops_.execution.become_live(c_.members.size > 1);
    }
    e_.record = c_.records.at(e_.sequence);
    ops_.execution.count_replayed();
    const bool truncated = outcome_.status == Status::kTruncated;
    compare_with_record();
    if (truncated && outcome_.status == Status::kOk) outcome_.status = Status::kTruncated;
  }

  // The message that was received last has been read.
  void release() {
    if (held_ != nullptr) inbox_.consume(held_);
    held_ = nullptr;
  }

  void prove(std::uint32_t peer, std::uint32_t call) {
    if ((call & journal::kUnproven) != 0) ops_.bootstrap.prove(c_, e_.sequence, peer, call);
    ops_.prove_mine(c_, e_);
  }

  Progress fail(const typename Operations<H>::Other& other) {
    other_ = other;
    return settle();
  }

  // Records the disagreement once all earlier operations of the context have their records.
  Progress settle() {
    // A replay: the operation has its record, but a message that it received then is gone, or is
    // another one now.
    if (e_.record != nullptr) {
      ops_.diagnostics.recorded_mismatch();
      outcome_.status = Status::kMismatch;
      return Progress::kFailed;
    }
    if (ops_.taking.before() != Imaged::kNone && was_woken()) return Progress::kPending;
    const bool in_turn = c_.records.tail() == e_.sequence;
    if (!in_turn && !journal::breaks(ops_.host, Rule::kMismatchInTurn)) return Progress::kPending;
    outcome_.status = ops_.mismatch(c_, e_, other_);
    return Progress::kFailed;
  }

  // Publishes the record, when the operations before it have theirs.
  Progress finish() {
    outbox_.finish_writing();
    release();
    const bool live = e_.entered() && e_.record == nullptr && c_.members.size > 1;
    if (live && c_.records.tail() < e_.sequence) return Progress::kPending;
    if (nonblocking_ && ops_.zones.are_reused() && !readers_are_near()) {
      return Progress::kPending;
    }
    ops_.execution.inside();
    if (live && c_.records.tail() == e_.sequence) {
      ops_.comms.commit(c_, e_.sequence, {e_.call, fingerprint_, 0});
      journal::ring_sleepers<Haste::kLater>(ops_.host, c_.members.world, c_.members.size);
      ops_.execution.caught_up();
      ops_.bootstrap.prove_others(c_, e_.sequence);
    }
    if (live && outcome_.status == Status::kOk) {
      ops_.bootstrap.note_live(e_.call);
    }
    if (outcome_.status == Status::kMismatch) ops_.unlink_chain(c_);
    if (!nonblocking_) ops_.execution.leave(outcome_.status);
    return outcome_.status == Status::kOk ? Progress::kDone : Progress::kFailed;
  }

  // With a full journal records wrap: a member may still look for an earlier record of this rank.
  bool readers_are_near() {
    return ops_.comms.all_within(c_, e_.sequence, journal::kReadersWithin);
  }

  Operations<H>& ops_;
  Inbox<H>& inbox_;
  Outbox<H>& outbox_;
  Comm<H>& c_;
  Entry e_;
  const std::uint32_t fingerprint_;
  const bool nonblocking_;
  const bool fills_later_;
  std::uint32_t incarnation_;  // that this process was when it entered, or was woken
  Outcome outcome_;
  typename Operations<H>::Other other_;  // the member that disagrees, if one was found
  bool thorough_ = false;
  bool moved_ = false;       // all messages are sent and received
  Arrived* held_ = nullptr;  // the message that is being read
  bool is_partial_ = false;  // bytes of it may still be missing in the journal
  bool is_read_ = false;     // from the sender's buffer
};

}  // namespace rejoin::recovery
