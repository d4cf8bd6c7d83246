// The agent's core, played from text.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "launcher/agent/agent_core.h"
#include "transcript.h"

namespace rejoin::launcher {

// Writes each action as a line.
class ActionText : public AgentDriver {
 public:
  std::string text;

 private:
  using A = AgentAction;
  void line(const std::string& what) { text += what + "\n"; }
  void line(const std::string& what, std::uint32_t rank, const std::string& rest = "") {
    line(what + " " + std::to_string(rank) + rest);
  }
  static std::string on(int connection) { return " on " + std::to_string(connection); }
  static std::string pid_text(std::int64_t pid) { return ", pid " + std::to_string(pid); }

  void act(std::uint32_t r, const A::Spawn&) override { line("spawn", r); }
  void act(std::uint32_t r, const A::Welcome& a) override { line("welcome", r, on(a.connection)); }
  void act(std::uint32_t r, const A::Refuse& a) override {
    line("refuse", r, on(a.connection) + ": " + a.why);
  }
  void act(std::uint32_t r, const A::Terminate&) override { line("terminate", r); }
  void act(std::uint32_t r, const A::KillTree&) override { line("kill tree", r); }
  void act(std::uint32_t r, const A::AwaitOutput&) override { line("await output", r); }
  void act(std::uint32_t r, const A::Drain&) override { line("drain", r); }
  void act(std::uint32_t r, const A::Read&) override { line("read", r); }
  void act(std::uint32_t r, const A::PublishDeath&) override { line("publish death", r); }
  void act(std::uint32_t, const A::RingAll&) override { line("ring all"); }
  void act(std::uint32_t r, const A::Admit&) override { line("admit", r); }
  void act(std::uint32_t, const A::WantSet& a) override {
    line("want set " + std::to_string(a.number));
  }
  void act(std::uint32_t r, const A::Want& a) override {
    line("want image " + std::to_string(a.number) + " of", r);
  }
  void act(std::uint32_t, const A::PutBack& a) override {
    line("put back set " + std::to_string(a.set));
  }
  void act(std::uint32_t, const A::ReportBack& a) override {
    line("report all ranks back at set " + std::to_string(a.set));
  }
  void act(std::uint32_t r, const A::Keep& a) override {
    line("keep image " + std::to_string(a.number) + " of", r, pid_text(a.pid));
  }
  void act(std::uint32_t, const A::TellOfSet& a) override {
    constexpr const char* kNews[] = {"is made",        "cannot be made", "has lost a rank",
                                     "comes too late", "is stored",      "is not stored",
                                     "is settled"};
    line("tell: set " + std::to_string(a.number) + " " + kNews[static_cast<int>(a.news)]);
  }
  void act(std::uint32_t r, const A::Spare& a) override {
    line("spare image of", r, pid_text(a.pid));
  }
  void act(std::uint32_t r, const A::EndImage& a) override {
    line("end image of", r, pid_text(a.pid));
  }
  void act(std::uint32_t, const A::AskImages&) override { line("ask for images"); }
  void act(std::uint32_t r, const A::Wake& a) override {
    line("wake image " + std::to_string(a.number) + " of", r,
         a.files_go_back ? ", with its files" : "");
  }
  void act(std::uint32_t r, const A::Restore& a) override {
    line("restore", r, " from image " + std::to_string(a.number));
  }
  void act(std::uint32_t r, const A::Adopt& a) override { line("adopt", r, pid_text(a.pid)); }
  void act(std::uint32_t r, const A::Move& a) override {
    line("move", r, " to pid " + std::to_string(a.pid) + ", keeper" + on(a.keeper));
  }
  void act(std::uint32_t r, const A::Release& a) override {
    line("release keeper of", r, on(a.keeper) + " with " + to_text(a.cause));
  }
  void act(std::uint32_t r, const A::KillWrapper&) override { line("kill wrapper", r); }
  void act(std::uint32_t r, const A::EndKeeper& a) override {
    line("end keeper of", r, on(a.keeper));
  }
  void act(std::uint32_t r, const A::Notice& a) override { line("tell of", r, ": " + a.text); }
  void act(std::uint32_t r, const A::Lost& a) override { line("lost", r, ": " + a.why); }
  void act(std::uint32_t r, const A::ReportEnded& a) override {
    line("report", r, " ended by " + to_text(a.cause) + " at " + std::to_string(a.at_ns));
  }
};

inline std::string text_of_actions(const std::vector<AgentAction>& actions) {
  ActionText lines;
  lines.carry_out(actions);
  return lines.text;
}

// Plays one line. These are orders: "spawn R", "respawn R [inc=]", "want" (at once),
// "want-to-truncate", "end-images", "roll-back R inc=" (all
// ranks do), "wake" (likewise), "want-set 0 image=", "want-each 0 image=", "keep-set 0 image=",
// "give-up-set 0 image=", "keep-each 0 image=", "resume R image= inc=" (all ranks do), "restore R",
// "written R image=" (all ranks), "stop", "kill-all". Any other line is an event: "AT EVENT R
// [pid=] [conn=] [signal=|exit=] [image=|of=] [inc=]".
inline std::vector<AgentAction> play(AgentCore& core, const std::string& line) {
  std::istringstream words(line);
  std::string name;
  std::uint64_t at_ns = 0;
  std::uint32_t rank = 0;
  words >> at_ns >> name >> rank;
  std::int64_t pid = 0;
  std::int64_t from = 0;
  int connection = -1;
  std::uint64_t number = 0;
  std::uint32_t incarnation = 0;
  Cause cause;
  std::string field;
  while (words >> field) {
    const int value = std::atoi(field.substr(field.find('=') + 1).c_str());
    if (field.starts_with("pid")) pid = value;
    if (field.starts_with("conn")) connection = value;
    if (field.starts_with("signal")) cause = {Cause::Kind::kSignal, value};
    if (field.starts_with("exit")) cause = {Cause::Kind::kExit, value};
    if (field.starts_with("image")) number = static_cast<std::uint64_t>(value);
    if (field.starts_with("of")) from = value;
    if (field.starts_with("inc")) incarnation = static_cast<std::uint32_t>(value);
  }
  ImageNumbers numbers;
  for (const std::uint32_t local : core.local()) numbers[local] = number;
  if (name == "spawn") return core.spawn(rank);
  if (name == "want") return core.want_snapshots(SnapshotRound::kTogether);
  if (name == "want-to-truncate") return core.want_snapshots(SnapshotRound::kToTruncate);
  if (name == "end-images") return core.end_images();
  if (name == "roll-back") return core.roll_back(incarnation);
  if (name == "wake") return core.wake();
  if (name == "want-set") return core.want_set(number);
  if (name == "want-each") return core.want_each(number);
  if (name == "keep-set") return core.keep_set(number);
  if (name == "give-up-set") return core.give_up_set(number, false);
  if (name == "keep-each") return core.give_up_set(number, true);
  if (name == "stop") return core.stop();
  if (name == "kill-all") return core.kill_all();
  if (name == "respawn") return core.respawn(rank, incarnation);
  if (name == "restore") return core.restore(rank);
  if (name == "resume") return core.resume(numbers, incarnation);
  if (name == "written") {
    core.written(numbers);
    return {};
  }
  using E = AgentEvent;
  const std::map<std::string, decltype(E::what)> events = {
      {"spawned", E::Spawned{pid}},
      {"register", E::Registers{pid, connection}},
      {"initialized", E::Initialized{}},
      {"live", E::Live{}},
      {"finalized", E::Finalized{}},
      {"child-ended", E::ChildEnded{cause}},
      {"registered-ended", E::RegisteredEnded{cause}},
      {"tree-gone", E::TreeGone{}},
      {"output-ended", E::OutputEnded{}},
      {"woken", E::Woken{pid, connection, incarnation}},
      {"image", E::ImageRegisters{pid, connection, number, incarnation}},
      {"not-frozen", E::NotFrozen{number, false}},
      {"not-this-one", E::NotFrozen{number, true}},
      {"forked", E::Forked{pid, incarnation}},
      {"useless", E::Useless{pid, connection, incarnation, ""}},
      {"image-ended", E::ImageEnded{pid, number, {}}},
      {"moves", E::Moves{pid, connection, incarnation, from}},
      {"keeper-ended", E::KeeperEnded{cause}},
      {"wrapper-ended", E::WrapperEnded{pid, cause}},
  };
  return core.step({rank, at_ns, events.at(name)});
}

inline void expect_transcript(const LocalRanks& local, bool all_over, const std::string& transcript,
                              bool is_whole_job = true) {
  AgentCore core(local, is_whole_job);
  expect_played(transcript, [&](const std::string& line, std::ostream& out) {
    out << text_of_actions(play(core, line));
  });
  EXPECT_EQ(core.all_over(), all_over);
}

// As above, for a host that has the ranks 0 to ranks - 1.
inline void expect_transcript(std::uint32_t ranks, bool all_over, const std::string& transcript) {
  expect_transcript(all_local(ranks), all_over, transcript);
}

}  // namespace rejoin::launcher
