// Messages that have come to this rank, and the receives that match them. PROTOCOL.md, "Messages".
//
// A message lies in its sender's region until its receiver's mark has passed it; receiving it means
// copying it out and moving a mark. Matching follows from the order of sending and the order of
// posting, and is not recorded; the exceptions are receives of any source, each with one word of a
// log, and cancelled receives. A new incarnation therefore posts the same receives and is given the
// same messages.
#pragma once

#include <algorithm>
#include <cstdint>

#include "journal/arena.h"
#include "journal/direct.h"
#include "journal/log.h"
#include "journal/own.h"
#include "journal/peer_view.h"
#include "journal/waiting.h"
#include "recovery/communicators.h"
#include "recovery/diagnostics.h"
#include "recovery/divergence.h"
#include "recovery/taking.h"

namespace rejoin::recovery {

inline constexpr std::uint32_t kAnySource = ~std::uint32_t{0};
inline constexpr std::uint64_t kAnyTag = ~std::uint64_t{0};

// A message that has arrived and is not received yet.
struct Arrived {
  journal::Message message;
  std::uint64_t index;     // in its channel
  std::uint32_t from;      // world rank
  std::uint32_t by;        // matched_by() its receive, if that was shown to its sender; else 0
  Arrived* next;           // in a communicator's queue of unmatched messages, by arrival
  Arrived *older, *newer;  // among all of one sender's
};

// A posted receive. Memory of the caller's; it must not move until the receive is over.
struct Receive {
  std::uint32_t source = kAnySource;  // world rank
  std::uint64_t tag = kAnyTag;
  Arrived* message = nullptr;  // the matched message
  std::uint64_t turn = 0;      // when it was matched, among all of this rank's
  std::uint64_t number = 0;    // among all receives that this rank has posted
  std::uint64_t wildcard = 0;  // among those of any source
  std::uint64_t bound = 0;     // MatchWord: the message that a former incarnation was given
  bool cancelled = false;
  // A former incarnation has cancelled it, and this one has not done so yet.
  bool foreseen = false;
  bool posted = false;  // it is in its communicator's queue
  // The program's buffer, `room` bytes without gaps, for a large message that is read directly as
  // soon as it is matched. Null: the buffer has gaps, or must not be written yet.
  std::byte* to = nullptr;
  std::uint64_t room = 0;
  bool is_read = false;  // directly; the receive completes when the journal has the message
  Receive* next = nullptr;
};

template <journal::Host H>
class Inbox {
 public:
  Inbox(H& host, journal::Arena& arena, const journal::PeerView& peers,
        journal::Journal<H>& journal, Communicators<H>& comms, Taking& taking,
        Diagnostics& diagnostics, Divergence<H>& divergence)
      : host_(host),
        arena_(arena),
        peers_(peers),
        header_(journal::job_of(host)),
        control_(journal::own_control(host)),
        region_(journal.region()),
        comms_(comms),
        taking_(taking),
        diagnostics_(diagnostics),
        divergence_(divergence),
        direct_(host, peers),
        senders_(arena.make_array<Sender>(header_->ranks)),
        matches_(host, journal.region(), journal.region().head()->matches, true),
        cancelled_(host, journal.region(), journal.region().head()->cancelled, true) {
    load_cancelled(0);
    ask_for_nothing();
  }

  // --- Receiving

  // Gives r the first message that matches, or queues it. r.source and r.tag are set.
  void post(Comm<H>& c, Receive& r) {
    r.number = receives_++;
    if (r.source == kAnySource) post_wildcard(r);
    if (was_cancelled(r.number)) {
      foresee(r);
      return;
    }
    for (Arrived** link = &c.queues.arrived; *link != nullptr; link = &(*link)->next) {
      Arrived* a = *link;
      if (!matches(r, *a)) continue;
      if (a->next != nullptr && matches(r, *a->next) &&
          journal::breaks(host_, Rule::kMatchInOrder)) {
        continue;
      }
      unlink(c.queues, link);
      match(r, a);
      return;
    }
    r.posted = true;
    ++queued_;
    r.next = nullptr;
    *c.queues.last_posted = &r;
    c.queues.last_posted = &r.next;
  }

