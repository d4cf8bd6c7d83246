// Progress of a set of written images: when one may begin, and which of its images have been
// written. Pure.
//
//   an image of the set      leaves it by
//   kAsked                   writing() -> kWriting
//   kWriting                 ended() with 0 -> kWritten
//
// After any other event the set is given up: only all its images together are of use.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "launcher/agent/agent_core.h"
#include "launcher/base/record.h"

namespace rejoin::launcher {

// The rules of SetProgress, each enforced in one place. Tests disable them one by one, to prove
// that each violation is noticed.
enum class SetRule : std::uint8_t {
  kNone,
  kOneAtATime,        // no set is begun while another one is being written
  kTellLong,          // a set that takes long is reported
  kNotWhenFull,       // none is begun when the journal is full: what images need may be lost
  kNotBehindWrapper,  // nor if a rank has a wrapper, which a resumed job would not have
  kOfAll,             // nor before each rank runs and has an image
  kWaitForSet,        // nor before the images are a set by themselves, for a period at most
  kAllStand,          // the journal is not copied while a rank changes it,
  kNotWhenFilled,     // nor if it became full before all ranks were stopped
  kOfThisSet,         // messages about another set, perhaps from the same images, are ignored
  kAwaitClone,        // an image is not ended before it has cloned itself
  kImageDied,         // if it dies before that, the set is given up,
  kNotCloned,         // also if it cannot clone itself,
  kEndedWell,         // and if its clone ends otherwise than with exit code 0
  kAllWritten,        // a set is whole when all of its images are written,
  kWholeOnce,         // and completed once
};

class SetProgress {
 public:
  void leave_out(SetRule rule) { left_out_ = rule; }

  // Whether a set may be begun now. why_not: the reason, if it is to be reported, else empty. If
  // the images are no set by themselves, a job that resumes from them has to repeat what it has
  // done since, so the set waits for others, but not longer than `period_ns`.
  struct Verdict {
    bool begin = false;
    std::string why_not = {};
  };
  Verdict look(const AgentCore& ranks, bool journal_full, std::uint64_t now_ns,
               std::uint64_t period_ns) {
    if (open_ && holds(SetRule::kOneAtATime)) {
      // A full disk is an error; a disk that does not answer only makes the set take long.
      const bool tell = now_ns - begun_at_ns_ > kLongNs && holds(SetRule::kTellLong);
      return {false, tell ? "the previous set is still being written" : ""};
    }
    if (journal_full && holds(SetRule::kNotWhenFull)) return {};
    for (const std::uint32_t r : ranks.local()) {
      if (ranks.has_wrapper(r) && holds(SetRule::kNotBehindWrapper)) {
        return {false, "rank " + std::to_string(r) +
                           " is run by a script that waits for it, and --resume would not run the "
                           "rest of the script; let it end by exec PROGRAM (docs/snapshots.md)"};
      }
      if (!ranks.can_be_written(r) && holds(SetRule::kOfAll)) return {};
    }
    if (waits_since_ns_ == 0) waits_since_ns_ = now_ns;
    const bool waits = !ranks.has_set() && now_ns - waits_since_ns_ < period_ns;
    return {!waits || !holds(SetRule::kWaitForSet)};
  }

  // Returns whether the journal may be copied, after look() has let a set begin. Ranks that were
  // asked to stop may have filled the journal before they stopped.
  bool may_copy(bool all_stand, bool journal_full) const {
    return (all_stand || !holds(SetRule::kAllStand)) &&
           !(journal_full && holds(SetRule::kNotWhenFilled));
  }

  // Records that each image (its process id, by rank) has been asked to write itself. REQUIRES
  // !open().
  void begin(std::uint32_t number, std::uint64_t now_ns,
             const std::map<std::uint32_t, std::int64_t>& images) {
    number_ = number;
    begun_at_ns_ = now_ns;
    waits_since_ns_ = 0;
    open_ = true;
    taken_ = false;
    fault_.clear();
    parts_.clear();
    for (const auto& [rank, image] : images) parts_[rank] = {State::kAsked, image, 0};
  }
  // The set has ended, complete or not.
  void end() { open_ = false; }

