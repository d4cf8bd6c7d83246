// Stores how far a rank is in everything that it shares with others: the low-water marks of a
// version or of an image. A version keeps them for the rank's next incarnations as well.
#pragma once

#include <algorithm>
#include <cstdint>

#include "journal/journal.h"
#include "journal/own.h"
#include "recovery/communicators.h"
#include "recovery/inbox.h"
#include "recovery/outbox.h"
#include "recovery/outcomes.h"

namespace rejoin::recovery {

template <journal::Host H>
class Cursors {
 public:
  Cursors(H& host, journal::Journal<H>& journal, Communicators<H>& comms, Inbox<H>& inbox,
          Outbox<H>& outbox, Outcomes<H>& outcomes)
      : host_(host),
        journal_(journal),
        comms_(comms),
        inbox_(inbox),
        outbox_(outbox),
        outcomes_(outcomes) {}

  // Fills all of `slot` but its number and the ordinal. A context's cursor is the first operation
  // that has no record of this rank: one that is outstanding begins again behind it.
  void put(journal::Marks& slot) {
    // A woken image must not write to a message: it may have been truncated since.
    if (!journal::breaks(host_, Rule::kWrittenBeforeImage)) outbox_.finish_writing();
    std::uint64_t contexts = 0;
    for (Comm<H>* c = comms_.first(); c != nullptr; c = c->next) ++contexts;
    slot.frees = comms_.frees();
    slot.made_wall_ns = host_.now_ns() + journal::job_of(host_)->wall_offset_ns;
    slot.waiting = inbox_.count_waiting();
    slot.receives = inbox_.receives();
    slot.wildcards = inbox_.wildcards();
    slot.open_matches = inbox_.oldest_open_wildcard();
    slot.cancelled = inbox_.cancellations();
    slot.outcomes = outcomes_.seal();
    slot.synchronous = inbox_.synchronous();
    slot.observations = journal_.region().head()->observations.tail.load(std::memory_order_relaxed);
    const std::size_t words = outbox_.bytes_of_cursors();
    const std::size_t bytes =
        contexts * sizeof(journal::Cursor) + 3 * words + slot.waiting * sizeof(std::uint64_t);
    if (!journal_.region().memory().make_room(slot.cursors, bytes)) journal_.out_of_memory();
    auto* to = reinterpret_cast<journal::Cursor*>(journal::own_bytes(host_, slot.cursors.at));
    for (Comm<H>* c = comms_.first(); c != nullptr; c = c->next) {
      *to++ = {c->members.context, first_without_record(*c), c->chain, 0};
    }
    slot.contexts = contexts;
    outbox_.save(to);
    inbox_.save(reinterpret_cast<std::uint64_t*>(to) + outbox_.ranks());
  }

 private:
  std::uint64_t first_without_record(const Comm<H>& c) const {
    const bool has_records = c.members.size > 1 && !journal::breaks(host_, Rule::kCursorOfRecords);
    return has_records ? std::min(c.next_sequence, c.records.tail()) : c.next_sequence;
  }

  H& host_;
  journal::Journal<H>& journal_;
  Communicators<H>& comms_;
  Inbox<H>& inbox_;
  Outbox<H>& outbox_;
  Outcomes<H>& outcomes_;
};

}  // namespace rejoin::recovery
