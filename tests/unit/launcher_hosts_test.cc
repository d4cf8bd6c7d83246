// Sets of images over several hosts: what the supervisor decides, and what a host's agent makes of
// it.
#include "agent_transcript.h"
#include "hosts_transcript.h"

namespace rejoin::launcher {
namespace {

TEST(SetsOfHosts, AreKeptWhenAllHaveMadeThem) {
  expect_transcript(two_hosts(false), kBothRun + R"(> 3 images-due 0 host=1
want set 1
> 4 images-due 0 host=0
> 5 of-set 0 host=0 value=1 code=0
> 6 of-set 0 host=1 value=1 code=0
keep set 1
> 7 of-set 0 host=0 value=1 code=6
> 8 images-due 0 host=0
> 9 of-set 0 host=1 value=1 code=6
> 10 images-due 0 host=0
want set 2
)",
                    2);
}

TEST(SetsOfHosts, AreGivenUpIfARankDies) {
  expect_transcript(two_hosts(false), kBothRun + R"(> 3 images-due 0 host=1
want set 1
> 5 of-set 0 host=0 value=1 code=0
> 6 of-set 0 host=1 value=1 code=2
give up set 1
> 7 of-set 0 host=0 value=1 code=6
> 8 of-set 0 host=1 value=1 code=6
> 9 diverged 0 : it differs
record diverged rank 0 incarnation 0
stop
tell: it differs
record stop code 1
)",
                    2);
}

TEST(SetsOfHosts, AreKeptOneByOneIfARankCannotMakeItsImage) {
  expect_transcript(two_hosts(false), kBothRun + R"(> 3 images-due 0 host=1
want set 1
> 5 of-set 0 host=0 value=1 code=1
keep images 1
> 7 of-set 0 host=0 value=1 code=6
> 8 of-set 0 host=1 value=1 code=6
> 9 images-due 0 host=1 code=1
want images 2 of host 1
)",
                    2);
}

// A job whose first set is stored. Storing has cost `each_ms` of processor time on each host.
std::string stored_at(int each_ms) {
  std::string text = kStored;
  const std::string stored = "code=4", cost = " takes_ms=" + std::to_string(each_ms);
  for (std::size_t at = 0; (at = text.find(stored, at)) != std::string::npos;) {
    text.insert(at += stored.size(), cost);
  }
  return text;
}

TEST(StoredSetsOfHosts, TakeThreePercentOfTheTime) {
  expect_transcript(two_hosts(true), stored_at(1) + R"(> 71 images-due 0 host=0
> 72 images-due 0 host=0
want set 2
)",
                    2);
}

TEST(StoredSetsOfHosts, TakeAFifthIfARankWaitsForThem) {
  expect_transcript(two_hosts(true), stored_at(1) + R"(> 15 images-due 0 host=0 code=1
> 16 images-due 0 host=0 code=1
want set 2
)",
                    2);
}

TEST(StoredSetsOfHosts, TakeAFifthIfTheUserSaysWhenImagesAreMade) {
  RunOptions options = two_hosts(true);
  options.snapshots.when = SnapshotOptions::When::kPeriod;
  expect_transcript(options, stored_at(1) + R"(> 15 images-due 0 host=0
> 16 images-due 0 host=0
want set 2
)",
                    2);
}

TEST(StoredSetsOfHosts, TakeHalfIfMoreMemoryOfJournalsCostsAsMuch) {
  expect_transcript(two_hosts(true), stored_at(1) + R"(> 9.5 images-due 0 host=0 takes_ms=2
> 10 images-due 0 host=0 takes_ms=1
> 11 images-due 0 host=0 takes_ms=2
want set 2
)",
                    2);
}

TEST(StoredSetsOfHosts, CostNoMoreThanTheTimeInWhichTheyAreStored) {
  expect_transcript(two_hosts(true), stored_at(90) + R"(> 167 images-due 0 host=0
> 168 images-due 0 host=0
want set 2
)",
                    2);
}

TEST(StoredSetsOfHosts, TakeAFifthIfJournalsAreNearlyFull) {
  expect_transcript(two_hosts(true), stored_at(1) + R"(> 15 images-due 0 host=0 code=2
> 16 images-due 0 host=0 code=2
want set 2
)",
                    2);
}

