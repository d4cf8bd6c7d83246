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
#include "journal/arena.h"
#include "journal/channels.h"
#include "journal/copy_inline.h"
#include "journal/lending.h"
#include "journal/peer_view.h"
#include "recovery/communicators.h"
#include "recovery/diagnostics.h"
#include "recovery/execution.h"
#include "recovery/hash.h"
#include "recovery/inbox.h"
#include "recovery/outbox.h"
#include "recovery/outcomes.h"
#include "recovery/repetition.h"
#include "recovery/taking.h"
#include "recovery/waits.h"

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
  std::uint32_t tag = 0;
};

// The properties of a message that the receiver sees.
struct Envelope {
  std::uint32_t from;  // world rank
  std::int32_t tag;
  std::uint64_t bytes;
  std::uint32_t type;  // hash of its type signature
};

template <journal::Host H>
class PointToPoint {
 public:
  PointToPoint(H& host, journal::Arena& arena, const journal::PeerView& peers,
               Execution<H>& execution, Inbox<H>& inbox, Outbox<H>& outbox, Outcomes<H>& outcomes,
               Repetition<H>& repetition, Taking& taking, Waits<H>& waits, Diagnostics& diagnostics)
      : host_(host),
        arena_(arena),
        peers_(peers),
        execution_(execution),
        inbox_(inbox),
        outbox_(outbox),
        outcomes_(outcomes),
        repetition_(repetition),
        taking_(taking),
        waits_(waits),
        diagnostics_(diagnostics),
        ranks_(peers.ranks()) {}

  static std::uint64_t key_of(int tag) {
    return journal::kPointToPoint | static_cast<std::uint32_t>(tag);
  }

  // --- A call of the program. Every blocking or posting call is one operation.

  // Returns the call's index, for the messages that it sends.
  std::uint32_t begin(const Call& call) {
    const std::uint32_t index = execution_.enter(call).call;
    // Context 0: a rank is never inside an operation of a communicator because of a message.
    execution_.show_position(0, 0, index);
    inbox_.show_no_waiting();
    execution_.show_inside();
    return index;
  }
  void end() {
    inside();
    waits_.end();
    execution_.leave(Status::kOk);
  }
  void inside() { execution_.inside(); }

  // Waits until ready(thorough), and advances everything else meanwhile. is_new(): whether no
  // former incarnation has been behind this wait.
  template <class Ready>
  void wait(Ready&& ready) {
    wait(ready, [] { return true; });
  }
  template <class Ready, class IsNew>
  void wait(Ready&& ready, IsNew&& is_new) {
    waits_.advance(false);
    if (ready(false)) return;
    journal::wait_until(host_, [&](bool thorough) {
      const std::uint32_t incarnation = execution_.incarnation();
      waits_.advance(thorough);
      if (ready(thorough)) return true;
      // If this process was woken meanwhile, its predecessor may have come further.
      if (execution_.incarnation() == incarnation && is_new()) become_live();
      return false;
    });
  }

  // Called before waiting for a nonblocking collective: shows the others that this rank is inside
  // it.
  void await(const Nonblocking& op) {
    if (!op.is_over()) waits_.begin(op.standing());
  }

  // --- Sending

  // Posts one message. Waits for nothing but the end of its receiver's copy of a large one.
  SentMessage send(Comm<H>& c, std::uint32_t call, std::uint32_t dest, int tag, bool synchronous,
                   std::uint32_t type, const Payload& payload) {
    const std::uint32_t to = c.members.world[dest];
    const auto shown_tag = static_cast<std::uint32_t>(tag);
    const typename Outbox<H>::Label label = {
        c.members.context, key_of(tag) | (synchronous ? journal::kSynchronous : 0), call, type};
    const auto repeat = [&]() -> SentMessage {
      execution_.count_replayed();
      return {to, outbox_.repeat(to, label, payload.bytes, hash_of(payload), payload.data),
              shown_tag};
    };
    if (outbox_.is_posted(to)) return repeat();
    become_live();
    while (repetition_.before_anything_new(call)) {
      if (outbox_.is_posted(to)) return repeat();
    }
    const std::uint64_t k = outbox_.begin(to);
    std::uint64_t value = 0, written = payload.bytes;
    const std::byte* at = reinterpret_cast<const std::byte*>(&value);
    const std::uint64_t whole =
        host_.is_near(to) ? journal::Writing<H>::kPieceBytes : journal::Writing<H>::kFarWholeBytes;
    if (payload.bytes > whole && payload.fill == nullptr) {  // it is copied behind the post
      value = outbox_.allocate(payload.bytes);
      at = static_cast<const std::byte*>(payload.data);
      written = 0;
    } else if (payload.bytes > journal::kInlineBytes) {
      value = outbox_.allocate(payload.bytes);
      std::byte* place = journal::own_bytes(host_, value);
      put(payload, place);
      at = place;
    } else {
      put_inline(payload, &value);
    }
    const std::uint32_t hash = hash_bytes(at, payload.bytes);
    inside();
    outbox_.post(to, label, payload.bytes, hash, value, written, at);
    if (written < payload.bytes) [[unlikely]]
      write_rest();
    return {to, k, shown_tag};
  }

