// Ranks in scripts that wait for them: transcripts, and each rule of the agent's core about them,
// with the actions that follow if the rule is left out.
#include <gtest/gtest.h>

#include "agent_preludes.h"
#include "left_out.h"

namespace rejoin::launcher {
namespace {

TEST(AgentWrapper, SurvivesTheDeathsOfItsRankAndEndsAfterIt) {
  expect_transcript(1, true, kUntilMoved + R"(> 6 initialized 0
> 7 image 0 pid=20 conn=7 image=1 inc=0
keep image 1 of 0, pid 20
> 8 child-ended 0 signal=9
kill tree 0
> 9 tree-gone 0
read 0
report 0 ended by signal 9, Killed at 8
> 10 respawn 0 inc=1
publish death 0
ring all
admit 0
wake image 1 of 0
> 11 forked 0 pid=30 inc=1
adopt 0, pid 30
> 12 woken 0 pid=30 conn=8 inc=1
welcome 0 on 8
> 13 initialized 0
> 14 live 0
ask for images
> 14 want 0
want set 2
want image 2 of 0
> 15 image 0 pid=21 conn=9 image=2 inc=1
keep image 2 of 0, pid 21
end image of 0, pid 20
> 16 finalized 0
> 17 child-ended 0 exit=3
end image of 0, pid 21
release keeper of 0 on 5 with exit code 3
> 18 register 0 pid=13 conn=10
refuse 0 on 10: rank 0 has ended or called MPI_Finalize already
> 19 wrapper-ended 0 pid=10 exit=4
await output 0
> 20 output-ended 0
drain 0
report 0 ended by exit code 4 at 19
)");
}

TEST(AgentWrapper, ThatDiedIsReportedAtTheEndOfItsRank) {
  expect_transcript(1, true, kUntilMoved + R"(> 6 wrapper-ended 0 pid=10 signal=9
end keeper of 0 on 5
> 7 finalized 0
> 8 child-ended 0 exit=0
tell of 0: the script that started the program died (signal 9, Killed); the rest of the script was not executed
await output 0
> 9 output-ended 0
drain 0
report 0 ended by exit code 137 at 8
)");
  // A script's own exit code is preserved; a script that has exited does not count as killed; and
  // the next script is a new one.
  expect_transcript(1, false, kUntilMoved + R"(> 6 wrapper-ended 0 pid=10 signal=9
end keeper of 0 on 5
> 7 finalized 0
> 8 child-ended 0 exit=3
await output 0
)");
  expect_transcript(1, false, kUntilMoved + R"(> 6 wrapper-ended 0 pid=10 exit=0
end keeper of 0 on 5
> 7 finalized 0
> 8 child-ended 0 exit=0
await output 0
)");
}

TEST(AgentWrapper, DiesWithARankThatHasNoImage) {
  expect_transcript(1, false, kUntilMoved + R"(> 6 child-ended 0 signal=9
kill tree 0
kill wrapper 0
> 7 wrapper-ended 0 pid=10 signal=9
> 8 tree-gone 0
drain 0
report 0 ended by signal 9, Killed at 6
> 9 respawn 0 inc=1
publish death 0
ring all
admit 0
spawn 0
> 10 spawned 0 pid=40
> 11 register 0 pid=41 conn=7
welcome 0 on 7
> 12 initialized 0
> 13 want 0
want set 2
want image 2 of 0
> 14 moves 0 pid=42 conn=8 of=41 inc=1
move 0 to pid 42, keeper on 7
welcome 0 on 8
)");
}

// The keeper may be killed at any time: while the rank runs, is dead, or is being woken.
TEST(AgentWrapper, ARankWithoutItsKeeperIsLost) {
  const std::string lost = "lost 0: the process that its wrapper script waits for was killed\n";
  expect_transcript(1, true, kUntilMovedKept + R"(> 7 keeper-ended 0 signal=9
end image of 0, pid 20
kill tree 0
kill wrapper 0
> 8 tree-gone 0
drain 0
report 0 ended by signal 9, Killed at 7
> 9 respawn 0 inc=1
publish death 0
ring all
admit 0
)" + lost);
  const std::string dying = kUntilMovedKept + R"(> 7 child-ended 0 signal=9
kill tree 0
)";
  expect_transcript(1, true, dying + R"(> 8 keeper-ended 0 signal=9
end image of 0, pid 20
kill wrapper 0
> 9 tree-gone 0
drain 0
report 0 ended by signal 9, Killed at 7
> 10 respawn 0 inc=1
publish death 0
ring all
admit 0
)" + lost);
  expect_transcript(1, true, dying + R"(> 8 tree-gone 0
read 0
report 0 ended by signal 9, Killed at 7
> 9 respawn 0 inc=1
publish death 0
ring all
admit 0
wake image 1 of 0
> 10 keeper-ended 0 signal=9
end image of 0, pid 20
kill wrapper 0
)" + lost);
}

using Case = LeftOut<WrapperRule>;

const std::string kRunning = events_of(kUntilRunsWrapped);
const std::string kMoved = events_of(kUntilMoved);
const std::string kKept = events_of(kUntilMovedKept);
const std::string kReleased = kKept +
                              "7 finalized 0\n"
                              "8 child-ended 0 exit=3\n";
const char* const kMoves = "move 0 to pid 12, keeper on 5\nwelcome 0 on 6\n";
const char* const kRefused = "refuse 0 on 6: this rank does not move\n";

const Case kCases[] = {
    {"OnlyRegistered", WrapperRule::kOnlyRegistered, kRunning,
     "5 moves 0 pid=12 conn=6 of=13 inc=0", kRefused, kMoves},
    {"OnlyBehind", WrapperRule::kOnlyBehind, kRunning + "5 child-ended 0 exit=0\n",
     "5 moves 0 pid=12 conn=6 of=11 inc=0", kRefused, kMoves},
    {"OfIncarnation", WrapperRule::kOfIncarnation, kRunning, "5 moves 0 pid=12 conn=6 of=11 inc=1",
     kRefused, kMoves},
    {"NotFinalized", WrapperRule::kNotFinalized, kRunning + "5 finalized 0\n",
     "5 moves 0 pid=12 conn=6 of=11 inc=0", kRefused, kMoves},
    {"NotStopping", WrapperRule::kNotStopping, kRunning + "5 stop 0\n",
     "5 moves 0 pid=12 conn=6 of=11 inc=0", kRefused, kMoves},
    {"KeepFirst", WrapperRule::kKeepFirst, kRunning, "5 moves 0 pid=12 conn=6 of=11 inc=0", kMoves,
     "welcome 0 on 6\nmove 0 to pid 12, keeper on 5\n"},
    {"SpareWithImage", WrapperRule::kSpareWithImage, kKept, "7 child-ended 0 signal=9",
     "kill tree 0\n", "kill tree 0\nkill wrapper 0\n"},
    {"KillWithout", WrapperRule::kKillWithout, kMoved, "7 child-ended 0 signal=9",
     "kill tree 0\nkill wrapper 0\n", "kill tree 0\n"},
    {"ReadOn", WrapperRule::kReadOn, kKept + "7 child-ended 0 signal=9\n", "8 tree-gone 0",
     "read 0\nreport 0 ended by signal 9, Killed at 7\n",
     "drain 0\nreport 0 ended by signal 9, Killed at 7\n"},
    {"Release", WrapperRule::kRelease, kKept + "7 finalized 0\n", "8 child-ended 0 exit=3",
     "end image of 0, pid 20\nrelease keeper of 0 on 5 with exit code 3\n", "await output 0\n"},
    {"CauseOfWrapper", WrapperRule::kCauseOfWrapper, kReleased, "9 wrapper-ended 0 pid=10 signal=9",
     "kill tree 0\n", "await output 0\n"},
    {"NeedsKeeper", WrapperRule::kNeedsKeeper, kKept, "7 keeper-ended 0 signal=9",
     "end image of 0, pid 20\nkill tree 0\nkill wrapper 0\n", ""},
    {"NoImageWithout", WrapperRule::kNoImageWithout, kKept, "7 keeper-ended 0 signal=9",
     "end image of 0, pid 20\nkill tree 0\nkill wrapper 0\n", "kill tree 0\n"},
    {"GoesOnWithout", WrapperRule::kGoesOnWithout, kKept, "7 wrapper-ended 0 pid=10 signal=9",
     "end keeper of 0 on 5\n", "kill wrapper 0\n"},
    {"EndWithJob", WrapperRule::kEndWithJob, kKept + "7 child-ended 0 signal=9\n8 tree-gone 0\n",
     "9 stop 0", "end image of 0, pid 20\nkill wrapper 0\n", "end image of 0, pid 20\n"},
    {"TerminateReleased", WrapperRule::kTerminateReleased, kReleased, "9 stop 0", "terminate 0\n",
     ""},
    {"KillReleased", WrapperRule::kKillReleased, kReleased + "9 stop 0\n", "10 kill-all 0",
     "kill tree 0\nkill wrapper 0\n", ""},
};

class WrapperRules : public testing::TestWithParam<Case> {};

TEST_P(WrapperRules, LeftOutIsNoticed) { expect_noticed<CorePlayer>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Rules, WrapperRules, testing::ValuesIn(kCases),
                         name_of_left_out<WrapperRule>);

TEST(AllWrapperRules, HaveACaseEach) { expect_a_case_each(kCases, WrapperRule::kKillReleased); }

}  // namespace
}  // namespace rejoin::launcher