// The clocks of hosts are compared to some milliseconds only.
TEST(StoredSetsOfHosts, MayBeStoredBeforeTheyWereWanted) {
  SupervisorCore core(two_hosts(true), {}, 2);
  const auto step = [&](std::uint64_t at_ms, std::uint32_t host, auto what) {
    Event e = {at_ms * 1'000'000, 0, what};
    e.host = host;
    return core.step(e);
  };
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    core.step({1, rank, Event::Registered{1}});
    core.step({2, rank, Event::Initialized{}});
  }
  step(30, 1, Event::ImagesDue{});
  for (std::uint32_t host = 0; host < 2; ++host) step(31, host, Event::OfSet{1, SetNews::kMade});
  step(29, 0, Event::OfSet{1, SetNews::kStored, {}, 1'000'000});
  bool is_stored = false;
  for (const Action& action : step(29, 1, Event::OfSet{1, SetNews::kStored, {}, 1'000'000})) {
    const auto* log = std::get_if<Action::Log>(&action.what);
    if (log == nullptr || log->record.event != std::string("stored")) continue;
    is_stored = true;
    EXPECT_EQ(log->record.age_ns, 0u);
    EXPECT_EQ(log->record.cost_ns, 0u);
  }
  EXPECT_TRUE(is_stored);
}

TEST(StoredSetsOfHosts, CountIfTheyWereGivenUp) {
  expect_transcript(two_hosts(true), stored_at(1) + R"(> 100 images-due 0 host=0
want set 2
> 101 of-set 0 host=0 value=2 code=0
> 102 of-set 0 host=1 value=2 code=0
store parts of set 2: 1 0
> 110 of-set 0 host=1 value=2 code=4 takes_ms=4
> 111 of-set 0 host=0 value=2 code=5 takes_ms=4
give up set 2
> 112 of-set 0 host=0 value=2 code=6
> 112 of-set 0 host=1 value=2 code=6
> 135 images-due 0 host=0
> 263 images-due 0 host=0
> 264 images-due 0 host=0
want set 3
)",
                    2);
}

// --- Hosts that join

RunOptions two_that_joined() {
  RunOptions options = two_hosts(true);
  options.spare_hosts.clear();
  options.listen = ":7000";
  options.join_ns = 60'000'000'000;
  return options;
}

TEST(HostThatJoins, TakesThePlaceOfOneThatIsLost) {
  expect_transcript(two_that_joined(), kStored + R"(> 10 spare 0 : c
record joined
news: host c has joined as a spare
> 11 spare-left 0 : c
tell: host c, which ran no rank, has closed its connection
> 12 agent-lost 0 host=1 : was ended
record host_lost
roll back as 1
replace host 1 at : set 1 of host 0 as 1
> 13 rolled-back 0 host=0 value=1 replay_ms=3 code=1
> 14 spare 0 host=1 code=1 : d
record joined
news: host d has joined and takes the place of host b
> 15 rolled-back 0 host=1 value=1 replay_ms=4 code=1
record rollback
news: host b is lost: its agent was ended; its ranks go on on the next host that joins, within 60.0 s; all 2 ranks go back 4.0 ms, to their newest snapshots
wake
)",
                    2);
}

TEST(HostThatJoins, IsASpareForTheNextLoss) {
  expect_transcript(two_that_joined(), kStored + R"(> 10 spare 0 : c
record joined
news: host c has joined as a spare
> 12 agent-lost 0 host=1 : was ended
record host_lost
roll back as 1
replace host 1 at c: set 1 of host 0 as 1
)",
                    2);
}

TEST(HostThatJoins, MayNotComeInTime) {
  expect_transcript(two_that_joined(), kStored + R"(> 12 agent-lost 0 host=1 : was ended
record host_lost
roll back as 1
replace host 1 at : set 1 of host 0 as 1
> 70 agent-lost 0 host=1 : has gone, and no other one has joined
record host_lost
stop
tell: host b is lost: its agent has gone, and no other one has joined; its ranks cannot go on there, so the job ends
record stop code 1
)",
                    2);
}

