// When snapshots are made: pure arithmetic on times.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rejoin::launcher {

struct SnapshotOptions {
  enum class When : std::uint8_t { kAuto, kOff, kPeriod };
  When when = When::kAuto;
  std::uint64_t period_ns = 0;    // kPeriod
  std::uint64_t every_bytes = 0;  // of journal, of all ranks together; 0: a default
};

class SnapshotPolicy {
 public:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  // So that a small journal is truncated behind an image before it is full.
  static constexpr std::uint64_t default_every_bytes(std::uint64_t journal_limit_bytes) {
    return std::min<std::uint64_t>(64 << 20, journal_limit_bytes / 4);
  }

  explicit SnapshotPolicy(const SnapshotOptions& options) : options_(options) {}

  // When to look next, on the clock of began(); kNever: not at all.
  std::uint64_t due_ns() const {
    if (options_.when == SnapshotOptions::When::kOff) return kNever;
    const std::uint64_t regular = began_ns_ + period_ns();
    return asked_ ? std::min(regular, began_ns_ + kCostsBetween * cost_ns_) : regular;
  }
  // The job's ranks run.
  void began(std::uint64_t now_ns) { began_ns_ = now_ns; }
  // Whether a round begins now. `cost_ns`: what the newest snapshot has cost so far the rank that
  // it has cost most. It grows while pages are copied, so a round that was due may be due later.
  bool look(std::uint64_t now_ns, std::uint64_t cost_ns) {
    cost_ns_ = cost_ns;
    if (now_ns < due_ns()) return false;
    began_ns_ = now_ns;
    asked_ = false;
    return true;
  }
  // What the first snapshot of so many pages may cost at most, as it counts: nobody knows how many
  // of them will be written. It comes when that is 2 % of the time.
  static constexpr std::uint64_t first_cost_ns(std::uint64_t pages, std::uint64_t page_ns) {
    return pages * page_ns * kCostsOfFirst / kCostsOfPeriod;
  }
  // A rank's journal has grown by its share of every_bytes, or an image was lost.
  void asked() { asked_ = true; }

 private:
  // At most 1 % of the time; if the journal grows fast, which costs more, at most 5 %.
  static constexpr std::uint64_t kShortestNs = 1'000'000'000;
  static constexpr std::uint64_t kCostsOfPeriod = 100;
  static constexpr std::uint64_t kCostsBetween = 20;
  static constexpr std::uint64_t kCostsOfFirst = 50;

  std::uint64_t period_ns() const {
    if (options_.when == SnapshotOptions::When::kPeriod) return options_.period_ns;
    return std::max(kShortestNs, kCostsOfPeriod * cost_ns_);
  }

  const SnapshotOptions options_;
  std::uint64_t began_ns_ = 0;
  std::uint64_t cost_ns_ = 0;
  bool asked_ = false;
};

}  // namespace rejoin::launcher
