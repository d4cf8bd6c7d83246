// The agent as transcripts of events and orders.
#include <gtest/gtest.h>

#include "agent_preludes.h"
#include "agent_transcript.h"

namespace rejoin::launcher {
namespace {

TEST(Agent, TheTreeOfADeadRankEndsBeforeItsNextIncarnation) {
  expect_transcript(1, false, kUntilRuns + R"(> 9 child-ended 0 signal=9
kill tree 0
> 10 tree-gone 0
drain 0
report 0 ended by signal 9, Killed at 9
> 11 respawn 0
publish death 0
ring all
admit 0
spawn 0
> 12 spawned 0 pid=11
)");
}

TEST(Agent, ASuccessfulEndWaitsForProcessesThatStillWrite) {
  expect_transcript(1, true, kUntilRuns + R"(> 4 finalized 0
> 5 child-ended 0 exit=0
await output 0
> 6 output-ended 0
drain 0
report 0 ended by exit code 0 at 5
)");
}

TEST(Agent, OnlyOneProcessIsARank) {
  expect_transcript(1, false, R"(
> 0 spawn 0
admit 0
spawn 0
> 1 spawned 0 pid=10
> 2 register 0 pid=12 conn=5
welcome 0 on 5
> 3 register 0 pid=13 conn=6
refuse 0 on 6: process 12 is rank 0 already; only one process of a rank can call MPI_Init
> 4 register 0 pid=12 conn=7
welcome 0 on 7
> 5 initialized 0
> 6 register 0 pid=12 conn=8
refuse 0 on 8: process 12 is rank 0 already; only one process of a rank can call MPI_Init
> 7 finalized 0
> 8 register 0 pid=13 conn=9
refuse 0 on 9: rank 0 has ended or called MPI_Finalize already
)");
}

TEST(Agent, AProgramBehindAShellDies) {
  expect_transcript(1, true, R"(
> 0 spawn 0
admit 0
spawn 0
> 1 spawned 0 pid=10
> 2 register 0 pid=12 conn=5
welcome 0 on 5
> 3 initialized 0
> 4 registered-ended 0 signal=9
kill tree 0
> 5 child-ended 0 exit=137
> 6 tree-gone 0
drain 0
report 0 ended by signal 9, Killed at 4
)");
}

TEST(Agent, AShellMayEndBeforeItsProgramsDeathIsSeen) {
  expect_transcript(1, true, R"(
> 0 spawn 0
admit 0
spawn 0
> 1 spawned 0 pid=10
> 2 register 0 pid=12 conn=5
welcome 0 on 5
> 3 initialized 0
> 4 child-ended 0 exit=139
> 5 registered-ended 0
kill tree 0
> 6 tree-gone 0
drain 0
report 0 ended by signal 11, Segmentation fault at 5
)");
}

TEST(Agent, AShellsExitCodeIsTheRanks) {
  expect_transcript(1, true, R"(
> 0 spawn 0
admit 0
spawn 0
> 1 spawned 0 pid=10
> 2 register 0 pid=12 conn=5
welcome 0 on 5
> 3 initialized 0
> 4 finalized 0
> 5 registered-ended 0 exit=0
> 6 child-ended 0 exit=6
await output 0
> 7 output-ended 0
drain 0
report 0 ended by exit code 6 at 6
)");
}

TEST(Agent, AProgramThatEndsBeforeInitLeavesTheRankToTheNext) {
  expect_transcript(1, false, R"(
> 0 spawn 0
admit 0
spawn 0
> 1 spawned 0 pid=10
> 2 register 0 pid=12 conn=5
welcome 0 on 5
> 3 registered-ended 0 exit=0
> 4 register 0 pid=13 conn=6
welcome 0 on 6
)");
}

TEST(Agent, StoppingEndsRanksInEveryState) {
  expect_transcript(4, true, R"(
> 0 spawn 0
admit 0
spawn 0
> 1 spawned 0 pid=10
> 1 spawned 1 pid=11
> 1 spawned 2 pid=12
> 2 child-ended 1 exit=0
await output 1
> 2 child-ended 2 exit=3
kill tree 2
> 3 stop
terminate 0
kill tree 1
> 4 child-ended 0 exit=0
kill tree 0
> 5 tree-gone 0
drain 0
report 0 ended by exit code 0 at 4
> 5 tree-gone 1
drain 1
report 1 ended by exit code 0 at 2
> 5 tree-gone 2
drain 2
report 2 ended by exit code 3 at 2
)");
}

TEST(Agent, ARankThatIgnoresTheRequestIsKilled) {
  expect_transcript(1, true, R"(
> 1 spawned 0 pid=10
> 2 stop
terminate 0
> 3 kill-all
kill tree 0
> 4 child-ended 0 signal=9
> 5 tree-gone 0
drain 0
report 0 ended by signal 9, Killed at 5
)");
}

TEST(Agent, KnowsTheRanksOfItsHostAlone) {
  expect_transcript({3, 7}, true, R"(
> 0 spawn 3
admit 3
spawn 3
> 1 spawned 3 pid=10
> 2 spawn 7
admit 7
spawn 7
> 3 spawned 7 pid=20
> 4 register 3 pid=10 conn=5
welcome 3 on 5
> 5 initialized 3
> 6 want 0
want image 1 of 3
> 7 child-ended 7 signal=9
kill tree 7
> 8 tree-gone 7
drain 7
report 7 ended by signal 9, Killed at 7
> 9 stop 0
terminate 3
> 10 child-ended 3 signal=15
kill tree 3
> 11 tree-gone 3
drain 3
report 3 ended by signal 15, Terminated at 10
)");
}

}  // namespace
}  // namespace rejoin::launcher
