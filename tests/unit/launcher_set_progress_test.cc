// Sets of written images: transcripts of how a set begins and ends, and each rule about sets, with
// the actions that follow if the rule is left out.
#include <gtest/gtest.h>

#include "agent_preludes.h"
#include "launcher/agent/set_progress.h"
#include "left_out.h"

namespace rejoin::launcher {
namespace {

// Plays lines of these forms:
//   AT cut R [HOW]                  begins a set of all ranks' images if that is allowed; AT in
//                                   seconds. HOW: full (the journal is full), running (a rank does
//                                   not stop), filled (the journal is full after the stop)
//   AT writing R pid= set=          the image has cloned itself for the set
//   AT not-written R set=           the image could not be written
//   AT ended R pid= signal=|exit=   a process of the set has ended
//   AT end-image R pid=             the image is to be ended, and its connection as well, except
//                                   where the answer is "listen"
//   AT over R                       the set is over
// Other lines are those of the agent's transcripts.
struct SetPlayer {
  AgentCore core{all_local(2)};
  SetProgress set;
  std::uint32_t sets = 0;

  void leave_out(SetRule rule) { set.leave_out(rule); }

  std::string cut(std::uint64_t now_s, const std::string& how) {
    const auto verdict =
        set.look(core, how == "full", now_s * 1'000'000'000, std::uint64_t{10'000'000'000});
    if (!verdict.why_not.empty()) return "no set: " + verdict.why_not + "\n";
    if (!verdict.begin || !set.may_copy(how != "running", how == "filled")) return "";
    std::map<std::uint32_t, std::int64_t> images;
    for (const std::uint32_t r : core.local()) images[r] = core.image(r).pid;
    set.begin(++sets, now_s * 1'000'000'000, images);
    std::string text = "set " + std::to_string(sets) + " of";
    for (const auto& [rank, pid] : images) text += " " + std::to_string(pid);
    return text + "\n";
  }

  std::string play(const std::string& line) {
    std::istringstream words(line);
    std::uint64_t at = 0;
    std::uint32_t rank = 0;
    std::string event, field;
    words >> at >> event >> rank;
    std::int64_t pid = 0;
    std::uint32_t number = 0;
    Cause cause = {};
    std::string how;
    while (words >> field) {
      const int value = std::atoi(field.substr(field.find('=') + 1).c_str());
      if (field.starts_with("pid")) pid = value;
      if (field.starts_with("set")) number = static_cast<std::uint32_t>(value);
      if (field.starts_with("signal")) cause = {Cause::Kind::kSignal, value};
      if (field.starts_with("exit")) cause = {Cause::Kind::kExit, value};
      if (event == "cut") how = field;
    }
    if (event == "cut") return cut(at, how);
    if (event == "end-image") {
      return set.awaits(pid) ? "not yet\n" : set.is_being_written(pid) ? "end; listen\n" : "end\n";
    }
    if (event == "over") {
      set.end();
      return "";
    }
    if (event == "writing") set.writing(rank, number, pid);
    if (event == "not-written")
      set.not_written(number, "rank " + std::to_string(rank) + " shares memory");
    if (event == "ended") set.ended(pid, cause);
    if (event != "writing" && event != "not-written" && event != "ended") {
      launcher::play(core, line);
      return "";
    }
    if (!set.fault().empty()) return "given up: " + set.fault() + "\n";
    return set.take_whole() ? "whole\n" : "";
  }
};

void expect_set_transcript(const std::string& transcript) {
  SetPlayer player;
  expect_played(transcript,
                [&](const std::string& line, std::ostream& out) { out << player.play(line); });
}

const std::string kRun = R"(
> 0 spawn 0
> 0 spawn 1
> 1 spawned 0 pid=10
> 1 spawned 1 pid=11
> 2 register 0 pid=10 conn=5
> 2 register 1 pid=11 conn=6
> 3 initialized 0
> 3 initialized 1
> 4 want 0
)";
const std::string kOneImage = kRun + "> 5 image 0 pid=20 conn=7 image=1 inc=0\n";
const std::string kImages = kOneImage + "> 5 image 1 pid=21 conn=8 image=1 inc=0\n";
const std::string kBegun = kImages + "> 6 cut 0\nset 1 of 20 21\n";
const std::string kWriting =
    kBegun + "> 7 writing 0 pid=30 set=1\n> 8 writing 1 pid=31 set=1\n> 9 ended 0 pid=30 exit=0\n";
// The first rank could not make the second image, so there are images of all ranks, but no set.
const std::string kNoSet = kImages + R"(> 6 want 0
> 7 image 1 pid=22 conn=9 image=2 inc=0
> 7 not-frozen 0 image=2
)";
// The last image cannot be written, and the other image has sent no message.
const std::string kNext = kBegun + R"(> 7 not-written 1 set=1
given up: rank 1 shares memory
> 7 over 0
> 8 cut 0
set 2 of 20 21
)";

TEST(SetProgress, WaitsForASetOfImagesButNotForLong) {
  expect_set_transcript(kNoSet + R"(> 8 cut 0
> 17 cut 0
> 18 cut 0
set 1 of 20 22
)");
}

TEST(SetProgress, IsWholeWhenEveryImageIsWritten) {
  expect_set_transcript(kOneImage + R"(> 6 cut 0
> 7 image 1 pid=21 conn=8 image=1 inc=0
> 8 cut 0
set 1 of 20 21
> 9 end-image 0 pid=20
not yet
> 10 writing 0 pid=30 set=1
> 11 end-image 0 pid=20
end; listen
> 11 end-image 0 pid=21
not yet
> 12 ended 0 pid=30 exit=0
> 13 writing 1 pid=31 set=1
> 14 ended 0 pid=20 signal=9
> 15 ended 0 pid=31 exit=0
whole
> 16 ended 0 pid=21 signal=9
> 17 cut 0
> 18 over 0
> 19 cut 0
set 2 of 20 21
)");
}

