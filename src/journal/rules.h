// The rules of PROTOCOL.md that the code implements in one place each: "Must" and re-reads. The
// simulator breaks them one by one, to prove that each violation is noticed; on a real host they
// are compiled away.
#pragma once

#include <cstdint>

namespace rejoin::journal {

enum class Rule : std::uint8_t {
  kNone,
  kSlotTagNone,                 // Must 4: a slot's tag is none while its contents change
  kStagingOwnerNone,            // Must 4: a staging buffer's owner is none while its bytes change
  kRingAfterSlot,               // Must 3
  kRingAfterProgress,           // Must 3
  kRingAfterRecord,             // Must 3
  kRingAfterMessage,            // Must 3
  kRingAfterDeparture,          // Must 3
  kValidateOperand,             // Must 4: re-read of a slot after its words were copied
  kValidateStable,              // Must 4: of staging after it was copied for a user operator
  kValidateAll,                 // Must 4: of all staging that a flat reduction read in place
  kValidateGathered,            // Must 4: of a block that a flat gather copied
  kValidateExtent,              // Must 4: of the leader's slot after its extent was read
  kValidateChunk,               // Must 4: of all staging that a slice was reduced from
  kGatheredWhenWritten,         // a member's block is copied as far as it has shown
  kPayloadBeforeRecord,         // Must 1: of a broadcast
  kHeadStartByExtent,           // Must 1: chunks of a broadcast count by the record's extent
  kRecordBeforeReturn,          // Must 2
  kGivenOnce,                   // what other nodes were given in an operation is not made again
  kGivenInTurn,                 // and is given when the operations before it have their records
  kFreshExtent,                 // Must 5: every sliced attempt takes a fresh extent
  kTruncateBehindAllTails,      // Must 6: records, by all members' tails
  kTruncateBehindAllMarks,      // and marks
  kRecordsUntilRead,            // with a full journal, no record that a member has still to read
  kTruncateMessagesByReceiver,  // Must 6
  kTruncateMessagesBySender,    // Must 6: what its sender may send again is compared
  kCompareContribution,         // with what a former incarnation has shown, without a record, too
  kCompareEntered,              // even if a look has counted the operation as repeated already
  kCompareResent,               // a message that is sent again with the one that was posted
  kCompareReceive,              // which receive a synchronous message is given to
  kNothingLeft,                 // nothing new is shown, asked or ended before all is repeated
  kStandstillDiverges,          // a replay that stands still with something left has diverged
  kZonesBehindAllMarks,         // Must 6: payload, by all readers' marks
  kLabelsWhatWasShown,          // and by what former incarnations have used a zone for
  kMessagesUntilConsumed,       // with a full journal, payload of messages that are not received
  kOldestVersionSlot,           // Must 6: a new version takes the slot of the oldest
  kLookAtRecords,               // Must 7: every wait looks at records
  kNewGeneration,               // an attempt of an older generation is given up
  kResendRecognised,            // a message that was posted is not posted again
  kWholeMessage,                // a receiver reads no more of a message than is written
  kMatchRecorded,               // what a receive of any source was given is recorded at once
  kOpenMatchesStay,             // and the place for that is not reused before
  kMatchInOrder,                // of what a sender has sent, a receive is given the first that fits
  kOutcomeRecorded,             // what a Test, Waitany or probe said is recorded before it returns
  kAskingTakesIn,           // a rank that only asks gives messages to the receives it has posted
  kCancelRecorded,          // a receive that was cancelled is not given anything again
  kFarSenderLooks,          // a waiting sender looks whether another member waits for it elsewhere
  kProveBootstrapCall,      // an unproven call is investigated
  kFindWhyMembersDisagree,  // an unproven call before a disagreement is named instead of it
  kFailureAtCheckpoint,     // a member's failure ends a wait in the checkpoint in front of it
  kAdvanceOutstanding,      // every wait advances nonblocking operations
  kSendOnEntering,          // what a nonblocking operation sends is posted when it is entered
  kSlotInTurn,              // an operation contributes when the one before last has its record
  kCompleteInOrder,         // operations of a communicator get their records in their order
  kKeepNonblockingPayload,  // with a full journal it lies in memory that is not reused,
  kKeepNonblockingZones,    // nor are zones in which it had been put before
  kZonesInTurn,             // and each communicator's roots close zones, whichever did it last
  kPositionAtRest,          // a new incarnation ends a move of its position that a death cut short
  kKeptReadAgain,           // which image a rank keeps is read again after its cursor
  kRebaseWoken,             // a woken image reads again what it remembers of shared memory
  kShowMatchesAgain,        // and shows again what it had matched before all went back
  kBindWoken,               // and what its posted receives of any source were given since
  kImageBeforeTaking,       // an image that is wanted is made before anything of others is taken
  kRecordsGoBack,           // all go back: every log ends at its own image's cursor,
  kDeparturesGoBack,        // and what was given to other nodes at the operation that it is in,
  kVoidMessagesUnready,     // void messages are not there,
  kMatchesVoid,             // nor what their receivers have said of the others,
  kReceivedStaysMatched,    // unless these were received,
  kReceivesOpenAgain,       // nor what receives of any source were given,
  kForgetContributions,     // nor what was contributed
  kCursorOfRecords,         // an image holds operations that have no record of its rank
  kOwnRecordInWait,         // woken inside an operation, a rank looks for its own record first
  kAnswerInWait,            // woken inside a question, it is given the recorded answer
  kForgetPlaces,            // and where the blocks of other members lie
  kCheckpointsGoBack,       // when all go back, so do the versions of checkpoints
  kLookAgainBehindImage,    // what is to be taken is looked for again behind an image,
  kFinishedBehindImage,     // and whether another member has finished
  kCancelledSinceImage,     // a posted receive that was cancelled since is not given anything
  kImageBehindShown,        // no image is made before all that was shown is repeated,
  kImageWhenTold,           // nor while recorded outcomes of Test, Waitany or probes are replayed
  kImageWhenCancelled,      // nor before it has posted all receives that one has cancelled
  kImageByNumber,        // marks are read from the slot with the number of the image that is kept
  kPastImageByOrdinal,   // a context is past when it was freed before the image was made
  kFirstDecides,         // the kind of recovery point is decided once for the job
  kDecideFirst,          // and stored before anything is done that follows from it
  kKeepForCheckpoints,   // memory allocated before a job became one of versions is not reused
  kVersionsAreData,      // in a job of images no rank restarts from a version
  kLoadIsConstant,       // and a load is answered the same in every incarnation
  kWrittenAlready,       // rank 0 may have prepared the version that others are still to meet at
  kHashOfThisVersion,    // hashes of models are compared only if they are of this version
  kSlotOfFile,           // the slots of a version that is being written to a file are not reused
  kMismatchToldOnce,     // operations behind a disagreement are not compared with those before it
  kMismatchInTurn,       // a disagreement is recorded behind the operations before it
  kMismatchNotRepeated,  // what was sent in an operation that ended in a disagreement is passed
                         // over
  kWaitsWhenNearlyFull,  // ranks do not fill a nearly full journal faster than images are kept
  kNeedsJournal,         // nothing is recycled that a restarted rank still has to repeat
  kFence,                // a store and a load, each of a word that another one loads and stores
  kFencePublished,       // a publisher's such fence before it looks which ranks sleep
  kSettle,               // where publishers have none, a sleeper looks once more
  kPastCheckpoint,       // a rank that repeats a completed checkpoint does not look blocked
  kPayloadBeforeItem,    // relays: what a departure names is sent before it
  kRecordsLast,          // and a record behind what its owner had sent before
  kContextShownAgain,    // a context whose maker died is shown to the relay by its next incarnation
  kLogsOfTheirContext,   // relays: a log that has another context by now begins anew
  kNotKeptIsAsked,       // bytes that went to a program's buffer alone are asked for again
  kLentByThisProcess,    // a woken process has not what came to its predecessor's buffer since
  kRoomForSlice,         // a node's slice of a scattered broadcast is given when there is room
  kLooksAtLeader,        // a rank that waits for a slice looks at the leader that gives it
  kSetCarried,           // relays: the number of a set goes in front of what was shown behind it
  kCopiesGoBack,         // when all go back, so do the copies of what other hosts have shown
  kSetNeedsZones,        // a stored set has the zones that some rank's mark has not passed
  kSetNeedsMessages,     // and messages of other hosts that own ranks had not received
  kSetNeedsDepartures,   // and their departures that not all own ranks had passed
  kSetNeedsPieces,       // and what their records in pieces name
  kWaitForReader,        // a sender does not return to the program while its buffer is read
  kStillOpen,            // whose reader looks once more whether it may when it has said so
  kFenceOfReader,        // each has a fence between its own word and the look at the other's
  kReadWhenWhole,        // what was read counts only when the journal has all of the message
  kReadOfAttempt,        // a block that is read where it is belongs to the attempt
  kWrittenBeforeImage,   // an image is made when all that its process has posted is written
  kCount,
};

template <class H>
constexpr bool breaks([[maybe_unused]] H& host, [[maybe_unused]] Rule rule) {
  if constexpr (requires { host.breaks(rule); }) {
    return host.breaks(rule);
  } else {
    return false;
  }
}

}  // namespace rejoin::journal
