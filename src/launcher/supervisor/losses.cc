#include "launcher/supervisor/losses.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "launcher/base/grammar.h"

namespace rejoin::launcher {
namespace {

// Times of different hosts are known to some milliseconds only.
std::uint64_t between(std::uint64_t since_ns, std::uint64_t at_ns) {
  return at_ns - std::min(since_ns, at_ns);
}

constexpr std::size_t kMostPlaces = 4;  // shown in the summary
constexpr std::size_t kMostRanks = 6;   // of a place

// Returns the place without the number of the operation.
std::string where_text(const Position& at) {
  if (at.ordinal == 0) return to_text(at);
  return (at.inside ? "in " : "after ") + (at.operation.empty() ? "an operation" : at.operation);
}

// A call site without its rank: ranks of one program have the same modules.
std::string_view place_in(const std::string& site) {
  const std::size_t colon = site.find(':');
  return colon == std::string::npos ? std::string_view() : std::string_view(site).substr(colon);
}

std::string plural(std::uint64_t n, const char* of) {
  return count_text(n) + " " + of + (n == 1 ? "" : "s");
}

// "rank 1", "ranks 0, 2 (3 times), 5"
std::string ranks_text(const std::map<std::uint32_t, std::uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  std::size_t shown = 0;
  for (const auto& [rank, deaths] : ranks) {
    if (shown == kMostRanks) return text + " and " + count_text(ranks.size() - shown) + " more";
    text += (shown++ == 0 ? "" : ", ") + std::to_string(rank);
    if (deaths > 1) text += " (" + (deaths == 2 ? "twice" : count_text(deaths) + " times") + ")";
  }
  return text;
}

// " (2 from snapshots, 1 from main)"; empty: no rank is back.
std::string returns_text(const Summary& s) {
  using Kind = RecoveryPoint::Kind;
  static constexpr struct {
    Kind kind;
    const char* one;
    const char* several;
  } kNames[] = {{Kind::kSnapshot, "a snapshot", "snapshots"},
                {Kind::kWrittenImage, "a written image", "written images"},
                {Kind::kCheckpoint, "a checkpoint", "checkpoints"},
                {Kind::kMain, "main", "main"}};
  std::string text;
  for (const auto& name : kNames) {
    const std::uint32_t n = s.returns[static_cast<std::size_t>(name.kind)];
    if (n == 0) continue;
    text += (text.empty() ? " (" : ", ") + count_text(n) + " from " +
            (n == 1 ? name.one : name.several);
  }
  return text.empty() ? text : text + ")";
}

std::string place_text(const Summary::Place& p) {
  return ranks_text(p.ranks) + ": " + to_text(p.cause) + ", " + p.where +
         (p.site.empty() ? "" : " at " + p.site);
}

}  // namespace

void Losses::died(std::uint32_t rank, std::uint64_t at_ns, const Cause& cause, const Position& at,
                  const Fault& fault, bool restarted) {
  ++sum_.deaths;
  sum_.restarts += restarted;
  const std::string where = fault.site.empty() ? where_text(at) : "in the program";
  const std::string& site = fault.site.empty() ? at.site : fault.site;
  const auto same = std::find_if(sum_.places.begin(), sum_.places.end(), [&](const auto& p) {
    return p.cause.same_as(cause) && p.cause.oom == cause.oom && p.where == where &&
           place_in(p.site) == place_in(site);
  });
  if (same == sum_.places.end()) {
    sum_.places.push_back({cause, where, site, 1, {{rank, 1}}});
  } else {
    ++same->deaths;
    ++same->ranks[rank];
  }
  Rank& r = ranks_[rank];
  if (!restarted || r.away) return;
  r = {true, at_ns};
  // Deaths at the same time are not always reported in the order of their times.
  away_since_ns_ = away_++ == 0 ? at_ns : std::min(away_since_ns_, at_ns);
}

void Losses::is_back(std::uint32_t rank, std::uint64_t at_ns,
                     std::optional<RecoveryPoint::Kind> from) {
  Rank& r = ranks_[rank];
  if (!r.away) return;
  if (from) ++sum_.returns[static_cast<std::size_t>(*from)];
  count(sum_, rank, at_ns);
  r.away = false;
  if (--away_ == 0) sum_.lost_ns += between(away_since_ns_, at_ns);
}

void Losses::rolled_back(std::uint64_t at_ns, std::uint64_t by_ns) {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r)
    is_back(r, at_ns, RecoveryPoint::Kind::kSnapshot);
  ++sum_.rollbacks;
  sum_.undone_ns += by_ns * ranks_.size();
}

void Losses::begins_again(std::uint64_t at_ns) {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) is_back(r, at_ns);
  ++sum_.beginnings;
}

void Losses::count(Summary& sum, std::uint32_t rank, std::uint64_t at_ns) const {
  const std::uint64_t ns = between(ranks_[rank].since_ns, at_ns);
  if (ns < sum.longest_ns) return;
  sum.longest_ns = ns;
  sum.longest_rank = rank;
}

Summary Losses::at_end(std::uint64_t at_ns, const Totals& totals) const {
  Summary sum = sum_;
  sum.totals = totals;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].away) count(sum, r, at_ns);
  }
  if (away_ > 0) sum.lost_ns += between(away_since_ns_, at_ns);
  std::stable_sort(sum.places.begin(), sum.places.end(),
                   [](const auto& a, const auto& b) { return a.deaths > b.deaths; });
  return sum;
}

std::vector<std::string> lines_of(const Summary& s) {
  std::string first =
      plural(s.deaths, "death") + ", " + plural(s.restarts, "restart") + returns_text(s);
  if (s.restarts > 0) first += ", " + duration_text(s.lost_ns) + " lost";
  if (s.restarts > 1) {
    first += ", " + duration_text(s.longest_ns) + " the longest (rank " +
             std::to_string(s.longest_rank) + ")";
  }
  if (s.rollbacks > 0) {
    first += "; " + plural(s.rollbacks, "return") + " of all ranks (" + duration_text(s.undone_ns) +
             " of their time undone)";
  }
  if (s.beginnings > 0)
    first += "; the job began again " +
             (s.beginnings == 1 ? "once" : count_text(s.beginnings) + " times");
  first += "; journal at most " + size_text(s.totals.journal_peak_bytes);
  if (s.totals.snapshots > 0) {
    first += "; " + plural(s.totals.snapshots, "snapshot") + ", at most " +
             duration_text(s.totals.snapshot_cost_ns) + " of a rank's time";
    if (s.totals.images_peak_bytes > 0) first += " and " + size_text(s.totals.images_peak_bytes);
  }
  std::vector<std::string> lines = {std::move(first)};
  std::uint64_t left = s.deaths;
  for (std::size_t i = 0; i < s.places.size() && i < kMostPlaces; ++i) {
    lines.push_back("  " + place_text(s.places[i]));
    left -= s.places[i].deaths;
  }
  if (left > 0) {
    lines.push_back("  and " + plural(left, "death") + " in " +
                    plural(s.places.size() - kMostPlaces, "other place"));
  }
  return lines;
}

}  // namespace rejoin::launcher
