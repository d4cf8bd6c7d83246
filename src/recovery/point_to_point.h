// Messages between two ranks: what the MPI face sends, receives and asks about. PROTOCOL.md,
// "Messages".
//
// A send is over when its message lies in the journal; a synchronous one when a receive has matched
// it. A receive is over when it has its message: the caller then reads it, perhaps while the sender
// still writes, and consumes it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "copy/copy.h"
#include "journal/copy_inline.h"
#include "recovery/entry.h"
#include "recovery/outcomes.h"

namespace rejoin::recovery {

// What is sent: `bytes` that fill() writes to their place in one piece.
struct Payload {
  std::size_t bytes;
  const void* data;  // contiguous, if fill is null
  void (*fill)(const Payload&, std::byte* to) = nullptr;
  int count = 0;               // fill's
  const void* type = nullptr;  // fill's
};

// A synchronous send that may not be over yet.
struct SentMessage {
  std::uint32_t to = 0;  // world rank
  std::uint64_t index = 0;
};

// The properties of a message that the receiver sees.
struct Envelope {
  std::uint32_t from;  // world rank
  std::int32_t tag;
  std::uint64_t bytes;
  std::uint32_t type;  // hash of its type signature
};

template <engine::Host H>
class PointToPoint {
 public:
  explicit PointToPoint(Operations<H>& ops)
      : r_(ops.r), outcomes_(ops.r.host, ops.r.journal.region()) {}

  static std::uint64_t key_of(int tag) {
    return journal::kPointToPoint | static_cast<std::uint32_t>(tag);
  }

  // --- A call of the program. Every blocking or posting call is one operation.

  // Returns the call's index, for the messages that it sends.
  std::uint32_t begin(const Call& call) {
    r_.heed_notices();
    ++r_.progress.ordinal;
    r_.faults.point(r_.progress.ordinal, Moment::kBefore);
    r_.host.step(Step::kEnter);
    const auto interned = r_.calls.intern(call);
    if (interned.call == CallTable<H>::kNone) [[unlikely]]
      r_.journal.out_of_memory();
    if (r_.log.wanted()) [[unlikely]]
      r_.log.begin(*r_.calls.entry(interned.call), r_.progress.replayed);
    // Context 0: a rank is never inside an operation of a communicator because of a message.
    r_.show_position(0, 0, interned.call);
    r_.control->waits_for.store(r_.host, Step::kSame, 0, std::memory_order_relaxed);
    r_.control->phase.store(r_.host, Step::kInside, journal::Phase::kInside);
    return interned.call;
  }
  void end() {
    inside();
    r_.leave(Status::kOk);
  }
  void inside() { r_.faults.point(r_.progress.ordinal, Moment::kInside); }

  // Waits until ready(thorough), and advances everything else meanwhile.
  template <class Ready>
  void wait(Ready&& ready) {
    r_.advance_outstanding(false);
    if (ready(false)) return;
    engine::wait_until(r_.host, [&](bool thorough) {
      r_.advance_outstanding(thorough);
      if (ready(thorough)) return true;
      went_live();
      return false;
    });
  }

  // Called before waiting for a nonblocking collective: shows the others that this rank is inside
  // it.
  void await(const Nonblocking& op) {
    if (!op.is_over()) r_.await(op.standing());
  }

  // --- Sending

