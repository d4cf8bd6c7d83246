// Stores a rank's progress in everything that it shares with others: the low-water marks of a
// version or of an image. A version keeps them for the rank's next incarnations as well.
#pragma once

#include <cstdint>
#include <cstring>

#include "recovery/outcomes.h"
#include "recovery/rooms.h"

namespace rejoin::recovery {

// Fills all of `slot` but the ordinal. REQUIRES that no nonblocking collective is outstanding: each
// would hold its context's cursor back.
template <engine::Host H>
void put_cursors(Rooms<H>& r, Outcomes<H>& outcomes, journal::Marks& slot) {
  std::uint64_t contexts = 0;
  for (Comm<H>* c = r.comms.first(); c != nullptr; c = c->next) ++contexts;
  const std::size_t words = r.header->ranks * sizeof(std::uint64_t);
  slot.made_wall_ns = r.host.now_ns() + r.header->wall_offset_ns;
  slot.waiting = r.mail.count_waiting();
  slot.receives = r.mail.receives();
  slot.wildcards = r.mail.wildcards();
  slot.cancelled = r.mail.cancellations();
  slot.outcomes = outcomes.seal();
  slot.synchronous = r.mail.synchronous();
  slot.observations = r.journal.region().head()->observations.tail.load(std::memory_order_relaxed);
  const std::size_t bytes =
      contexts * sizeof(journal::Cursor) + 3 * words + slot.waiting * sizeof(std::uint64_t);
  if (!r.journal.region().make_room(slot.cursors, bytes)) r.journal.out_of_memory();
  auto* to = reinterpret_cast<journal::Cursor*>(journal::own_bytes(r.host, slot.cursors.at));
  for (Comm<H>* c = r.comms.first(); c != nullptr; c = c->next) {
    *to++ = {c->members.context, c->next_sequence, c->chain, 0};
  }
  slot.contexts = contexts;
  std::memcpy(to, r.progress.sent, words);
  r.mail.save(reinterpret_cast<std::uint64_t*>(to) + r.header->ranks);
}

}  // namespace rejoin::recovery