  // The number of messages that lie in the journal for world rank `to`.
  std::uint64_t posted(std::uint32_t to) { return outbox_.posted(to); }

  // Returns whether a receive has matched it.
  bool is_matched(const SentMessage& m) {
    do {
      host_.step(Step::kLook);
      if (!outbox_.is_matched(m.to, m.index)) {
        inbox_.show_waiting(journal::Waiting::kForReceive, m.to, m.tag);
        return false;
      }
    } while (taking_.before() != Imaged::kNone &&
             !journal::breaks(host_, Rule::kLookAgainBehindImage));
    return true;
  }

  // --- Receiving

  void post(Comm<H>& c, Receive& receive) { inbox_.post(c, receive); }
  bool advance(const Receive& receive, bool thorough) { return inbox_.advance(receive, thorough); }
  bool cancel(Comm<H>& c, Receive& receive) { return inbox_.cancel(c, receive); }
  // REQUIRES that the receive has its message. Calls take(data, at, n) for bytes [at, at + n) that
  // lie at data, piece by piece as the sender writes them, and waits for the last of `bytes`. to:
  // where the program's buffer has room for them in one piece, or null; bytes that come from
  // another node meanwhile may be written there without a call of take().
  template <class Take>
  void read(const Receive& receive, std::uint64_t bytes, std::byte* to, Take&& take) {
    const Arrived& a = *receive.message;
    const journal::Message& m = a.message;
    const std::byte* data = m.bytes > journal::kInlineBytes
                                ? peers_.payload(m.value, m.bytes).data()
                                : reinterpret_cast<const std::byte*>(&m.value);
    std::uint64_t end = std::min(bytes, m.written);
    const bool is_read =
        receive.is_read || (to != nullptr && end < bytes && inbox_.read_directly(a, to, bytes));
    if (end > 0 && !is_read) take(data, 0, end);
    if (end >= bytes) return;
    const std::uint32_t me = host_.rank(), lender = execution_.incarnation();
    const bool lends = to != nullptr && !host_.is_near(a.from);
    journal::Lending<H> lending(host_);
    if (lends && peers_.written(a.from, me, a.index).are_kept) {
      lending.begin_message(peers_.place(a.from, me, a.index), m.value, to, bytes);
    }
    bool asks = false;
    for (std::uint64_t at = end; at < bytes; at = end) {
      const auto has_come = [&](bool thorough) {
        if (thorough) progress(true);
        host_.step(Step::kReceive);
        // What has come since a woken process was cloned went to its predecessor's buffer.
        const bool is_woken = execution_.incarnation() != lender;
        if (is_woken && !journal::breaks(host_, Rule::kLentByThisProcess)) lending.end();
        const journal::Written written = peers_.written(a.from, me, a.index);
        const bool is_here = written.are_kept || lending.is_lent();
        if (!is_here && !journal::breaks(host_, Rule::kNotKeptIsAsked)) {
          asks = true;
          inbox_.ask_again(a);
          return false;
        }
        end = std::min(bytes, written.bytes);
        if (journal::breaks(host_, Rule::kWholeMessage)) end = bytes;
        if (is_read && end < bytes) {
          end = journal::breaks(host_, Rule::kReadWhenWhole) ? bytes : at;
        }
        return end > at;
      };
      // A former incarnation has received what is asked for: that is a part of the replay.
      wait(has_come, [&] { return !asks; });
      if (is_read) break;
      lending.for_rest(m.value, at, end, 0, [&](std::uint64_t from, std::uint64_t to_end) {
        take(data + from, from, to_end - from);
      });
    }
    if (asks) inbox_.ask_no_more(a);
  }
  Envelope envelope(const Receive& receive) const { return envelope(*receive.message); }
  void consume(Receive& receive) { inbox_.consume(receive); }
  // Advances everything that waits only for a call of MPI.
  void progress(bool thorough) { inbox_.poll_all(thorough); }