  // Looks for the message that r waits for. thorough: also if its place has changed, and for
  // messages of all posted receives. Takes in no more, because a replay finds all messages at once.
  bool advance(const Receive& r, bool thorough) {
    bool more = r.message == nullptr && !r.cancelled;
    for (bool first = thorough; more && r.message == nullptr; first = false) {
      more = poll_next(r.source, first);
    }
    if (thorough && r.message == nullptr && !r.cancelled) {
      show_waiting(journal::Waiting::kForMessage, r.source, r.tag);
      poll_all(true);
    }
    return r.message != nullptr || r.cancelled;
  }

  // Reads the first `bytes` bytes of a message from its sender's buffer, if that is open and the
  // journal lacks at least half of them; a smaller rest is copied from the journal as fast. Returns
  // whether it did. The receive completes when the journal has the message.
  bool read_directly(const Arrived& a, std::byte* to, std::uint64_t bytes) {
    const journal::Message& m = a.message;
    if (m.written >= m.bytes || m.bytes > direct_.kMost || !host_.is_near(a.from)) return false;
    const std::uint64_t written = peers_.written(a.from, host_.rank(), a.index).bytes;
    if (2 * written > bytes) return false;
    // A message is opened by its sender alone, with the same bytes.
    return direct_.read(a.from, peers_.place(a.from, host_.rank(), a.index), to, 0, bytes,
                        [] { return true; });
  }

  // The receive is over and its message is copied out. A later incarnation is given it again.
  void consume(Receive& r) {
    consume(r.message);
    r.message = nullptr;
  }

  // The bytes of a message have come to the buffer of a former incarnation alone: asks its sender's
  // node for them again, once. To be called in every look until they are there: threads that need
  // messages of one sender ask one after the other.
  void ask_again(const Arrived& a) {
    journal::OwnerWord<std::uint64_t>& word = journal::own_asked(host_, a.from);
    const std::uint64_t before = word.load(std::memory_order_relaxed);
    if (journal::AskWord::asks(before)) {
      const std::uint64_t index = journal::AskWord::index(before);
      const bool is_answered = peers_.written(a.from, host_.rank(), index).are_kept;
      if (index == a.index || !is_answered) return;
    }
    word.store(host_, Step::kAsk, journal::AskWord::after(before, a.index));
    journal::ring_sleepers(host_, &a.from, 1);
  }
  // They are there, or are not needed.
  void ask_no_more(const Arrived& a) {
    journal::OwnerWord<std::uint64_t>& word = journal::own_asked(host_, a.from);
    const std::uint64_t before = word.load(std::memory_order_relaxed);
    const bool is_it = journal::AskWord::asks(before) && journal::AskWord::index(before) == a.index;
    if (is_it) word.store(host_, Step::kSame, journal::AskWord::over(before));
  }

  // Returns true if r will never be given a message, false if it has one.
  bool cancel(Comm<H>& c, Receive& r) {
    if (r.cancelled) return cancel_again(r);
    for (bool more = true; more && r.message == nullptr;) more = poll_next(r.source, true);
    if (r.message != nullptr) return false;
    // It was woken meanwhile, and its predecessor has cancelled the receive.
    if (r.cancelled) return cancel_again(r);
    if (!journal::breaks(host_, Rule::kCancelRecorded)) {
      std::uint64_t* at = cancelled_.next();
      if (at == nullptr) return false;
      *at = r.number;
      cancelled_.publish(Step::kCancel);
    }
    Receive** link = &c.queues.posted;
    while (*link != &r) link = &(*link)->next;
    leave_queue(c, link);
    return true;
  }

  // Returns the first message that such a receive would be given now, which stays; null: none.
  Arrived* find(Comm<H>& c, std::uint32_t source, std::uint64_t tag) {
    for (Arrived* a = c.queues.arrived; a != nullptr; a = a->next) {
      if (fits(source, tag, *a)) return a;
    }
    return nullptr;
  }

  // Returns the next message of member `from` in operation `sequence` of a collective, which the
  // caller then consumes; null: none has come.
  Arrived* take(Comm<H>& c, std::uint32_t from, std::uint64_t sequence) {
    for (Arrived** link = &c.queues.collective; *link != nullptr; link = &(*link)->next) {
      Arrived* a = *link;
      if (a->from != from || a->message.key != sequence) continue;
      *link = a->next;
      if (c.queues.last_collective == &a->next) c.queues.last_collective = link;
      return a;
    }
    return nullptr;
  }
  void consume(Arrived* a) {
    Sender& s = senders_[a->from];
    (a->older != nullptr ? a->older->newer : s.oldest) = a->newer;
    (a->newer != nullptr ? a->newer->older : s.newest) = a->older;
    const std::uint32_t from = a->from;
    a->next = free_;
    free_ = a;
    show_consumed(from);
  }

