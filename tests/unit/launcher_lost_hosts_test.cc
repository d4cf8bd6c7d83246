// The loss of one or two hosts: what the supervisor decides.
#include "hosts_transcript.h"

namespace rejoin::launcher {
namespace {

TEST(LossOfAHost, AllGoBackAndItsRanksGoOnOnASpare) {
  expect_transcript(two_hosts(true), kStored + R"(> 10 agent-lost 0 host=1 : was ended
record host_lost
roll back as 1
replace host 1 at c: set 1 of host 0 as 1
> 11 rolled-back 0 host=0 value=1 replay_ms=3 code=1
> 12 rolled-back 0 host=1 value=1 replay_ms=4 code=1
record rollback
news: host b is lost: its agent was ended; its ranks go on on host c; all 2 ranks go back 4.0 ms, to their newest snapshots
wake
> 13 registered 0
record register rank 0 incarnation 1
> 14 agent-lost 0 host=0 : was ended
record host_lost
stop
tell: host a is lost: its agent was ended; host b, which held its part of the snapshots, was lost before it, so the job ends
record stop code 1
)",
                    2);
}

TEST(LossOfAHost, OfItsSuccessorEndsTheJob) {
  expect_transcript(two_hosts(true), kStored + R"(> 10 agent-lost 0 host=1 : was ended
record host_lost
roll back as 1
replace host 1 at c: set 1 of host 0 as 1
> 11 agent-lost 0 host=1 : cannot be started
record host_lost
stop
tell: host c is lost: its agent cannot be started; its ranks cannot go on there, so the job ends
record stop code 1
> 12 rolled-back 0 host=0 value=1 replay_ms=3 code=1
)",
                    2);
}

TEST(LossOfAHost, OfItsSuccessorIsSurvivedIfThereIsAnotherPlace) {
  const std::string lost = kStored + R"(> 10 agent-lost 0 host=1 : was ended
record host_lost
roll back as 1
replace host 1 at c: set 1 of host 0 as 1
> 11 rolled-back 0 host=0 value=1 replay_ms=3 code=1
> 12 agent-lost 0 host=1 : cannot be started
news: host b is lost: its agent was ended; its ranks go on on host c
record host_lost
roll back as 2
)";
  RunOptions options = two_hosts(true);
  options.spare_hosts = {"c", "d"};
  expect_transcript(options, lost + R"(replace host 1 at d: set 1 of host 0 as 2
> 13 agent-lost 0 host=1 : cannot be started
record host_lost
stop
tell: host d is lost: its agent cannot be started; its ranks cannot go on there, so the job ends
record stop code 1
)",
                    2);
  options.spare_hosts = {"c"};
  options.beside = true;
  expect_transcript(options, lost + R"(replace host 1 at a: set 1 of host 0 as 2
> 13 rolled-back 0 host=0 value=1 replay_ms=3 code=1
> 14 rolled-back 0 host=0 value=1 replay_ms=3 code=2
> 15 agent-lost 0 host=1 : cannot be started
record host_lost
stop
tell: host a is lost: its agent cannot be started; its ranks cannot go on there, so the job ends
record stop code 1
)",
                    2);
}

RunOptions four_hosts() {
  RunOptions options = two_hosts(true);
  options.programs[0].ranks = 4;
  options.layout = {1, 1, 1, 1};
  options.hosts = {"a", "b", "c", "d"};
  options.spare_hosts = {"e", "f"};
  return options;
}

// Their ranks go on beside others.
RunOptions four_without_spares() {
  RunOptions options = four_hosts();
  options.spare_hosts.clear();
  options.beside = true;
  return options;
}

const std::string kFourRun = [] {
  std::string text = "\n";
  for (const char* rank : {"0", "1", "2", "3"}) {
    text += std::string("> 1 registered ") + rank + "\nrecord register rank " + rank +
            " incarnation 0\n> 2 initialized " + rank + "\nrecord init rank " + rank +
            " incarnation 0\n";
  }
  return text;
}();

// Each host's part is with the one behind it.
const std::string kFourStored = [] {
  std::string text = kFourRun;
  text += "> 3 images-due 0 host=1\nwant set 1\n";
  for (const char* host : {"0", "1", "2", "3"}) {
    text += std::string("> 5 of-set 0 host=") + host + " value=1 code=0\n";
  }
  text += "store parts of set 1: 1 2 3 0\n";
  for (const char* host : {"0", "1", "2", "3"}) {
    text += std::string("> 6 of-set 0 host=") + host + " value=1 code=4\n";
  }
  return text + "keep set 1\nrecord stored\n";
}();

