// What a rank sees besides MPI: the time, files that are there or not, random bytes.
//
// Each answer is recorded before the program gets it; in the next incarnation the program is given
// the same answers in the same order. The stream is one per rank; its format is in
// observation_log.h.
//
// For every question, in this order:
//
//     if (!recall(question)) { ask the system; record(question, answer); }
//
// recall() is true as long as there are records of former incarnations. A question that is not the
// recorded one ends the job (recovery::BasicRank::diverged). A record is a handful of bytes; the
// same answer again is a counter changed in place, so that a loop that polls does not flood the
// journal. Main thread only. Nothing blocks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/region.h"
#include "libc_recording/observation_log.h"
#include "recovery/basic_rank.h"

namespace rejoin::libc_recording {

template <class Host>
class Observations {
 public:
  // One per rank and incarnation. `rank` outlives it; memory comes from its arena.
  explicit Observations(recovery::BasicRank<Host>& rank);
  Observations(const Observations&) = delete;
  Observations& operator=(const Observations&) = delete;

  // Numbers. record(): `values` holds what the system said and is changed to what the program shall
  // get: clocks of a new process go on where the old one's stopped, and one that is polled without
  // pause ticks coarsely (see kPollsFine). [fields_of(series)] values.
  bool recall(Series series, std::int64_t* values) {
    if (live_) return false;
    return recall_slowly(series, values);
  }
  void record(Series series, std::int64_t* values);

  // Everything else.
  bool recall(Event& event) {
    if (live_) return false;
    return recall_slowly(event);
  }
  void record(const Event& event);

  // This life goes on behind a checkpoint: what was recorded before `position` is not given any
  // more. From here on a question that is not the recorded one is the program's set-up, done once
  // more: it is answered by the system, and not recorded.
  void skip_to(std::uint64_t position);

  // Files (OpenedFile::file) that this replay fills again, and the path where it has found them:
  // one that some event has named, else the path is not kept. rewritten(): `path`, if not null,
  // gets it.
  void set_rewritten(std::uint32_t file, const char* path);
  bool rewritten(std::uint32_t file, char* path, std::size_t room_bytes);

  // Ghosts: files that a replay makes in place of those that are gone, because the first execution
  // has removed or renamed them since. Each is noted for the next replay, should this one die:
  // first about_to_make_ghost(), then set_ghost(). The first question reads the whole log.
  void about_to_make_ghost(const char* path) { note_made(0, path); }
  void set_ghost(std::uint32_t file);
  bool ghost(std::uint32_t file);
  // What replays that died were about to make, newest first.
  enum class Noted { kNothing, kGhost, kPerhaps };  // kPerhaps: it died just then
  Noted noted_ghost(std::size_t n, char* path, std::size_t room_bytes);

  // Whether another rank of this host has opened this file (OpenedFile::file) for writing; `kept`:
  // and has not emptied it by that. The first question reads all their logs.
  bool written_elsewhere(std::uint32_t file, bool kept);

  // False the first time that it is asked about this path, of those that some event has named.
  bool told(const char* name);

  recovery::BasicRank<Host>& rank() { return rank_; }

 private:
  struct Name {
    std::uint64_t hash;
    std::uint64_t position;  // of its text in the log
    std::uint32_t bytes;
    bool told;  // the user has had a notice about it
  };
  struct Set {
    std::uint64_t* items = nullptr;  // sorted
    std::size_t size = 0;
    std::size_t room = 0;
    bool has(std::uint64_t item) const { return std::binary_search(items, items + size, item); }
    // The smallest that is not below `item`; 0: there is none.
    std::uint64_t from(std::uint64_t item) const {
      const std::uint64_t* found = std::lower_bound(items, items + size, item);
      return found == items + size ? 0 : *found;
    }
  };
  struct Clock {
    std::int64_t offset[kMaxFields];
    bool live;                // this incarnation has asked the system
    std::uint32_t polls;      // reads without a pause between them
    std::int64_t poll_began;  // of the first of them
    std::int64_t previous;    // what the system said last
  };

  // A loop that only looks at a clock until some time is reached must not write gigabytes. After
  // kPollsFine reads with less than kPollGap_us between them the clock ticks in steps of a
  // kPollGrain-th of the time that the loop has lasted: never ahead, never back, 0.4 % late at
  // most.
  static constexpr std::uint32_t kPollsFine = 64;
  static constexpr std::int64_t kPollGap_us = 2;
  static constexpr std::int64_t kPollGrain = 256;

  static constexpr std::size_t kLongestHead = 1 + kMaxFields * 10;

  bool recall_slowly(Series series, std::int64_t* values);
  bool recall_slowly(Event& event);
  bool peek();
  bool is_set_up() const { return skipped_; }
  bool recording();

  void continue_clock(Series series, Clock& clock, std::int64_t* values);
  static bool too_fine(Series series, Clock& clock, std::int64_t now, std::int64_t last);
  bool same_as_last(const std::byte* head, std::size_t head_bytes, const Event& event);
  void repeat();
  void append(const void* data, std::size_t bytes);

  std::uint32_t find_name(const char* name, std::uint64_t* hash);
  std::uint32_t intern(const char* name);
  void add_name(std::uint64_t hash, std::uint64_t position, std::uint32_t bytes);
  void grow_names();

  void add(Set& set, std::uint64_t item);
  void note_made(std::uint32_t file, const char* path);
  void read_notes();
  void read_what_others_write();
  template <class T>
  T* make_array(std::size_t count);
  void text_of(std::uint32_t name, char* text, std::size_t size);
  void describe(const Observation& o, char* text, std::size_t size);
  [[noreturn]] void diverge(const char* asked);
  [[noreturn]] void out_of_memory();

  recovery::BasicRank<Host>& rank_;
  engine::SegmentHeader* header_;
  ObservationWriter<Host> writer_;
  ObservationReader reader_;  // also holds what each series' next difference is to
  bool live_ = false;         // every record has been given
  bool skipped_ = false;
  Observation current_ = {};  // the record that is to be given `left_` times more
  std::uint32_t left_ = 0;
  std::uint64_t given_ = 0;
  Clock* clocks_;

  // The newest entry, for repeats: an event's first byte and size in the log, or a series.
  std::uint64_t last_event_ = 0;
  std::size_t last_event_bytes_ = 0;
  Series last_series_ = Series::kEnd;
  std::atomic<std::uint32_t>* repeat_word_ = nullptr;  // of a repeat of the newest entry

  Name* names_ = nullptr;  // [1, names_end_)
  std::uint32_t names_end_ = 1;
  std::uint32_t names_room_ = 0;
  std::uint32_t* buckets_ = nullptr;  // [2 * names_room_]; 0 = free

  Set written_;    // files that others write: 2 * file, + 1 if they did not empty it
  Set rewritten_;  // file << 32 | number of the name of its path
  Set ghosts_;
  Set noted_;               // position << 16 | bytes of the paths where ghosts were to be made
  bool half_made_ = false;  // the newest
  bool notes_read_ = false;
  bool others_read_ = false;
};

// skip_to() of this process's observations. Nothing if it has none.
void skip_observations(std::uint64_t position);

}  // namespace rejoin::libc_recording