  bool open() const { return open_; }
  std::uint32_t number() const { return number_; }
  std::uint64_t begun_at_ns() const { return begun_at_ns_; }
  // Returns whether this image has been asked and has not cloned itself yet. It must live until
  // then.
  bool awaits(std::int64_t image) const {
    for (const auto& [rank, p] : parts_) {
      const bool asked = open_ && p.image == image && p.state == State::kAsked;
      if (asked && holds(SetRule::kAwaitClone)) return true;
    }
    return false;
  }
  // Why the set will never be complete; empty: it may be.
  const std::string& fault() const { return fault_; }
  // Returns true once, when all images of the set are written.
  bool take_whole() {
    if (!open_ || !fault_.empty()) return false;
    for (const auto& [rank, p] : parts_) {
      if (p.state != State::kWritten && holds(SetRule::kAllWritten)) return false;
    }
    return !std::exchange(taken_, true) || !holds(SetRule::kWholeOnce);
  }

  // The rank's image has cloned itself for set `number`; clone 0: it could not.
  void writing(std::uint32_t rank, std::uint32_t number, std::int64_t clone) {
    if (!is_this(number)) return;
    Part& part = parts_.at(rank);
    if (part.state != State::kAsked) return;
    part.state = State::kWriting;
    part.clone = clone;
    if (clone == 0 && holds(SetRule::kNotCloned))
      fail("an image could not be cloned to be written");
  }
  void not_written(std::uint32_t number, const std::string& why) {
    if (is_this(number)) fail(why);
  }
  // Returns whether a clone of this image is writing. The clone reports a failure over the image's
  // connection.
  bool is_being_written(std::int64_t image) const {
    for (const auto& [rank, p] : parts_) {
      if (open_ && p.image == image && p.state == State::kWriting) return true;
    }
    return false;
  }
  // If this process writes an image, returns the image's rank.
  std::optional<std::uint32_t> writer_of(std::int64_t pid) const {
    for (const auto& [rank, p] : parts_) {
      if (open_ && p.state == State::kWriting && p.clone == pid) return rank;
    }
    return {};
  }
  // A process has ended. It matters here if it was an image that was asked, or the writing clone.
  void ended(std::int64_t pid, const Cause& cause) {
    for (auto& [rank, p] : parts_) {
      const bool asked = p.state == State::kAsked && p.image == pid;
      if (asked && holds(SetRule::kImageDied)) fail("an image died before it was written");
      if (p.state != State::kWriting || p.clone != pid) continue;
      const bool well = cause.kind == Cause::Kind::kExit && cause.value == 0;
      if (well || !holds(SetRule::kEndedWell)) {
        p.state = State::kWritten;
      } else {
        fail("a process that wrote an image died (" + to_text(cause) + ")");
      }
    }
  }

 private:
  // A set that takes longer than this to be written is reported.
  static constexpr std::uint64_t kLongNs = 60'000'000'000;

  enum class State { kAsked, kWriting, kWritten };
  struct Part {
    State state;
    std::int64_t image;
    std::int64_t clone;
  };

  bool holds(SetRule rule) const { return rule != left_out_; }
  bool is_this(std::uint32_t number) const {
    return open_ && (number == number_ || !holds(SetRule::kOfThisSet));
  }
  void fail(const std::string& why) {
    if (fault_.empty()) fault_ = why;
  }

  SetRule left_out_ = SetRule::kNone;
  bool open_ = false;
  bool taken_ = false;
  std::uint32_t number_ = 0;
  std::uint64_t begun_at_ns_ = 0;
  std::uint64_t waits_since_ns_ = 0;     // 0: the next set could not be begun yet
  std::map<std::uint32_t, Part> parts_;  // by rank
  std::string fault_;
};

}  // namespace rejoin::launcher