TEST(HostThatJoins, IsAwaitedByOneThatIsAboutToGo) {
  expect_transcript(two_that_joined(), kStored + R"(> 10 host-notice 0 host=1
record notice
tell: host b is about to go (its agent has got SIGTERM): its ranks will go on elsewhere as soon as their state is stored
want set 2
> 11 of-set 0 host=0 value=2 code=0
> 12 of-set 0 host=1 value=2 code=0
store parts of set 2: 1 0
> 13 of-set 0 host=0 value=2 code=4
> 14 of-set 0 host=1 value=2 code=4
keep set 2
record stored
> 15 of-set 0 host=0 value=2 code=6
> 16 of-set 0 host=1 value=2 code=6
> 20 tick 0
> 40 spare 0 : c
record joined
news: host c has joined as a spare
> 60 tick 0
want set 3
> 61 of-set 0 host=0 value=3 code=0
> 62 of-set 0 host=1 value=3 code=0
store parts of set 3: 1 0
> 63 of-set 0 host=0 value=3 code=4
> 64 of-set 0 host=1 value=3 code=4
keep set 3
record stored
> 65 tick 0
record host_lost
roll back as 1
replace host 1 at c: set 3 of host 0 as 1
)",
                    2);
}

// --- Sets in --checkpoint-dir

RunOptions written_by_two_hosts(bool survive) {
  RunOptions options = two_hosts(survive);
  options.checkpoint_directory = "d";
  options.image_period_ns = 100'000'000;
  options.grace_ns = 50'000'000;
  return options;
}

const std::string kBothKeep = kBothRun + R"(> 3 images-due 0 host=1
want set 1
> 5 of-set 0 host=0 value=1 code=0
> 6 of-set 0 host=1 value=1 code=0
keep set 1
store parts of set 1: 1 0
> 9 of-set 0 host=0 value=1 code=6
> 9 of-set 0 host=1 value=1 code=6
)";

TEST(WrittenSetsOfHosts, AreStoredWhenAllPartsAre) {
  expect_transcript(written_by_two_hosts(false), kBothKeep + R"(> 10 of-set 0 host=1 value=1 code=4
> 20 images-due 0 host=1
want set 2
> 21 of-set 0 host=0 value=2 code=0
> 22 of-set 0 host=1 value=2 code=0
keep set 2
> 23 of-set 0 host=0 value=1 code=4
record images
set 1 is stored
> 24 of-set 0 host=0 value=2 code=6
> 25 of-set 0 host=1 value=2 code=6
> 107 images-due 0 host=1
store parts of set 2: 1 0
want set 3
)",
                    2);
}

TEST(WrittenSetsOfHosts, AreTriedAgainAfterAFailure) {
  expect_transcript(written_by_two_hosts(false), kBothKeep + R"(> 10 of-set 0 host=1 value=1 code=5
> 11 of-set 0 host=0 value=1 code=4
> 20 images-due 0 host=1
want set 2
> 21 of-set 0 host=0 value=2 code=0
> 23 of-set 0 host=1 value=2 code=0
keep set 2
store parts of set 2: 1 0
)",
                    2);
}

TEST(WrittenSetsOfHosts, AreWhereALostHostGoesOn) {
  expect_transcript(written_by_two_hosts(true), kBothRun + R"(> 3 images-due 0 host=1
want set 1
> 5 of-set 0 host=0 value=1 code=0
> 6 of-set 0 host=1 value=1 code=0
store parts of set 1: 1 0
> 7 of-set 0 host=1 value=1 code=4
> 8 of-set 0 host=0 value=1 code=4
keep set 1
record stored
record images
set 1 is stored
> 9 of-set 0 host=0 value=1 code=6
> 9 of-set 0 host=1 value=1 code=6
> 10 agent-lost 0 host=1 : was ended
record host_lost
roll back as 1
replace host 1 at c: set 1 of host 0 as 1
)",
                    2);
}

// --- Notices

