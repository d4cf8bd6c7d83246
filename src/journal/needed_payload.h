// What a set of images needs of the journal's payload: what ranks that go back to it may read. The
// rest need not be copied for a job that goes on elsewhere, or later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "journal/layout.h"
#include "journal/rules.h"

namespace rejoin::journal {

struct Extent {
  Offset at;
  std::uint64_t bytes;
};

// Returns which payload of the rank's region the set needs, by place; extents do not overlap.
// `own`: all ranks whose regions in this segment are no copies.
//   An own rank's region: all but the zones that the rank may use again when the set is kept.
//   A copy: the messages to own ranks and the departures that these have not passed.
// REQUIRES that all images of the set were made, and that no newer one is kept before the caller
// has what it needs; ranks may run meanwhile. Without the marks of one image: all of the payload.
// Costs a look at each zone, and at each message and departure since the set, with the marks of all
// members. `broken`: a rule that is left out, for the simulator.
std::vector<Extent> needed_payload(std::byte* base, std::span<const std::uint32_t> own,
                                   std::uint32_t rank, std::uint64_t set,
                                   Rule broken = Rule::kNone);

// To be called when a segment was made from a copy, which may have no more than that: an own rank
// makes sure again that memory is there before it touches what was not copied.
void back_again(std::byte* base, std::uint32_t rank);

}  // namespace rejoin::journal