  // --- What depends on when the program asks

  // Whether the journal answers the next question.
  bool has_recorded_answers() const { return outcomes_.has_more(); }

  // Runs ask() and records its answer, or replays the recorded answer. ask() -> bool: whether what
  // is asked about is over now; finish() waits until it is.
  template <class Ask, class Finish>
  bool observe(Ask&& ask, Finish&& finish) {
    typename Outcomes<H>::Answer then;
    const auto repeat = [&] {
      execution_.count_replayed();
      if (then.kind == OutcomeKind::kNotYet) return false;
      expect(then.kind, OutcomeKind::kDone);
      finish();
      return true;
    };
    if (outcomes_.recall(&then)) [[unlikely]]
      return repeat();
    while (repetition_.before_anything_new(kQuestion)) {
      if (outcomes_.recall(&then)) return repeat();
    }
    const std::uint32_t asker = execution_.incarnation();
    const bool now = ask(look_thoroughly_or_not());
    if (is_answered_since(asker, &then)) [[unlikely]]
      return repeat();
    if (!now) pass_time();
    outcomes_.record(now ? OutcomeKind::kDone : OutcomeKind::kNotYet, 0);
    return now;
  }

  // The same for several: ask() -> the index of one that is over, or -1. finish(i) waits for that
  // one.
  template <class Ask, class Finish>
  int observe_index(Ask&& ask, Finish&& finish) {
    typename Outcomes<H>::Answer then;
    const auto repeat = [&] {
      execution_.count_replayed();
      if (then.kind == OutcomeKind::kNotYet) return -1;
      expect(then.kind, OutcomeKind::kIndex);
      finish(static_cast<int>(then.value));
      return static_cast<int>(then.value);
    };
    if (outcomes_.recall(&then)) [[unlikely]]
      return repeat();
    while (repetition_.before_anything_new(kQuestion)) {
      if (outcomes_.recall(&then)) return repeat();
    }
    const std::uint32_t asker = execution_.incarnation();
    const int now = ask(look_thoroughly_or_not());
    if (is_answered_since(asker, &then)) [[unlikely]]
      return repeat();
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
    const auto repeat = [&] {
      execution_.count_replayed();
      if (then.kind == OutcomeKind::kNotYet) return 0;
      // Count and indices became visible together, so an answer is there as a whole or not at all.
      return recall_some(then, indices, finish);
    };
    if (outcomes_.recall(&then)) [[unlikely]]
      return repeat();
    while (repetition_.before_anything_new(kQuestion)) {
      if (outcomes_.recall(&then)) return repeat();
    }
    const std::uint32_t asker = execution_.incarnation();
    const int now = ask(look_thoroughly_or_not(), indices);
    if (is_answered_since(asker, &then)) [[unlikely]]
      return repeat();
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
    const auto repeat = [&] {
      execution_.count_replayed();
      if (then.kind == OutcomeKind::kNotYet) return false;
      expect(then.kind, OutcomeKind::kPair);
      *e = recall_envelope();
      return true;
    };
    if (outcomes_.recall(&then)) [[unlikely]]
      return repeat();
    while (repetition_.before_anything_new(kQuestion)) {
      if (outcomes_.recall(&then)) return repeat();
    }
    const std::uint32_t asker = execution_.incarnation();
    const Arrived* a = look(c, source, tag, look_thoroughly_or_not());
    if (is_answered_since(asker, &then)) [[unlikely]]
      return repeat();
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
    const auto repeat = [&] {
      execution_.count_replayed();
      expect(then.kind, OutcomeKind::kPair);
      return recall_envelope();
    };
    if (recorded && outcomes_.recall(&then)) [[unlikely]]
      return repeat();
    while (recorded && repetition_.before_anything_new(kQuestion)) {
      if (outcomes_.recall(&then)) return repeat();
    }
    const std::uint32_t asker = execution_.incarnation();
    const Arrived* a = nullptr;
    wait([&](bool thorough) {
      a = look(c, source, tag, thorough);
      return a != nullptr;
    });
    if (recorded && is_answered_since(asker, &then)) [[unlikely]]
      return repeat();
    if (recorded) outcomes_.record_pair(journal::MatchWord::make(a->from, a->index));
    return envelope(*a);
  }

