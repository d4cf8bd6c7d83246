// All ranks go back to a set of images: what the segment holds of later is void. PROTOCOL.md, "All
// go back".
#pragma once

#include <cstddef>
#include <cstdint>

#include "journal/rules.h"

namespace rejoin::journal {

// Whether every rank keeps its image of this number.
bool keeps_set(std::byte* base, std::uint64_t set);

// Makes the segment what it was when the images of the set were made, as far as any rank can see.
// Every log ends at its own image's cursor; messages between the cursors stay, because their
// senders will not send them again. Then publishes the death of all ranks. To be called while no
// process of any rank runs, and before any rank is admitted. Idempotent. REQUIRES keeps_set().
// Costs a look at each message and context since the set. `broken`: a rule that is left out, for
// the simulator.
void put_back(std::byte* base, std::uint64_t set, Rule broken = Rule::kNone);

}  // namespace rejoin::journal
