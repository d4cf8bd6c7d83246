// The supervisor as transcripts of events:
//
//     > [AT_MS] EVENT RANK [FIELD=VALUE]... [: TEXT]
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

#include "launcher/supervisor/supervisor_core.h"
#include "transcript.h"

namespace rejoin::launcher {

inline Event parse_event(const std::string& line) {
  std::string text;
  const std::size_t colon = line.find(" : ");
  if (colon != std::string::npos) text = line.substr(colon + 3);
  std::istringstream words(line.substr(0, colon));
  double at_ms = 0;
  std::string name;
  std::uint32_t rank = 0;
  words >> at_ms >> name >> rank;
  Cause cause;
  Position position;
  RecoveryPoint from;
  Totals totals;
  int code = 0;
  std::uint32_t host = 0;
  std::uint64_t value = 0;
  std::uint64_t replay_ns = 0;
  std::string field;
  while (words >> field) {
    const std::size_t equals = field.find('=');
    const std::string key = field.substr(0, equals);
    const std::string given = equals == std::string::npos ? "" : field.substr(equals + 1);
    const int number = std::atoi(given.c_str());
    const auto amount = static_cast<std::uint64_t>(number);
    if (key == "signal") cause = {Cause::Kind::kSignal, number, cause.oom};
    if (key == "exit") cause = {Cause::Kind::kExit, number};
    if (key == "oom") cause.oom = true;
    if (key == "peak") cause.peak_bytes = amount;
    if (key == "code") code = number;
    if (key == "host") host = static_cast<std::uint32_t>(number);
    if (key == "value") value = amount;
    if (key == "replayed") value = position.replayed = amount;
    if (key == "at") position.ordinal = position.sequence = amount;
    if (key == "in") position.operation = given;
    if (key == "in") position.inside = true;
    if (key == "live") position.live = true;
    if (key == "site") position.site = given;
    if (key == "replay_ms" || key == "takes_ms") replay_ns = amount * 1'000'000;
    if (key == "checkpoint") from = {RecoveryPoint::Kind::kCheckpoint, amount};
    if (key == "snapshot_ms") from = {RecoveryPoint::Kind::kSnapshot, amount * 1'000'000};
    if (key == "written") from = {RecoveryPoint::Kind::kWrittenImage};
    if (key == "journal") totals.journal_peak_bytes = amount;
    if (key == "snapshots") totals.snapshots = amount;
    if (key == "images") totals.images_peak_bytes = amount;
    if (key == "cost_ms") totals.snapshot_cost_ns = 1'000'000 * amount;
  }
  using E = Event;
  const std::map<std::string, decltype(E::what)> events = {
      {"started", E::Started{0}},
      {"spawn-failed", E::SpawnFailed{code, text}},
      {"registered", E::Registered{0}},
      {"initialized", E::Initialized{code != 0}},
      {"live", E::Live{value, from, replay_ns}},
      {"finalized", E::Finalized{position, from, replay_ns}},
      {"ended", E::Ended{cause, position, {}, text, {}}},
      {"ended-threaded", E::Ended{cause, position, {}, {}, text}},
      {"abort", E::Aborted{code, text}},
      {"diverged", E::Diverged{text}},
      {"rolled-back", E::RolledBack{value, replay_ns, static_cast<std::uint32_t>(code)}},
      {"no-set", E::NoSet{}},
      {"images-due", E::ImagesDue{code == 1, code != 0, replay_ns}},
      {"of-set", E::OfSet{value, static_cast<SetNews>(code), {}, replay_ns}},
      {"lost", E::Lost{text}},
      {"images-written", E::ImagesWritten{text, 0, 0, 0}},
      {"limit", E::JournalFull{}},
      {"notice", E::Notice{text, value}},
      {"foreign", E::ForeignMpi{text}},
      {"unfired", E::Unfired{text, position}},
      {"timeout", E::Timeout{}},
      {"signal", E::Interrupted{code}},
      {"host-notice", E::HostNotice{host}},
      {"has-versions", E::HasVersions{}},
      {"tick", E::Tick{}},
      {"all-over", E::AllOver{host, totals}},
      {"agent-lost", E::AgentLost{host, text}},
      {"spare", E::Spare{text, "", code != 0 ? std::optional(host) : std::nullopt}},
      {"spare-left", E::Spare{text, "has closed its connection", {}}},
      {"catching-up", E::CatchingUp{position}},
      {"output-lost", E::OutputLost{code, text}},
  };
  return {static_cast<std::uint64_t>(at_ms * 1e6), rank, events.at(name), 0, host};
}

inline std::string to_text(const Record& r) {
  std::ostringstream text;
  text << "record " << r.event;
  if (r.rank) text << " rank " << *r.rank << " incarnation " << r.incarnation;
  if (r.cause) text << " (" << to_text(*r.cause) << ")";
  if (r.replayed_operations) text << " replayed " << *r.replayed_operations;
  if (r.code) text << " code " << *r.code;
  if (r.recovery) {
    text << " start " << duration_text(r.recovery->start_ns) << " computing "
         << duration_text(r.recovery->computing_ns) << " replay "
         << duration_text(r.recovery->replay_ns);
  }
  if (const std::string from = to_text(r.from); !from.empty()) text << " from " << from;
  if (r.known_operations) text << " of " << *r.known_operations;
  if (r.left_ns) text << " left " << duration_text(*r.left_ns);
  if (r.summary) {
    text << " deaths " << r.summary->deaths << " restarts " << r.summary->restarts << " lost "
         << duration_text(r.summary->lost_ns) << " longest " << duration_text(r.summary->longest_ns)
         << " places " << r.summary->places.size();
  }
  return text.str();
}

struct SupervisorActionText {
  std::string operator()(const Action::Respawn& a) { return "respawn " + std::to_string(a.rank); }
  std::string operator()(const Action::RollBack& a) {
    return "roll back as " + std::to_string(a.incarnation);
  }
  std::string operator()(const Action::Wake&) { return "wake"; }
  std::string operator()(const Action::WantImages& a) {
    return "want " + std::string(a.host ? "images" : "set") + " " + std::to_string(a.number) +
           (a.host ? " of host " + std::to_string(*a.host) : "");
  }
  std::string operator()(const Action::Replace& a) {
    return "replace host " + std::to_string(a.host) + " at " + a.where + ": set " +
           std::to_string(a.set) + " of host " + std::to_string(a.holder) + " as " +
           std::to_string(a.incarnation);
  }
  std::string operator()(const Action::StoreParts& a) {
    std::string text = "store parts of set " + std::to_string(a.set) + ":";
    for (const std::uint32_t partner : a.partners) text += " " + std::to_string(partner);
    return text;
  }
  std::string operator()(const Action::SetStored& a) {
    return "set " + std::to_string(a.number) + " is stored";
  }
  std::string operator()(const Action::KeepSet& a) {
    return "keep set " + std::to_string(a.number);
  }
  std::string operator()(const Action::GiveUpSet& a) {
    return (a.one_by_one ? "keep images " : "give up set ") + std::to_string(a.number);
  }
  std::string operator()(const Action::LetRecycle& a) {
    return a.results ? "let recycle" : "let recycle, but no results";
  }
  std::string operator()(const Action::Stop&) { return "stop"; }
  std::string operator()(const Action::WriteNow&) { return "write now"; }
  std::string operator()(const Action::KillNow&) { return "kill now"; }
  std::string operator()(const Action::ReportPositions&) { return "report"; }
  std::string operator()(const Action::News& a) { return "news: " + a.text; }
  std::string operator()(const Action::Detail& a) { return "detail: " + a.text; }
  std::string operator()(const Action::Tell& a) { return "tell: " + a.text; }
  std::string operator()(const Action::Log& a) { return to_text(a.record); }
  std::string operator()(const Action::BeginAgain& a) {
    std::string text =
        "begin again, " + std::to_string(a.beginning.losses->beginnings()) + " in all";
    if (a.beginning.hosts.size() > 1) {
      text += ", on";
      for (const std::string& host : a.beginning.hosts) text += " " + host;
    }
    return text;
  }
  std::string operator()(const Action::Finish& a) { return "finish " + std::to_string(a.code); }
};

inline std::string to_text(const Action& a) { return std::visit(SupervisorActionText(), a.what); }

inline void expect_transcript(const RunOptions& options, const std::string& transcript,
                              std::uint32_t hosts = 1) {
  SupervisorCore core(options, {}, hosts);
  expect_played(transcript, [&](const std::string& line, std::ostream& out) {
    for (const Action& action : core.step(parse_event(line))) {
      if (!std::holds_alternative<Action::Detail>(action.what)) out << to_text(action) << "\n";
    }
  });
}

}  // namespace rejoin::launcher