  // --- Looking

  // This rank waits for nothing that is shown.
  void show_no_waiting() {
    control_->waits_for.store(host_, Step::kSame, 0, std::memory_order_relaxed);
  }
  // Shows for reports what this rank waits for.
  void show_waiting(std::uint64_t what, std::uint32_t rank, std::uint64_t tag) {
    const auto shown = tag == kAnyTag ? journal::Waiting::kAnyTag : static_cast<std::uint32_t>(tag);
    control_->waits_for.store(host_, Step::kSame, journal::Waiting::make(what, rank, shown),
                              std::memory_order_relaxed);
  }

  // Takes in messages for posted receives. Without any, no message needs to be taken in.
  void poll_all(bool thorough) {
    if (queued_ == 0) return;
    for (unsigned i = 0; i < kAtOnce; ++i) {
      if (!poll_next(kAnySource, thorough && i == 0)) return;
    }
  }

  // Takes in all messages that have arrived, for posted receives.
  void poll_until_empty() {
    while (queued_ != 0 && poll_next(kAnySource, true)) {
    }
  }

  // Takes in the next message of `from`, or the next of each rank. False: there is none. thorough:
  // also if the place of the next message has changed.
  bool poll_next(std::uint32_t from, bool thorough) {
    if (from != kAnySource) return poll_one(from, thorough);
    bool any = false;
    for (std::uint32_t r = 0; r < header_->ranks; ++r) any |= poll_one(r, thorough);
    return any;
  }

  // Called for a new communicator: messages for it may have come earlier.
  void adopt(Comm<H>& c) {
    for (Arrived** link = &strangers_; *link != nullptr;) {
      Arrived* a = *link;
      if (a->message.context != c.members.context) {
        link = &a->next;
        continue;
      }
      *link = a->next;
      hand_over(c, a);
    }
  }

  // --- Checkpoints

  std::uint64_t receives() const { return receives_; }
  std::uint64_t wildcards() const { return wildcards_; }
  // The oldest receive of any source that has no message yet: what it is given will be noted in the
  // word with its number.
  std::uint64_t oldest_open_wildcard() const {
    std::uint64_t oldest = wildcards_;
    for (Comm<H>* c = comms_.first(); c != nullptr; c = c->next) {
      for (const Receive* r = c->queues.posted; r != nullptr; r = r->next) {
        const bool counts = r->source == kAnySource && r->wildcard != kUnrecorded;
        if (counts) oldest = std::min(oldest, r->wildcard);
      }
    }
    return oldest;
  }
  std::uint64_t cancellations() const { return cancelled_.tail(); }
  // Synchronous messages that receives of this execution, and of all incarnations, were given.
  std::uint64_t synchronous() const { return synchronous_; }
  std::uint64_t shown_synchronous() const {
    return region_.head()->synchronous.load(std::memory_order_relaxed);
  }
  // A former incarnation has cancelled receives that this one has not posted, or not cancelled yet.
  bool has_more() const {
    return foreseen_ != 0 || (known_count_ != 0 && known_[known_count_ - 1] >= receives_);
  }
  // A former incarnation has received messages that this one has not received yet.
  bool receives_again() const {
    for (std::uint32_t r = 0; r < header_->ranks; ++r) {
      const std::uint64_t shown = journal::own_consumed(host_, r).load(std::memory_order_relaxed);
      if (consumed(r) < shown) return true;
    }
    return false;
  }

