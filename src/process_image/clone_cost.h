// What images cost a rank: the time of making each clone, and the copies of pages after it
// (journal/snapshot_cost.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "recovery/attach.h"

namespace rejoin::process_image {

// Returns this thread's time on the processor, in which a wait for the processor does not count.
// It makes a system call, because no library is at hand.
std::uint64_t processor_ns();

class CloneCost {
 public:
  // Takes memory of the rank's arena, where the cost of a copy is measured.
  explicit CloneCost(recovery::Rank& rank);
  CloneCost(const CloneCost&) = delete;
  CloneCost& operator=(const CloneCost&) = delete;

  // A clone is being asked for.
  void begin_request() {
    begun_ns_ = processor_ns();
    waited_ns_ = 0;
  }
  // This time was lost on the way to the clone, besides that on the processor.
  void add_ns(std::uint64_t ns) { waited_ns_ += ns; }
  // The clone took its helper this time.
  void note_helper(std::uint64_t ns) { clone_ns_ = ns; }
  // This process goes on after the clone. Adds to the total what the former snapshot has cost since
  // it was made, and what this one has cost so far; then begins a new count.
  void count();
  // Begins a new count of the pages that this process copies.
  void begin_count();
  // Measures the cost of a copy-on-write fault: writes to private pages, each of which the kernel
  // copies.
  void measure_page_copy();

 private:
  void begin_count(std::uint64_t faults);

  recovery::Rank& rank_;
  std::byte* const probe_;      // some pages; null: no memory, so the cost is not measured
  std::uint64_t begun_ns_ = 0;  // when the newest clone was asked for, in this thread's time
  std::uint64_t waited_ns_ = 0;
  std::uint64_t clone_ns_ = 0;  // the processor time that it took this process and its helper
};

}  // namespace rejoin::process_image
