// What snapshots cost a rank: counted by its process, and looked at by the agent.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "journal/layout.h"

namespace rejoin::journal {

inline constexpr std::uint64_t kPageBytes = 4096;
inline constexpr std::uint64_t kPageCopyNs = 2500;  // of a page, at the first write behind a clone

// How many pages a rank's process has copied since its newest clone, about: page faults, but for
// the first touches of journals, which cost the same without snapshots.
inline std::uint64_t pages_copied(const RankControl& control, std::uint64_t faults) {
  if (control.clone_ns.load(std::memory_order_acquire) == 0) return 0;
  const std::uint64_t before = control.faults_at_clone.load(std::memory_order_relaxed);
  const std::uint64_t all = faults < before ? 0 : faults - before;
  const std::uint64_t journals = control.journal_faults.load(std::memory_order_relaxed) -
                                 control.journal_faults_at_clone.load(std::memory_order_relaxed);
  return all - std::min(all, journals);
}

}  // namespace rejoin::journal
