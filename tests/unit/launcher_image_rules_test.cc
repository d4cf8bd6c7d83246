// Each rule of the agent's core about images, with the actions that follow if it is left out.
#include <gtest/gtest.h>

#include "agent_preludes.h"
#include "left_out.h"

namespace rejoin::launcher {
namespace {

using Case = LeftOut<ImageRule>;

const std::string kRunning = events_of(kUntilRuns);
const std::string kKept = events_of(kUntilKept);
const std::string kReported = events_of(kKilled);
const std::string kWaking = events_of(kUntilWaking);
const std::string kWoken = kWaking +
                           "10 forked 0 pid=30 inc=1\n"
                           "11 woken 0 pid=30 conn=8 inc=1\n"
                           "12 initialized 0\n";
const std::string kSet = events_of(kSetKept);
const std::string kEndedWell = "14 child-ended 0 exit=0\n";

const Case kCases[] = {
    {"KeepRegistered", ImageRule::kKeepRegistered, kRunning, "4 want 0",
     "want set 1\nwant image 1 of 0\n",
     "want set 1\nwant image 1 of 0\nkeep image 1 of 0, pid 0\n"},
    {"FormerUntilThen", ImageRule::kFormerUntilThen, kKept, "6 want 0",
     "want set 2\nwant image 2 of 0\n", "want set 2\nwant image 2 of 0\nend image of 0, pid 20\n"},
    {"WakeKept", ImageRule::kWakeKept,
     kKept + "6 want 0\n6 image 0 pid=21 conn=7 image=2 inc=0\n" + kReported, "9 respawn 0 inc=1",
     "publish death 0\nring all\nadmit 0\nwake image 2 of 0\n",
     "publish death 0\nring all\nadmit 0\nwake image 1 of 0\n"},
    {"KeepFirst", ImageRule::kKeepFirst, kKept + "6 want 0\n",
     "6 image 0 pid=21 conn=7 image=2 inc=0", "keep image 2 of 0, pid 21\nend image of 0, pid 20\n",
     "end image of 0, pid 20\nkeep image 2 of 0, pid 21\n"},
    // The death has given no set up, because the image was requested to truncate the journal.
    {"OfThisIncarnation", ImageRule::kOfThisIncarnation,
     kKept + "6 want-to-truncate 0\n" + kReported + "9 respawn 0 inc=1\n" +
         "10 forked 0 pid=30 inc=1\n11 woken 0 pid=30 conn=8 inc=1\n",
     "12 image 0 pid=21 conn=7 image=2 inc=0", "refuse 0 on 7: this image comes too late\n",
     "keep image 2 of 0, pid 21\nend image of 0, pid 20\n"},
    // A rank that was woken has made an image for a request that its predecessor had not handled.
    {"NumberWanted", ImageRule::kNumberWanted,
     kKept + "6 want 0\n" + kReported + "9 respawn 0 inc=1\n" +
         "10 forked 0 pid=30 inc=1\n11 woken 0 pid=30 conn=8 inc=1\n12 initialized 0\n"
         "12 live 0\n13 want 0\n",
     "14 image 0 pid=21 conn=7 image=2 inc=1", "refuse 0 on 7: this image comes too late\n",
     "keep image 2 of 0, pid 21\nend image of 0, pid 20\n"},
    {"OnlyInFlight", ImageRule::kOnlyInFlight, kRunning + "4 want 0\n5 end-images 0\n",
     "6 image 0 pid=20 conn=6 image=1 inc=0", "refuse 0 on 6: this image comes too late\n",
     "keep image 1 of 0, pid 20\n"},
    {"OneInFlight", ImageRule::kOneInFlight, kRunning + "4 want-to-truncate 0\n",
     "5 want-to-truncate 0", "", "want image 2 of 0\n"},
    {"MainWhileNoneKept", ImageRule::kMainWhileNoneKept, kWaking, "10 image-ended 0 pid=20",
     "ask for images\nlost 0: its snapshot was lost\n", "ask for images\nspawn 0\n"},
    {"NewestWake", ImageRule::kNewestWake, kWaking, "10 woken 0 pid=29 conn=8 inc=0",
     "refuse 0 on 8: this rank has gone on without it\n", "adopt 0, pid 29\nwelcome 0 on 8\n"},
    {"AdmitOnce", ImageRule::kAdmitOnce, kWoken, "13 woken 0 pid=31 conn=9 inc=1",
     "refuse 0 on 9: this rank has gone on without it\n", "welcome 0 on 9\n"},
    {"DecideAgain", ImageRule::kDecideAgain, kWaking, "10 image-ended 0 pid=20",
     "ask for images\nlost 0: its snapshot was lost\n", "ask for images\n"},
    {"ForgetEnded", ImageRule::kForgetEnded, kKept + "6 image-ended 0 pid=20\n" + kReported,
     "9 respawn 0 inc=1", "publish death 0\nring all\nadmit 0\nlost 0: its snapshot was lost\n",
     "publish death 0\nring all\nadmit 0\nwake image 1 of 0\n"},
    {"AskAgain", ImageRule::kAskAgain, kKept, "6 image-ended 0 pid=20", "ask for images\n", ""},
    {"EndedUnregistered", ImageRule::kEndedUnregistered,
     kKept + "6 want 0\n7 image-ended 0 pid=21 image=2\n", "8 want 0",
     "want set 3\nwant image 3 of 0\n", ""},
    {"NoneOfFinalized", ImageRule::kNoneOfFinalized, kRunning + "4 finalized 0\n", "5 want 0", "",
     "want set 1\nwant image 1 of 0\n"},
    {"EndWithRank", ImageRule::kEndWithRank,
     kRunning + "4 want-to-truncate 0\n5 image 0 pid=20 conn=6 image=1 inc=0\n" +
         "13 finalized 0\n" + kEndedWell,
     "15 output-ended 0", "drain 0\nreport 0 ended by exit code 0 at 14\nend image of 0, pid 20\n",
     "drain 0\nreport 0 ended by exit code 0 at 14\n"},
    {"StaysForSet", ImageRule::kStaysForSet, kKept + "13 finalized 0\n" + kEndedWell,
     "15 output-ended 0", "drain 0\nreport 0 ended by exit code 0 at 14\n",
     "drain 0\nreport 0 ended by exit code 0 at 14\nend image of 0, pid 20\n"},
    {"EndWithJob", ImageRule::kEndWithJob, kKept, "6 stop 0",
     "end image of 0, pid 20\nterminate 0\n", "terminate 0\n"},
    {"KeepTogether", ImageRule::kKeepTogether, events_of(kTwoRun) + "4 want 0\n",
     "5 image 0 pid=20 conn=7 image=1 inc=0", "", "keep image 1 of 0, pid 20\n"},
    {"GiveUpAtDeath", ImageRule::kGiveUpAtDeath, kSet + events_of(kSecondAwaited),
     "9 child-ended 0 signal=9", "end image of 1, pid 23\nkill tree 0\n", "kill tree 0\n"},
    {"SetStays", ImageRule::kSetStays, kSet + "7 child-ended 0 signal=9\n", "8 want 0", "",
     "want image 2 of 1\n"},
    // Without it, a rank whose processes are being killed would be started again.
    {"KillAllFirst", ImageRule::kKillAllFirst, kSet, "7 roll-back 0 inc=1",
     "kill tree 0\nkill tree 1\n",
     "kill tree 0\nkill tree 1\nput back set 1\nring all\nreport all ranks back at set 1\n"},
};

class ImageRules : public testing::TestWithParam<Case> {};

TEST_P(ImageRules, LeftOutIsNoticed) {
  // Cases of sets have two ranks.
  if (GetParam().rule < ImageRule::kKeepTogether) return expect_noticed<CorePlayer>(GetParam());
  expect_noticed<PairPlayer>(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Rules, ImageRules, testing::ValuesIn(kCases), name_of_left_out<ImageRule>);

TEST(AllImageRules, HaveACaseEach) { expect_a_case_each(kCases, ImageRule::kKillAllFirst); }

}  // namespace
}  // namespace rejoin::launcher
