// Decides when snapshots are made. Pure arithmetic on times.
#pragma once

#include <algorithm>
#include <cstdint>

#include "launcher/base/options.h"

namespace rejoin::launcher {

// How ranks are asked for images.
enum class SnapshotRound : std::uint8_t {
  kNone,
  kTogether,    // all ranks; if each can make one, the images are a set
  kToTruncate,  // all ranks, and no image waits for those of other ranks, because a rank waits for
                // the truncation of its nearly full journal
};

class SnapshotPolicy {
 public:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  // Rounds cost more than the memory that they save, so a host that has more memory for journals
  // has fewer of them. `memory_bytes`: what journals may take of this host's.
  static constexpr std::uint64_t default_every_bytes(std::uint64_t journal_limit_bytes,
                                                     std::uint64_t memory_bytes) {
    constexpr std::uint64_t kLeast = 64 << 20, kMost = 1 << 30;
    const std::uint64_t share = std::min(journal_limit_bytes, memory_bytes) / 64;
    return std::min(std::clamp(share, kLeast, kMost), most_every_bytes(journal_limit_bytes));
  }
  // Even a small journal is truncated after an image before it is full.
  static constexpr std::uint64_t most_every_bytes(std::uint64_t journal_limit_bytes) {
    return journal_limit_bytes / 4;
  }

  explicit SnapshotPolicy(const SnapshotOptions& options) : options_(options) {}

  // Time of the next look(), on the clock of began(); kNever: not at all.
  std::uint64_t due_ns() const {
    if (!options_.on()) return kNever;
    return round_ns();
  }
  // The job's ranks have begun to run.
  void began(std::uint64_t now_ns) { began_ns_ = now_ns; }
  // Returns the round that begins now. `cost_ns`: cost so far of the newest snapshot, of the rank
  // where it is highest. It grows while pages are copied, which may postpone a round that was due.
  SnapshotRound look(std::uint64_t now_ns, std::uint64_t cost_ns) {
    cost_ns_ = cost_ns;
    if (now_ns < due_ns()) return SnapshotRound::kNone;
    const auto round = waited_for_ ? SnapshotRound::kToTruncate : SnapshotRound::kTogether;
    begins(now_ns);
    asked_ = waited_for_ = nearly_full_ = false;
    return round;
  }
  // A round of images begins on all hosts.
  void begins_set(std::uint64_t now_ns) {
    begins(now_ns);
    backed_at_wanted_ = backed_bytes_;
  }
  // The set that this round made is committed.
  void kept_set() {
    backed_at_set_ = backed_at_wanted_;
    truncation_waits_ = false;
  }
  // Returns how much the journals' memory has grown since the newest committed set was requested.
  std::uint64_t backed_since_set() const { return backed_bytes_ - backed_at_set_; }
  // Whether, since then, a rank has blocked until its journal was truncated, or the journals have
  // grown beyond half of their limit.
  bool truncation_waits() const { return truncation_waits_; }
  // A round begins that look() has not asked for.
  void begins(std::uint64_t now_ns) {
    began_ns_ = now_ns;
    used_at_round_ = used_bytes_;
    backed_at_round_ = backed_bytes_;
  }
  // Upper bound for the cost of the first snapshot, scaled for look(): every page may be written
  // after it. The first snapshot is made when that is 2 % of the time.
  static constexpr std::uint64_t first_cost_ns(std::uint64_t pages, std::uint64_t page_ns) {
    return pages * page_ns * kCostsOfFirst / kCostsOfPeriod;
  }
  // An image was lost.
  void asked() { asked_ = true; }
  // A rank waits for its image, because the journal is nearly full.
  void waited_for() { asked_ = waited_for_ = truncation_waits_ = true; }
  // The images of all ranks take this much memory. What an image takes grows while its rank writes
  // to pages that it has not written to since, so new images take less. Returns whether the images
  // are to be ended: new ones come too late.
  bool memory_taken(std::uint64_t bytes) {
    const std::uint64_t most = options_.memory_bytes;
    if (most == 0 || bytes <= most) return false;
    asked_ = true;
    return bytes - most > most / 4;
  }
  // For all journals together: bytes allocated since the job began, and memory in use, of
  // `limit_bytes` (0: no limit). If the journals are more than half full and have grown, the next
  // round comes soon in spite of its cost: once they are full, no death can be repaired.
  void grown(std::uint64_t used_bytes, std::uint64_t backed_bytes, std::uint64_t limit_bytes) {
    used_bytes_ = used_bytes;
    backed_bytes_ = backed_bytes;
    nearly_full_ |=
        limit_bytes != 0 && backed_bytes > limit_bytes / 2 && backed_bytes > backed_at_round_;
    truncation_waits_ |= nearly_full_;
    asked_ |= nearly_full_ || used_bytes - used_at_round_ >= options_.every_bytes;
  }
  // Cost to the job if the highest cost to a rank is `cost_ns`: image and ftrun cost the same again
  // (measured: 0.5 to 1 ms in all), and there may be fewer processors than ranks.
  static constexpr std::uint64_t job_cost_ns(std::uint64_t cost_ns, std::uint64_t ranks,
                                             std::uint64_t processors) {
    return std::max(cost_ns, 2 * cost_ns * ranks / std::max<std::uint64_t>(processors, 1));
  }

 private:
  // Snapshots take at most 1 % of the time, and more only if the journal grows fast
  // (kCostsBetween) or is nearly full (kCostsWhenFull).
  static constexpr std::uint64_t kShortestNs = 1'000'000'000;
  static constexpr std::uint64_t kCostsOfPeriod = 100;
  static constexpr std::uint64_t kCostsBetween = 20;
  static constexpr std::uint64_t kCostsWhenFull = 2;
  static constexpr std::uint64_t kCostsOfFirst = 50;

  std::uint64_t period_ns() const {
    if (options_.when == SnapshotOptions::When::kPeriod) return options_.period_ns;
    return std::max(kShortestNs, kCostsOfPeriod * cost_ns_);
  }

  // Time at which the next round is due.
  std::uint64_t round_ns() const {
    const std::uint64_t regular = began_ns_ + period_ns();
    if (!asked_) return regular;
    if (waited_for_) return began_ns_;
    const std::uint64_t costs = nearly_full_ ? kCostsWhenFull : kCostsBetween;
    // The more the journal exceeds every_bytes, the shorter is the gap to the next round.
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
  std::uint64_t backed_bytes_ = 0;
  std::uint64_t backed_at_round_ = 0, backed_at_wanted_ = 0, backed_at_set_ = 0;
  bool asked_ = false;
  bool waited_for_ = false;
  bool nearly_full_ = false;
  bool truncation_waits_ = false;
};

}  // namespace rejoin::launcher
