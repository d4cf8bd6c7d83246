// Append-only logs: how elements are found, and how the owner appends. A log outlives the process:
// a new incarnation continues where its predecessor was.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "journal/layout.h"
#include "journal/region.h"

namespace rejoin::journal {

inline constexpr std::uint64_t kLogFirst = 64;  // elements in chunk 0

// With a full journal a writer waits until its readers are at most this many elements behind.
inline constexpr std::uint64_t kReadersWithin = 2048;

constexpr std::uint32_t log_chunk(std::uint64_t index) {
  return static_cast<std::uint32_t>(std::bit_width(index / kLogFirst + 1) - 1);
}
constexpr std::uint64_t log_chunk_begin(std::uint32_t chunk) {
  return kLogFirst * ((std::uint64_t{1} << chunk) - 1);
}
constexpr std::uint64_t log_chunk_size(std::uint32_t chunk) { return kLogFirst << chunk; }

// Element `index` of a log. REQUIRES index < tail and that it was not truncated, or that the caller
// owns the log. O(rings).
template <class T>
T* log_at(std::byte* base, Log& log, std::uint64_t index) {
  for (std::uint32_t k = log.rings.load(std::memory_order_acquire); k-- > 0;) {
    const LogRing& ring = log.ring[k];
    if (index < ring.from) continue;
    return reinterpret_cast<T*>(base + ring.at) + ((index - ring.from) & (ring.capacity - 1));
  }
  const std::uint32_t k = log_chunk(index);
  return reinterpret_cast<T*>(base + log.chunk[k].load(std::memory_order_relaxed)) +
         (index - log_chunk_begin(k));
}

// Where element `index` lies or will lie; null: there is no place yet. Used by readers that poll
// elements instead of the tail. *run: how many elements from there on are contiguous.
template <class T>
T* log_place(std::byte* base, Log& log, std::uint64_t index, std::uint64_t* run) {
  for (std::uint32_t k = log.rings.load(std::memory_order_acquire); k-- > 0;) {
    const LogRing& ring = log.ring[k];
    if (index < ring.from) continue;
    const std::uint64_t at = (index - ring.from) & (ring.capacity - 1);
    *run = ring.capacity - at;
    return reinterpret_cast<T*>(base + ring.at) + at;
  }
  const std::uint32_t k = log_chunk(index);
  const Offset chunk = log.chunk[k].load();
  if (chunk == 0) return nullptr;
  const std::uint64_t at = index - log_chunk_begin(k);
  *run = log_chunk_size(k) - at;
  return reinterpret_cast<T*>(base + chunk) + at;
}

// A log as any process of the job reads it: values, or bytes in place. Elements below the tail that
// are not truncated can be read.
template <class T>
class LogView {
 public:
  LogView(std::byte* base, Log& log) : base_(base), log_(&log) {}

  std::uint64_t tail() const { return log_->tail.load(); }
  const T* at(std::uint64_t index) const { return log_at<T>(base_, *log_, index); }
  // Returns how many elements from `index` on lie in one piece.
  std::uint64_t piece(std::uint64_t index) const {
    const std::uint32_t rings = log_->rings.load();
    for (std::uint32_t k = rings; k-- > 0;) {
      const LogRing& ring = log_->ring[k];
      if (index < ring.from) continue;
      const std::uint64_t in_round = ring.capacity - ((index - ring.from) & (ring.capacity - 1));
      return k + 1 == rings ? in_round : std::min(in_round, log_->ring[k + 1].from - index);
    }
    const std::uint64_t end = log_chunk_begin(log_chunk(index) + 1);
    return (rings != 0 ? std::min(end, log_->ring[0].from) : end) - index;
  }
  // Elements that are never truncated: those in front of the log's rings. *all: there are no rings.
  std::uint64_t permanent(bool* all) const {
    *all = log_->rings.load() == 0;
    return *all ? tail() : log_->ring[0].from;
  }
  // What lies at an offset that the log names.
  std::byte* bytes(Offset at) const { return base_ + at; }

 private:
  std::byte* base_;
  Log* log_;
};

// Appends to a log of this rank. rebase() reads its cached view of the log again.
template <class T, class Host>
class LogWriter {
 public:
  LogWriter() = default;
  // permanent: never wraps (others hold indices of its elements).
  LogWriter(Host& host, Region<Host>& region, Log& log, bool permanent = false)
      : host_(&host), region_(&region), log_(&log), permanent_(permanent) {
    rebase();
  }

  // Reads the log's words again, after this process slept while another one wrote here.
  void rebase() {
    tail_ = log_->tail.load(std::memory_order_acquire);
    // A ring behind the tail was made for an entry that never became visible.
    std::uint32_t rings = log_->rings.load(std::memory_order_relaxed);
    while (rings > 0 && log_->ring[rings - 1].from > tail_) --rings;
    log_->rings.store(*host_, Step::kGrow, rings);
    wraps_ = rings != 0;
    cursor_ = backed_end_ = nullptr;
  }

