// Answers that depend on when the program asked: Test, Waitany, Waitsome, probes. They are recorded
// in the order of asking; a new incarnation gets the same answers.
//
//     log     := word*
//     word    := KIND:8 COUNT:24 VALUE:32, from the top: the same answer COUNT times in a row.
//                COUNT of the newest word changes in place, so that a loop that polls
//                leaves one word
//              | 64 bits of any meaning, where the word before it says so (kPair)
#pragma once

#include <atomic>
#include <cstdint>

#include "journal/journal.h"
#include "journal/rules.h"
#include "journal/step.h"
#include "recovery/outcome_kind.h"

namespace rejoin::recovery {

template <journal::Host H>
class Outcomes {
 public:
  struct Answer {
    OutcomeKind kind;
    std::uint32_t value;
  };

  Outcomes(H& host, journal::Region<H>& region)
      : host_(host), region_(region), log_(host, region, region.head()->outcomes, true) {}

  // Returns whether former incarnations have recorded answers that this one has not replayed.
  bool has_more() const { return position_ < log_.tail(); }
  // Returns the next recorded answer. False: there is none.
  bool recall(Answer* answer) {
    if (position_ >= log_.tail()) return false;
    const std::uint64_t word = journal::load_element(*log_.at(position_));
    *answer = {static_cast<OutcomeKind>(word >> 56), static_cast<std::uint32_t>(word)};
    if (++used_ >= count_of(word)) {
      ++position_;
      used_ = 0;
    }
    return true;
  }
  // Called after kPair.
  std::uint64_t recall_word() { return journal::load_element(*log_.at(position_++)); }

  // Records the answer, before the program sees it.
  void record(OutcomeKind kind, std::uint32_t value) {
    if (!records()) return;
    const std::uint64_t word = make(kind, value);
    if (open_ && (newest_ & ~kCountBits) == (word & ~kCountBits) &&
        count_of(newest_) < kMostInARow) {
      newest_ += make_count(1);
      journal::store_element(host_, journal::Step::kOutcome, *log_.at(log_.tail() - 1), newest_);
      return;
    }
    open_ = true;
    newest_ = word + make_count(1);
    append(newest_);
  }
  void record_pair(std::uint64_t match) {
    if (!records()) return;
    write(make(OutcomeKind::kPair, 0) + make_count(1));
    write(match);
    show();
  }
  // Records several indices, which become visible together.
  void record_some(const int* indices, int count) {
    if (!records()) return;
    write(make(OutcomeKind::kCount, static_cast<std::uint32_t>(count)) + make_count(1));
    for (int i = 0; i < count; ++i) {
      write(make(OutcomeKind::kIndex, static_cast<std::uint32_t>(indices[i])) + make_count(1));
    }
    show();
  }

  // Ends the count of the newest word, and returns the length of the log: a version or image that
  // is made now begins there.
  std::uint64_t seal() {
    open_ = false;
    return log_.tail();
  }
  void restore(std::uint64_t position) {
    position_ = position;
    used_ = 0;
    open_ = false;
    truncate(position);
  }
  void truncate(std::uint64_t keep_from) { log_.truncate(keep_from); }
  // Called in a woken image: reads the log again, because the process of which this is an image has
  // recorded more answers, which are replayed next.
  void rebase() {
    log_.rebase();
    used_ = 0;
    open_ = false;
  }

 private:
  bool records() const {
    return region_.retention().serves_replays() &&
           !journal::breaks(host_, journal::Rule::kOutcomeRecorded);
  }

  static constexpr std::uint64_t kMostInARow = (1u << 24) - 1;
  static constexpr std::uint64_t kCountBits = kMostInARow << 32;
  static constexpr std::uint64_t make(OutcomeKind kind, std::uint32_t value) {
    return std::uint64_t{static_cast<std::uint8_t>(kind)} << 56 | value;
  }
  static constexpr std::uint64_t make_count(std::uint64_t count) { return count << 32; }
  static constexpr std::uint64_t count_of(std::uint64_t word) { return word >> 32 & kMostInARow; }

  void append(std::uint64_t word) {
    write(word);
    log_.show(journal::Step::kOutcome);
    position_ = log_.tail();
  }
  void write(std::uint64_t word) {
    std::uint64_t* at = log_.next();
    journal::check(
        host_, at != nullptr,
        "the journal cannot grow, because memory (or the space in --journal-dir) is used "
        "up: give the job more, or set --journal-limit below what is available");
    *at = word;
    log_.advance(1);
  }
  void show() {
    log_.show(journal::Step::kOutcome);
    open_ = false;
    position_ = log_.tail();
  }

  H& host_;
  journal::Region<H>& region_;
  journal::LogWriter<std::uint64_t, H> log_;
  std::uint64_t position_ = 0;  // of the next answer; the tail: there are no more
  std::uint64_t used_ = 0;      // how much of its count has been replayed
  bool open_ = false;           // the count of the newest word may still grow
  std::uint64_t newest_ = 0;
};

}  // namespace rejoin::recovery
