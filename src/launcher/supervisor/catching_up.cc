#include "launcher/supervisor/catching_up.h"

#include <algorithm>

namespace rejoin::launcher {
namespace {

constexpr std::uint64_t kFirstAfterNs = 2'000'000'000;
constexpr std::uint64_t kThenEveryNs = 5'000'000'000;
constexpr std::size_t kMostSamples = 64;
// An estimate needs at least kLeastOperations, and similar rates (within kMostApart) over the
// second half of the time so far and over all of it.
constexpr std::uint64_t kLeastOperations = 20;
constexpr double kMostApart = 1.5;

double share(std::uint64_t done, std::uint64_t known) {
  return known == 0 ? 0 : static_cast<double>(std::min(done, known)) / static_cast<double>(known);
}

// "about 8 s"
std::string rough_text(std::uint64_t ns) {
  const std::uint64_t s = (ns + 500'000'000) / 1'000'000'000;
  if (s < 120) return "about " + std::to_string(std::max<std::uint64_t>(s, 1)) + " s";
  return "about " + std::to_string((s + 30) / 60) + " min";
}

}  // namespace

void CatchingUp::died(std::uint32_t rank, std::uint64_t at_ns, const Position& at) {
  Rank& r = ranks_[rank];
  Rank now;
  now.away = true;
  now.died_at_ns = r.away ? r.died_at_ns : at_ns;
  now.known = std::max(r.away ? r.known : 0, at.ordinal);
  r = now;
}

std::optional<CatchingUp::Line> CatchingUp::looked(std::uint32_t rank, std::uint64_t at_ns,
                                                   std::uint64_t ordinal) {
  Rank& r = ranks_[rank];
  if (!r.away) return {};
  remember(r, {at_ns, ordinal});
  if (at_ns < r.died_at_ns + kFirstAfterNs || at_ns < next_ns_) return {};
  if (!is_furthest_behind(rank, at_ns)) return {};
  next_ns_ = at_ns + kThenEveryNs;

  Line line;
  line.known = r.known;
  line.left_ns = left_ns(r);
  line.text = "rank " + std::to_string(rank) + " has been catching up for " +
              duration_text(at_ns - r.died_at_ns) + ": ";
  if (r.known == 0) {
    line.text += "before its first MPI operation";
  } else {
    const std::uint64_t done = std::min(ordinal, r.known);
    line.text += (done == 0 ? "before operation #1" : "at operation #" + count_text(done)) +
                 " of #" + count_text(r.known) + " (" +
                 std::to_string(static_cast<int>(100 * share(done, r.known))) + " %)";
  }
  if (line.left_ns) line.text += ", " + rough_text(*line.left_ns) + " left";
  if (const std::uint32_t n = others(rank, at_ns)) {
    line.text += n == 1 ? "; another rank is closer" : "; " + count_text(n) + " others are closer";
  }
  return line;
}

// Considers only ranks that are away for long enough to be reported.
bool CatchingUp::is_furthest_behind(std::uint32_t rank, std::uint64_t at_ns) const {
  const auto done = [](const Rank& r) { return share(r.newest->ordinal, r.known); };
  for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
    const Rank& other = ranks_[i];
    if (i == rank || !other.away || !other.newest) continue;
    if (at_ns < other.died_at_ns + kFirstAfterNs) continue;
    if (done(other) < done(ranks_[rank])) return false;
  }
  return true;
}

std::uint32_t CatchingUp::others(std::uint32_t rank, std::uint64_t at_ns) const {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
    const Rank& other = ranks_[i];
    count += i != rank && other.away && other.newest && at_ns >= other.died_at_ns + kFirstAfterNs;
  }
  return count;
}

void CatchingUp::remember(Rank& r, const Sample& sample) {
  r.newest = sample;
  if (sample.ordinal == 0 || r.skipped++ < r.skips) return;
  r.skipped = 0;
  r.samples.push_back(sample);
  if (r.samples.size() < kMostSamples) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < r.samples.size(); i += 2) r.samples[kept++] = r.samples[i];
  r.samples.resize(kept);
  r.skips = 2 * r.skips + 1;
}

std::optional<std::uint64_t> CatchingUp::left_ns(const Rank& r) {
  if (!r.newest || r.samples.size() < 3 || r.newest->ordinal >= r.known) return {};
  const Sample& first = r.samples.front();
  const Sample& middle = r.samples[r.samples.size() / 2];
  const auto rate = [&r](const Sample& since) {  // operations a nanosecond
    const std::uint64_t ns = std::max<std::uint64_t>(r.newest->at_ns - since.at_ns, 1);
    return static_cast<double>(r.newest->ordinal - since.ordinal) / static_cast<double>(ns);
  };
  if (r.newest->ordinal < first.ordinal + kLeastOperations) return {};
  const double whole = rate(first), late = rate(middle);
  if (late * kMostApart < whole || whole * kMostApart < late) return {};
  return static_cast<std::uint64_t>(static_cast<double>(r.known - r.newest->ordinal) / late);
}

}  // namespace rejoin::launcher