TEST(LossOfTwoHosts, IsSurvivedIfOthersHaveTheirParts) {
  expect_transcript(four_hosts(), kFourStored + R"(> 10 agent-lost 0 host=1 : was ended
record host_lost
roll back as 1
replace host 1 at e: set 1 of host 2 as 1
> 11 rolled-back 0 host=0 value=1 replay_ms=3 code=1
> 12 agent-lost 0 host=3 : was ended
news: host b is lost: its agent was ended; its ranks go on on host e
record host_lost
roll back as 2
replace host 1 at e: set 1 of host 2 as 2
replace host 3 at f: set 1 of host 0 as 2
> 13 rolled-back 0 host=1 value=1 replay_ms=3 code=1
> 14 rolled-back 0 host=0 value=1 replay_ms=3 code=2
> 15 rolled-back 0 host=1 value=1 replay_ms=3 code=2
> 16 rolled-back 0 host=2 value=1 replay_ms=3 code=2
> 17 rolled-back 0 host=3 value=1 replay_ms=3 code=2
record rollback
news: host d is lost: its agent was ended; its ranks go on on host f; all 4 ranks go back 3.0 ms, to their newest snapshots
wake
)",
                    4);
}

TEST(LossOfTwoHosts, NoPlaceIsTriedTwice) {
  expect_transcript(four_without_spares(), kFourStored + R"(> 10 agent-lost 0 host=1 : was ended
record host_lost
roll back as 1
replace host 1 at c: set 1 of host 2 as 1
> 11 agent-lost 0 host=1 : cannot be started
news: host b is lost: its agent was ended; its ranks go on on host c
record host_lost
roll back as 2
replace host 1 at d: set 1 of host 2 as 2
> 12 agent-lost 0 host=1 : cannot be started
news: host c is lost: its agent cannot be started; its ranks go on on host d
record host_lost
roll back as 3
replace host 1 at a: set 1 of host 2 as 3
> 13 agent-lost 0 host=1 : cannot be started
record host_lost
stop
tell: host a is lost: its agent cannot be started; its ranks cannot go on there, so the job ends
record stop code 1
)",
                    4);
}

// The ranks of the first were to go on on the second, of which it was not known yet.
TEST(LossOfTwoHosts, NoHostBeginsAgainOnOneThatIsLost) {
  RunOptions options = four_without_spares();
  options.survive_host = false;
  options.begin_again = true;
  options.checkpoint_directory = "saved";
  expect_transcript(options, kFourRun + R"(> 10 agent-lost 0 host=1 : was ended
stop
kill now
record begin_again
news: the agent of host b was ended, and its ranks have ended with it; the job begins again
> 11 agent-lost 0 host=2 : was ended
> 12 all-over 0 host=0
> 13 all-over 0 host=3
begin again, 1 in all, on a d d d
)",
                    4);
}

TEST(LossOfTwoHosts, NoHostIsReplacedOnOneThatIsLost) {
  RunOptions options = four_without_spares();
  options.checkpoint_directory = "saved";  // has all parts
  expect_transcript(options, kFourStored + R"(record images
set 1 is stored
> 10 agent-lost 0 host=1 : was ended
record host_lost
roll back as 1
replace host 1 at c: set 1 of host 3 as 1
> 11 agent-lost 0 host=2 : was ended
news: host b is lost: its agent was ended; its ranks go on on host c
record host_lost
roll back as 2
replace host 1 at d: set 1 of host 0 as 2
replace host 2 at d: set 1 of host 0 as 2
)",
                    4);
}

TEST(LossOfTwoHosts, EndsTheJobIfOneHadThePartOfTheOther) {
  expect_transcript(four_hosts(), kFourStored + R"(> 10 agent-lost 0 host=1 : was ended
record host_lost
roll back as 1
replace host 1 at e: set 1 of host 2 as 1
> 12 agent-lost 0 host=2 : was ended
record host_lost
stop
tell: host c is lost: its agent was ended; it held the part of the snapshots of host b, whose ranks are being started elsewhere, so the job ends
record stop code 1
)",
                    4);
}

TEST(LossOfAHost, EndsTheJobBeforeTheFirstSet) {
  expect_transcript(two_hosts(true), kBothRun + R"(> 10 agent-lost 0 host=1 : was ended
record host_lost
stop
tell: host b is lost: its agent was ended; there is no set of snapshots of all ranks yet, so the job ends
record stop code 1
)",
                    2);
}

TEST(LossOfAHost, PartsThatCannotBeStoredLeaveTheFormerSet) {
  expect_transcript(two_hosts(true), kStored + R"(> 20 images-due 0 host=1
want set 2
> 21 of-set 0 host=0 value=2 code=0
> 22 of-set 0 host=1 value=2 code=0
store parts of set 2: 1 0
> 23 of-set 0 host=1 value=2 code=5
give up set 2
> 24 of-set 0 host=0 value=2 code=4
> 25 agent-lost 0 host=0 : was ended
record host_lost
roll back as 1
replace host 0 at c: set 1 of host 1 as 1
)",
                    2);
}

}  // namespace
}  // namespace rejoin::launcher
