// Tests the simulator itself: each rule that the agent, the host, the engine or the recovery breaks
// on purpose is detected, within the same sweep that otherwise finds nothing.
#include <gtest/gtest.h>

#include "named.h"
#include "sweep.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

using engine::Mutant;

struct Case {
  const char* name;
  Mutant mutant;
  const char* says;             // a part of the failure's text
  const char* world = nullptr;  // null: one of several worlds
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class Broken : public testing::TestWithParam<Case> {};

TEST_P(Broken, IsNoticed) {
  const Case c = GetParam();
  for (const char* name : {"mix", "leaves", "cycle", "staging", "five"}) {
    if (c.world != nullptr) name = c.world;
    World world;
    ASSERT_TRUE(find_world(name, &world));
    Sweep sweep(world);
    sweep.set_mutant(c.mutant);
    for (std::uint64_t seed = 0; sweep.failure().empty() && sweep.job().runs() < 12000; ++seed) {
      sweep.singles(seed, 450);
      if (world.checkpoints) sweep.pairs(seed, 1000);
    }
    if (sweep.failure().empty()) continue;
    EXPECT_NE(sweep.failure().find(c.says), std::string::npos) << sweep.failure();
    return;
  }
  ADD_FAILURE() << "nothing noticed";
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Broken,
    testing::Values(
        Case{"RespawnBeforeBreak", Mutant::kRespawnBeforeBreak, "I1"},
        Case{"SilentDeath", Mutant::kSilentDeath, "deadlock", "echo"},
        Case{"NoEpoch", Mutant::kNoEpoch, ""}, Case{"LostRing", Mutant::kLostRing, "deadlock"},
        Case{"ForgetfulSleep", Mutant::kForgetfulSleep, "deadlock", "leader"},
        Case{"NotReaped", Mutant::kNotReaped, "I6"}, Case{"TornCommit", Mutant::kTornCommit, ""},
        Case{"JournalLost", Mutant::kJournalLost, "I5"},
        Case{"LoadsTooNew", Mutant::kLoadsTooNew, "some rank", "checkpoints-two"},
        Case{"PreparesEarly", Mutant::kPreparesEarly, "checkpoint", "checkpoints-ahead"},
        Case{"HearsTheDead", Mutant::kHearsTheDead, "deadlock"},
        Case{"WelcomesTwo", Mutant::kWelcomesTwo, "I6"},
        Case{"RestartsFinalized", Mutant::kRestartsFinalized, "has ended successfully"}),
    [](const testing::TestParamInfo<Case>& c) { return std::string(c.param.name); });

using journal::Rule;

struct RuleCase {
  const char* name;
  Rule rule;
  const char* world;
  const char* says;          // a part of the failure's text
  std::uint64_t most = 150;  // deaths a seed
  bool images_die = false;   // deaths of images, too
  std::uint64_t most_pairs = 1000;
};

std::ostream& operator<<(std::ostream& out, const RuleCase& c) { return out << c.name; }

const RuleCase kRules[] = {
    {"SlotTagNone", Rule::kSlotTagNone, "mix", ""},
    {"StagingOwnerNone", Rule::kStagingOwnerNone, "staging", "I1"},
    {"RingAfterSlot", Rule::kRingAfterSlot, "leader", "deadlock", 60},
    {"Fence", Rule::kFence, "echo", "deadlock"},
    {"FencePublished", Rule::kFencePublished, "echo", "deadlock"},
    {"Settle", Rule::kSettle, "echo", "deadlock"},
    {"RingAfterProgress", Rule::kRingAfterProgress, "five", "deadlock"},
    {"RingAfterRecord", Rule::kRingAfterRecord, "two", "deadlock"},
    {"RingAfterMessage", Rule::kRingAfterMessage, "echo", "deadlock"},
    {"RingAfterDeparture", Rule::kRingAfterDeparture, "apart", "deadlock"},
    {"GivenOnce", Rule::kGivenOnce, "apart", "given twice"},
    {"GivenInTurn", Rule::kGivenInTurn, "apart:outstanding-queue", "given twice"},
    {"GivenOnceOfSlices", Rule::kGivenOnce, "apart-scattered", "given twice"},
    {"RoomForSlice", Rule::kRoomForSlice, "limit-scattered", "grows", 1},
    {"LooksAtLeader", Rule::kLooksAtLeader, "disagree-checkpoint-scattered", "deadlock"},
    {"DeparturesGoBack", Rule::kDeparturesGoBack, "back-apart-sums", ""},
    {"PayloadBeforeItem", Rule::kPayloadBeforeItem, "segments:sliced", ""},
    {"RecordsLast", Rule::kRecordsLast, "segments:channels", ""},
    {"ContextShownAgain", Rule::kContextShownAgain, "segments:two", "deadlock"},
    {"SetCarried", Rule::kSetCarried, "segments:back-messages", ""},
    {"SetNeedsZones", Rule::kSetNeedsZones, "back-long-messages", "a part of a message"},
    {"SetNeedsMessages", Rule::kSetNeedsMessages, "segments:back-long-messages",
     "a part of a message"},
    {"SetNeedsDepartures", Rule::kSetNeedsDepartures, "segments:back-apart-whole",
     "a part of a broadcast"},
    {"CopiesGoBack", Rule::kCopiesGoBack, "segments:back-messages", ""},
    {"NotKeptIsAsked", Rule::kNotKeptIsAsked, "segments:messages-lent", "other bytes"},
    {"LentByThisProcess", Rule::kLentByThisProcess, "segments:images-lent", "other bytes", 60},
    {"LogsOfTheirContext", Rule::kLogsOfTheirContext, "segments:images-communicators", ""},
    {"ValidateOperand", Rule::kValidateOperand, "overlap", "mixed"},
    {"ValidateAll", Rule::kValidateAll, "staging", ""},
    {"ValidateGathered", Rule::kValidateGathered, "staging", "violation"},
    {"GatheredWhenWritten", Rule::kGatheredWhenWritten, "gathers-in-chunks", "I1"},
    {"PayloadBeforeRecord", Rule::kPayloadBeforeRecord, "chunks", "I1", 40},
    {"HeadStartByExtent", Rule::kHeadStartByExtent, "chunks", "I1"},
    {"RecordBeforeReturn", Rule::kRecordBeforeReturn, "two", "I2"},
    {"LabelsWhatWasShown", Rule::kLabelsWhatWasShown, "images-shown-ahead", "other bytes"},
    {"ZonesBehindAllMarks", Rule::kZonesBehindAllMarks, "checkpoints-crossing", ""},
    {"ProveBootstrapCall", Rule::kProveBootstrapCall, "unproven-repeated", ""},
    {"FailureAtCheckpoint", Rule::kFailureAtCheckpoint, "disagree-checkpoint", "deadlock"},
    {"FarSenderLooks", Rule::kFarSenderLooks, "disagree-far", "deadlock"},
    {"LookAtRecords", Rule::kLookAtRecords, "two", "deadlock"},
    {"NewGeneration", Rule::kNewGeneration, "two", "deadlock"},
    {"MatchRecorded", Rule::kMatchRecorded, "messages-any", "messages"},
    {"OutcomeRecorded", Rule::kOutcomeRecorded, "messages-asking", "messages"},
    {"AskingTakesIn", Rule::kAskingTakesIn, "messages-to-oneself", ""},
    {"CancelRecorded", Rule::kCancelRecorded, "messages-cancelled", "messages"},
    {"MatchInOrder", Rule::kMatchInOrder, "messages-in-order", "overtakes"},
    {"MessagesUntilConsumed", Rule::kMessagesUntilConsumed, "messages-limit", "message", 1},
    {"MessagesAmongResults", Rule::kMessagesUntilConsumed, "images-received-late", "bytes", 20},
    {"NeedsJournal", Rule::kNeedsJournal, "images-owed", "no progress"},
    {"WaitForReader", Rule::kWaitForReader, "messages-large", "other bytes"},
    {"StillOpen", Rule::kStillOpen, "messages-large", "other bytes"},
    {"FenceOfReader", Rule::kFenceOfReader, "messages-large", "other bytes"},
    {"ReadWhenWhole", Rule::kReadWhenWhole, "messages-large", "before it is stored"},
    {"WholeMessage", Rule::kWholeMessage, "messages-large", "messages"},
    {"WaitForReaderOfBlock", Rule::kWaitForReader, "messages-blocks", "not what was posted"},
    {"ReadWhenWholeBlock", Rule::kReadWhenWhole, "messages-blocks", "before it is stored"},
    {"WholeBlock", Rule::kWholeMessage, "messages-blocks", "not what was posted"},
    {"ReadOfAttempt", Rule::kReadOfAttempt, "gathers-read", "mixed"},
    {"WrittenBeforeImage", Rule::kWrittenBeforeImage, "images-exchanged", "that writes a message"},
    {"AdvanceOutstanding", Rule::kAdvanceOutstanding, "outstanding-progress", "deadlock"},
    {"SendOnEntering", Rule::kSendOnEntering, "outstanding-messages", ""},
    {"SlotInTurn", Rule::kSlotInTurn, "outstanding-queue", ""},
    {"CompleteInOrder", Rule::kCompleteInOrder, "outstanding-queue", "order"},
    {"KeepNonblockingPayload", Rule::kKeepNonblockingPayload, "outstanding-limit", "I1", 1},
    {"KeepNonblockingZones", Rule::kKeepNonblockingZones, "images-begun-before", "other bytes", 1},
    {"ZonesInTurn", Rule::kZonesInTurn, "limit-broadcasts-in-turn", "grows", 1},
    {"PositionAtRest", Rule::kPositionAtRest, "outstanding-disagree", "deadlock"},
    {"RebaseWoken", Rule::kRebaseWoken, "images", ""},
    {"BindWoken", Rule::kBindWoken, "images-wildcards", "messages"},

    {"CursorOfRecords", Rule::kCursorOfRecords, "images-apart", "other bytes"},
    {"OwnRecordInWait", Rule::kOwnRecordInWait, "images", ""},
    {"AnswerInWait", Rule::kAnswerInWait, "images-asking", ""},
    {"ImageBeforeTaking", Rule::kImageBeforeTaking, "back-sums", ""},
    {"RecordsGoBack", Rule::kRecordsGoBack, "back-sums", ""},
    {"VoidMessagesUnready", Rule::kVoidMessagesUnready, "back-messages", ""},
    {"ForgetContributions", Rule::kForgetContributions, "back-sums", ""},
    {"ShowMatchesAgain", Rule::kShowMatchesAgain, "back-orders", ""},
    {"MatchesVoid", Rule::kMatchesVoid, "back-orders", ""},
    {"ReceivedStaysMatched", Rule::kReceivedStaysMatched, "back-overtaking", "deadlock"},
    {"ReceivesOpenAgain", Rule::kReceivesOpenAgain, "back-senders", ""},
    {"OpenMatchesStay", Rule::kOpenMatchesStay, "images-open-for-long", ""},
    {"FinishedBehindImage", Rule::kFinishedBehindImage, "back-gathers", ""},
    {"CancelledSinceImage", Rule::kCancelledSinceImage, "images-cancelled", ""},
    {"ForgetPlaces", Rule::kForgetPlaces, "back-communicators", ""},
    {"CheckpointsGoBack", Rule::kCheckpointsGoBack, "back-checkpoints", ""},
    {"PastImageByOrdinal", Rule::kPastImageByOrdinal, "images-communicators", ""},
    {"ImageWhenTold", Rule::kImageWhenTold, "images-asking", "still told"},
    {"ImageWhenCancelled", Rule::kImageWhenCancelled, "images-asking", "what was cancelled"},
    {"ImageByNumber", Rule::kImageByNumber, "images-payload", ""},
    {"TruncateMessagesBySender", Rule::kTruncateMessagesBySender, "images-of-others", "replay"},
    {"CompareContribution", Rule::kCompareContribution, "bits-sums", "bits"},
    {"CompareEntered", Rule::kCompareEntered, "segments:back-gathers-often", "bits", 150, false,
     400},
    {"CompareResent", Rule::kCompareResent, "bits-messages", "bits"},
    {"CompareReceive", Rule::kCompareReceive, "bits-receives", "bits"},
    {"NothingLeft", Rule::kNothingLeft, "bits-choice", "bits"},
    {"StandstillDiverges", Rule::kStandstillDiverges, "bits-waits", "deadlock"},
    {"FirstDecides", Rule::kFirstDecides, "points-brief-either", "a second time"},
    {"DecideFirst", Rule::kDecideFirst, "points-versions", "no rank goes back"},
    {"KeepForCheckpoints", Rule::kKeepForCheckpoints, "points-versions", ""},
    {"VersionsAreData", Rule::kVersionsAreData, "points-main", "no rank goes back"},
    {"LoadIsConstant", Rule::kLoadIsConstant, "points-late", "no rank goes back"},
    {"WrittenAlready", Rule::kWrittenAlready, "points-lazy-either", ""},
    {"HashOfThisVersion", Rule::kHashOfThisVersion, "points-late", "global model"},
    {"SlotOfFile", Rule::kSlotOfFile, "points-written", "written to a file", 2},
    {"MismatchToldOnce", Rule::kMismatchToldOnce, "disagree-once", ""},
    {"MismatchInTurn", Rule::kMismatchInTurn, "outstanding-unmatched", ""},
    {"MismatchNotRepeated", Rule::kMismatchNotRepeated, "outstanding-unmatched", ""},
    {"WaitsWhenNearlyFull", Rule::kWaitsWhenNearlyFull, "images-limit", "the journal is full", 1},
    {"PastCheckpoint", Rule::kPastCheckpoint, "points-neither", "the same collective calls", 20,
     true},
    {"ResendRecognised", Rule::kResendRecognised, "two", "before it has repeated"},
};

class BrokenRule : public testing::TestWithParam<RuleCase> {};

TEST_P(BrokenRule, IsNoticed) {
  const RuleCase c = GetParam();
  constexpr std::uint64_t kSeeds = 100;
  World world;
  ASSERT_TRUE(find_world(c.world, &world));
  if (!can_simulate(world)) GTEST_SKIP();
  Sweep sweep(world);
  sweep.set_broken(c.rule);
  for (std::uint64_t seed = 0; sweep.failure().empty() && seed < kSeeds; ++seed) {
    sweep.singles(seed, c.most);
    if (c.images_die && sweep.failure().empty()) sweep.images(seed, 400);
    if (world.goes_back && sweep.failure().empty()) sweep.pairs(seed, c.most_pairs);
  }
  ASSERT_NE(sweep.failure(), "") << "nothing noticed";
  EXPECT_NE(sweep.failure().find(c.says), std::string::npos) << sweep.failure();
}

INSTANTIATE_TEST_SUITE_P(Rules, BrokenRule, testing::ValuesIn(kRules),
                         [](const testing::TestParamInfo<RuleCase>& c) {
                           return std::string(c.param.name);
                         });

}  // namespace
}  // namespace rejoin::sim
