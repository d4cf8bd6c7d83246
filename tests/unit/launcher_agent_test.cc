// The agent as transcripts of events and orders.
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <string>

#include "launcher/agent/agent_core.h"
#include "transcript.h"

namespace rejoin::launcher {
namespace {

std::string to_text(const AgentAction& a) {
  using Kind = AgentAction::Kind;
  const std::string rank = std::to_string(a.rank);
  switch (a.kind) {
    case Kind::kSpawn:
      return "spawn " + rank;
    case Kind::kWelcome:
      return "welcome " + rank + " on " + std::to_string(a.connection);
    case Kind::kRefuse:
      return "refuse " + rank + " on " + std::to_string(a.connection) + ": " + a.text;
    case Kind::kTerminate:
      return "terminate " + rank;
    case Kind::kKillTree:
      return "kill tree " + rank;
    case Kind::kAwaitOutput:
      return "await output " + rank;
    case Kind::kDrain:
      return "drain " + rank;
    case Kind::kPublishDeath:
      return "publish death " + rank;
    case Kind::kRingAll:
      return "ring all";
    case Kind::kAdmit:
      return "admit " + rank;
    case Kind::kWant:
      return "want image " + std::to_string(a.number) + " of " + rank;
    case Kind::kKeep:
      return "keep image " + std::to_string(a.number) + " of " + rank + ", pid " +
             std::to_string(a.pid);
    case Kind::kEndImage:
      return "end image of " + rank + ", pid " + std::to_string(a.pid);
    case Kind::kWake:
      return "wake image " + std::to_string(a.number) + " of " + rank;
    case Kind::kAdopt:
      return "adopt " + rank + ", pid " + std::to_string(a.pid);
    case Kind::kLost:
      return "lost " + rank + ": " + a.text;
    case Kind::kReportEnded:
      return "report " + rank + " ended by " + to_text(a.cause) + " at " + std::to_string(a.at_ns);
  }
  return "?";
}

// "spawn R", "respawn R [inc=]", "want", "end-images", "stop", "kill-all" are orders; else "AT
// EVENT R [pid=] [conn=] [signal=|exit=] [image=] [inc=]".
std::vector<AgentAction> play(AgentCore& core, const std::string& line) {
  std::istringstream words(line);
  std::string name;
  AgentEvent event{};
  words >> event.at_ns >> name >> event.rank;
  if (name == "spawn") return core.spawn(event.rank);
  if (name == "want") return core.want_snapshots();
  if (name == "end-images") return core.end_images();
  if (name == "stop") return core.stop();
  if (name == "kill-all") return core.kill_all();
  using Kind = AgentEvent::Kind;
  if (name == "spawned") event.kind = Kind::kSpawned;
  if (name == "register") event.kind = Kind::kRegister;
  if (name == "initialized") event.kind = Kind::kInitialized;
  if (name == "finalized") event.kind = Kind::kFinalized;
  if (name == "child-ended") event.kind = Kind::kChildEnded;
  if (name == "registered-ended") event.kind = Kind::kRegisteredEnded;
  if (name == "tree-gone") event.kind = Kind::kTreeGone;
  if (name == "output-ended") event.kind = Kind::kOutputEnded;
  if (name == "woken") event.kind = Kind::kWoken;
  if (name == "image") event.kind = Kind::kImage;
  if (name == "not-frozen") event.kind = Kind::kNotFrozen;
  if (name == "forked") event.kind = Kind::kForked;
  if (name == "useless") event.kind = Kind::kUseless;
  if (name == "image-ended") event.kind = Kind::kImageEnded;
  std::string field;
  while (words >> field) {
    const int number = std::atoi(field.substr(field.find('=') + 1).c_str());
    if (field.starts_with("pid")) event.pid = number;
    if (field.starts_with("conn")) event.connection = number;
    if (field.starts_with("signal")) event.cause = {Cause::Kind::kSignal, number};
    if (field.starts_with("exit")) event.cause = {Cause::Kind::kExit, number};
    if (field.starts_with("image")) event.number = static_cast<std::uint64_t>(number);
    if (field.starts_with("inc")) event.incarnation = static_cast<std::uint32_t>(number);
  }
  if (name == "respawn") return core.respawn(event.rank, event.incarnation);
  return core.step(event);
}

void expect_transcript(std::uint32_t ranks, bool all_over, const std::string& transcript) {
  AgentCore core(ranks);
  expect_played(transcript, [&](const std::string& line, std::ostream& out) {
    for (const AgentAction& action : play(core, line)) out << to_text(action) << "\n";
  });
  EXPECT_EQ(core.all_over(), all_over);
}

TEST(Agent, ADeathIsClearedAwayBeforeTheNextIncarnation) {
  expect_transcript(1, false, R"(
> 0 spawn 0
admit 0
spawn 0
> 1 spawned 0 pid=10
> 2 register 0 pid=10 conn=5
welcome 0 on 5
> 3 initialized 0
> 9 child-ended 0 signal=9
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

TEST(Agent, AGoodEndWaitsForWhoeverStillWrites) {
  expect_transcript(1, true, R"(
> 0 spawn 0
admit 0
spawn 0
> 1 spawned 0 pid=10
> 2 register 0 pid=10 conn=5
welcome 0 on 5
> 3 initialized 0
> 4 finalized 0
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

TEST(Agent, AShellMayBeFasterToEndThanItsProgramsDeathIsSeen) {
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

TEST(Agent, AProgramThatOnlyLooksLeavesTheRankToTheNext) {
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

TEST(Agent, StoppingEndsEverybodyHoweverTheyStand) {
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

TEST(Agent, WhoIgnoresTheRequestIsKilled) {
  expect_transcript(1, true, R"(
> 1 spawned 0 pid=10
> 2 stop
terminate 0
> 3 kill-all
kill tree 0
> 4 child-ended 0 signal=9
> 5 tree-gone 0
drain 0
report 0 ended by signal 9, Killed at 0
)");
}

}  // namespace
}  // namespace rejoin::launcher