TEST(NoticeOfAJob, EndsItWhenANewerSetIsWritten) {
  expect_transcript(written_by_two_hosts(false), kBothKeep + R"(> 10 of-set 0 host=0 value=1 code=4
> 11 of-set 0 host=1 value=1 code=4
record images
set 1 is stored
> 12 signal 0 code=15
record notice
tell: signal 15 (Terminated) is taken for a notice: the job's state is being written to d, for 50.0 ms at most, and the job ends; another signal ends it at once
want set 2
> 13 of-set 0 host=0 value=2 code=2
give up set 2
> 14 of-set 0 host=0 value=2 code=6
> 15 of-set 0 host=1 value=2 code=6
> 16 tick 0
want set 3
> 17 of-set 0 host=0 value=3 code=0
> 18 of-set 0 host=1 value=3 code=0
keep set 3
store parts of set 3: 1 0
> 19 of-set 0 host=1 value=3 code=4
> 20 of-set 0 host=0 value=3 code=4
record images
set 3 is stored
stop
tell: the job's state was written to d, and the job ends; --resume goes on from there
record stop code 75
)",
                    2);
}

TEST(NoticeOfAJob, EndsItAtTheEndOfTheGracePeriod) {
  expect_transcript(written_by_two_hosts(false), kBothRun + R"(> 12 signal 0 code=15
record notice
tell: signal 15 (Terminated) is taken for a notice: the job's state is being written to d, for 50.0 ms at most, and the job ends; another signal ends it at once
want set 1
> 62 tick 0
> 63 tick 0
stop
tell: no state was written within 50.0 ms, so the job ends, and has to begin anew
record stop code 143
)",
                    2);
}

TEST(NoticeOfAJob, OfOneHostIsCarriedOutByItsAgent) {
  RunOptions options = written_by_two_hosts(false);
  options.between_nodes = BetweenNodes::kMemory;
  expect_transcript(options, kBothRun + R"(> 12 signal 0 code=15
record notice
tell: signal 15 (Terminated) is taken for a notice: the job's state is being written to d, for 50.0 ms at most, and the job ends; another signal ends it at once
write now
> 13 images-written 0 : d
record images
stop
tell: the job's state was written to d, and the job ends; --resume goes on from there
record stop code 75
)");
  expect_transcript(options, kBothRun + R"(> 12 signal 0 code=15
record notice
tell: signal 15 (Terminated) is taken for a notice: the job's state is being written to d, for 50.0 ms at most, and the job ends; another signal ends it at once
write now
> 13 has-versions 0
stop
tell: the program's newest checkpoint is in d, and the job ends; --resume goes on from there
record stop code 75
)");
}

TEST(NoticeOfAHost, IsInVainIfTheJournalIsFull) {
  expect_transcript(two_hosts(true), kStored + R"(> 40 limit 0
let recycle
record limit rank 0 incarnation 0
tell: the journal is full (0 bytes): the job goes on, but from now on the death of a rank ends it; --journal-limit makes it larger
> 41 host-notice 0 host=1
tell: host b is about to go (its agent has got SIGTERM), but its ranks stay there: the journal is full, and the past cannot be replayed elsewhere
)",
                    2);
  expect_transcript(two_hosts(true), kStored + R"(> 40 host-notice 0 host=1
record notice
tell: host b is about to go (its agent has got SIGTERM): its ranks will go on elsewhere as soon as their state is stored
want set 2
> 41 limit 0
let recycle
record limit rank 0 incarnation 0
tell: the journal is full (0 bytes): the job goes on, but from now on the death of a rank ends it; --journal-limit makes it larger
> 42 tick 0
tell: the ranks of host b stay there: the journal is full, and the past cannot be replayed elsewhere
)",
                    2);
}

TEST(FullJournalOfHosts, IsNotUsedAgainForResultsIfThreadsMayCall) {
  expect_transcript(two_hosts(true), R"(
> 1 registered 0
record register rank 0 incarnation 0
> 1 registered 1
record register rank 1 incarnation 0
> 2 initialized 0
record init rank 0 incarnation 0
> 2 initialized 1 code=1
record init rank 1 incarnation 0
> 40 limit 0
let recycle, but no results
record limit rank 0 incarnation 0
tell: the journal is full (0 bytes): the job goes on, but from now on the death of a rank ends it; --journal-limit makes it larger
)",
                    2);
}

