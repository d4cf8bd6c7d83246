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
want image 1 of 0
> 5 want 0
> 6 image 0 pid=20 conn=6 image=1 inc=0
keep image 1 of 0, pid 20
> 7 want 0
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
end image of 0, pid 20
)");
}

// Rules 3 and 8 of the snapshots' protocol.
TEST(AgentImages, OutdatedProcessesAreRefused) {
  expect_transcript(1, false, kUntilKept + R"(> 6 want 0
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
want image 2 of 0
> 7 image 0 pid=21 conn=7 image=2 inc=0
keep image 2 of 0, pid 21
end image of 0, pid 20
> 8 image-ended 0 pid=20
> 9 image-ended 0 pid=21
ask for images
> 10 want 0
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

const std::string kTwoRun = R"(
> 0 spawn 0
admit 0
spawn 0
> 0 spawn 1
admit 1
spawn 1
> 1 spawned 0 pid=10
> 1 spawned 1 pid=11
> 2 register 0 pid=10 conn=5
welcome 0 on 5
> 2 register 1 pid=11 conn=6
welcome 1 on 6
> 3 initialized 0
> 3 initialized 1
)";

// One rank enters a checkpoint in the second half of the period, and the other one does not.
TEST(AgentImages, ImagesThatWereNotMadeAtACheckpointAreRequestedWhenThePeriodEnds) {
  expect_transcript(2, false, kTwoRun + R"(> 4 want-at-checkpoint 0
want image 1 of 0 at a checkpoint
want image 1 of 1 at a checkpoint
> 5 want-at-checkpoint 0
> 6 image 1 pid=21 conn=7 image=1 inc=0
keep image 1 of 1, pid 21
> 7 period-ends 0
want image 1 of 0
> 8 period-ends 0
want image 2 of 1
> 9 image 0 pid=20 conn=8 image=1 inc=0
keep image 1 of 0, pid 20
> 10 want-at-checkpoint 0
want image 2 of 0 at a checkpoint
> 11 period-ends 0
want image 2 of 0
)");
}

TEST(AgentImages, AnImmediateRoundIncludesRanksThatWaitForACheckpoint) {
  expect_transcript(2, false, kTwoRun + R"(> 4 want-at-checkpoint 0
want image 1 of 0 at a checkpoint
want image 1 of 1 at a checkpoint
> 5 image 1 pid=21 conn=7 image=1 inc=0
keep image 1 of 1, pid 21
> 6 want 0
want image 1 of 0
want image 2 of 1
> 7 want 0
)");
}

// A rank that could not be frozen at the checkpoint has no image of this period, and neither has
// one whose image was lost. A rank that died has one, if its image still exists.
TEST(AgentImages, OnlyAnExistingImageCountsForThePeriod) {
  expect_transcript(2, false, kTwoRun + R"(> 4 want-at-checkpoint 0
want image 1 of 0 at a checkpoint
want image 1 of 1 at a checkpoint
> 5 not-frozen 0 image=1
> 6 image 1 pid=21 conn=7 image=1 inc=0
keep image 1 of 1, pid 21
> 7 child-ended 1 signal=9
kill tree 1
> 8 tree-gone 1
drain 1
report 1 ended by signal 9, Killed at 7
> 9 respawn 1 inc=1
publish death 1
ring all
admit 1
wake image 1 of 1
> 10 forked 1 pid=31 inc=1
adopt 1, pid 31
> 11 woken 1 pid=31 conn=8 inc=1
welcome 1 on 8
> 12 initialized 1
> 13 period-ends 0
want image 2 of 0
> 14 want-at-checkpoint 0
want image 2 of 1 at a checkpoint
> 15 image 1 pid=22 conn=9 image=2 inc=1
keep image 2 of 1, pid 22
end image of 1, pid 21
> 16 image-ended 1 pid=22
ask for images
> 17 period-ends 0
want image 3 of 1
)");
}

// The request to the dead incarnation is not repeated, because its number has been used.
TEST(AgentImages, ARequestIsNotRepeatedToTheNextIncarnation) {
  expect_transcript(1, false, kUntilRuns + R"(> 4 want-at-checkpoint 0
want image 1 of 0 at a checkpoint
)" + kAdmitted + R"(spawn 0
> 10 spawned 0 pid=11
> 11 register 0 pid=11 conn=7
welcome 0 on 7
> 12 initialized 0
> 13 period-ends 0
want image 2 of 0
)");
}

TEST(AgentImages, AHalfPeriodIsCompleteWhenAllRanksHaveAnImageMadeAtACheckpoint) {
  AgentCore core(all_local(1));
  const auto played = [&core](const std::string& events) {
    std::istringstream lines(events);
    for (std::string line; std::getline(lines, line);) play(core, line);
    return core.all_made_at_checkpoint();
  };
  EXPECT_FALSE(played(events_of(kUntilKept)));
  EXPECT_FALSE(played("6 want-at-checkpoint 0\n"));
  EXPECT_TRUE(played("7 image 0 pid=21 conn=7 image=2 inc=0\n"));
  EXPECT_FALSE(played("8 period-ends 0\n"));
  EXPECT_TRUE(played("9 finalized 0\n"));
}

TEST(AgentImages, ImagesEndWithTheJob) {
  expect_transcript(2, false, kTwoRun + R"(> 4 want 0
want image 1 of 0
want image 1 of 1
> 5 image 1 pid=21 conn=7 image=1 inc=0
keep image 1 of 1, pid 21
> 6 stop 0
terminate 0
end image of 1, pid 21
terminate 1
> 7 image 0 pid=20 conn=8 image=1 inc=0
refuse 0 on 8: this image comes too late
> 8 want 0
)");
}

}  // namespace
}  // namespace rejoin::launcher
