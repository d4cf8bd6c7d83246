// What a rank sees besides MPI: the time, files that are there or not, random bytes.
//
// Each answer is recorded before the program gets it; in the next incarnation the program is given
// the same answers in the same order. The stream is one per rank; its format is in
// observation_log.h.
//
// The caller does this for every question:
//
//     if (!recall(question)) { ask the system; record(question, answer); }
//
// recall() is true as long as there are records of former incarnations. A question that differs
// from the recorded one ends the job (BasicRank::diverged), except for readings of clocks. If
// another clock was recorded, or none, the program is given a value between the neighbouring
// readings; recorded readings that are left out are skipped. Their effects on messages and
// contributions are compared like all others. A record takes a few bytes; a repeated answer
// increments a counter in place, so that a polling loop does not flood the journal. Main thread
// only; another thread may be inside MPI meanwhile. Nothing blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "libc_recording/file_facts.h"
#include "libc_recording/memory.h"
#include "libc_recording/names.h"
#include "libc_recording/observation_log.h"

namespace rejoin::libc_recording {

class Observations {
 public:
  // There is one object for each incarnation of a rank. The first one records the process ids.
  // `rank` outlives it; memory comes from its arena. REQUIRES that no other thread is inside MPI
  // now.
  explicit Observations(recovery::Rank& rank);
  Observations(const Observations&) = delete;
  Observations& operator=(const Observations&) = delete;

  // For numbers, in values[fields_of(series)]. record(): `values` holds what the system said and is
  // changed to what the program shall get: clocks of a new process go on where those of the old one
  // stopped, and one that is polled without pause ticks coarsely (see kPollsFine).
  bool recall(Series series, std::int64_t* values) {
    if (live_) return false;
    return recall_slowly(series, values);
  }
  void record(Series series, std::int64_t* values);

  // For everything else.
  bool recall(Event& event) {
    if (live_) return false;
    return recall_slowly(event);
  }
  void record(const Event& event);
  // Returns how many bytes the answer has that recall() would give next; 0: it would give none.
  std::uint32_t next_answer_bytes() { return !live_ && peek_event() ? current_.data_bytes : 0; }

  // This incarnation goes on behind a checkpoint: what was recorded before `position` is not given
  // any more. A question that is not the recorded one then belongs to the program's bootstrap
  // phase, which runs once more: the system answers it, and the answer is not recorded.
  void skip_to(std::uint64_t position);

  // Makes what is recorded from here on readable without what lies before. To be called at
  // checkpoints, before they note the log's tail as their position.
  void mark();
  // Records behind the last mark() before `keep_from` may be overwritten: no incarnation will
  // skip_to() less than `keep_from`.
  void truncate(std::uint64_t keep_from);

  // Whether every record of former incarnations has been given.
  bool is_live() { return live_ || (!peek() && live_); }
  // An image is made here. To be called behind mark() and truncate(), which write to the log.
  void note_image() { image_at_ = writer_.tail(); }
  // Called in an image of a process that has been woken: what has been recorded since note_image()
  // is given next.
  void wake();
  // Called in another process of the rank: its clocks go on where those of the former one stopped.
  void restart_clocks();

  // Process ids that the first incarnation had: its own and its parent's.
  std::uint32_t pid() const { return head_.pid; }
  std::uint32_t parent() const { return head_.parent; }

  // Returns whether it has been called with this path before.
  bool told(const char* name);

  // Returns how far the program's view of a clock is ahead of the kernel's clock, which reads `now`
  // (in the unit of the series). REQUIRES a series with one field.
  std::int64_t ahead(Series series, std::int64_t now);

  FileFacts& files() { return files_; }
  Memory& memory() { return memory_; }
  recovery::Rank& rank() { return rank_; }

 private:
  struct Clock {
    std::int64_t offset[kMaxFields];
    bool live;                // this incarnation has asked the system
    std::uint32_t polls;      // reads without a pause between them
    std::int64_t poll_began;  // the value at the first of these reads
    std::int64_t previous;    // what the system said last
    std::int64_t fitted;      // newest interpolated value that was given; 0: none
  };

  // A loop that only looks at a clock until some time is reached must not write gigabytes. After
  // kPollsFine reads with less than kPollGap_us between them the clock ticks in steps of a
  // kPollGrain-th of the time that the loop has lasted: never ahead, never back, at most 0.4 %
  // behind.
  static constexpr std::uint32_t kPollsFine = 64;
  static constexpr std::int64_t kPollGap_us = 2;
  static constexpr std::int64_t kPollGrain = 256;

  static constexpr std::size_t kLongestVarint = 10;
  static constexpr std::size_t kLongestHead = 1 + kMaxFields * kLongestVarint;

  LibcHead& open_head();

  bool recall_slowly(Series series, std::int64_t* values);
  bool recall_slowly(Event& event);
  bool peek();
  bool peek_event();
  bool fit(Series series, std::int64_t* values);
  bool read_entry();
  bool recording();

  void continue_clock(Series series, Clock& clock, std::int64_t* values);
  static bool too_fine(Series series, Clock& clock, std::int64_t now, std::int64_t last);
  bool same_as_last(const std::byte* head, std::size_t head_bytes, const Event& event);
  void repeat();
  std::uint32_t intern(const char* name);
  void append(const void* data, std::size_t bytes);
  void pad();
  void overwrite_before(std::uint64_t begin);

  void describe(const Observation& o, char* text, std::size_t size);
  [[noreturn]] void diverge(const char* asked);

  recovery::Rank& rank_;
  const journal::SegmentHeader* header_;
  Memory memory_;
  ByteWriter writer_;
  LibcHead& head_;
  ObservationReader reader_;  // also holds the last value of each series, for the next difference
  FileFacts files_;
  NameTable names_;
  Set told_;  // hashes of paths

  bool live_ = false;         // every record has been given
  bool skipped_ = false;      // skip_to() was called
  Observation current_ = {};  // the record that is to be given `left_` times more
  std::uint32_t left_ = 0;
  std::uint64_t given_ = 0;
  Array<std::uint64_t> bases_;  // where the log's bases begin, ascending
  std::uint64_t marked_ = 0;    // where the newest base ends
  std::uint64_t image_at_ = 0;  // where the log ended when the newest image was made
  Clock* clocks_;

  // The newest entry, for repeats: an event's first byte and size in the log, or a series.
  std::uint64_t last_event_ = 0;
  std::size_t last_event_bytes_ = 0;
  Series last_series_ = Series::kEnd;
  std::uint32_t* repeat_word_ = nullptr;  // COUNT of the newest entry's repeat, if it has one
};

// These call skip_to(), mark() and truncate() of this process's observations, if it has any.
void skip_observations(std::uint64_t position);
void mark_observations();
void truncate_observations(std::uint64_t keep_from);
// For an image of this process; on the main thread, or while it is stopped. Whether an image may be
// made now: every record has been given, and the main thread was not stopped while it made one.
bool has_live_observations();
// mark(), truncate() and note_image(). REQUIRES has_live_observations().
void mark_image(std::uint64_t keep_from);
// Calls wake() of them.
void wake_observations();
// Called in a clone that takes the place of this process, with the segment where it was.
void move_observations();

}  // namespace rejoin::libc_recording
