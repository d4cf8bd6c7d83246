// The agent and written images: transcripts of jobs that resume from them, and each rule of the
// agent's core about them, with the actions that follow if the rule is left out.
#include <gtest/gtest.h>

#include "agent_preludes.h"
#include "launcher/agent/machine_mark.h"
#include "left_out.h"

namespace rejoin::launcher {
namespace {

// All deaths are published and all ranks admitted before the first rank is restored.
constexpr const char* kRestored = R"(
> 0 resume 0 image=7 inc=3
publish death 0
admit 0
publish death 1
admit 1
> 1 restore 0
restore 0 from image 7
> 1 spawned 0 pid=10
> 1 restore 1
restore 1 from image 7
> 1 spawned 1 pid=11
> 2 woken 0 pid=10 conn=5 inc=3
welcome 0 on 5
> 2 woken 1 pid=11 conn=6 inc=3
welcome 1 on 6
> 3 initialized 0
> 3 initialized 1
)";

TEST(AgentWritten, AJobResumesFromWrittenImagesAndMakesImagesOfItsOwn) {
  expect_transcript(2, false, std::string(kRestored) + R"(
> 4 want 0
want set 8
want image 8 of 0
want image 8 of 1
> 5 image 0 pid=20 conn=7 image=8 inc=3
> 6 image 1 pid=21 conn=8 image=8 inc=3
keep image 8 of 0, pid 20
keep image 8 of 1, pid 21
> 9 child-ended 0 signal=9
kill tree 0
> 10 tree-gone 0
drain 0
report 0 ended by signal 9, Killed at 9
> 11 respawn 0 inc=4
publish death 0
ring all
admit 0
wake image 8 of 0
)");
}

// The image of a set that is given up has never been kept, so the written one is still the newest.
TEST(AgentWritten, ARankThatDiesBeforeTheSetIsCompleteIsRestoredOnceMore) {
  expect_transcript(2, false, std::string(kRestored) + R"(
> 4 want 0
want set 8
want image 8 of 0
want image 8 of 1
> 5 image 0 pid=20 conn=7 image=8 inc=3
> 9 child-ended 0 signal=9
end image of 0, pid 20
kill tree 0
> 10 tree-gone 0
drain 0
report 0 ended by signal 9, Killed at 9
> 11 respawn 0 inc=4
publish death 0
ring all
admit 0
restore 0 from image 7
)");
}

TEST(AgentWritten, ARankThatDiesBeforeItHasAnImageIsRestoredOnceMore) {
  expect_transcript(2, false, std::string(kRestored) + R"(
> 9 child-ended 1 signal=11
kill tree 1
> 10 tree-gone 1
drain 1
report 1 ended by signal 11, Segmentation fault at 9
> 11 respawn 1 inc=4
publish death 1
ring all
admit 1
restore 1 from image 7
> 12 spawned 1 pid=30
> 13 woken 1 pid=30 conn=9 inc=4
welcome 1 on 9
)");
}

TEST(AgentWritten, AProcessThatIsKilledBeforeItIsTheRankIsRestoredOnceMore) {
  expect_transcript(1, false, kUntilRestorer + R"(> 2 child-ended 0 signal=9
kill tree 0
> 3 tree-gone 0
drain 0
report 0 ended by signal 9, Killed at 2
> 4 respawn 0 inc=4
publish death 0
ring all
admit 0
restore 0 from image 7
)");
}

TEST(AgentWritten, AnImageThatCannotGoOnEndsTheJob) {
  expect_transcript(1, true, kUntilRestorer + R"(> 2 useless 0 pid=10 conn=5 inc=3
refuse 0 on 5: it cannot go on
lost 0: 
> 3 stop 0
terminate 0
> 4 child-ended 0 exit=1
kill tree 0
> 5 tree-gone 0
drain 0
report 0 ended by exit code 1 at 4
)");
}

// The rank is never restarted from main, because that would be another job.
TEST(AgentWritten, AnImageThatEndsBeforeItIsTheRankEndsTheJob) {
  expect_transcript(1, true, kUntilRestorer + R"(> 2 child-ended 0 exit=69
lost 0: its written image could not be restored (exit code 69)
kill tree 0
> 3 tree-gone 0
drain 0
report 0 ended by exit code 69 at 2
> 4 respawn 0 inc=4
publish death 0
ring all
admit 0
lost 0: its snapshot was lost
)");
}

TEST(AgentWritten, AProcessThatRunsFromMainEndsTheJob) {
  expect_transcript(1, false, kUntilRestorer + R"(> 2 register 0 pid=10 conn=5
refuse 0 on 5: it did not restore its written image
lost 0: its process did not restore its written image
> 3 register 0 pid=10 conn=6
refuse 0 on 6: it did not restore its written image
)");
}

TEST(AgentWritten, AWrittenImageIsNeededUntilThereIsOneInMemory) {
  AgentCore core(all_local(1));
  EXPECT_FALSE(core.needs_written(0));
  core.resume({{0, 7}}, 3);
  EXPECT_TRUE(core.needs_written(0));
  core.restore(0);
  core.step({0, 1, AgentEvent::Spawned{10}});
  core.step({0, 2, AgentEvent::Woken{10, 5, 3}});
  core.step({0, 3, AgentEvent::Initialized{}});
  EXPECT_TRUE(core.needs_written(0));
  core.want_snapshots(SnapshotRound::kTogether);
  core.step({0, 4, AgentEvent::ImageRegisters{20, 6, 8, 3}});
  ASSERT_TRUE(core.has_image(0));
  EXPECT_FALSE(core.needs_written(0));
  core.written({{0, 8}});
  core.step({0, 5, AgentEvent::ImageEnded{20, 0, {}}});
  EXPECT_TRUE(core.needs_written(0));
  core.written({});
  EXPECT_FALSE(core.needs_written(0));
}

TEST(AgentWritten, ARankWhoseImageDiesWithItGoesOnFromTheWrittenOneIfThatIsTheSame) {
  const std::string kept = kUntilKept + "> 6 written 0 image=1\n";
  const std::string both_die = R"(
> 9 image-ended 0 pid=20
ask for images
> 9 child-ended 0 signal=9
kill tree 0
> 10 tree-gone 0
drain 0
report 0 ended by signal 9, Killed at 9
> 11 respawn 0 inc=1
publish death 0
ring all
admit 0
)";
  expect_transcript(1, false, kept + both_die + "restore 0 from image 1\n");
  const std::string newer = R"(
> 8 want 0
want set 2
want image 2 of 0
> 8 image 0 pid=21 conn=7 image=2 inc=0
keep image 2 of 0, pid 21
end image of 0, pid 20
)";
  std::string newer_dies = both_die;
  newer_dies.replace(newer_dies.find("pid=20"), 6, "pid=21");
  expect_transcript(1, true, kept + newer + newer_dies + "lost 0: its snapshot was lost\n");
}