  // The number of messages that have arrived but are not received.
  std::uint64_t count_waiting() const {
    std::uint64_t n = 0;
    for (std::uint32_t r = 0; r < header_->ranks; ++r) {
      for (const Arrived* a = senders_[r].oldest; a != nullptr; a = a->newer) ++n;
    }
    return n;
  }
  // Writes the inbox's part of the marks: received[ranks] looked_at[ranks] waiting[].
  void save(std::uint64_t* to) const {
    const std::uint32_t n = header_->ranks;
    std::uint64_t* waiting = to + 2 * std::size_t{n};
    for (std::uint32_t r = 0; r < n; ++r) {
      const Sender& s = senders_[r];
      to[r] = s.oldest != nullptr ? s.oldest->index : s.incoming.next();
      to[n + r] = s.incoming.next();
      for (const Arrived* a = s.oldest; a != nullptr; a = a->newer) {
        *waiting++ = journal::MatchWord::make(r, a->index);
      }
    }
  }
  void restore(const journal::Marks& v) {
    const std::uint32_t n = header_->ranks;
    const std::uint64_t* from = journal::own_received(host_, v);
    const std::uint64_t* waiting = from + 2 * std::size_t{n};
    forget_arrived();
    receives_ = v.receives;
    wildcards_ = v.wildcards;
    synchronous_ = v.synchronous;
    load_cancelled(v.cancelled);
    truncate(v);
    for (std::uint32_t r = 0; r < n; ++r)
      senders_[r] = {journal::IncomingMessages(from[n + r]), nullptr, nullptr};
    for (std::uint64_t i = 0; i < v.waiting; ++i) {
      const std::uint32_t r = journal::MatchWord::from(waiting[i]);
      const std::uint64_t index = journal::MatchWord::index(waiting[i]);
      deliver(senders_[r], r, peers_.message(r, host_.rank(), index), index);
    }
  }
  // Truncates what lies behind a version or image that this rank keeps.
  void truncate(const journal::Marks& v) {
    matches_.truncate(journal::breaks(host_, Rule::kOpenMatchesStay) ? v.wildcards
                                                                     : v.open_matches);
    cancelled_.truncate(v.cancelled);
  }

  // Reads the logs' words again, and receives that were cancelled meanwhile.
  void rebase() {
    const std::uint64_t known = cancelled_.tail();
    matches_.rebase();
    cancelled_.rebase();
    load_cancelled(known);
    for (Comm<H>* c = comms_.first(); c != nullptr; c = c->next) {
      for (Receive** link = &c->queues.posted; *link != nullptr;) {
        Receive& r = **link;
        bind(r);
        if (was_cancelled(r.number) && !journal::breaks(host_, Rule::kCancelledSinceImage)) {
          leave_queue(*c, link);
          foresee(r);
        } else {
          link = &r.next;
        }
      }
    }
    for (std::uint32_t r = 0; r < header_->ranks; ++r) senders_[r].incoming.rebase();
    ask_for_nothing();
    show_matches_again();
  }

 private:
  static constexpr unsigned kAtOnce = 32;
  static constexpr std::uint64_t kUnrecorded = ~std::uint64_t{0};
  static constexpr std::uint64_t kTagBits = ~journal::kSynchronous;

  struct Sender {
    journal::IncomingMessages incoming;  // those that were not looked at yet
    Arrived *oldest, *newest;
  };

  static bool fits(std::uint32_t source, std::uint64_t tag, const Arrived& a) {
    return (source == kAnySource || source == a.from) &&
           (tag == kAnyTag || tag == (a.message.key & kTagBits));
  }
  static bool matches(const Receive& r, const Arrived& a) {
    if (r.bound != 0) return r.bound == journal::MatchWord::make(a.from, a.index);
    return fits(r.source, r.tag, a);
  }

  // This execution has received all messages of `from` with a lower number.
  std::uint64_t consumed(std::uint32_t from) const {
    const Sender& s = senders_[from];
    return s.oldest != nullptr ? s.oldest->index : s.incoming.next();
  }

  bool poll_one(std::uint32_t from, bool thorough) {
    Sender& s = senders_[from];
    do {
      host_.step(Step::kReceive);
      if (!s.incoming.look(peers_, from, host_.rank(), thorough)) return false;
    } while (taking_.before() != Imaged::kNone &&
             !journal::breaks(host_, Rule::kLookAgainBehindImage));
    const std::uint64_t index = s.incoming.next();
    deliver(s, from, s.incoming.take(), index);
    return true;
  }

  void deliver(Sender& s, std::uint32_t from, const journal::Message& m, std::uint64_t index) {
    Arrived* a = free_;
    if (a != nullptr) {
      free_ = a->next;
    } else {
      a = arena_.template make<Arrived>();
      journal::check(host_, a != nullptr,
                     "the queue of unexpected messages has no more memory: post receives earlier, "
                     "or send fewer messages before they are received");
    }
    *a = {m, index, from, 0, nullptr, s.newest, nullptr};
    (s.newest != nullptr ? s.newest->newer : s.oldest) = a;
    s.newest = a;
    Comm<H>* c = comms_.find(m.context);
    if (c == nullptr) {
      append(&strangers_, a);
    } else {
      hand_over(*c, a);
    }
  }