TEST(NoticeOfAHost, MovesItsRanksBehindANewerSet) {
  expect_transcript(two_hosts(true), kStored + R"(> 40 host-notice 0 host=1
record notice
tell: host b is about to go (its agent has got SIGTERM): its ranks will go on elsewhere as soon as their state is stored
want set 2
> 41 of-set 0 host=0 value=2 code=0
> 42 of-set 0 host=1 value=2 code=0
store parts of set 2: 1 0
> 43 tick 0
> 44 of-set 0 host=1 value=2 code=4
> 45 of-set 0 host=0 value=2 code=4
keep set 2
record stored
> 46 tick 0
record host_lost
roll back as 1
replace host 1 at c: set 2 of host 0 as 1
> 47 tick 0
)",
                    2);
}

TEST(NoticeOfAHost, WaitsForTheNextSetIfAnotherHostWasLost) {
  RunOptions options = two_hosts(true);
  options.spare_hosts = {"c", "d"};
  expect_transcript(options, kStored + R"(> 40 host-notice 0 host=1
record notice
tell: host b is about to go (its agent has got SIGTERM): its ranks will go on elsewhere as soon as their state is stored
want set 2
> 41 of-set 0 host=0 value=2 code=0
> 42 of-set 0 host=1 value=2 code=0
store parts of set 2: 1 0
> 44 of-set 0 host=1 value=2 code=4
> 45 of-set 0 host=0 value=2 code=4
keep set 2
record stored
> 46 agent-lost 0 host=0 : was ended
record host_lost
roll back as 1
replace host 0 at c: set 2 of host 1 as 1
> 47 rolled-back 0 host=0 value=2 replay_ms=3 code=1
> 48 rolled-back 0 host=1 value=2 replay_ms=4 code=1
record rollback
news: host a is lost: its agent was ended; its ranks go on on host c; all 2 ranks go back 4.0 ms, to their newest snapshots
wake
> 49 tick 0
> 50 registered 0
record register rank 0 incarnation 1
> 50 registered 1
record register rank 1 incarnation 1
> 51 initialized 0
record init rank 0 incarnation 1
> 51 initialized 1
record init rank 1 incarnation 1
> 52 live 0 replayed=0
record live rank 0 incarnation 1 replayed 0
> 53 live 1 replayed=0
record live rank 1 incarnation 1 replayed 0
> 54 tick 0
want set 3
> 61 of-set 0 host=0 value=3 code=0
> 62 of-set 0 host=1 value=3 code=0
store parts of set 3: 1 0
> 63 of-set 0 host=0 value=3 code=4
> 64 of-set 0 host=1 value=3 code=4
keep set 3
record stored
> 65 tick 0
record host_lost
roll back as 2
replace host 1 at d: set 3 of host 0 as 2
)",
                    2);
}

// --- The agent of a host of several

void expect_of_host(const std::string& transcript) {
  expect_transcript({2, 3}, false, transcript, false);
}

const std::string kRanksRun = R"(
> 0 spawn 2
admit 2
spawn 2
> 0 spawn 3
admit 3
spawn 3
> 1 spawned 2 pid=12
> 1 spawned 3 pid=13
> 2 register 2 pid=12 conn=2
welcome 2 on 2
> 2 register 3 pid=13 conn=3
welcome 3 on 3
> 3 initialized 2
> 3 initialized 3
)";

TEST(AgentOfAHost, KeepsASetWhenItIsOrderedTo) {
  expect_of_host(kRanksRun + R"(> 4 want-set 0 image=4
want set 4
want image 4 of 2
want image 4 of 3
> 5 image 2 pid=22 conn=4 image=4 inc=0
spare image of 2, pid 22
> 6 image 3 pid=23 conn=5 image=4 inc=0
spare image of 3, pid 23
tell: set 4 is made
> 7 keep-set 0 image=4
keep image 4 of 2, pid 22
keep image 4 of 3, pid 23
tell: set 4 is settled
)");
}

