#include "launcher/supervisor/events.h"

#include <string.h>

#include <nlohmann/json.hpp>

#include "launcher/base/grammar.h"

namespace rejoin::launcher {
namespace {

using Json = nlohmann::ordered_json;

double rounded_to_micro(double seconds) {
  return static_cast<double>(static_cast<std::int64_t>(seconds * 1e6 + 0.5)) / 1e6;
}

std::string cause_text(const Cause& cause) {
  if (cause.kind != Cause::Kind::kSignal) return to_text(cause);
  const char* name = sigdescr_np(cause.value);
  return "signal " + std::to_string(cause.value) + (name ? std::string(" (") + name + ")" : "");
}

Json to_json(const Position& p) {
  Json json;
  // Contexts are hashes of 64 bits: most readers of JSON would round them.
  json["context"] = hex_text(p.context);
  json["sequence"] = p.sequence;
  json["ordinal"] = p.ordinal;
  json["operation"] = p.operation;
  json["inside"] = p.inside;
  json["site"] = p.site;
  return json;
}

// Rounds to microseconds.
double milliseconds(std::uint64_t ns) {
  const std::uint64_t us = (ns + 500) / 1000;
  return static_cast<double>(us) / 1e3;
}

void put_totals(Json& json, const Totals& totals) {
  json["journal_peak_bytes"] = totals.journal_peak_bytes;
  json["snapshots"] = totals.snapshots;
  json["snapshot_cost_ms"] = milliseconds(totals.snapshot_cost_ns);
  json["longest_exposed_ms"] = milliseconds(totals.exposed_ns);
  json["images_peak_bytes"] = totals.images_peak_bytes;
}

void put_job(Json& json, const JobFacts& job) {
  json["format"] = 1;  // raised when the meaning of a field changes
  json["version"] = job.version;
  json["host"] = job.host;
  json["programs"] = Json::array();
  std::uint32_t ranks = 0;
  for (const JobFacts::Program& program : job.programs) {
    json["programs"].push_back({{"ranks", program.ranks}, {"command", program.command}});
    ranks += program.ranks;
  }
  json["ranks"] = ranks;
}

void put_summary(Json& json, const Summary& s) {
  json["deaths"] = s.deaths;
  json["restarts"] = s.restarts;
  Json& returns = json["returns"];
  for (std::size_t i = 0; i < s.returns.size(); ++i) {
    returns[name_of(static_cast<RecoveryPoint::Kind>(i))] = s.returns[i];
  }
  json["rollbacks"] = s.rollbacks;
  json["beginnings"] = s.beginnings;
  json["undone_ms"] = milliseconds(s.undone_ns);
  json["lost_ms"] = milliseconds(s.lost_ns);
  json["longest_ms"] = milliseconds(s.longest_ns);
  json["longest_rank"] = s.longest_rank;
  put_totals(json, s.totals);
  json["places"] = Json::array();
  for (const Summary::Place& place : s.places) {
    Json ranks;
    for (const auto& [rank, deaths] : place.ranks) ranks[std::to_string(rank)] = deaths;
    json["places"].push_back({{"deaths", place.deaths},
                              {"ranks", ranks},
                              {"cause", cause_text(place.cause)},
                              {"where", place.where},
                              {"site", place.site}});
    if (place.cause.oom) json["places"].back()["out_of_memory"] = true;
  }
}

}  // namespace

std::string to_json(const Record& r, double start_wall_s) {
  Json json;
  const double t = static_cast<double>(r.at_ns) / 1e9;
  json["t"] = rounded_to_micro(t);
  json["wall"] = rounded_to_micro(start_wall_s + t);
  json["event"] = r.event;
  if (r.rank) {
    json["rank"] = *r.rank;
    json["incarnation"] = r.incarnation;
  }
  json["epoch"] = r.epoch;
  if (r.pid != 0) json["pid"] = r.pid;
  if (r.position) json["position"] = to_json(*r.position);
  if (r.cause) {
    json["cause"] = cause_text(*r.cause);
    if (r.cause->oom) json["out_of_memory"] = true;
    if (r.cause->peak_bytes != 0) json["peak_bytes"] = r.cause->peak_bytes;
  }
  if (!r.fault.site.empty()) {
    json["fault"] = {{"site", r.fault.site}, {"stack", r.fault.stack}};
    if (!r.fault.text.empty()) json["fault"]["text"] = r.fault.text;
  }
  if (r.replayed_operations) json["replayed_ops"] = *r.replayed_operations;
  if (r.took_ms) json["took_ms"] = milliseconds(static_cast<std::uint64_t>(*r.took_ms * 1e6 + 0.5));
  if (r.recovery) {
    json["start_ms"] = milliseconds(r.recovery->start_ns);
    json["computing_ms"] = milliseconds(r.recovery->computing_ns);
    json["replay_ms"] = milliseconds(r.recovery->replay_ns);
  }
  if (r.took_ms) {
    json["kind"] = name_of(r.from.kind);
    const std::string from = to_text(r.from);
    if (!from.empty()) json["from"] = from;
  }
  if (r.known_operations) json["known_ops"] = *r.known_operations;
  if (r.left_ns) json["left_ms"] = milliseconds(*r.left_ns);
  if (r.summary) put_summary(json, *r.summary);
  if (r.job) put_job(json, *r.job);
  if (r.totals) put_totals(json, *r.totals);
  if (r.protection) {
    json["snapshots"] = r.protection->snapshots;
    json["oldest_ms"] = milliseconds(r.protection->oldest_ns);
    json["ranks_without"] = r.protection->ranks_without;
    json["images_bytes"] = r.protection->image_bytes;
    json["journal_bytes"] = r.protection->journal_bytes;
  }
  if (r.code) json["code"] = *r.code;
  if (r.checkpoint) json["checkpoint"] = *r.checkpoint;
  if (r.bytes) json["bytes"] = *r.bytes;
  if (r.bytes) json["written_ms"] = milliseconds(r.written_ns);
  if (r.set) json["set"] = *r.set;
  if (r.set) json["age_ms"] = milliseconds(r.age_ns);
  if (r.cost_ns) json["cost_ms"] = milliseconds(*r.cost_ns);
  if (r.stopped_ns) json["stopped_ms"] = milliseconds(*r.stopped_ns);
  if (!r.text.empty()) json["text"] = r.text;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rejoin::launcher