  // Posts one message; never waits.
  SentMessage send(Comm<H>& c, std::uint32_t call, std::uint32_t dest, int tag, bool synchronous,
                   std::uint32_t type, const Payload& payload) {
    const std::uint32_t to = c.members.world[dest];
    const std::uint64_t key = key_of(tag) | (synchronous ? journal::kSynchronous : 0);
    auto& channel = r_.journal.channel(to);
    const std::uint64_t k = r_.progress.sent[to];
    if (k < channel.tail() && !engine::breaks(r_.host, Rule::kResendRecognised)) {
      r_.count_replayed();
      ++r_.progress.sent[to];
      journal::ChannelEntry& e = *channel.at(k);
      compare_resent(r_, e, call, c.members.context, key, to, payload.bytes, hash_of(payload));
      if (e.written.load(std::memory_order_relaxed) < e.bytes) [[unlikely]]
        r_.journal.write(to, e, static_cast<const std::byte*>(payload.data));
      return {to, k};
    }
    went_live();
    r_.before_anything_new(call);
    ++r_.progress.sent[to];
    r_.host.step(Step::kPayload);
    std::uint64_t value = 0;
    const std::byte* at = reinterpret_cast<const std::byte*>(&value);
    const bool in_pieces =
        payload.bytes > journal::Journal<H>::kPieceBytes && payload.fill == nullptr;
    if (in_pieces) {
      value = r_.journal.allocate_message(payload.bytes, r_.progress.sent);
      at = static_cast<const std::byte*>(payload.data);
    } else if (payload.bytes > journal::kInlineBytes) {
      value = r_.journal.allocate_message(payload.bytes, r_.progress.sent);
      std::byte* place = journal::own_bytes(r_.host, value);
      put(payload, place);
      at = place;
    } else {
      put_inline(payload, &value);
    }
    const std::uint32_t hash = hash_bytes(at, payload.bytes);
    inside();
    const std::uint64_t written = in_pieces ? 0 : payload.bytes;
    journal::ChannelEntry* e = r_.journal.post(
        to, {c.members.context, key, call, hash, payload.bytes, value, written, type});
    if (in_pieces) r_.journal.write(to, *e, at);
    return {to, k};
  }

  // The number of messages that lie in the journal for world rank `to`.
  std::uint64_t posted(std::uint32_t to) { return r_.journal.channel(to).tail(); }

  // Returns whether a receive has matched it.
  bool is_matched(const SentMessage& m) {
    r_.host.step(Step::kLook);
    auto& channel = r_.journal.channel(m.to);
    if (m.index < channel.truncated_below()) return true;  // it was received
    const journal::ChannelEntry& e = *channel.at(m.index);
    if (e.matched.load(std::memory_order_acquire) != 0) return true;
    r_.mail.show_waiting(journal::Waiting::kForReceive, m.to, static_cast<std::uint32_t>(e.key));
    return false;
  }

  // --- Receiving

  void post(Comm<H>& c, Receive& receive) { r_.mail.post(c, receive); }
  bool advance(const Receive& receive, bool thorough) { return r_.mail.advance(receive, thorough); }
  bool cancel(Comm<H>& c, Receive& receive) { return r_.mail.cancel(c, receive); }
  // REQUIRES that the receive has its message. Calls take(data, at, n) for bytes [at, at + n) that
  // lie at data, piece by piece as the sender writes them, and waits for the last of `bytes`.
  template <class Take>
  void read(const Receive& receive, std::uint64_t bytes, Take&& take) {
    const Arrived& a = *receive.message;
    const journal::Message& m = a.message;
    const std::byte* data = m.bytes > journal::kInlineBytes
                                ? r_.peers.payload(m.value, m.bytes).data()
                                : reinterpret_cast<const std::byte*>(&m.value);
    std::uint64_t end = std::min(bytes, m.written);
    if (end > 0) take(data, 0, end);
    for (std::uint64_t at = end; at < bytes; at = end) {
      wait([&](bool thorough) {
        if (thorough) progress(true);
        r_.host.step(Step::kReceive);
        end = std::min(bytes, r_.peers.written(a.from, r_.host.rank(), a.index));
        if (engine::breaks(r_.host, Rule::kWholeMessage)) end = bytes;
        return end > at;
      });
      take(data + at, at, end - at);
    }
  }
  Envelope envelope(const Receive& receive) const { return envelope(*receive.message); }
  void consume(Receive& receive) { r_.mail.consume(receive); }
  // Advances everything that waits only for a call of MPI.
  void progress(bool thorough) { r_.mail.poll_all(thorough); }

  // --- What depends on when the program asks

  // Runs ask() and records its answer, or replays the recorded answer. ask() -> bool: whether what
  // is asked about is over now; finish() waits until it is.
  template <class Ask, class Finish>
  bool observe(Ask&& ask, Finish&& finish) {
    typename Outcomes<H>::Answer then;
    if (outcomes_.recall(&then)) [[unlikely]] {
      r_.count_replayed();
      if (then.kind == OutcomeKind::kNotYet) return false;
      expect(then.kind, OutcomeKind::kDone);
      finish();
      return true;
    }
    r_.before_anything_new(kQuestion);
    const bool now = ask(look_thoroughly_or_not());
    if (!now) pass_time();
    outcomes_.record(now ? OutcomeKind::kDone : OutcomeKind::kNotYet, 0);
    return now;
  }