// Its number has come with what another host's rank has shown.
TEST(AgentOfAHost, ASetMayBeginBeforeTheOrder) {
  expect_of_host(kRanksRun + R"(> 5 image 2 pid=22 conn=4 image=4 inc=0
want set 4
want image 4 of 2
want image 4 of 3
spare image of 2, pid 22
> 6 want-set 0 image=4
> 7 image 3 pid=23 conn=5 image=4 inc=0
spare image of 3, pid 23
tell: set 4 is made
> 8 give-up-set 0 image=4
end image of 2, pid 22
end image of 3, pid 23
tell: set 4 is settled
> 9 image 3 pid=24 conn=5 image=4 inc=0
refuse 3 on 5: this image comes too late
)");
}

// A rank that dies may go on from the set, if it was complete by then.
TEST(AgentOfAHost, ADeathDoesNotDecideAboutASet) {
  expect_of_host(kRanksRun + R"(> 4 want-set 0 image=4
want set 4
want image 4 of 2
want image 4 of 3
> 5 image 2 pid=22 conn=4 image=4 inc=0
spare image of 2, pid 22
> 6 image 3 pid=23 conn=5 image=4 inc=0
spare image of 3, pid 23
tell: set 4 is made
> 7 child-ended 3 signal=9
tell: set 4 has lost a rank
kill tree 3
> 8 tree-gone 3
drain 3
report 3 ended by signal 9, Killed at 7
> 9 keep-set 0 image=4
keep image 4 of 2, pid 22
keep image 4 of 3, pid 23
tell: set 4 is settled
> 10 respawn 3 inc=1
publish death 3
ring all
admit 3
wake image 4 of 3
)");
}

// Several ranks that cannot make their images of one set count once. The fourth set in a row is
// said to be impossible, so that single images are kept.
TEST(AgentOfAHost, CountsSetsThatRanksHaveMissed) {
  std::string transcript = kRanksRun;
  for (int set = 4; set < 8; ++set) {
    const std::string n = std::to_string(set), said = set < 7 ? "comes too late" : "cannot be made";
    for (const char* line :
         {"> 4 want-set 0 image=N\nwant set N\nwant image N of 2\nwant image N of 3\n",
          "> 5 not-this-one 2 image=N\ntell: set N SAID\n",
          "> 5 not-this-one 3 image=N\ntell: set N SAID\n",
          "> 6 give-up-set 0 image=N\ntell: set N is settled\n"}) {
      std::string text = line;
      for (std::size_t at; (at = text.find('N')) != std::string::npos;) text.replace(at, 1, n);
      if (const auto at = text.find("SAID"); at != std::string::npos) text.replace(at, 4, said);
      transcript += text;
    }
  }
  expect_of_host(transcript);
}

// Rank 2 has not made image 3, and makes that of the set instead.
TEST(AgentOfAHost, ASetTakesThePlaceOfSingleImages) {
  expect_of_host(kRanksRun + R"(> 4 want-each 0 image=3
want image 3 of 2
want image 3 of 3
> 5 image 3 pid=23 conn=5 image=3 inc=0
keep image 3 of 3, pid 23
> 6 want-set 0 image=4
want set 4
want image 4 of 2
want image 4 of 3
> 7 image 2 pid=22 conn=4 image=3 inc=0
refuse 2 on 4: this image comes too late
> 8 image 2 pid=24 conn=4 image=4 inc=0
spare image of 2, pid 24
> 9 image 3 pid=25 conn=5 image=4 inc=0
spare image of 3, pid 25
tell: set 4 is made
> 10 keep-each 0 image=4
keep image 4 of 2, pid 24
keep image 4 of 3, pid 25
end image of 3, pid 23
tell: set 4 is settled
)");
}

// The images of a set that are ended because of memory are no longer waited for.
TEST(AgentOfAHost, TellsThatImagesWereEnded) {
  expect_of_host(kRanksRun + R"(> 4 want-set 0 image=4
want set 4
want image 4 of 2
want image 4 of 3
> 5 image 2 pid=22 conn=4 image=4 inc=0
spare image of 2, pid 22
> 6 end-images 0
tell: set 4 cannot be made
end image of 2, pid 22
> 7 give-up-set 0 image=4
tell: set 4 is settled
> 8 want-set 0 image=5
want set 5
want image 5 of 2
want image 5 of 3
)");
}

}  // namespace
}  // namespace rejoin::launcher
