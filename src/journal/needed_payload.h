// The part of the journal's payload that ranks may read after they have gone back to a set of
// images. A copy of the journal from which the job resumes needs no other payload.
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

// Returns the needed extents of one rank's region, sorted by offset, without overlaps. `own`: the
// ranks whose regions in this segment are originals and no copies.
//   Original: everything but zones that are free once the set is kept, by the marks of all ranks.
//   Copy: messages to own ranks that these had not received, and departures that not all of them
//   had passed.
// Returns all of the payload if the marks of an image are missing. REQUIRES that all images of the
// set were made, and that no newer set is kept until the caller has copied the extents. Ranks may
// run. Costs O(zones x marks + messages and departures since the set). `broken`: a rule that the
// simulator leaves out.
std::vector<Extent> needed_payload(std::byte* base, std::span<const std::uint32_t> own,
                                   std::uint32_t rank, std::uint64_t set,
                                   Rule broken = Rule::kNone);

// Call for each own rank when a segment was restored from a copy. Payload that was not copied is a
// hole in the new segment; the rank backs it with memory again before it writes there.
void back_again(std::byte* base, std::uint32_t rank);

}  // namespace rejoin::journal