  // The same for several: ask() -> the index of one that is over, or -1. finish(i) waits for that
  // one.
  template <class Ask, class Finish>
  int observe_index(Ask&& ask, Finish&& finish) {
    typename Outcomes<H>::Answer then;
    if (outcomes_.recall(&then)) [[unlikely]] {
      r_.count_replayed();
      if (then.kind == OutcomeKind::kNotYet) return -1;
      expect(then.kind, OutcomeKind::kIndex);
      finish(static_cast<int>(then.value));
      return static_cast<int>(then.value);
    }
    r_.before_anything_new(kQuestion);
    const int now = ask(look_thoroughly_or_not());
    if (now < 0) {
      pass_time();
      outcomes_.record(OutcomeKind::kNotYet, 0);
    } else {
      outcomes_.record(OutcomeKind::kIndex, static_cast<std::uint32_t>(now));
    }
    return now;
  }

  // The same for several, in order: ask(indices) -> how many are over, or 0. finish(i) as above.
  template <class Ask, class Finish>
  int observe_some(int* indices, Ask&& ask, Finish&& finish) {
    typename Outcomes<H>::Answer then;
    if (outcomes_.recall(&then)) [[unlikely]] {
      r_.count_replayed();
      if (then.kind == OutcomeKind::kNotYet) return 0;
      // Count and indices became visible together, so an answer is there as a whole or not at all.
      return recall_some(then, indices, finish);
    }
    r_.before_anything_new(kQuestion);
    const int now = ask(look_thoroughly_or_not(), indices);
    if (now == 0) {
      pass_time();
      outcomes_.record(OutcomeKind::kNotYet, 0);
      return 0;
    }
    outcomes_.record_some(indices, now);
    return now;
  }

  // Returns whether a message is there that such a receive would be given. *e: its envelope.
  bool probe(Comm<H>& c, std::uint32_t source, std::uint64_t tag, Envelope* e) {
    typename Outcomes<H>::Answer then;
    if (outcomes_.recall(&then)) [[unlikely]] {
      r_.count_replayed();
      if (then.kind == OutcomeKind::kNotYet) return false;
      expect(then.kind, OutcomeKind::kPair);
      *e = recall_envelope();
      return true;
    }
    r_.before_anything_new(kQuestion);
    const Arrived* a = look(c, source, tag, look_thoroughly_or_not());
    if (a == nullptr) {
      pass_time();
      outcomes_.record(OutcomeKind::kNotYet, 0);
      return false;
    }
    outcomes_.record_pair(journal::MatchWord::make(a->from, a->index));
    *e = envelope(*a);
    return true;
  }
  // The same without a record: for observe().
  bool peek(Comm<H>& c, std::uint32_t source, std::uint64_t tag, bool thorough) {
    return look(c, source, tag, thorough) != nullptr;
  }
  // Waits for one. A named source needs no record: its first message that fits is the answer.
  Envelope wait_for_message(Comm<H>& c, std::uint32_t source, std::uint64_t tag) {
    typename Outcomes<H>::Answer then;
    const bool recorded = source == kAnySource;
    if (recorded && outcomes_.recall(&then)) [[unlikely]] {
      r_.count_replayed();
      expect(then.kind, OutcomeKind::kPair);
      return recall_envelope();
    }
    if (recorded) r_.before_anything_new(kQuestion);
    const Arrived* a = nullptr;
    wait([&](bool thorough) {
      a = look(c, source, tag, thorough);
      return a != nullptr;
    });
    if (recorded) outcomes_.record_pair(journal::MatchWord::make(a->from, a->index));
    return envelope(*a);
  }

  // --- Checkpoints

  // Requests that the program has begun and not completed.
  void open() { ++open_; }
  void close() { --open_; }
  // Returns one of them in words; null: there is none.
  const char* open_request() const { return open_ == 0 ? nullptr : "a request"; }

