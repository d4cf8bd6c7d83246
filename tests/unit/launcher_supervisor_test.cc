#include <string>

#include "supervisor_transcript.h"

namespace rejoin::launcher {
namespace {

RunOptions ranks(std::uint32_t n, std::uint32_t max_restarts = 4) {
  RunOptions options;
  options.programs = {{.ranks = n, .command = {"a.out"}}};
  options.max_restarts = max_restarts;
  options.journal_limit_bytes = std::uint64_t{64} << 20;
  return options;
}

TEST(Supervisor, DeathAndReturn) {
  expect_transcript(ranks(2), R"(
> 0 started 0
record start rank 0 incarnation 0
> 1 registered 0
record register rank 0 incarnation 0
> 2 initialized 0
record init rank 0 incarnation 0
> 100 ended 0 signal=9 at=1234 in=Allreduce live
respawn 0
record death rank 0 incarnation 0 (signal 9, Killed) replayed 0
news: rank 0 died (signal 9, Killed) in Allreduce #1234; starting it again (1 of 4)
> 101 started 0
record respawn rank 0 incarnation 1
> 105 registered 0
record register rank 0 incarnation 1
> 109.1 initialized 0
record init rank 0 incarnation 1
> 113.1 live 0 replayed=1233 replay_ms=3
record live rank 0 incarnation 1 replayed 1233 start 5.0 ms computing 5.1 ms replay 3.0 ms
news: rank 0 is back after 13.1 ms: 5.0 ms to start it, 5.1 ms of its own computing, 3.0 ms replay of 1,233 operations
> 200 finalized 0
record finalize rank 0 incarnation 1 replayed 0
> 201 ended 0 exit=0
record exit rank 0 incarnation 1 (exit code 0)
> 300 all-over 0 journal=3145728
record summary deaths 1 restarts 1 lost 13.1 ms longest 13.1 ms places 1
news: 1 death, 1 restart (1 from main), 13.1 ms lost; journal at most 3 MiB
news:   rank 0: signal 9, Killed, in Allreduce
finish 0
)");
}

TEST(Supervisor, AReplacementWithNothingNewToDoIsBackAtFinalize) {
  expect_transcript(ranks(1), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 0 initialized 0
record init rank 0 incarnation 0
> 1 finalized 0
record finalize rank 0 incarnation 0
> 10 ended 0 signal=9 at=7
respawn 0
record death rank 0 incarnation 0 (signal 9, Killed) replayed 0
news: rank 0 died (signal 9, Killed) after operation #7; starting it again (1 of 4)
> 11 registered 0
record register rank 0 incarnation 1
> 12 initialized 0
record init rank 0 incarnation 1
> 15 finalized 0 replayed=7 replay_ms=4
record finalize rank 0 incarnation 1 replayed 7 start 1.0 ms computing 0.00 ms replay 4.0 ms
news: rank 0 is back after 5.0 ms: 1.0 ms to start it, 4.0 ms replay of 7 operations
)");
}

TEST(Supervisor, SameFaultAtTheSamePlaceTwice) {
  expect_transcript(ranks(1), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 1 ended 0 signal=11 at=5 in=Reduce live
respawn 0
record death rank 0 incarnation 0 (signal 11, Segmentation fault) replayed 0
news: rank 0 died (signal 11, Segmentation fault) in Reduce #5; starting it again (1 of 4)
> 2 registered 0
record register rank 0 incarnation 1
> 3 ended 0 signal=9 at=5 in=Reduce live
respawn 0
record death rank 0 incarnation 1 (signal 9, Killed) replayed 0
news: rank 0 died (signal 9, Killed) in Reduce #5; starting it again (2 of 4)
> 4 registered 0
record register rank 0 incarnation 2
> 5 ended 0 signal=11 at=5 in=Reduce live site={0:1:2a}
record death rank 0 incarnation 2 (signal 11, Segmentation fault) replayed 0
stop
tell: rank 0 died (signal 11, Segmentation fault) in Reduce #5 at {0:1:2a}; it died there by the same cause before, so a restart cannot help and the job ends
record stop code 139
> 6 all-over 0 journal=4096
record summary deaths 3 restarts 2 lost 5.0 ms longest 5.0 ms places 3
finish 139
)");
}

TEST(Supervisor, AnotherPlaceOrCauseIsNotARepeatedFault) {
  expect_transcript(ranks(1), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 0 initialized 0
record init rank 0 incarnation 0
> 1 ended 0 exit=3 at=5
respawn 0
record death rank 0 incarnation 0 (exit code 3) replayed 0
news: rank 0 died (exit code 3) after operation #5; starting it again (1 of 4)
> 2 registered 0
record register rank 0 incarnation 1
> 3 ended 0 exit=3 at=6 live
respawn 0
record death rank 0 incarnation 1 (exit code 3) replayed 0
news: rank 0 died (exit code 3) after operation #6; starting it again (2 of 4)
> 4 registered 0
record register rank 0 incarnation 2
> 5 ended 0 exit=4 at=6
respawn 0
record death rank 0 incarnation 2 (exit code 4) replayed 0
news: rank 0 died (exit code 4) after operation #6 while catching up; starting it again (3 of 4)
)");
}

TEST(Supervisor, KillAndTermAreNeverTheProgramsFault) {
  expect_transcript(ranks(1, 2), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 1 ended 0 signal=15 at=0
respawn 0
record death rank 0 incarnation 0 (signal 15, Terminated) replayed 0
news: rank 0 died (signal 15, Terminated) before its first MPI operation; starting it again (1 of 2)
> 0 registered 0
record register rank 0 incarnation 1
> 1 ended 0 signal=15 at=0
respawn 0
record death rank 0 incarnation 1 (signal 15, Terminated) replayed 0
news: rank 0 died (signal 15, Terminated) before its first MPI operation while catching up; starting it again (2 of 2)
> 0 registered 0
record register rank 0 incarnation 2
> 1 ended 0 signal=15 at=0
record death rank 0 incarnation 2 (signal 15, Terminated) replayed 0
stop
tell: rank 0 died (signal 15, Terminated) before its first MPI operation while catching up; it was started again twice already, so the job ends (--max-restarts)
record stop code 143
)");
}

TEST(Supervisor, OutOfMemoryTwiceIsFinal) {
  expect_transcript(ranks(1), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 1 ended 0 signal=9 oom peak=3145728 at=2
respawn 0
record death rank 0 incarnation 0 (signal 9, killed by the OOM killer) replayed 0
news: rank 0 died (signal 9, killed by the OOM killer) after operation #2 (it had 3 MiB resident); starting it again (1 of 4)
> 2 registered 0
record register rank 0 incarnation 1
> 3 ended 0 signal=9 oom at=9 live
record death rank 0 incarnation 1 (signal 9, killed by the OOM killer) replayed 0
stop
tell: rank 0 died (signal 9, killed by the OOM killer) after operation #9; it is the second time that there is not enough memory for it, so the job ends; use fewer ranks or more memory
record stop code 137
)");
}

TEST(Supervisor, WithAFullJournalADeathIsFinal) {
  expect_transcript(ranks(2), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 0 registered 1
record register rank 1 incarnation 0
> 5 limit 0
let recycle
record limit rank 0 incarnation 0
tell: the journal is full (64 MiB): the job goes on, but from now on the death of a rank ends it; --journal-limit makes it larger
> 6 limit 1
> 7 ended 1 signal=9 at=3
record death rank 1 incarnation 0 (signal 9, Killed) replayed 0
stop
tell: rank 1 died (signal 9, Killed) after operation #3; the journal was full (64 MiB) and its past cannot be replayed, so the job ends (--journal-limit makes it larger)
record stop code 137
> 8 ended 0 signal=15
record exit rank 0 incarnation 0 (signal 15, Terminated)
> 9 all-over 0
record summary deaths 1 restarts 0 lost 0.00 ms longest 0.00 ms places 1
finish 137
)");
}

TEST(Supervisor, AFullJournalIsKeptUntilNoReplacementNeedsIt) {
  expect_transcript(ranks(3), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 0 registered 1
record register rank 1 incarnation 0
> 0 registered 2
record register rank 2 incarnation 0
> 5 ended 1 signal=9 at=3
respawn 1
record death rank 1 incarnation 0 (signal 9, Killed) replayed 0
news: rank 1 died (signal 9, Killed) after operation #3; starting it again (1 of 4)
> 6 limit 0
> 7 registered 1
record register rank 1 incarnation 1
> 8 ended 1 signal=9 at=2
respawn 1
record death rank 1 incarnation 1 (signal 9, Killed) replayed 0
news: rank 1 died (signal 9, Killed) after operation #2 while catching up; starting it again (2 of 4)
> 9 registered 1
record register rank 1 incarnation 2
> 9 ended 2 signal=9 at=5
respawn 2
record death rank 2 incarnation 0 (signal 9, Killed) replayed 0
news: rank 2 died (signal 9, Killed) after operation #5; starting it again (1 of 4)
> 10 limit 1
> 11 registered 2
record register rank 2 incarnation 1
> 12 initialized 2
record init rank 2 incarnation 1
> 13 finalized 2 at=9
record finalize rank 2 incarnation 1 replayed 0 start 2.0 ms computing 2.0 ms replay 0.00 ms
news: rank 2 is back after 4.0 ms: 2.0 ms to start it, 2.0 ms of its own computing
let recycle
record limit rank 2 incarnation 1
tell: the journal is full (64 MiB): the job goes on, but from now on the death of a rank ends it; --journal-limit makes it larger
> 14 ended 1 signal=9 at=4
record death rank 1 incarnation 2 (signal 9, Killed) replayed 0
stop
tell: rank 1 died (signal 9, Killed) after operation #4 while catching up; the journal was full (64 MiB) and its past cannot be replayed, so the job ends (--journal-limit makes it larger)
record stop code 137
)");
}

TEST(Supervisor, AnExitCodeBeforeInitIsFinal) {
  expect_transcript(ranks(1), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 1 ended 0 exit=7 at=0
record exit rank 0 incarnation 0 (exit code 7)
stop
tell: rank 0 ended with exit code 7, without calling MPI_Init
record stop code 7
)");
}

TEST(Supervisor, NoRestart) {
  RunOptions options = ranks(1);
  options.restart = false;
  expect_transcript(options, R"(
> 0 registered 0
record register rank 0 incarnation 0
> 0 initialized 0
record init rank 0 incarnation 0
> 1 ended 0 exit=5 at=3
record death rank 0 incarnation 0 (exit code 5) replayed 0
stop
tell: rank 0 died (exit code 5) after operation #3; --no-restart ends the job
record stop code 5
)");
}

TEST(Supervisor, APastThatCannotBeReplayedIsFinal) {
  expect_transcript(ranks(2), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 0 initialized 0
record init rank 0 incarnation 0
> 2 ended 0 signal=9 at=4 : its threads cannot be told apart
record death rank 0 incarnation 0 (signal 9, Killed) replayed 0
stop
tell: rank 0 died (signal 9, Killed) after operation #4; its threads cannot be told apart
record stop code 137
)");
}

TEST(Supervisor, AProgramWithoutMpiIsNeverStartedAgain) {
  expect_transcript(ranks(2), R"(
> 0 started 0
record start rank 0 incarnation 0
> 0 started 1
record start rank 1 incarnation 0
> 1 ended 0 exit=0
record exit rank 0 incarnation 0 (exit code 0)
> 2 ended 1 exit=4
record exit rank 1 incarnation 0 (exit code 4)
stop
tell: rank 1 ended with exit code 4, without calling MPI_Init
record stop code 4
> 3 all-over 0
finish 4
)");
}

// The rank has received nothing yet, so a restart would end in the same way.
TEST(Supervisor, AnExitCodeBeforeTheFirstOperationIsTheJobs) {
  expect_transcript(ranks(2), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 1 initialized 0
record init rank 0 incarnation 0
> 2 ended 0 exit=2
record exit rank 0 incarnation 0 (exit code 2)
stop
tell: rank 0 ended with exit code 2 before its first MPI operation
record stop code 2
> 3 all-over 0
finish 2
)");
}

TEST(Supervisor, AMessageThatCannotBeTrueEndsTheJob) {
  expect_transcript(ranks(1), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 1 finalized 0
stop
tell: rank 0 has reported the end of MPI_Finalize at a point where that is impossible, so its memory may be damaged; the job ends
record stop code 1
> 2 initialized 0
record init rank 0 incarnation 0
> 2 initialized 0
> 3 all-over 0
finish 1
)");
}

TEST(Supervisor, KilledBeforeItRegisters) {
  expect_transcript(ranks(2), R"(
> 0 ended 0 signal=9
respawn 0
record death rank 0 incarnation 0 (signal 9, Killed) replayed 0
news: rank 0 died (signal 9, Killed) before its first MPI operation; starting it again (1 of 4)
> 1 ended 1 exit=4
record exit rank 1 incarnation 0 (exit code 4)
stop
tell: rank 1 ended with exit code 4, without calling MPI_Init
record stop code 4
)");
}

TEST(Supervisor, AReplacementIsARankBeforeItRegisters) {
  expect_transcript(ranks(1), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 1 ended 0 signal=9 at=5
respawn 0
record death rank 0 incarnation 0 (signal 9, Killed) replayed 0
news: rank 0 died (signal 9, Killed) after operation #5; starting it again (1 of 4)
> 2 ended 0 exit=1
respawn 0
record death rank 0 incarnation 1 (exit code 1) replayed 0
news: rank 0 died (exit code 1) before its first MPI operation while catching up; starting it again (2 of 4)
> 3 ended 0 exit=1
record death rank 0 incarnation 2 (exit code 1) replayed 0
stop
tell: rank 0 died (exit code 1) before its first MPI operation while catching up; it died there by the same cause before, so a restart cannot help and the job ends
record stop code 1
)");
}

TEST(Supervisor, ExitCodesAfterFinalizeAreFinalAndTheFirstCounts) {
  expect_transcript(ranks(2), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 0 registered 1
record register rank 1 incarnation 0
> 1 initialized 0
record init rank 0 incarnation 0
> 1 initialized 1
record init rank 1 incarnation 0
> 1 finalized 0
record finalize rank 0 incarnation 0
> 1 finalized 1
record finalize rank 1 incarnation 0
> 2 ended 1 exit=7
record exit rank 1 incarnation 0 (exit code 7)
tell: rank 1 ended with exit code 7
> 3 ended 0 exit=8
record exit rank 0 incarnation 0 (exit code 8)
> 4 all-over 0
finish 7
)");
}

TEST(Supervisor, ExitingWellBetweenInitAndFinalizeIsADeath) {
  expect_transcript(ranks(1), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 1 initialized 0
record init rank 0 incarnation 0
> 2 ended 0 exit=0 at=2
respawn 0
record death rank 0 incarnation 0 (exit code 0) replayed 0
news: rank 0 died (exit code 0) after operation #2; starting it again (1 of 4)
> 3 registered 0
record register rank 0 incarnation 1
> 3 initialized 0
record init rank 0 incarnation 1
> 4 ended 0 exit=0 at=2
record death rank 0 incarnation 1 (exit code 0) replayed 0
stop
tell: rank 0 died (exit code 0) after operation #2 while catching up; it ended there before, so the job ends; a program has to call MPI_Finalize before it exits
record stop code 1
)");
}

TEST(Supervisor, ARankThatHasMovedIsARankStill) {
  expect_transcript(ranks(1), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 1 initialized 0
record init rank 0 incarnation 0
> 2 registered 0
record register rank 0 incarnation 0
> 2 initialized 0
record init rank 0 incarnation 0
> 3 ended 0 exit=0 at=2
respawn 0
record death rank 0 incarnation 0 (exit code 0) replayed 0
news: rank 0 died (exit code 0) after operation #2; starting it again (1 of 4)
)");
}

TEST(Supervisor, IfOneInitializesAllMust) {
  expect_transcript(ranks(2), R"(
> 0 registered 1
record register rank 1 incarnation 0
> 1 ended 1 exit=0
record exit rank 1 incarnation 0 (exit code 0)
> 2 registered 0
record register rank 0 incarnation 0
> 3 initialized 0
record init rank 0 incarnation 0
stop
tell: rank 1 exited with code 0 without calling MPI_Init, but others called it
record stop code 1
)");
}

TEST(Supervisor, AbortIsFinal) {
  expect_transcript(ranks(2), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 1 abort 0 code=-1
record abort rank 0 incarnation 0 code -1
stop
tell: rank 0 called MPI_Abort(-1)
record stop code 255
> 1 abort 1 code=3 : MPI_Bcast: MPI_ERR_ROOT
record abort rank 1 incarnation 0 code 3
> 2 ended 0 signal=15 at=1
record exit rank 0 incarnation 0 (signal 15, Terminated)
> 3 all-over 0
finish 255
)");
}

TEST(Supervisor, AFatalErrorIsPrintedAsTheRankGivesIt) {
  expect_transcript(ranks(1), R"(
> 1 abort 0 code=8 : MPI_Bcast: MPI_ERR_ROOT
record abort rank 0 incarnation 0 code 8
stop
tell: rank 0: MPI_Bcast: MPI_ERR_ROOT
record stop code 8
)");
}

TEST(Supervisor, ALineAboutTheJobIsShownOnceForEachOfItsNumbers) {
  expect_transcript(ranks(2), R"(
> 1 notice 0 : it is about me
record notice rank 0 incarnation 0
tell: rank 0: it is about me
> 2 notice 1 value=7 : it is about all
record notice
tell: it is about all
> 3 notice 0 value=7 : it is about all, too
> 4 notice 0 value=8 : another
record notice
tell: another
)");
}

TEST(Supervisor, SignalsEndTheJobTheSecondAtOnce) {
  expect_transcript(ranks(1), R"(
> 1 signal 0 code=2
stop
tell: signal 2 (Interrupt): ending all ranks
record stop code 130
> 2 signal 0 code=2
kill now
> 3 ended 0 signal=9
record exit rank 0 incarnation 0 (signal 9, Killed)
> 4 all-over 0
finish 130
)");
}

TEST(Supervisor, TheTimeLimit) {
  expect_transcript(ranks(1), R"(
> 1000 timeout 0
report
stop
tell: the time limit of --timeout has expired
record stop code 110
> 1001 timeout 0
)");
}

TEST(Supervisor, OtherReasonsThatEndAJob) {
  expect_transcript(ranks(1), R"(
> 1 spawn-failed 0 code=126 : cannot start x
stop
tell: cannot start x
record stop code 126
)");
  expect_transcript(ranks(1), R"(
> 1 foreign 0 : libmpich.so.12
stop
tell: the program of rank 0 was built for MPICH or Intel MPI (libmpich.so.12), whose binaries Rejoin cannot run; compile it again with ftmpicc, ftmpicxx or ftmpifort, or with mpicc of Open MPI 4 or 5 (libmpi.so.40)
record stop code 1
)");
  expect_transcript(ranks(1), R"(
> 1 diverged 0 : operation 3 is another one
record diverged rank 0 incarnation 0
stop
tell: operation 3 is another one
record stop code 1
)");
  expect_transcript(ranks(1), R"(
> 1 output-lost 0 code=141 : the reader is gone
stop
tell: the reader is gone
record stop code 141
)");
}

TEST(Supervisor, AKillThatDidNotFireIsAnError) {
  expect_transcript(ranks(1), R"(
> 1 unfired 0 at=5 : 0@9.inside#0
record kill_unfired rank 0 incarnation 0
tell: --kill 0@9.inside#0 did not fire: the rank ended after operation #5 in incarnation 0
> 2 all-over 0
finish 1
)");
}

TEST(Supervisor, AJobIsOverWhenAllOfItsHostsAre) {
  expect_transcript(ranks(2), R"(
> 1 all-over 0 host=1
> 2 all-over 0 host=1
> 3 all-over 0 host=0
finish 0
)",
                    2);
}

TEST(Supervisor, TheLossOfAnAgentEndsTheJob) {
  expect_transcript(ranks(4), R"(
> 1 agent-lost 0 host=1 : has not answered for 2 s
stop
tell: the agent of host 1 has not answered for 2 s, and its ranks have ended with it, so the job ends
record stop code 1
> 2 agent-lost 0 host=1 : has ended
> 3 all-over 0 host=0
> 4 all-over 0 host=2
finish 1
)",
                    3);
  expect_transcript(ranks(1), R"(
> 1 agent-lost 0 host=0 : has ended
stop
tell: the agent of host 0 has ended, and its ranks have ended with it, so the job ends
record stop code 1
finish 1
)");
}

// While a job is being stopped, the loss of an agent only means that there is one host less to wait
// for.
TEST(Supervisor, TheLossOfAnAgentWhileTheJobEndsIsNotTheReason) {
  expect_transcript(ranks(2), R"(
> 1 signal 0 code=15
stop
tell: signal 15 (Terminated): ending all ranks
record stop code 143
> 2 all-over 0 host=0
> 3 agent-lost 0 host=1 : has ended
finish 143
)",
                    2);
}

}  // namespace
}  // namespace rejoin::launcher
