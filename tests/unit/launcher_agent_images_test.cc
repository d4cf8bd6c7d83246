// The agent and images of processes, as transcripts of events and orders.
#include <gtest/gtest.h>

#include "agent_preludes.h"
#include "agent_transcript.h"

namespace rejoin::launcher {
namespace {

TEST(AgentImages, ANewImageIsKeptAndTheOneBeforeItEnds) {
  expect_transcript(1, false, R"(
> 0 spawn 0
admit 0
spawn 0
> 1 spawned 0 pid=10
> 2 register 0 pid=10 conn=5
welcome 0 on 5
> 2 want 0
> 3 initialized 0
> 4 want 0
want set 1
want image 1 of 0
> 5 want 0
> 6 image 0 pid=20 conn=6 image=1 inc=0
keep image 1 of 0, pid 20
> 7 want 0
want set 2
want image 2 of 0
> 8 image 0 pid=21 conn=7 image=2 inc=0
keep image 2 of 0, pid 21
end image of 0, pid 20
)");
}

TEST(AgentImages, ARankGoesOnFromItsImageAgainAndAgain) {
  expect_transcript(1, true, kUntilWaking + R"(> 12 forked 0 pid=30 inc=1
adopt 0, pid 30
> 13 woken 0 pid=30 conn=8 inc=1
welcome 0 on 8
> 14 child-ended 0 signal=9
kill tree 0
> 15 tree-gone 0
drain 0
report 0 ended by signal 9, Killed at 14
> 16 respawn 0 inc=2
publish death 0
ring all
admit 0
wake image 1 of 0
> 17 woken 0 pid=31 conn=9 inc=2
adopt 0, pid 31
welcome 0 on 9
> 18 forked 0 pid=31 inc=2
> 19 initialized 0
> 20 finalized 0
> 21 child-ended 0 exit=0
await output 0
> 22 output-ended 0
drain 0
report 0 ended by exit code 0 at 21
> 23 end-images 0
end image of 0, pid 20
)");
}

// Rules 3 and 8 of the snapshots' protocol.
TEST(AgentImages, OutdatedProcessesAreRefused) {
  expect_transcript(1, false, kUntilKept + R"(> 6 want 0
want set 2
want image 2 of 0
> 7 child-ended 0 signal=9
kill tree 0
> 8 image 0 pid=21 conn=7 image=2 inc=0
refuse 0 on 7: this image comes too late
> 9 tree-gone 0
drain 0
report 0 ended by signal 9, Killed at 7
> 10 respawn 0 inc=1
publish death 0
ring all
admit 0
wake image 1 of 0
> 11 woken 0 pid=29 conn=8 inc=0
refuse 0 on 8: this rank has gone on without it
> 12 forked 0 pid=29 inc=0
> 13 forked 0 pid=30 inc=1
adopt 0, pid 30
> 14 woken 0 pid=31 conn=9 inc=1
refuse 0 on 9: this rank has gone on without it
> 15 woken 0 pid=30 conn=10 inc=1
welcome 0 on 10
> 16 woken 0 pid=30 conn=11 inc=1
refuse 0 on 11: this rank has gone on without it
> 17 image 0 pid=22 conn=12 image=2 inc=0
refuse 0 on 12: this image comes too late
)");
}

TEST(AgentImages, WithoutAnImageARankGoesBackToMainWhileNothingWasTruncated) {
  expect_transcript(1, false, kUntilWanted + "> 5 not-frozen 0 image=1\n" + kAdmitted + R"(spawn 0
> 9 spawned 0 pid=11
)");
}

// Rule 4: main is promised only until the first image is kept.
TEST(AgentImages, AnImageThatEndsWhileItIsWokenIsNotReplacedByMain) {
  expect_transcript(1, true, kUntilWaking + R"(> 9 image-ended 0 pid=20
ask for images
lost 0: its snapshot was lost
)");
}

TEST(AgentImages, AKeptImageThatEndsIsReplaced) {
  expect_transcript(1, false, kUntilKept + R"(> 6 want 0
want set 2
want image 2 of 0
> 7 image 0 pid=21 conn=7 image=2 inc=0
keep image 2 of 0, pid 21
end image of 0, pid 20
> 8 image-ended 0 pid=20
> 9 image-ended 0 pid=21
ask for images
> 10 want 0
want set 3
want image 3 of 0
)");
}

// Both orders are tested: the agent reads the image's message first, or the clone's.
TEST(AgentImages, AnImageThatCannotGoOnIsGivenUp) {
  expect_transcript(1, true, kUntilWaking + R"(> 9 useless 0 pid=30 conn=7 inc=1
refuse 0 on 7: it cannot go on
end image of 0, pid 20
tell of 0: its snapshot cannot go on: 
lost 0: 
> 10 forked 0 pid=30 inc=1
)");
  expect_transcript(1, false, kUntilWaking + R"(> 9 forked 0 pid=30 inc=1
adopt 0, pid 30
> 10 useless 0 pid=31 conn=7 inc=1
refuse 0 on 7: it cannot go on
> 11 useless 0 pid=30 conn=7 inc=0
refuse 0 on 7: it cannot go on
> 12 useless 0 pid=30 conn=8 inc=1
refuse 0 on 8: it cannot go on
end image of 0, pid 20
tell of 0: its snapshot cannot go on: 
kill tree 0
)");
}

// Also those of a set that is being made.
TEST(AgentImages, ImagesEndWithTheJob) {
  expect_transcript(2, false, kSetKept + kSecondAwaited + R"(> 9 stop 0
end image of 1, pid 23
end image of 0, pid 20
terminate 0
end image of 1, pid 21
terminate 1
> 10 image 0 pid=22 conn=10 image=2 inc=0
refuse 0 on 10: this image comes too late
> 11 want 0
)");
}

// --- Sets

TEST(AgentImages, ASetIsKeptWhenItsLastImageRegisters) {
  expect_transcript(2, false, kSetKept + kSecondAwaited + R"(> 9 want 0
> 10 image 0 pid=22 conn=10 image=2 inc=0
keep image 2 of 0, pid 22
end image of 0, pid 20
keep image 2 of 1, pid 23
end image of 1, pid 21
> 11 want 0
want set 3
want image 3 of 0
want image 3 of 1
)");
}

// Each rank that dies goes on from its image of the former set. No image is requested while one of
// them is away: being started again, or repeating its past.
TEST(AgentImages, ASetIsGivenUpAtADeath) {
  expect_transcript(2, false, kSetKept + kSecondAwaited + R"(> 9 child-ended 0 signal=9
end image of 1, pid 23
kill tree 0
> 10 image 0 pid=22 conn=10 image=2 inc=0
refuse 0 on 10: this image comes too late
> 11 want 0
> 12 tree-gone 0
drain 0
report 0 ended by signal 9, Killed at 9
> 13 respawn 0 inc=1
publish death 0
ring all
admit 0
wake image 1 of 0
> 14 want 0
> 15 forked 0 pid=30 inc=1
adopt 0, pid 30
> 16 woken 0 pid=30 conn=11 inc=1
welcome 0 on 11
> 17 initialized 0
> 18 want 0
> 19 live 0
ask for images
> 20 want 0
want set 3
want image 3 of 0
want image 3 of 1
)");
}

// The death of a rank whose image has registered gives the set up as well, and the image of the
// other rank is refused.
TEST(AgentImages, AnImageOfASetThatWasGivenUpIsRefused) {
  expect_transcript(2, false, kSetKept + kSecondAwaited + R"(> 9 child-ended 1 signal=9
end image of 1, pid 23
kill tree 1
> 10 image 0 pid=22 conn=10 image=2 inc=0
refuse 0 on 10: this image comes too late
> 11 tree-gone 1
drain 1
report 1 ended by signal 9, Killed at 9
> 12 respawn 1 inc=1
publish death 1
ring all
admit 1
wake image 1 of 1
)");
}

// A rank that has left MPI_Finalize makes no image any more. The former set stays, also when the
// rank has ended, and both ranks can go back to it.
TEST(AgentImages, ASetIsGivenUpWhenARankLeavesFinalize) {
  expect_transcript(2, false, kSetKept + kSecondAwaited + R"(> 9 finalized 0
end image of 1, pid 23
> 10 child-ended 0 exit=0
await output 0
> 11 want 0
> 12 image 1 pid=24 conn=10 image=3 inc=0
refuse 1 on 10: this image comes too late
> 13 output-ended 0
drain 0
report 0 ended by exit code 0 at 10
> 14 roll-back 0 inc=1
kill tree 1
> 15 tree-gone 1
drain 1
put back set 1
ring all
report all ranks back at set 1
> 15 wake 0
admit 0
admit 1
wake image 1 of 0, with its files
wake image 1 of 1, with its files
)");
}

// If there is no former set, the other rank is protected by its image alone.
TEST(AgentImages, WithoutAFormerSetImagesAreKeptWhenARankLeavesFinalize) {
  expect_transcript(2, false, kTwoRun + R"(> 4 want 0
want set 1
want image 1 of 0
want image 1 of 1
> 5 image 1 pid=21 conn=8 image=1 inc=0
> 6 finalized 0
keep image 1 of 1, pid 21
> 7 want 0
want image 2 of 1
)");
}

// The first case: the refusal comes after the other image. The second case: it comes before it.
TEST(AgentImages, IfARankCanMakeNoImageTheOthersAreKeptOneByOne) {
  expect_transcript(2, false, kSetKept + kSecondAwaited + R"(> 9 not-frozen 0 image=2
keep image 2 of 1, pid 23
end image of 1, pid 21
> 10 want 0
want set 3
want image 3 of 0
want image 3 of 1
)");
  expect_transcript(2, false, kSetKept + R"(> 7 want 0
want set 2
want image 2 of 0
want image 2 of 1
> 8 not-frozen 0 image=2
> 9 image 1 pid=23 conn=9 image=2 inc=0
keep image 2 of 1, pid 23
end image of 1, pid 21
)");
}

// It was not the kind of moment. If there is no set yet, single images are better than none.
TEST(AgentImages, IfARankCannotMakeThisImageTheSetThatIsThereStays) {
  expect_transcript(2, false, kSetKept + kSecondAwaited + R"(> 9 not-this-one 0 image=2
end image of 1, pid 23
> 10 want 0
want set 3
want image 3 of 0
want image 3 of 1
)");
  expect_transcript(2, false, kTwoRun + R"(> 4 want 0
want set 1
want image 1 of 0
want image 1 of 1
> 5 image 1 pid=21 conn=8 image=1 inc=0
> 6 not-this-one 0 image=1
keep image 1 of 1, pid 21
)");
}

// Else no image would be made any more of the others, and their journals would grow.
TEST(AgentImages, ARankThatCanNeverMakeItsImageHoldsBackNoneForEver) {
  AgentCore core(all_local(2));
  std::istringstream lines(
      events_of(kTwoRun) +
      "4 want 0\n5 image 0 pid=20 conn=7 image=1 inc=0\n6 image 1 pid=21 conn=8 image=1 inc=0\n");
  for (std::string line; std::getline(lines, line);) play(core, line);
  for (int number = 2; number < 5; ++number) {
    play(core, "7 want 0");
    play(core, "8 not-this-one 0 image=" + std::to_string(number));
    EXPECT_TRUE(core.has_set());
  }
  play(core, "9 want 0");
  play(core, "9 image 1 pid=25 conn=8 image=5 inc=0");
  EXPECT_EQ(text_of_actions(play(core, "9 not-this-one 0 image=5")),
            "keep image 5 of 1, pid 25\nend image of 1, pid 21\n");
  EXPECT_FALSE(core.has_set());
}

// Either an image that has registered is lost, or one that has not.
TEST(AgentImages, IfAnImageOfASetIsLostTheFormerSetStays) {
  expect_transcript(2, false, kSetKept + kSecondAwaited + R"(> 9 image-ended 0 pid=22 image=2
end image of 1, pid 23
ask for images
)");
  expect_transcript(2, false, kSetKept + kSecondAwaited + R"(> 9 image-ended 1 pid=23 image=2
ask for images
> 10 image 0 pid=22 conn=10 image=2 inc=0
refuse 0 on 10: this image comes too late
)");
}

// A rank waits because its journal is nearly full, and the other rank computes for long.
TEST(AgentImages, ImagesAreKeptOneByOneIfThatTruncatesAJournal) {
  expect_transcript(2, false, kSetKept + kSecondAwaited + R"(> 9 want-to-truncate 0
keep image 2 of 1, pid 23
end image of 1, pid 21
want image 3 of 1
> 10 image 1 pid=24 conn=10 image=3 inc=0
keep image 3 of 1, pid 24
end image of 1, pid 23
> 11 image 0 pid=22 conn=11 image=2 inc=0
keep image 2 of 0, pid 22
end image of 0, pid 20
)");
}

// The image of the rank that waits is kept though the other one is still to come.
TEST(AgentImages, ARoundThatTruncatesMakesNoSet) {
  expect_transcript(2, false, kTwoRun + R"(> 4 want-to-truncate 0
want image 1 of 0
want image 1 of 1
> 5 image 0 pid=20 conn=7 image=1 inc=0
keep image 1 of 0, pid 20
)");
}

// Its journal is truncated all the same, though a single image replaces one of the set.
TEST(AgentImages, ARankThatIsAwayDoesNotDelayATruncation) {
  expect_transcript(2, false, kSetKept + R"(> 7 child-ended 0 signal=9
kill tree 0
> 8 want 0
> 9 want-to-truncate 0
want image 2 of 1
)");
}

// --- All go back

// One rank runs, and the other one has died already.
TEST(AgentImages, AllRanksGoBackWhenNoneIsLeft) {
  expect_transcript(2, false, kSetKept + R"(> 7 child-ended 1 signal=9
kill tree 1
> 8 roll-back 0 inc=5
kill tree 0
> 9 tree-gone 1
drain 1
> 10 tree-gone 0
drain 0
put back set 1
ring all
report all ranks back at set 1
> 15 wake 0
admit 0
admit 1
wake image 1 of 0, with its files
wake image 1 of 1, with its files
> 11 forked 0 pid=30 inc=5
adopt 0, pid 30
> 12 woken 0 pid=30 conn=9 inc=5
welcome 0 on 9
> 13 woken 1 pid=29 conn=10 inc=1
refuse 1 on 10: this rank has gone on without it
> 14 woken 1 pid=31 conn=11 inc=5
adopt 1, pid 31
welcome 1 on 11
)");
}

// A set that is being made, and the clone of an image that is being woken, are of no use any more.
TEST(AgentImages, NothingThatIsUnderWayOutlastsAReturn) {
  expect_transcript(2, false, kSetKept + kSecondAwaited + R"(> 9 roll-back 0 inc=1
end image of 1, pid 23
kill tree 0
kill tree 1
> 10 image 0 pid=22 conn=10 image=2 inc=0
refuse 0 on 10: this image comes too late
> 11 tree-gone 0
drain 0
> 12 tree-gone 1
drain 1
put back set 1
ring all
report all ranks back at set 1
> 15 wake 0
admit 0
admit 1
wake image 1 of 0, with its files
wake image 1 of 1, with its files
> 13 roll-back 0 inc=2
put back set 1
ring all
report all ranks back at set 1
> 15 wake 0
admit 0
admit 1
wake image 1 of 0, with its files
wake image 1 of 1, with its files
> 14 forked 0 pid=30 inc=1
> 15 woken 1 pid=31 conn=11 inc=1
refuse 1 on 11: this rank has gone on without it
)");
}

// The job ends, so its ranks are not started again. Only ends that come after the stop are
// reported.
TEST(AgentImages, AJobThatIsStoppedDoesNotGoBack) {
  expect_transcript(2, true, kSetKept + R"(> 7 roll-back 0 inc=1
kill tree 0
kill tree 1
> 8 tree-gone 0
drain 0
> 9 stop 0
end image of 0, pid 20
end image of 1, pid 21
> 10 tree-gone 1
drain 1
report 1 ended by signal 9, Killed at 10
)");
}

TEST(AgentImages, ThereIsASetWhileAllRanksKeepTheirImagesOfOneNumber) {
  AgentCore core(all_local(2));
  const auto has_set_after = [&core](const std::string& events) {
    std::istringstream lines(events);
    for (std::string line; std::getline(lines, line);) play(core, line);
    return core.has_set();
  };
  EXPECT_FALSE(has_set_after(events_of(kTwoRun)));
  EXPECT_FALSE(has_set_after("4 want 0\n5 image 0 pid=20 conn=7 image=1 inc=0\n"));
  EXPECT_TRUE(has_set_after("6 image 1 pid=21 conn=8 image=1 inc=0\n"));
  EXPECT_TRUE(has_set_after("7 want 0\n8 image 1 pid=23 conn=9 image=2 inc=0\n"));
  EXPECT_TRUE(has_set_after("9 not-this-one 0 image=2\n"));
  EXPECT_FALSE(
      has_set_after("9 want 0\n"
                    "9 image 1 pid=23 conn=9 image=3 inc=0\n"
                    "9 not-frozen 0 image=3\n"));
  EXPECT_FALSE(
      has_set_after("10 want-to-truncate 0\n"
                    "11 image 0 pid=24 conn=10 image=4 inc=0\n"
                    "12 image 1 pid=25 conn=11 image=4 inc=0\n"));
  EXPECT_TRUE(
      has_set_after("13 want 0\n"
                    "14 image 0 pid=26 conn=12 image=5 inc=0\n"
                    "15 image 1 pid=27 conn=13 image=5 inc=0\n"));
  EXPECT_FALSE(has_set_after("16 image-ended 0 pid=26\n"));
}

}  // namespace
}  // namespace rejoin::launcher