// --- Rules

using Case = LeftOut<RestoreRule>;

const std::string kStopping = events_of(kUntilRestorer) + "2 stop 0\n";
const std::string kFailed = events_of(kUntilRestorer) + "2 child-ended 0 exit=69\n3 tree-gone 0\n";
const std::string kIsRank = events_of(kUntilRestorer) + "2 woken 0 pid=10 conn=5 inc=3\n";
const char* const kAgain = "publish death 0\nring all\nadmit 0\nrestore 0 from image 7\n";
const char* const kLost = "publish death 0\nring all\nadmit 0\nlost 0: its snapshot was lost\n";
const char* const kNoLine = "kill tree 0\n";
const char* const kLineOfSignal =
    "lost 0: its written image could not be restored (signal 9, Killed)\nkill tree 0\n";

const Case kCases[] = {
    {"IfKept", RestoreRule::kIfKept,
     kIsRank + "3 initialized 0\n4 want 0\n5 image 0 pid=20 conn=6 image=8 inc=3\n"
               "6 image-ended 0 pid=20\n7 child-ended 0 signal=9\n8 tree-gone 0\n",
     "9 respawn 0 inc=4", kLost, kAgain},
    {"OnlyRestored", RestoreRule::kOnlyRestored, events_of(kUntilRestorer),
     "2 register 0 pid=10 conn=5",
     "refuse 0 on 5: it did not restore its written image\n"
     "lost 0: its process did not restore its written image\n",
     "welcome 0 on 5\n"},
    {"EndsIfUseless", RestoreRule::kEndsIfUseless, events_of(kUntilRestorer),
     "2 useless 0 pid=10 conn=5 inc=3", "refuse 0 on 5: it cannot go on\nlost 0: \n",
     "refuse 0 on 5: it cannot go on\ntell of 0: its snapshot cannot go on: \nkill tree 0\n"},
    {"EndsIfEnded", RestoreRule::kEndsIfEnded, events_of(kUntilRestorer), "2 child-ended 0 exit=69",
     "lost 0: its written image could not be restored (exit code 69)\nkill tree 0\n", kNoLine},
    {"NotIfKilled", RestoreRule::kNotIfKilled, events_of(kUntilRestorer),
     "2 child-ended 0 signal=9", kNoLine, kLineOfSignal},
    {"NotIfStopping", RestoreRule::kNotIfStopping, kStopping, "3 child-ended 0 signal=15", kNoLine,
     "lost 0: its written image could not be restored (signal 15, Terminated)\nkill tree 0\n"},
    {"NeverAgain", RestoreRule::kNeverAgain, kFailed, "4 respawn 0 inc=4", kLost, kAgain},
    {"SaidOnce", RestoreRule::kSaidOnce, events_of(kUntilRestorer) + "2 register 0 pid=10 conn=5\n",
     "3 register 0 pid=10 conn=6", "refuse 0 on 6: it did not restore its written image\n",
     "refuse 0 on 6: it did not restore its written image\n"
     "lost 0: its process did not restore its written image\n"},
    {"UntilWelcome", RestoreRule::kUntilWelcome, kIsRank, "3 child-ended 0 signal=11", kNoLine,
     "lost 0: its written image could not be restored (signal 11, Segmentation fault)\n"
     "kill tree 0\n"},
    {"OverIfStopped", RestoreRule::kOverIfStopped, events_of(kUntilRestoring), "2 stop 0",
     "all over\n", ""},
};

class RestoreRules : public testing::TestWithParam<Case> {};

TEST_P(RestoreRules, LeftOutIsNoticed) { expect_noticed<CorePlayer>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Rules, RestoreRules, testing::ValuesIn(kCases),
                         name_of_left_out<RestoreRule>);

TEST(AllRestoreRules, HaveACaseEach) { expect_a_case_each(kCases, RestoreRule::kOverIfStopped); }

TEST(MachineMark, OnlyWhatIsMissingIsAnObjection) {
  const MachineMark here = machine_mark();
  EXPECT_EQ(here.vdso.size(), 16u);
  EXPECT_EQ(machine_mark().vdso, here.vdso);
  EXPECT_EQ(lacking(here, here), "");
  MachineMark then = here;
  then.cpu_features.push_back("avx1024");
  EXPECT_EQ(lacking(here, then), "");
  EXPECT_EQ(lacking(then, here), "the processor feature avx1024, which this one lacks");
  then.vdso = "0";
  EXPECT_EQ(lacking(then, here), "another kernel (its vdso differs)");
}

}  // namespace
}  // namespace rejoin::launcher
