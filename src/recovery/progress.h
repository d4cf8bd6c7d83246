// How far a rank's execution of its program is, apart from its communicators: plain numbers that a
// checkpoint saves and a load restores.
#pragma once

#include <cstdint>
#include <cstring>

#include "journal/arena.h"
#include "journal/contexts.h"

namespace rejoin::recovery {

struct ProgramProgress {
  ProgramProgress(journal::Arena& arena, std::uint32_t ranks_of_job)
      : ranks(ranks_of_job), sent(arena.make_array<std::uint64_t>(ranks_of_job)) {}

  // Restores the progress of the version in `v`, with the cursors already in memory.
  template <class H>
  void restore(H& host, const journal::Marks& v) {
    ordinal = v.ordinal;
    version = v.number.load(std::memory_order_relaxed);
    std::memcpy(sent, journal::own_sent(host, v), ranks * sizeof *sent);
  }

  const std::uint32_t ranks;
  std::uint64_t ordinal = 0;  // operations entered
  std::uint64_t version = 0;  // checkpoints made
  std::uint64_t* sent;        // [ranks] messages sent to each

  // These belong to this incarnation alone.
  std::uint64_t replayed = 0;  // operations answered by records
  bool live = false;           // it has executed an operation that had no record
  bool catching_up = false;    // look for others' records before the first attempt
  bool load_called = false;
};

}  // namespace rejoin::recovery
