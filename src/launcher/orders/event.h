// What the supervisor is told: by agents in reports, and by its own driver.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/base/record.h"

namespace rejoin::launcher {

struct Event {
  enum class Kind {
    kStarted,      // pid
    kSpawnFailed,  // text; code = exit code for the job
    kRegistered,   // pid
    kInitialized,
    kLive,       // value = operations replayed; from, replay_ns
    kFinalized,  // position, replay_ns
    kEnded,     // cause, position, fault; the whole process tree is dead and its output read. text:
                // why it cannot be replayed, if so
    kAbort,     // code; text: what is wrong and where; empty: not known
    kLost,      // text: the reason, if known. The rank died, and nothing is left to start it from
    kDiverged,  // text: a replay differs from the first execution; the rank does not continue
    kLimit,
    kNotice,         // text; value = 0: about the rank; else: about the job, shown once a value
    kImagesWritten,  // text = where; value = bytes; took_ns; replay_ns = how long ranks were
                     // stopped
    // value = images so far; took_ns = age of the oldest among the ranks' newest images; code =
    // ranks without one
    kSnapshot,    // every rank has completed an image since the last kSnapshot
    kHeartbeat,   // periodic, see --heartbeat
    kCommitted,   // value = a checkpoint that all ranks have made
    kCatchingUp,  // position: a look at a rank that was started again and is not live yet
    kForeignAbi,  // text = soname
    kUnfired,     // text = the --kill; after the last rank ended
    // Every rank waits, and none is left that could wake another. text: empty, or names a replay
    // that blocks because it differs from the first execution.
    kDeadlock,
    kTimeout,
    kSignal,      // code = a signal that ends the job
    kOutputLost,  // text = why the job's output cannot be written any more; code = exit code
    kAllOver,     // every rank has ended and none is being started; totals
  };
  Kind kind;
  std::uint64_t at_ns = 0;  // since the job's start. kEnded: when the end was seen
  std::uint32_t rank = 0;
  std::int64_t pid = 0;
  int code = 0;
  std::uint64_t value = 0;
  std::string text = {};
  Cause cause = {};
  Position position = {};
  Fault fault = {};
  RecoveryPoint from = {};      // what the rank restarted from
  std::uint64_t replay_ns = 0;  // of the time since it was initialized, in calls of MPI
  Totals totals = {};           // kAllOver
  std::uint64_t took_ns = 0;
};

}  // namespace rejoin::launcher