  std::uint64_t tail() const { return tail_; }
  T* at(std::uint64_t index) const { return log_at<T>(host_->base(), *log_, index); }
  LogView<T> view() const { return {host_->base(), *log_}; }

  // Where element `tail()` goes: write it, then publish(). nullptr: no more memory.
  T* next() {
    if (cursor_ == backed_end_ && !extend()) return nullptr;
    host_->plain_store();
    return cursor_;
  }
  void publish(Step step) {
    advance(1);
    show(step);
  }
  // Entries of several elements become visible together: write up to room() elements at next(),
  // count them by advance(), and so on; then show().
  std::size_t room() const { return static_cast<std::size_t>(backed_end_ - cursor_); }
  void advance(std::size_t elements) {
    cursor_ += elements;
    tail_ += elements;
  }
  void show(Step step) { log_->tail.store(*host_, step, tail_); }

  std::uint64_t truncated_below() const { return keep_from_; }
  // With a full journal: elements from here on may still be read. Where the writer waits for its
  // readers, which is the default, the newest kReadersWithin are enough. To be called before next()
  // if there is no room().
  void keep_for_readers(std::uint64_t from) { read_from_ = from; }
  // Elements below `keep_from` may be overwritten from now on. Elements appended before the first
  // call are never overwritten: every incarnation replays them. 0: nothing.
  void truncate(std::uint64_t keep_from) {
    keep_from_ = std::max(keep_from_, keep_from);
    if (wraps_ || keep_from_ == 0) return;
    wraps_ = true;
    cursor_ = backed_end_ = nullptr;
  }

 private:
  static constexpr std::uint64_t kStrideBytes = 64 * 1024;
  static constexpr std::uint64_t kSmallestRing = 256;

  bool extend() {
    if (region_->retention().reuses_what_was_read() && !permanent_)
      truncate(std::min(tail_ - std::min(tail_, kReadersWithin), read_from_));
    if (wraps_) return wrap();
    const std::uint32_t k = log_chunk(tail_);
    const std::uint64_t chunk_bytes = log_chunk_size(k) * sizeof(T);
    if (k >= kLogChunks) return false;
    Offset chunk = log_->chunk[k].load(std::memory_order_relaxed);
    if (chunk == 0) {
      chunk = room_for(chunk_bytes);
      if (chunk == 0) return false;
      log_->chunk[k].store(*host_, Step::kGrow, chunk);
    }
    const std::uint64_t index = tail_ - log_chunk_begin(k);
    return run(chunk + index * sizeof(T), log_chunk_size(k) - index, chunk_bytes > kStrideBytes);
  }

  // Small pieces share pages, so the allocator backs them; large ones are backed piecemeal.
  Offset room_for(std::uint64_t bytes) {
    return bytes <= kStrideBytes ? region_->memory().allocate_permanent(bytes)
                                 : region_->memory().reserve_permanent(bytes);
  }

  // Places the next elements at `at`: `count` of them, or as many as are backed at once.
  bool run(Offset at, std::uint64_t count, bool piecemeal) {
    count = std::min(count, kStrideBytes / sizeof(T));
    if (piecemeal && !region_->memory().back(at, count * sizeof(T))) return false;
    region_->zones().note_use(count * sizeof(T));
    cursor_ = reinterpret_cast<T*>(host_->base() + at);
    backed_end_ = cursor_ + count;
    return true;
  }

  // The next element overwrites the one `capacity` before it, which must be truncated.
  bool wrap() {
    const std::uint32_t rings = log_->rings.load(std::memory_order_relaxed);
    LogRing* r = rings == 0 ? nullptr : &log_->ring[rings - 1];
    std::uint64_t room = 0;
    if (r != nullptr) {
      const std::uint64_t until = std::max(keep_from_, r->from) + r->capacity;
      room = until > tail_ ? until - tail_ : 0;
    }
    if (room == 0) {
      if (rings == kLogRings) return false;
      r = &log_->ring[rings];
      const std::uint64_t least =
          std::max(kSmallestRing, 2 * (tail_ - std::min(tail_, keep_from_)));
      *r = {tail_, rings == 0 ? std::bit_ceil(least) : 2 * log_->ring[rings - 1].capacity, 0};
      r->at = room_for(r->capacity * sizeof(T));
      if (r->at == 0) return false;
      log_->rings.store(*host_, Step::kGrow, rings + 1);
      room = r->capacity;
    }
    const std::uint64_t place = (tail_ - r->from) & (r->capacity - 1);
    const bool first_round = tail_ - r->from < r->capacity;
    return run(r->at + place * sizeof(T), std::min(room, r->capacity - place),
               first_round && r->capacity * sizeof(T) > kStrideBytes);
  }

  Host* host_ = nullptr;
  Region<Host>* region_ = nullptr;
  Log* log_ = nullptr;
  std::uint64_t tail_ = 0;
  T* cursor_ = nullptr;
  T* backed_end_ = nullptr;
  bool permanent_ = false;
  bool wraps_ = false;
  std::uint64_t keep_from_ = 0;
  std::uint64_t read_from_ = ~std::uint64_t{0};
};

}  // namespace rejoin::journal
