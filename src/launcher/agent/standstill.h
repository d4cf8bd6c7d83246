// Whether a job can ever go on: if every rank sleeps and nobody has rung any of them, nobody is
// left who could.
//
// A rank announces its sleep, then looks thoroughly for all that it waits for, then sleeps until
// its bell; whoever publishes something afterwards rings it (PROTOCOL.md, "Doorbells"). So one
// instant at which all ranks sleep, unrung, is a deadlock. It is believed only after several such
// looks at the same operations, over more than the time limit of a sleep, so that each rank has
// looked again in between.
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
  bool asleep = false;     // as it has announced
  bool bell = false;       // somebody has rung it
  char process_state = 0;  // of /proc/PID/stat
  // The process has more than one thread under MPI_THREAD_MULTIPLE. Another thread may call MPI
  // later and wake a rank, so the rank is not considered blocked for ever.
  bool threads_may_call = false;
  bool operator==(const RankLook&) const = default;
};
// All ranks of the job.
using Look = std::vector<RankLook>;

// Why the job is not at a standstill, in words; empty: as far as one look can tell, it is.
std::string why_not_still(const Look& look);

// The standstill that one look after the other shows.
class Standstill {
 public:
  // `look`: at `now_ns`. Empty: the job will never go on; else why it may.
  std::string judge(const Look& look, std::uint64_t now_ns);

 private:
  Look first_;
  std::uint64_t first_ns_ = 0;
  std::uint64_t newest_ns_ = 0;
  int looks_ = 0;
};

}  // namespace rejoin::launcher
