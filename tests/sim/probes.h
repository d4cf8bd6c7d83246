// Rare situations that a sweep must have reached: otherwise it proves nothing about them.
#pragma once

#include <cstdint>

#include "engine/transport/sim/point.h"

namespace rejoin::sim {

enum class Probe : std::uint8_t {
  kReplayed,         // an operation was answered by the rank's own record
  kAdoptedEntering,  // by another's record, before an attempt
  kAdoptedWaiting,   // by another's record, after contributing to an attempt
  kFollowed,         // by the leader's record
  kAttemptAgain,     // an attempt was given up, and another one begun
  kOverwritten,      // an operand changed while it was read
  kProgressLost,     // an attempt through an extent was given up midway
  kHeadStart,        // chunks of a broadcast were copied before there was a record, and counted
  kHeadStartLost,    // or did not: the record leads to another extent
  kExitedAsked,      // the rank that had the record had left already
  kResent,           // a message was sent again, and recognised
  kReceivedAgain,    // a message was received again by a later incarnation
  kSlept,            // a rank went to sleep
  kRung,             // and was rung
  kWokenForNothing,  // or not
  kWoken,            // a dead rank went on from an image of it
  kImageDied,        // an image that was kept died
  kOtherImageDied,   // or one that was not
  kImageDiedWaking,  // or one that had been asked to clone itself
  kImageAgain,       // another one was made instead
  kImageAfterUnregistered,  // by the same incarnation, whose image had died unregistered
  kImagesFirst,             // an image was there before the first checkpoint: a job of images
  kImagesByCheckpoint,      // the first checkpoint made it one of images
  kVersionsDecided,         // or of versions
  kVersionInFile,           // a version was written to a file
  kLost,                    // or not in time
  kReplacementDied,         // a rank died again
  kDiedReplaying,           // while it was being rebuilt
  kDiedAsleep,
  kTwoDead,           // a death before another was repaired
  kAllDead,           // all ranks were dead together
  kHalfWritten,       // a death left unpublished bytes
  kMismatch,          // members disagreed
  kMismatchReplayed,  // and a later incarnation got that answer from the journal
  kToldAtCheckpoint,  // members disagreed, one of them in a checkpoint
  kRestored,          // an incarnation went on at a version
  kPreparedBefore,    // and came to a checkpoint that an earlier one had prepared
  kBootstrapReplay,   // an operation of the bootstrap phase was answered out of turn
  kDiedRestored,      // an incarnation that had loaded a version died
  kDiedRegistering,   // a process died between its registration and its welcome
  kRegisteredLate,    // its registration was read when its replacement ran already
  kSecondRefused,     // a second process asked to be a rank
  kDiverged,          // a replay did something else than its first execution, and was stopped
  kStoodStill,        // or waited for what will not come because of that
  kEndedFull,         // a death ended the job, because the journal was full
  kCount,
};
inline constexpr unsigned kProbeCount = static_cast<unsigned>(Probe::kCount);

const char* name_of(Probe p);

struct Probes {
  std::uint64_t count[kProbeCount] = {};
  std::uint64_t reached[engine::kPoints] = {};  // by any rank
  std::uint64_t killed[engine::kPoints] = {};   // deaths there

  void hit(Probe p) { ++count[static_cast<unsigned>(p)]; }
  std::uint64_t operator[](Probe p) const { return count[static_cast<unsigned>(p)]; }
  void add(const Probes& other);
};

}  // namespace rejoin::sim