  // Returns whether the journal lacks bytes of a message that this rank has posted.
  bool is_writing() const { return outbox_.is_writing(); }

  // --- Checkpoints

  // Requests that the program has begun and not completed.
  void open() { ++open_; }
  void close() { --open_; }
  // Returns one of them in words; null: there is none.
  const char* open_request() const { return open_ == 0 ? nullptr : "a request"; }

 private:
  // Copies the rest of the newest message to the journal. Incoming messages are matched between two
  // pieces: if two ranks send to each other, neither waits in a receive, but each can read the
  // other's buffer here, before that send has completed.
  [[gnu::noinline]] void write_rest() {
    const bool may_read = host_.may_read_others();
    while (!outbox_.write_some()) {
      if (may_read) inbox_.poll_all(false);
    }
  }

  void become_live() { execution_.become_live(ranks_ > 1); }

  // Returns whether this process was woken while it asked, and its predecessor had got the answer,
  // which is now in `answer`.
  bool is_answered_since(std::uint32_t asker, typename Outcomes<H>::Answer* answer) {
    if (execution_.incarnation() == asker) [[likely]]
      return false;
    return !journal::breaks(host_, Rule::kAnswerInWait) && outcomes_.recall(answer);
  }

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
    auto* packed = static_cast<std::byte*>(arena_.allocate(p.bytes));
    journal::check(
        host_, packed != nullptr,
        "the MPI library's memory is used up: the program may have too many messages that it has "
        "not received yet, or handles (requests, datatypes, communicators) that it has not freed");
    p.fill(p, packed);
    const std::uint32_t hash = hash_bytes(packed, p.bytes);
    arena_.release(packed, p.bytes);
    return hash;
  }

  const Arrived* look(Comm<H>& c, std::uint32_t source, std::uint64_t tag, bool thorough) {
    if (thorough) {
      inbox_.show_waiting(journal::Waiting::kForMessage, source, tag);
      inbox_.poll_all(true);
    }
    for (bool more = true; more; thorough = false) {
      if (const Arrived* a = inbox_.find(c, source, tag)) return a;
      more = inbox_.poll_next(source, thorough);
    }
    return nullptr;
  }

  // Serves a program that polls: every kThoroughEvery-th look is thorough, and the processor is
  // left to others as in a wait.
  bool look_thoroughly_or_not() {
    const bool thorough = ++asked_ % kThoroughEvery == 0;
    waits_.advance(thorough);
    // Peers may wait until their messages are matched, and this rank may make no other MPI calls.
    if (thorough && !journal::breaks(host_, Rule::kAskingTakesIn)) inbox_.poll_all(true);
    return thorough;
  }
  void pass_time() {
    host_.poll(not_yet_++);
    host_.waited();
  }

  // The message of a recorded answer still exists.
  Envelope recall_envelope() {
    const std::uint64_t word = outcomes_.recall_word();
    const std::uint32_t from = journal::MatchWord::from(word);
    return envelope(from, peers_.message(from, host_.rank(), journal::MatchWord::index(word)));
  }

  template <class Finish>
  int recall_some(typename Outcomes<H>::Answer count, int* indices, Finish&& finish) {
    expect(count.kind, OutcomeKind::kCount);
    for (std::uint32_t i = 0; i < count.value; ++i) {
      typename Outcomes<H>::Answer one;
      const bool there = outcomes_.recall(&one);
      journal::check(host_, there,
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
    host_.stop(diagnostics_.other_question(execution_.ordinal(), host_.rank(), name_of(recorded),
                                           name_of(asked)));
  }

  H& host_;
  journal::Arena& arena_;
  const journal::PeerView& peers_;
  Execution<H>& execution_;
  Inbox<H>& inbox_;
  Outbox<H>& outbox_;
  Outcomes<H>& outcomes_;
  Repetition<H>& repetition_;
  Taking& taking_;
  Waits<H>& waits_;
  Diagnostics& diagnostics_;
  const std::uint32_t ranks_;  // of the job
  static constexpr unsigned kThoroughEvery = 32;
  std::uint64_t open_ = 0;
  unsigned asked_ = 0;
  unsigned not_yet_ = 0;
};

}  // namespace rejoin::recovery
