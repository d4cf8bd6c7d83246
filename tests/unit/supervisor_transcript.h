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

inline const std::map<std::string, Event::Kind> kEvents = {
    {"started", Event::Kind::kStarted},
    {"spawn-failed", Event::Kind::kSpawnFailed},
    {"registered", Event::Kind::kRegistered},
    {"initialized", Event::Kind::kInitialized},
    {"live", Event::Kind::kLive},
    {"finalized", Event::Kind::kFinalized},
    {"ended", Event::Kind::kEnded},
    {"abort", Event::Kind::kAbort},
    {"diverged", Event::Kind::kDiverged},
    {"limit", Event::Kind::kLimit},
    {"notice", Event::Kind::kNotice},
    {"foreign", Event::Kind::kForeignAbi},
    {"unfired", Event::Kind::kUnfired},
    {"timeout", Event::Kind::kTimeout},
    {"signal", Event::Kind::kSignal},
    {"all-over", Event::Kind::kAllOver},
    {"catching-up", Event::Kind::kCatchingUp},
    {"output-lost", Event::Kind::kOutputLost},
};

inline Event parse_event(const std::string& line) {
  Event event{Event::Kind::kNotice};
  const std::size_t colon = line.find(" : ");
  if (colon != std::string::npos) event.text = line.substr(colon + 3);
  std::istringstream words(line.substr(0, colon));
  double at_ms = 0;
  std::string name;
  words >> at_ms >> name >> event.rank;
  event.at_ns = static_cast<std::uint64_t>(at_ms * 1e6);
  event.kind = kEvents.at(name);
  std::string field;
  while (words >> field) {
    const std::size_t equals = field.find('=');
    const std::string key = field.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : field.substr(equals + 1);
    const int number = std::atoi(value.c_str());
    if (key == "signal") event.cause = {Cause::Kind::kSignal, number, event.cause.oom};
    if (key == "exit") event.cause = {Cause::Kind::kExit, number};
    if (key == "oom") event.cause.oom = true;
    if (key == "peak") event.cause.peak_bytes = static_cast<std::uint64_t>(number);
    if (key == "code") event.code = number;
    if (key == "value") event.value = static_cast<std::uint64_t>(number);
    if (key == "replayed") {
      event.value = event.position.replayed = static_cast<std::uint64_t>(number);
    }
    if (key == "at")
      event.position.ordinal = event.position.sequence = static_cast<std::uint64_t>(number);
    if (key == "in") event.position.operation = value;
    if (key == "in") event.position.inside = true;
    if (key == "live") event.position.live = true;
    if (key == "site") event.position.site = value;
    if (key == "replay_ms") event.replay_ns = static_cast<std::uint64_t>(number) * 1'000'000;
    if (key == "checkpoint") {
      event.from = {RecoveryPoint::Kind::kCheckpoint, static_cast<std::uint64_t>(number)};
    }
    if (key == "snapshot_ms") {
      event.from = {RecoveryPoint::Kind::kSnapshot, static_cast<std::uint64_t>(number) * 1'000'000};
    }
    if (key == "written") event.from = {RecoveryPoint::Kind::kWrittenImage};
    if (key == "journal") event.totals.journal_peak_bytes = static_cast<std::uint64_t>(number);
    if (key == "snapshots") event.totals.snapshots = static_cast<std::uint64_t>(number);
    if (key == "cost_ms")
      event.totals.snapshot_cost_ns = 1'000'000 * static_cast<std::uint64_t>(number);
  }
  return event;
}

inline std::string to_text(const Record& r) {
  std::ostringstream text;
  text << "record " << r.event;
  if (r.rank) text << " rank " << *r.rank << " incarnation " << r.incarnation;
  text << " epoch " << r.epoch;
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

inline std::string to_text(const Action& a) {
  const std::string rank = std::to_string(a.rank);
  switch (a.kind) {
    case Action::Kind::kRespawn:
      return "respawn " + rank;
    case Action::Kind::kStop:
      return "stop";
    case Action::Kind::kKillNow:
      return "kill now";
    case Action::Kind::kReport:
      return "report";
    case Action::Kind::kNews:
      return "news: " + a.text;
    case Action::Kind::kDetail:
      return "detail: " + a.text;
    case Action::Kind::kTell:
      return "tell: " + a.text;
    case Action::Kind::kRecord:
      return to_text(a.record);
    case Action::Kind::kFinish:
      return "finish " + std::to_string(a.code);
  }
  return "?";
}

inline void expect_transcript(const RunOptions& options, const std::string& transcript) {
  SupervisorCore core(options);
  expect_played(transcript, [&](const std::string& line, std::ostream& out) {
    for (const Action& action : core.step(parse_event(line))) {
      if (action.kind != Action::Kind::kDetail) out << to_text(action) << "\n";
    }
  });
}

}  // namespace rejoin::launcher
