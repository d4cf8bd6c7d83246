// What the supervisor does when a rank alone cannot go on: all ranks go back, or the job begins
// again.
#include "supervisor_transcript.h"

namespace rejoin::launcher {
namespace {

RunOptions ranks(std::uint32_t n, std::uint32_t max_restarts = 4) {
  RunOptions options;
  options.programs = {{.ranks = n, .command = {"a.out"}}};
  options.max_restarts = max_restarts;
  return options;
}

// As long as no rank was restarted a difference would come again.
TEST(GoingBack, ADifferenceWithoutARestartEndsTheJob) {
  expect_transcript(ranks(1), R"(
> 1 diverged 0 : it differs
record diverged rank 0 incarnation 0
stop
tell: it differs
record stop code 1
)");
}

TEST(GoingBack, AllGoBackOnceIfARankDiffers) {
  expect_transcript(ranks(2), R"(
> 5 ended 0 signal=9 at=7
respawn 0
record death rank 0 incarnation 0 (signal 9, Killed) replayed 0
news: rank 0 died (signal 9, Killed) after operation #7; starting it again (1 of 4)
> 6 diverged 0 : it differs. The program is not deterministic, advice
record diverged rank 0 incarnation 1
roll back as 2
> 7 diverged 1 : void
> 7 ended 1 signal=9
> 8 rolled-back 0 value=3 replay_ms=12 code=2
record rollback
news: it differs; all 2 ranks go back 12.0 ms, to their newest snapshots
wake
> 9 registered 0
record register rank 0 incarnation 2
> 10 diverged 0 : it differs again
record diverged rank 0 incarnation 2
stop
tell: it differs again
record stop code 1
)");
}

TEST(GoingBack, ADifferenceWithoutASetEndsTheJob) {
  expect_transcript(ranks(1), R"(
> 5 ended 0 signal=9 at=7
respawn 0
record death rank 0 incarnation 0 (signal 9, Killed) replayed 0
news: rank 0 died (signal 9, Killed) after operation #7; starting it again (1 of 4)
> 6 diverged 0 : it differs. The program is not deterministic, advice
record diverged rank 0 incarnation 1
roll back as 2
> 7 no-set 0
stop
tell: it differs. The program is not deterministic, advice
record stop code 1
)");
}

TEST(GoingBack, AllGoBackAtTheDeathOfARankWithSeveralThreads) {
  expect_transcript(ranks(2), R"(
> 5 ended-threaded 0 signal=9 at=7 : its threads had called MPI
record death rank 0 incarnation 0 (signal 9, Killed) replayed 0
roll back as 1
> 6 ended 1 signal=9
> 7 rolled-back 0 value=3 replay_ms=12 code=1
record rollback
news: rank 0 died (signal 9, Killed) after operation #7; its threads had called MPI; all 2 ranks go back 12.0 ms, to their newest snapshots
wake
> 9 ended-threaded 1 signal=9 at=8 live : its threads had called MPI
record death rank 1 incarnation 1 (signal 9, Killed) replayed 0
roll back as 2
> 10 no-set 0
stop
tell: rank 1 died (signal 9, Killed) after operation #8; its threads had called MPI, and there is no set of snapshots to which all ranks could go back, so the job ends (docs/fault-model.md)
record stop code 137
)");
}

TEST(GoingBack, ARankWithSeveralThreadsEndsTheJobIfNoRankMayGoBack) {
  RunOptions options = ranks(1);
  options.on_divergence = OnDivergence::kStop;
  expect_transcript(options, R"(
> 5 ended-threaded 0 signal=9 at=7 : its threads had called MPI
record death rank 0 incarnation 0 (signal 9, Killed) replayed 0
stop
tell: rank 0 died (signal 9, Killed) after operation #7; its threads had called MPI, so the job ends (docs/fault-model.md)
record stop code 137
)");
}

const std::string kBeginsAgain = R"(stop
kill now
record begin_again
news: rank 0 cannot be started again: its snapshot died with it, and the journal does not reach back to the start of the program any more; the job begins again
)";

// A rank that died cannot be started again, because its image died with it.
TEST(GoingBack, TheJobBeginsAgainIfASetIsWritten) {
  expect_transcript(ranks(2), R"(
> 1 ended 0 signal=9 at=7
respawn 0
record death rank 0 incarnation 0 (signal 9, Killed) replayed 0
news: rank 0 died (signal 9, Killed) after operation #7; starting it again (1 of 4)
> 2 images-written 0 : saved/images-1.rejoin
record images
> 3 lost 0 : its snapshot was lost
stop
kill now
record begin_again
news: rank 0 cannot be started again: its snapshot was lost, and the journal does not reach back to the start of the program any more; the job begins again
> 4 ended 1 signal=9
record exit rank 1 incarnation 0 (signal 9, Killed)
> 5 all-over 0
begin again, 1 in all
)");
}

TEST(GoingBack, TheJobEndsIfItIsStoppedBeforeItBeginsAgain) {
  RunOptions options = ranks(1);
  options.begin_again = true;
  expect_transcript(options, R"(
> 3 lost 0
)" + kBeginsAgain + R"(> 4 signal 0 code=15
stop
tell: signal 15 (Terminated): the job does not begin again
record stop code 143
> 5 all-over 0
finish 143
)");
}

TEST(GoingBack, TheJobEndsIfItIsStoppedWhenItsProcessesHaveEnded) {
  RunOptions options = ranks(1);
  options.begin_again = true;
  expect_transcript(options, R"(
> 3 lost 0
)" + kBeginsAgain + R"(> 5 all-over 0
begin again, 1 in all
> 6 signal 0 code=2
stop
tell: signal 2 (Interrupt): the job does not begin again
record stop code 130
finish 130
> 7 signal 0 code=2
kill now
)");
}

TEST(GoingBack, ANoticeWhileTheJobBeginsAgainEndsItWithWhatIsWritten) {
  RunOptions options = ranks(1);
  options.checkpoint_directory = "saved";
  options.grace_ns = 50'000'000;
  expect_transcript(options, R"(
> 2 images-written 0 : saved/images-1.rejoin
record images
> 3 lost 0
)" + kBeginsAgain + R"(> 4 signal 0 code=15
stop
tell: the job was to begin again; an earlier state is in saved, and the job ends; --resume goes on from there
record stop code 75
> 5 all-over 0
finish 75
)");
}

TEST(GoingBack, AJobThatWasGivenNoticeDoesNotBeginAgain) {
  RunOptions options = ranks(1);
  options.checkpoint_directory = "saved";
  options.grace_ns = 50'000'000;
  expect_transcript(options, R"(
> 2 images-written 0 : saved/images-1.rejoin
record images
> 3 signal 0 code=15
record notice
tell: signal 15 (Terminated) is taken for a notice: the job's state is being written to saved, for 50.0 ms at most, and the job ends; another signal ends it at once
write now
> 4 lost 0
stop
tell: rank 0 cannot be started again: its snapshot died with it, and the journal does not reach back to the start of the program any more; an earlier state is in saved, and the job ends; --resume goes on from there
record stop code 75
> 5 all-over 0
finish 75
)");
}

TEST(GoingBack, TheTimeLimitDoesNotCountWhenAllIsOver) {
  expect_transcript(ranks(1), R"(
> 1 registered 0
record register rank 0 incarnation 0
> 1 initialized 0
record init rank 0 incarnation 0
> 2 finalized 0
record finalize rank 0 incarnation 0
> 3 ended 0 exit=0
record exit rank 0 incarnation 0 (exit code 0)
> 4 all-over 0
finish 0
> 5 timeout 0
)");
}

TEST(GoingBack, AJobDoesNotBeginAgainForEver) {
  RunOptions options = ranks(1, 0);
  options.begin_again = true;
  expect_transcript(options, R"(
> 3 lost 0
stop
tell: rank 0 cannot be started again: its snapshot died with it, and the journal does not reach back to the start of the program any more
record stop code 1
)");
}

}  // namespace
}  // namespace rejoin::launcher