TEST(SetProgress, IsGivenUpWhenAnImageDies) {
  expect_set_transcript(kBegun + R"(> 7 ended 0 pid=21 signal=9
given up: an image died before it was written
)");
  expect_set_transcript(kWriting + R"(> 10 ended 0 pid=31 signal=9
given up: a process that wrote an image died (signal 9, Killed)
)");
  expect_set_transcript(kWriting + R"(> 10 ended 0 pid=31 exit=1
given up: a process that wrote an image died (exit code 1)
> 11 not-written 1 set=1
given up: a process that wrote an image died (exit code 1)
)");
  expect_set_transcript(kBegun + R"(> 7 writing 0 pid=0 set=1
given up: an image could not be cloned to be written
)");
}

TEST(SetProgress, IsReportedWhenItTakesMoreThanAMinute) {
  expect_set_transcript(kWriting + R"(> 65 cut 0
> 66 cut 0
> 67 cut 0
no set: the previous set is still being written
> 68 cut 0
no set: the previous set is still being written
> 69 ended 0 pid=31 exit=0
whole
> 70 over 0
> 71 cut 0
set 2 of 20 21
> 72 cut 0
)");
}

// The same images are asked once more, and their messages about the first set arrive after that.
TEST(SetProgress, MessagesAboutASetThatWasGivenUpDoNotCountForTheNext) {
  expect_set_transcript(kNext + R"(> 9 writing 0 pid=30 set=1
> 10 ended 0 pid=30 exit=0
> 11 writing 0 pid=32 set=2
> 12 not-written 1 set=1
> 13 writing 1 pid=33 set=2
> 14 ended 0 pid=32 exit=0
> 15 ended 0 pid=33 exit=0
whole
)");
}

using Case = LeftOut<SetRule>;

const std::string kMovedAway = R"(
> 0 spawn 0
> 1 spawned 0 pid=10
> 2 register 0 pid=9 conn=5
> 3 initialized 0
> 4 moves 0 pid=12 conn=6 of=9 inc=0
)";

const Case kCases[] = {
    {"OneAtATime", SetRule::kOneAtATime, events_of(kBegun), "7 cut 0", "", "set 2 of 20 21\n"},
    {"TellLong", SetRule::kTellLong, events_of(kBegun), "67 cut 0",
     "no set: the previous set is still being written\n", ""},
    {"NotWhenFull", SetRule::kNotWhenFull, events_of(kImages), "6 cut 0 full", "",
     "set 1 of 20 21\n"},
    {"NotBehindWrapper", SetRule::kNotBehindWrapper, events_of(kMovedAway), "6 cut 0",
     "no set: rank 0 is run by a script that waits for it, and --resume would not run the rest of "
     "the script; let it end by exec PROGRAM (docs/snapshots.md)\n",
     ""},
    // The only image is kept because the other rank could make none.
    {"OfAll", SetRule::kOfAll, events_of(kOneImage) + "5 not-frozen 1 image=1\n6 cut 0\n",
     "16 cut 0", "", "set 1 of 20 0\n"},
    {"WaitForSet", SetRule::kWaitForSet, events_of(kNoSet), "8 cut 0", "", "set 1 of 20 22\n"},
    {"AllStand", SetRule::kAllStand, events_of(kImages), "6 cut 0 running", "", "set 1 of 20 21\n"},
    {"NotWhenFilled", SetRule::kNotWhenFilled, events_of(kImages), "6 cut 0 filled", "",
     "set 1 of 20 21\n"},
    {"OfThisSet", SetRule::kOfThisSet, events_of(kNext) + "9 writing 0 pid=30 set=1\n",
     "10 ended 0 pid=30 signal=9", "",
     "given up: a process that wrote an image died (signal 9, Killed)\n"},
    {"AwaitClone", SetRule::kAwaitClone, events_of(kBegun), "7 end-image 0 pid=20", "not yet\n",
     "end\n"},
    {"ImageDied", SetRule::kImageDied, events_of(kBegun), "7 ended 0 pid=20 signal=9",
     "given up: an image died before it was written\n", ""},
    {"NotCloned", SetRule::kNotCloned, events_of(kBegun), "7 writing 0 pid=0 set=1",
     "given up: an image could not be cloned to be written\n", ""},
    {"EndedWell", SetRule::kEndedWell, events_of(kWriting), "10 ended 0 pid=31 signal=9",
     "given up: a process that wrote an image died (signal 9, Killed)\n", "whole\n"},
    {"AllWritten", SetRule::kAllWritten, events_of(kBegun), "7 writing 0 pid=30 set=1", "",
     "whole\n"},
    {"WholeOnce", SetRule::kWholeOnce, events_of(kWriting) + "10 ended 0 pid=31 exit=0\n",
     "11 ended 0 pid=20 signal=9", "", "whole\n"},
};

class SetRules : public testing::TestWithParam<Case> {};

TEST_P(SetRules, LeftOutIsNoticed) { expect_noticed<SetPlayer>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Rules, SetRules, testing::ValuesIn(kCases), name_of_left_out<SetRule>);

TEST(AllSetRules, HaveACaseEach) { expect_a_case_each(kCases, SetRule::kWholeOnce); }

}  // namespace
}  // namespace rejoin::launcher
