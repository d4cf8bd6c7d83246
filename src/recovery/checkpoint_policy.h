// How often a lazy checkpoint is written. Pure: it decides from durations and byte counts that it
// is given. Rank 0 decides for all ranks; the others learn it from the written version.
#pragma once

#include <cstdint>

namespace rejoin::recovery {

// What rank 0 has measured since it wrote the previous checkpoint.
struct LazyInterval {
  std::uint64_t versions = 0;  // from that one to this one; 0: this process has written none
  double duration_s = 0;
  std::uint64_t journal_growth_bytes = 0;  // of this rank's region
};

// Number of versions from the checkpoint that is being written, at a cost of write_cost_s, to the
// next that is written; at least 1. Writing takes at most a fiftieth of the time, at most twice as
// many versions go by as the last time (1,024 in all), and a region's journal grows by at most
// max_growth_bytes in between (0: without limit). 1 if nothing was measured.
std::uint64_t lazy_distance(const LazyInterval& interval, double write_cost_s,
                            std::uint64_t max_growth_bytes);

}  // namespace rejoin::recovery
