// The places where a rank touches memory that others see: the simulator may stop, reorder or kill a
// rank at each of them. On a real host they cost nothing. Every store to a shared word names one
// (journal/shared.h).
#pragma once

#include <cstdint>

namespace rejoin::journal {

enum class Step : std::uint8_t {
  kEnter,         // entering an operation
  kLook,          // reading whether a member has a record
  kGeneration,    // reading the generation
  kSlotNone,      // tag := none
  kSlotContents,  // contribution
  kSlotTag,       // tag := (s, g)
  kCollect,       // reading a member's slot
  kValidate,      // reading its tag, or its staging's owner, again
  kStage,         // overwriting staging
  kStaged,        // publishing that a chunk is staged
  kReduced,       // publishing that a chunk of the slice is reduced
  kFar,           // a collective's sender waits for receivers that are far behind
  kPayload,       // payload of a broadcast or a message goes to the store
  kRecord,        // writing a record
  kCommit,        // publishing it
  kDepart,        // writing what other nodes are given
  kDeparted,      // publishing it
  kPost,          // publishing a message: its `ready`
  kPosted,        // and the channel's tail
  kWritten,       // and how much of its payload is there
  kOpened,        // showing that the receiver may read the program's buffer, or no longer
  kReads,         // showing that this rank reads a sender's buffer, or no longer
  kReceive,       // reading whether the next message of a channel is there
  kMatch,         // publishing what a receive of any source was given
  kMatched,       // publishing that a synchronous message was matched
  kConsumed,      // publishing that a message was received
  kAsk,           // publishing that its bytes are needed again
  kOutcome,       // publishing what a Test, Waitany or probe said
  kStanding,      // showing what the program waits for
  kCancel,        // publishing that a receive was cancelled
  kAnnounce,      // asleep := 1
  kRing,          // reading which ranks sleep
  kIntern,        // publishing a call signature
  kModel,         // a model goes to the store
  kPrepare,       // publishing that the rank's models of a version are whole
  kAcknowledge,   // publishing that the rank is past a version
  kDecide,        // publishing which recovery points this job has
  kMark,          // reading a rank's low-water mark
  kCursors,       // the cursors of an image go to their slot
  kFreeze,        // they are there; the process is about to be cloned
  kPosition,      // words for reports: at rest, repeating, initialized
  kInside,        // the operation has begun: its position can be read
  kContribution,  // noting what a slot is about to show
  kPhase,         // publishing in which phase a call was made
  kContext,       // words of a context's block, or of the table of blocks
  kFreed,         // publishing that a communicator is freed
  kAllocate,      // the region's allocation words
  kGrow,          // publishing a new piece of a log
  kObserve,       // publishing what libc has told the program
  kNotice,        // publishing that ranks have something to handle
  kFlag,          // a flag that only goes from 0 to 1
  kDeath,         // the agent publishes a death
  kAdmit,         // the agent prepares a rank's words for its next incarnation
  kSame,          // belongs to the step before or behind it: no process acts on a part of the group
  kCount,
};

}  // namespace rejoin::journal
