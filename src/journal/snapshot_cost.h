// What snapshots cost a rank: its process counts it, the agent reads it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "journal/layout.h"

namespace rejoin::journal {

inline constexpr std::uint64_t kPageBytes = 4096;
// Returns the cost, in ns, of the first write to a page after a clone: the rank's own measurement,
// or a default before its first one. It varies between 1 and 15 us with the machine and with how
// many ranks are copying.
inline std::uint64_t page_copy_ns(const RankControl& control) {
  constexpr std::uint64_t kGuessNs = 2500;
  const std::uint64_t measured = control.page_copy_ns.load(std::memory_order_relaxed);
  return measured != 0 ? measured : kGuessNs;
}

// The approximate number of pages that a rank's process has copied since its newest clone: its page
// faults without the first touches of journals, which cost the same without snapshots.
inline std::uint64_t pages_copied(const RankControl& control, std::uint64_t faults) {
  if (control.clone_ns.load(std::memory_order_acquire) == 0) return 0;
  const std::uint64_t before = control.faults_at_clone.load(std::memory_order_relaxed);
  const std::uint64_t all = faults < before ? 0 : faults - before;
  const std::uint64_t journals = control.journal_faults.load(std::memory_order_relaxed) -
                                 control.journal_faults_at_clone.load(std::memory_order_relaxed);
  return all - std::min(all, journals);
}

}  // namespace rejoin::journal
