// Rare situations that a sweep must reach, because it proves nothing about them otherwise.
#pragma once

#include <cstdint>

#include "engine/transport/sim/point.h"

namespace rejoin::sim {

enum class Probe : std::uint8_t {
  kReplayed,         // an operation was answered by the rank's own record
  kAdoptedEntering,  // an operation was answered by another member's record, before an attempt
  kAdoptedWaiting,   // an operation was answered by another member's record, after contributing to
                     // an attempt
  kFollowed,         // an operation was answered by the leader's record
  kAttemptAgain,     // an attempt was given up, and another one begun
  kOverwritten,      // an operand changed while it was read
  kProgressLost,     // a sliced attempt was given up midway
  kHeadStart,        // chunks of a broadcast were copied before there was a record, and counted
  kHeadStartLost,    // such chunks did not count, because the record names another extent
  kExitedAsked,      // the rank that had the record had left already
  kResent,           // a message was sent again, and recognised
  kReceivedAgain,    // a message was received again by a later incarnation
  kSlept,            // a rank went to sleep
  kRung,             // a sleeping rank was rung
  kWokenForNothing,  // a rank woke without a ring
  kWoken,            // a dead rank went on from its image
  kWentBack,         // all ranks went back to a set of images
  kImageDied,        // an image that was kept died
  kOtherImageDied,   // an image that was not kept died
  kImageDiedWaking,  // an image that had been woken died
  kImageAgain,       // another image was made instead of a dead one
  kImageAfterUnregistered,  // another image of the same incarnation was made after one had died
                            // unregistered
  kImagesFirst,             // an image was there before the first checkpoint: a job of images
  kImagesByCheckpoint,      // the first checkpoint decided for a job of images
  kVersionsDecided,         // the first checkpoint decided for a job of versions
  kVersionInFile,           // a version was written to a file
  kLost,                    // or not in time
  kReplacementDied,         // the replacement of a rank died
  kDiedReplaying,           // a rank died while it replayed
  kDiedAsleep,
  kTwoDead,           // a rank died before another dead rank was live again
  kAllDead,           // all ranks were dead together
  kHalfWritten,       // a death left unpublished bytes
  kMismatch,          // members disagreed
  kMismatchReplayed,  // a later incarnation got that error from the journal
  kToldAtCheckpoint,  // members disagreed, one of them in a checkpoint
  kRestored,          // an incarnation went on at a version
  kPreparedBefore,    // such an incarnation came to a checkpoint that an earlier one had prepared
  kBootstrapReplay,   // an operation of the bootstrap phase was answered out of turn
  kDiedRestored,      // an incarnation that had loaded a version died
  kDiedRegistering,   // a process died between its registration and its welcome
  kRegisteredLate,    // a registration was read when the replacement ran already
  kSecondRefused,     // a second process of a rank tried to register
  kDiverged,          // a replay diverged, and the job was stopped
  kStoodStill,        // a replay waited for an event that did not occur, and the job was stopped
  kEndedFull,         // a death ended the job, because the journal was full
  kCount,
};
inline constexpr unsigned kProbeCount = static_cast<unsigned>(Probe::kCount);

const char* name_of(Probe p);

struct Probes {
  std::uint64_t count[kProbeCount] = {};
  std::uint64_t reached[engine::kPoints] = {};  // how often any rank reached the point
  std::uint64_t killed[engine::kPoints] = {};   // number of deaths at the point

  void hit(Probe p) { ++count[static_cast<unsigned>(p)]; }
  std::uint64_t operator[](Probe p) const { return count[static_cast<unsigned>(p)]; }
  void add(const Probes& other);
};

}  // namespace rejoin::sim