  void hand_over(Comm<H>& c, Arrived* a) {
    a->next = nullptr;
    if ((a->message.key & journal::kPointToPoint) == 0) {
      *c.queues.last_collective = a;
      c.queues.last_collective = &a->next;
      return;
    }
    for (Receive** link = &c.queues.posted; *link != nullptr; link = &(*link)->next) {
      Receive* r = *link;
      if (!matches(*r, *a)) continue;
      *link = r->next;
      if (c.queues.last_posted == &r->next) c.queues.last_posted = link;
      r->posted = false;
      --queued_;
      match(*r, a);
      return;
    }
    *c.queues.last_arrived = a;
    c.queues.last_arrived = &a->next;
  }

  static void append(Arrived** link, Arrived* a) {
    while (*link != nullptr) link = &(*link)->next;
    a->next = nullptr;
    *link = a;
  }
  static void unlink(typename Comm<H>::Queues& m, Arrived** link) {
    Arrived* a = *link;
    *link = a->next;
    if (m.last_arrived == &a->next) m.last_arrived = link;
  }

  void match(Receive& r, Arrived* a) {
    r.message = a;
    r.turn = ++turns_;
    if (r.bound != 0 && !fits(r.source, r.tag, *a)) report_other_receive(*a);
    if (r.source == kAnySource && r.bound == 0 && r.wildcard != kUnrecorded &&
        !journal::breaks(host_, Rule::kMatchRecorded)) {
      // Before anything follows from it: the next message of that sender goes to another receive.
      r.bound = journal::MatchWord::make(a->from, a->index);
      journal::store_element(host_, Step::kMatch, *matches_.at(r.wildcard), r.bound);
    }
    if ((a->message.key & journal::kSynchronous) != 0) match_synchronous(r, a);
    if (r.to != nullptr) r.is_read = read_directly(*a, r.to, std::min(r.room, a->message.bytes));
  }

  // The sender goes on when it sees the match, so a later incarnation has to repeat it.
  void match_synchronous(const Receive& r, Arrived* a) {
    ++synchronous_;
    const std::uint32_t by = a->by = journal::matched_by(r.number);
    const std::uint32_t shown = peers_.matched(a->from, host_.rank(), a->index);
    if (shown != 0) {
      if (shown != by && !journal::breaks(host_, Rule::kCompareReceive)) report_other_receive(*a);
      return;
    }
    if (shown_synchronous() < synchronous_) {
      region_.head()->synchronous.store(host_, Step::kMatched, synchronous_);
    }
    show_match(*a);
  }
  void show_match(const Arrived& a) {
    journal::show_match(host_, a.from, a.index, a.by);
    journal::ring_sleepers(host_, &a.from, 1);
  }
  // All ranks have gone back: what this rank had matched before, and has not received, is shown
  // again.
  void show_matches_again() {
    for (std::uint32_t r = 0; r < header_->ranks; ++r) {
      for (const Arrived* a = senders_[r].oldest; a != nullptr; a = a->newer) {
        const bool is_void = a->by != 0 && peers_.matched(r, host_.rank(), a->index) == 0;
        if (is_void && !journal::breaks(host_, Rule::kShowMatchesAgain)) show_match(*a);
      }
    }
  }

  void report_other_receive(const Arrived& a) {
    divergence_.report(diagnostics_.other_receive(control_->ordinal.load(std::memory_order_relaxed),
                                                  host_.rank(), a.from, a.message.bytes));
  }

  void post_wildcard(Receive& r) {
    if (!region_.retention().serves_replays()) {  // no incarnation will post it again
      r.wildcard = kUnrecorded;
      return;
    }
    r.wildcard = wildcards_++;
    if (r.wildcard < matches_.tail()) {
      r.bound = journal::load_element(*matches_.at(r.wildcard));
      return;
    }
    std::uint64_t* word = matches_.next();
    journal::check(
        host_, word != nullptr,
        "the journal cannot grow, because memory (or the space in --journal-dir) is used "
        "up: give the job more, or set --journal-limit below what is available");
    *word = 0;
    matches_.publish(Step::kMatch);
  }

