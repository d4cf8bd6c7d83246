// When snapshots are made: pure arithmetic on times.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rejoin::launcher {

struct SnapshotOptions {
  enum class When : std::uint8_t { kAuto, kOff, kPeriod };
  When when = When::kAuto;
  std::uint64_t period_ns = 0;    // kPeriod
  std::uint64_t every_bytes = 0;  // of journal, of all ranks together; 0: the default
};

// What the agent wants of the ranks, if it wants anything.
enum class SnapshotRound : std::uint8_t {
  kNone,
  kAtCheckpoint,  // half a period: each rank makes an image when it enters its next checkpoint
  kPeriodEnds,    // each rank that has made none at a checkpoint makes one at its next operation
  kAtOnce,        // all ranks do, because an image was lost or the journal has grown
};

// In a program that makes checkpoints a checkpoint is a good moment for an image: requests are
// complete, memory is small, and ranks are near each other. So the second half of a period is left
// to them to make the period's image there. Only the end of the period, or a round at once, begins
// the next period: on average a rank makes at most one image a period.
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
    return half_is_left() ? std::min(half_ns(), round_ns()) : round_ns();
  }
  // The job's ranks run.
  void began(std::uint64_t now_ns) { began_ns_ = now_ns; }
  // The program makes checkpoints.
  void checkpoints_made() { checkpoints_ = true; }
  // Which round begins now. `cost_ns`: what the newest snapshot has cost so far the rank that it
  // has cost most. It grows while pages are copied, so a round that was due may be due later.
  SnapshotRound look(std::uint64_t now_ns, std::uint64_t cost_ns) {
    cost_ns_ = cost_ns;
    if (now_ns < due_ns()) return SnapshotRound::kNone;
    if (now_ns < round_ns()) {
      half_passed_ = true;
      used_at_half_ = used_bytes_;
      return SnapshotRound::kAtCheckpoint;
    }
    const SnapshotRound round = asked_ ? SnapshotRound::kAtOnce : SnapshotRound::kPeriodEnds;
    began_ns_ = now_ns;
    // No image is made now of ranks that have made one at a checkpoint.
    if (asked_ || !half_came_) {
      used_at_round_ = used_bytes_;
      backed_at_round_ = backed_bytes_;
    }
    asked_ = waited_for_ = nearly_full_ = half_passed_ = half_came_ = false;
    return round;
  }
  // Images that were wanted at a checkpoint have come of all ranks: the journal is truncated.
  void half_came() {
    if (!half_passed_ || half_came_) return;
    half_came_ = true;
    used_at_round_ = used_at_half_;
  }
  // What the first snapshot of so many pages may cost at most, as it counts: nobody knows how many
  // of them will be written. It comes when that is 2 % of the time.
  static constexpr std::uint64_t first_cost_ns(std::uint64_t pages, std::uint64_t page_ns) {
    return pages * page_ns * kCostsOfFirst / kCostsOfPeriod;
  }
  // An image was lost.
  void asked() { asked_ = true; }
  // A rank waits for its image, because the journal is nearly full.
  void waited_for() { asked_ = waited_for_ = true; }
  // All journals together: so much has been handed out since the job began, and so much memory
  // they have taken, of `limit_bytes` (0: of any). If they are more than half full and have grown,
  // the next round comes soon although it costs much: full they would end all protection.
  void grown(std::uint64_t used_bytes, std::uint64_t backed_bytes, std::uint64_t limit_bytes) {
    used_bytes_ = used_bytes;
    backed_bytes_ = backed_bytes;
    nearly_full_ |=
        limit_bytes != 0 && backed_bytes > limit_bytes / 2 && backed_bytes > backed_at_round_;
    asked_ |= nearly_full_ || used_bytes - used_at_round_ >= options_.every_bytes;
  }
  // What the job pays if the dearest of its ranks pays `cost_ns` itself: as much again is paid by
  // the image and by ftrun (measured: 0.5 to 1 ms in all), and processors may be fewer than ranks.
  static constexpr std::uint64_t job_cost_ns(std::uint64_t cost_ns, std::uint64_t ranks,
                                             std::uint64_t processors) {
    return std::max(cost_ns, 2 * cost_ns * ranks / std::max<std::uint64_t>(processors, 1));
  }

 private:
  // At most 1 % of the time; if the journal grows fast, which costs more, at most 5 %.
  static constexpr std::uint64_t kShortestNs = 1'000'000'000;
  static constexpr std::uint64_t kCostsOfPeriod = 100;
  static constexpr std::uint64_t kCostsBetween = 20;
  static constexpr std::uint64_t kCostsWhenFull = 2;
  static constexpr std::uint64_t kCostsOfFirst = 50;

  std::uint64_t period_ns() const {
    if (options_.when == SnapshotOptions::When::kPeriod) return options_.period_ns;
    return std::max(kShortestNs, kCostsOfPeriod * cost_ns_);
  }

  bool half_is_left() const { return checkpoints_ && !half_passed_; }
  std::uint64_t half_ns() const { return began_ns_ + period_ns() / 2; }
  // When the next round without the mark is due.
  std::uint64_t round_ns() const {
    const std::uint64_t regular = began_ns_ + period_ns();
    if (!asked_) return regular;
    if (waited_for_) return began_ns_;
    const std::uint64_t costs = nearly_full_ ? kCostsWhenFull : kCostsBetween;
    // A journal that has grown to a multiple of what it should is worth as many times the cost.
    const double times =
        std::max(1.0, static_cast<double>(used_bytes_ - used_at_round_) /
                          static_cast<double>(std::max<std::uint64_t>(options_.every_bytes, 1)));
    const auto gap = static_cast<std::uint64_t>(static_cast<double>(costs * cost_ns_) / times);
    return std::min(regular, began_ns_ + gap);
  }

  const SnapshotOptions options_;
  std::uint64_t began_ns_ = 0;
  std::uint64_t cost_ns_ = 0;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t used_at_round_ = 0;  // when the newest images were wanted
  std::uint64_t used_at_half_ = 0;
  std::uint64_t backed_bytes_ = 0;
  std::uint64_t backed_at_round_ = 0;
  bool asked_ = false;
  bool waited_for_ = false;
  bool nearly_full_ = false;
  bool checkpoints_ = false;  // the program makes some
  bool half_passed_ = false;  // of this period
  bool half_came_ = false;    // and the images that were wanted at it
};

}  // namespace rejoin::launcher
