// The agent's core, played from text.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "launcher/agent/agent_core.h"
#include "transcript.h"

namespace rejoin::launcher {

inline std::string to_text(const AgentAction& a) {
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
      return "want image " + std::to_string(a.number) + " of " + rank +
             (a.at_checkpoint ? " at a checkpoint" : "");
    case Kind::kKeep:
      return "keep image " + std::to_string(a.number) + " of " + rank + ", pid " +
             std::to_string(a.pid);
    case Kind::kAskImages:
      return "ask for images";
    case Kind::kEndImage:
      return "end image of " + rank + ", pid " + std::to_string(a.pid);
    case Kind::kWake:
      return "wake image " + std::to_string(a.number) + " of " + rank;
    case Kind::kRestore:
      return "restore " + rank + " from image " + std::to_string(a.number);
    case Kind::kAdopt:
      return "adopt " + rank + ", pid " + std::to_string(a.pid);
    case Kind::kMove:
      return "move " + rank + " to pid " + std::to_string(a.pid) + ", keeper on " +
             std::to_string(a.connection);
    case Kind::kRelease:
      return "release keeper of " + rank + " on " + std::to_string(a.connection) + " with " +
             to_text(a.cause);
    case Kind::kKillWrapper:
      return "kill wrapper " + rank;
    case Kind::kEndKeeper:
      return "end keeper of " + rank + " on " + std::to_string(a.connection);
    case Kind::kNotice:
      return "tell of " + rank + ": " + a.text;
    case Kind::kRead:
      return "read " + rank;
    case Kind::kLost:
      return "lost " + rank + ": " + a.text;
    case Kind::kReportEnded:
      return "report " + rank + " ended by " + to_text(a.cause) + " at " + std::to_string(a.at_ns);
  }
  return "?";
}

// "spawn R", "respawn R [inc=]", "want" (at once), "want-at-checkpoint", "period-ends",
// "end-images", "resume R image= inc=" (as all of them), "restore R", "written R image=" (all),
// "stop", "kill-all" are orders; else "AT EVENT R [pid=] [conn=] [signal=|exit=] [image=|of=]
// [inc=]".
inline std::vector<AgentAction> play(AgentCore& core, const std::string& line) {
  std::istringstream words(line);
  std::string name;
  AgentEvent event{};
  words >> event.at_ns >> name >> event.rank;
  if (name == "spawn") return core.spawn(event.rank);
  if (name == "want") return core.want_snapshots(SnapshotRound::kAtOnce);
  if (name == "want-at-checkpoint") return core.want_snapshots(SnapshotRound::kAtCheckpoint);
  if (name == "period-ends") return core.want_snapshots(SnapshotRound::kPeriodEnds);
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
  if (name == "moves") event.kind = Kind::kMoves;
  if (name == "keeper-ended") event.kind = Kind::kKeeperEnded;
  if (name == "wrapper-ended") event.kind = Kind::kWrapperEnded;
  std::string field;
  while (words >> field) {
    const int number = std::atoi(field.substr(field.find('=') + 1).c_str());
    if (field.starts_with("pid")) event.pid = number;
    if (field.starts_with("conn")) event.connection = number;
    if (field.starts_with("signal")) event.cause = {Cause::Kind::kSignal, number};
    if (field.starts_with("exit")) event.cause = {Cause::Kind::kExit, number};
    if (field.starts_with("image") || field.starts_with("of"))
      event.number = static_cast<std::uint64_t>(number);
    if (field.starts_with("inc")) event.incarnation = static_cast<std::uint32_t>(number);
  }
  if (name == "respawn") return core.respawn(event.rank, event.incarnation);
  if (name == "restore") return core.restore(event.rank);
  const std::vector<std::uint64_t> numbers(core.ranks(), event.number);
  if (name == "resume") {
    return core.resume(numbers, std::vector<std::uint32_t>(core.ranks(), event.incarnation));
  }
  if (name == "written") {
    core.written(numbers);
    return {};
  }
  return core.step(event);
}

inline void expect_transcript(std::uint32_t ranks, bool all_over, const std::string& transcript) {
  AgentCore core(ranks);
  expect_played(transcript, [&](const std::string& line, std::ostream& out) {
    for (const AgentAction& action : play(core, line)) out << to_text(action) << "\n";
  });
  EXPECT_EQ(core.all_over(), all_over);
}

}  // namespace rejoin::launcher