  Outcomes<H>& outcomes() { return outcomes_; }

  void went_live() {
    if (!r_.progress.live && r_.header->ranks > 1) [[unlikely]]
      r_.went_live();
  }

 private:
  static Envelope envelope(const Arrived& a) { return envelope(a.from, a.message); }
  static Envelope envelope(std::uint32_t from, const journal::Message& m) {
    return {from, static_cast<std::int32_t>(static_cast<std::uint32_t>(m.key)), m.bytes, m.type};
  }

  void put(const Payload& p, std::byte* to) {
    if (p.fill != nullptr) {
      p.fill(p, to);
    } else {
      copy_payload(to, p.data, p.bytes);
    }
  }
  void put_inline(const Payload& p, std::uint64_t* to) {
    if (p.fill != nullptr) {
      p.fill(p, reinterpret_cast<std::byte*>(to));
    } else {
      journal::copy_inline(to, p.data, p.bytes);
    }
  }

  std::uint32_t hash_of(const Payload& p) {
    if (p.fill == nullptr) return hash_bytes(p.data, p.bytes);
    auto* packed = static_cast<std::byte*>(r_.arena.allocate(p.bytes));
    engine::check(
        r_.host, packed != nullptr,
        "the MPI library's memory is used up: the program may have too many messages that it has "
        "not received yet, or handles (requests, datatypes, communicators) that it has not freed");
    p.fill(p, packed);
    const std::uint32_t hash = hash_bytes(packed, p.bytes);
    r_.arena.release(packed, p.bytes);
    return hash;
  }

  const Arrived* look(Comm<H>& c, std::uint32_t source, std::uint64_t tag, bool thorough) {
    if (thorough) {
      r_.mail.show_waiting(journal::Waiting::kForMessage, source, tag);
      r_.mail.poll_all(true);
    }
    for (bool more = true; more; thorough = false) {
      if (const Arrived* a = r_.mail.find(c, source, tag)) return a;
      more = r_.mail.poll_next(source, thorough);
    }
    return nullptr;
  }

  // Serves a program that polls: every kThoroughEvery-th look is thorough, and the processor is
  // left to others as in a wait.
  bool look_thoroughly_or_not() {
    const bool thorough = ++asked_ % kThoroughEvery == 0;
    r_.advance_outstanding(thorough);
    // Peers may wait until their messages are matched, and this rank may make no other MPI calls.
    if (thorough && !engine::breaks(r_.host, Rule::kAskingTakesIn)) r_.mail.poll_all(true);
    return thorough;
  }
  void pass_time() { r_.host.poll(not_yet_++); }

  // The message of a recorded answer still exists.
  Envelope recall_envelope() {
    const std::uint64_t word = outcomes_.recall_word();
    const std::uint32_t from = journal::MatchWord::from(word);
    return envelope(from, r_.peers.message(from, r_.host.rank(), journal::MatchWord::index(word)));
  }

  template <class Finish>
  int recall_some(typename Outcomes<H>::Answer count, int* indices, Finish&& finish) {
    expect(count.kind, OutcomeKind::kCount);
    for (std::uint32_t i = 0; i < count.value; ++i) {
      typename Outcomes<H>::Answer one;
      const bool there = outcomes_.recall(&one);
      engine::check(r_.host, there,
                    "the journal has only a part of the outcome of MPI_Waitsome or MPI_Testsome: "
                    "this is a defect of Rejoin");
      expect(one.kind, OutcomeKind::kIndex);
      indices[i] = static_cast<int>(one.value);
      finish(indices[i]);
    }
    return static_cast<int>(count.value);
  }

  void expect(OutcomeKind recorded, OutcomeKind asked) {
    if (recorded == asked) [[likely]]
      return;
    r_.host.stop(r_.diagnostics.other_question(r_.progress.ordinal, r_.host.rank(),
                                               name_of(recorded), name_of(asked)));
  }

  Rooms<H>& r_;
  Outcomes<H> outcomes_;
  static constexpr unsigned kThoroughEvery = 32;
  std::uint64_t open_ = 0;
  unsigned asked_ = 0;
  unsigned not_yet_ = 0;
};

}  // namespace rejoin::recovery
