// Detects deadlocks: if every rank sleeps and no doorbell is rung, no rank is left that could wake
// another.
//
// A rank announces its sleep, then looks thoroughly for everything that it waits for, then sleeps
// until its doorbell is rung; a process that publishes something afterwards rings it (PROTOCOL.md,
// "Doorbells"). A single instant at which all ranks sleep, unrung, is therefore a deadlock. It is
// reported only after several such looks at the same operations, over more than the time limit of a
// sleep, so that each rank has looked again in between.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rejoin::launcher {

struct RankLook {
  // kAbsent: before MPI_Init, or dying, or being started again.
  enum class Presence { kAbsent, kPresent, kLeft };
  Presence presence = Presence::kAbsent;
  std::uint32_t incarnation = 0;
  std::uint64_t ordinal = 0;  // MPI operations entered
  std::uint64_t context = 0;
  std::uint64_t sequence = 0;
  bool asleep = false;     // as the rank has announced
  bool bell = false;       // the rank's doorbell is rung
  char process_state = 0;  // of /proc/PID/stat
  // The process has more than one thread under MPI_THREAD_MULTIPLE. Another thread may call MPI
  // later and wake a rank, so the rank is not considered blocked for ever.
  bool threads_may_call = false;
  bool operator==(const RankLook&) const = default;
};
// All ranks of the job.
using Look = std::vector<RankLook>;

// Why the job is not at a standstill, in words; empty: according to this look, it is.
std::string why_not_still(const Look& look);

// Decides from successive looks whether the job is at a standstill.
class Standstill {
 public:
  // `look` was made at `now_ns`. Empty: the job is deadlocked; else why it may not be.
  std::string judge(const Look& look, std::uint64_t now_ns);

 private:
  Look first_;
  std::uint64_t first_ns_ = 0;
  std::uint64_t newest_ns_ = 0;
  int looks_ = 0;
};

}  // namespace rejoin::launcher