  // What a former incarnation has asked for may be truncated by now.
  void ask_for_nothing() {
    for (std::uint32_t r = 0; r < header_->ranks; ++r) {
      journal::OwnerWord<std::uint64_t>& word = journal::own_asked(host_, r);
      const std::uint64_t before = word.load(std::memory_order_relaxed);
      if (!journal::AskWord::asks(before)) continue;
      word.store(host_, Step::kSame, journal::AskWord::over(before));
    }
  }

  void show_consumed(std::uint32_t from) {
    const std::uint64_t all_below = consumed(from);
    journal::OwnerWord<std::uint64_t>& mine = journal::own_consumed(host_, from);
    if (mine.load(std::memory_order_relaxed) >= all_below)
      return;  // a former incarnation has shown it
    mine.store(host_, Step::kConsumed, all_below);
    if (peers_.recycles()) {
      journal::ring_sleepers(host_, &from, 1);  // a sender may wait for this
    }
  }

  // Reads which message a posted receive of any source was given meanwhile, if any.
  void bind(Receive& r) {
    if (r.source != kAnySource || r.bound != 0 || r.wildcard == kUnrecorded) return;
    if (journal::breaks(host_, Rule::kBindWoken)) return;
    r.bound = journal::load_element(*matches_.at(r.wildcard));
  }

  // --- Which receives former incarnations have cancelled: few, so a sorted array.

  // r is given nothing any more: a former incarnation has cancelled it.
  void foresee(Receive& r) {
    r.cancelled = r.foreseen = true;
    ++foreseen_;
  }
  bool cancel_again(Receive& r) {
    if (r.foreseen) --foreseen_;
    r.foreseen = false;
    return true;
  }
  // The posted receive **link is cancelled.
  void leave_queue(Comm<H>& c, Receive** link) {
    Receive& r = **link;
    *link = r.next;
    if (c.queues.last_posted == &r.next) c.queues.last_posted = link;
    r.posted = false;
    --queued_;
    r.cancelled = true;
  }

  void load_cancelled(std::uint64_t from) {
    arena_.release(known_, known_bytes_);
    known_count_ = cancelled_.tail() - from;
    known_bytes_ = known_count_ * sizeof(std::uint64_t);
    known_ =
        known_count_ == 0 ? nullptr : static_cast<std::uint64_t*>(arena_.allocate(known_bytes_));
    for (std::uint64_t i = 0; i < known_count_; ++i) known_[i] = *cancelled_.at(from + i);
    std::sort(known_, known_ + known_count_);
  }
  bool was_cancelled(std::uint64_t number) const {
    return known_count_ != 0 && std::binary_search(known_, known_ + known_count_, number);
  }

  void forget_arrived() {
    for (Comm<H>* c = comms_.first(); c != nullptr; c = c->next) c->queues.clear();
    for (std::uint32_t r = 0; r < header_->ranks; ++r) {
      while (Arrived* a = senders_[r].oldest) {
        senders_[r].oldest = a->newer;
        a->next = free_;
        free_ = a;
      }
    }
    strangers_ = nullptr;
    queued_ = 0;
  }

  H& host_;
  journal::Arena& arena_;
  const journal::PeerView& peers_;
  const journal::SegmentHeader* header_;
  journal::RankControl* const control_;
  journal::Region<H>& region_;
  Communicators<H>& comms_;
  Taking& taking_;
  Diagnostics& diagnostics_;
  Divergence<H>& divergence_;
  journal::DirectRead<H> direct_;
  Sender* senders_;               // [ranks]
  Arrived* strangers_ = nullptr;  // of communicators that this rank has not made yet
  Arrived* free_ = nullptr;
  std::uint64_t queued_ = 0;  // receives that wait for a message
  std::uint64_t receives_ = 0;
  std::uint64_t wildcards_ = 0;
  std::uint64_t synchronous_ = 0;
  std::uint64_t turns_ = 0;
  journal::LogWriter<std::uint64_t, H> matches_;
  journal::LogWriter<std::uint64_t, H> cancelled_;
  std::uint64_t* known_ = nullptr;
  std::uint64_t known_count_ = 0;
  std::uint64_t foreseen_ = 0;  // receives
  std::size_t known_bytes_ = 0;
};

}  // namespace rejoin::recovery
