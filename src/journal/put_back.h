// All ranks go back to a set of images: what the segment holds of later is void. PROTOCOL.md, "All
// go back".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "journal/rules.h"

namespace rejoin::journal {

// Whether every rank keeps its image of this number.
bool keeps_set(std::byte* base, std::uint64_t set);
// Whether the marks of all images of this number are there, also those of ranks elsewhere.
bool has_marks(std::byte* base, std::uint64_t set);

// Makes what the ranks `own` have shown what it was when the images of the set were made, as far as
// any rank can see. Every log ends at its own image's cursor; messages between the cursors stay,
// because their senders will not send them again. Then publishes the death of all ranks. To be
// called while no process of any rank runs, and before any rank is admitted. Idempotent. `own`: all
// ranks whose regions in this segment are no copies. REQUIRES has_marks(). Costs a look at each
// message and context since the set. `broken`: a rule that is left out, for the simulator.
void put_back(std::byte* base, std::span<const std::uint32_t> own, std::uint64_t set,
              Rule broken = Rule::kNone);
// Does the same with the copies of what ranks elsewhere have shown: with all regions but those of
// `own`. They end no later than the originals, so the next connection completes them. To be called
// besides put_back(), while there is no connection.
void put_copies_back(std::byte* base, std::span<const std::uint32_t> own, std::uint64_t set,
                     Rule broken = Rule::kNone);

}  // namespace rejoin::journal
