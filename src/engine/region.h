// Allocation in my region of the segment, and append-only logs over it. Both outlive the process: a
// new incarnation goes on where its predecessor was.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/segment.h"

namespace rejoin::engine {

inline constexpr std::uint64_t kLogFirst = 64;  // elements in chunk 0

// Beyond the journal limit a writer waits until its readers lack no more elements than this.
inline constexpr std::uint64_t kReadersWithin = 2048;

constexpr std::uint32_t log_chunk(std::uint64_t index) {
  return static_cast<std::uint32_t>(std::bit_width(index / kLogFirst + 1) - 1);
}
constexpr std::uint64_t log_chunk_begin(std::uint32_t chunk) {
  return kLogFirst * ((std::uint64_t{1} << chunk) - 1);
}
constexpr std::uint64_t log_chunk_size(std::uint32_t chunk) { return kLogFirst << chunk; }

// Element `index` of a log. REQUIRES index < tail and that it is still kept, or that the caller
// owns the log.
template <class T>
T* log_at(std::byte* base, Log& log, std::uint64_t index) {
  for (std::uint32_t k = log.rings.load(std::memory_order_acquire); k-- > 0;) {
    const LogRing& ring = log.ring[k];
    if (index < ring.from) continue;
    return reinterpret_cast<T*>(base + ring.at) + ((index - ring.from) & (ring.capacity - 1));
  }
  const std::uint32_t k = log_chunk(index);
  return reinterpret_cast<T*>(base + log.chunk[k]) + (index - log_chunk_begin(k));
}

// The owner's allocator: lasting structure, and payload extents. Extents are freed only wholesale.
//
// First payload is handed out upwards and kept. From start_zones() on it comes from zones: those
// that were used in one interval are free together, when everybody is past the interval's end. An
// interval ends at a checkpoint, and is needed until no rank would go back to before it; or, once
// the journal limit is met, at every operation that all ranks of the job must enter: when such an
// operation is complete, all that was allocated before it was entered has been consumed, so an
// interval is over with the next one.
template <class Host>
class Region {
 public:
  explicit Region(Host& host)
      : host_(host),
        header_(header_of(host.base())),
        control_(control_of(host.base(), host.rank())),
        begin_(region_offset(header_, host.rank())),
        lasting_{&control_->lasting_bump, begin_, begin_ + payload_begin(header_)},
        payload_{&control_->payload_bump, begin_, begin_ + header_->region_bytes},
        head_(region_of(host.base(), host.rank())) {
    lasting_.backed_to = begin_ + control_->lasting_bump.load(std::memory_order_relaxed);
    payload_.backed_to = begin_ + control_->payload_bump.load(std::memory_order_relaxed);
  }

  // Bytes of a result or a message, safe to touch. 0: no more memory.
  Offset allocate(std::size_t bytes) {
    return zoned_ ? allocate_in_zone(bytes) : allocate_in(payload_, bytes);
  }
  // Bytes of a large result; whoever writes there touches them first (Host::touch), so that members
  // share that work. 0: no more addresses.
  Offset reserve(std::size_t bytes) {
    if (zoned_) return reserve_in_zone(bytes);
    const Offset at = reserve_in(payload_, bytes);
    if (at != 0) count(bytes);
    return at;
  }
  // Bytes for a model, safe to touch; never in a zone. 0: no more memory.
  Offset allocate_model(std::size_t bytes) {
    const Offset at = reserve_in(payload_, bytes);
    return at != 0 && back(at, bytes) ? at : 0;
  }
  // Structure, safe to touch. 0: no more memory. These two also beside a thread that is in another
  // function of this region: the main thread observes the world while another one is inside MPI.
  Offset allocate_lasting(std::size_t bytes) {
    const Locked locked(lasting_lock_);
    return allocate_in(lasting_, bytes);
  }
  // Structure whose pages the caller backs as it goes. 0: no more addresses.
  Offset reserve_lasting(std::size_t bytes) {
    const Locked locked(lasting_lock_);
    return reserve_in(lasting_, bytes);
  }

  // Backs [at, at + bytes) and counts it. False: there is no more.
  bool back(Offset at, std::size_t bytes) {
    if (!host_.back(host_.base() + at, bytes)) return false;
    count(bytes);
    return true;
  }

  // The journal limit is met: nothing new is kept for a replay.
  bool recycling() const { return recycling_; }
  void start_recycling() {
    recycling_ = true;
    start_zones();
  }

  // From now on payload comes from zones. All that is there stays.
  void start_zones() {
    zoned_ = true;
    end_zone();
  }

  // Whether an extent of so many bytes fits the zone in use.
  bool has_room(std::size_t bytes) const {
    return bytes <= kInlineBytes || next_ + round_up_line(bytes) <= end_;
  }

  // Ends interval `number`, counted upwards. All intervals up to `over` are over.
  void end_interval(std::uint64_t number, std::uint64_t over) {
    for (std::uint32_t i = 0; i < head_->zones; ++i) {
      Zone& z = head_->zone[i];
      if (z.until == kZoneInUse) z.until = number;
    }
    interval_ = number;
    over_ = over;
    end_zone();
  }
  // REQUIRES recycling(), and that every rank of the job has entered the operation that I have just
  // completed, or has returned from the one that ended the interval before.
  void recycle() { end_interval(interval_ + 1, interval_); }

 private:
  // Pages are made this far ahead: one system call for many small extents, and still in the cache
  // when they are written.
  static constexpr std::size_t kAheadBytes = 128 * 1024;
  static constexpr std::uint64_t kSmallestZoneBytes = 1 << 20;

  // Held for a few instructions, now and then for a system call.
  struct Locked {
    explicit Locked(std::atomic_flag& f) : flag(f) {
      while (flag.test_and_set(std::memory_order_acquire)) __builtin_ia32_pause();
    }
    ~Locked() { flag.clear(std::memory_order_release); }
    std::atomic_flag& flag;
  };
  struct Area {
    std::atomic<std::uint64_t>* bump;
    Offset begin;  // of the region
    Offset end;
    Offset backed_to = 0;  // everything handed out since start-up lies below it and is backed
  };
  Offset reserve_in(Area& area, std::size_t bytes) {
    const std::uint64_t at = area.bump->load(std::memory_order_relaxed);
    const std::uint64_t next = at + (bytes + kLine - 1) / kLine * kLine;
    if (next < at || area.begin + next > area.end) return 0;
    // Advanced before use: what a dead incarnation half wrote is never handed out again.
    area.bump->store(next, std::memory_order_relaxed);
    return area.begin + at;
  }

  Offset allocate_in(Area& area, std::size_t bytes) {
    const Offset at = reserve_in(area, bytes);
    if (at == 0 || !back_to(area.backed_to, at, at + bytes, area.end)) return 0;
    return at;
  }

  bool back_to(Offset& backed_to, Offset at, Offset end, Offset last) {
    if (end <= backed_to) return true;
    const Offset from = std::max(at, backed_to);
    Offset ahead = std::min(std::max(end, from + kAheadBytes), last);
    if (!back(from, ahead - from)) {
      ahead = end;
      if (!back(from, end - from)) return false;
    }
    backed_to = ahead;
    return true;
  }

  static std::uint64_t round_up_line(std::uint64_t bytes) {
    return (bytes + kLine - 1) / kLine * kLine;
  }

  void end_zone() { next_ = end_ = 0; }

  // A zone counts to the limit as a whole, from its first use.
  Offset allocate_in_zone(std::size_t bytes) {
    const Offset at = reserve_in_zone(bytes);
    if (at == 0 || at + bytes <= *zone_backed_to_) return at;
    const Offset from = std::max(at, *zone_backed_to_);
    const Offset ahead = std::min(std::max(at + bytes, from + kAheadBytes), end_);
    if (!host_.back(host_.base() + from, ahead - from)) return 0;
    *zone_backed_to_ = ahead;
    return at;
  }

  Offset reserve_in_zone(std::size_t bytes) {
    const std::uint64_t rounded = round_up_line(bytes);
    if (next_ + rounded > end_ && !take_zone(rounded)) return 0;
    next_ += rounded;
    return next_ - rounded;
  }

  // Goes on in the free zone that was used last, if there is one of this size, else in a new one.
  bool take_zone(std::uint64_t bytes) {
    Zone* found = nullptr;
    std::uint64_t largest = kSmallestZoneBytes / 2;
    for (std::uint32_t i = 0; i < head_->zones; ++i) {
      Zone& z = head_->zone[i];
      largest = std::max(largest, z.bytes);
      if (z.until > over_ || z.bytes < bytes) continue;
      if (found == nullptr || z.until > found->until) found = &z;
    }
    if (found == nullptr) {
      if (head_->zones == kZones) return false;
      const bool in_interval = end_ != 0;  // this one needs more than there was
      const std::uint64_t size = std::max(in_interval ? 2 * largest : largest, 2 * bytes);
      const Offset at = reserve_in(payload_, size);
      if (at == 0) return false;
      count(size);
      found = &head_->zone[head_->zones];
      *found = {at, size, kZoneInUse, at};
      ++head_->zones;
    }
    found->until = kZoneInUse;
    zone_backed_to_ = &found->backed_to;
    next_ = found->begin;
    end_ = found->begin + found->bytes;
    return true;
  }

  void count(std::size_t bytes) {
    control_->backed_bytes.fetch_add(bytes, std::memory_order_relaxed);
    if (header_->journal_limit_bytes == 0) return;
    std::uint64_t all = 0;
    for (std::uint32_t r = 0; r < header_->ranks; ++r) {
      all += control_of(host_.base(), r)->backed_bytes.load(std::memory_order_relaxed);
    }
    if (all > header_->journal_limit_bytes) {
      header_->limit_reached.store(1, std::memory_order_relaxed);
    }
  }

  Host& host_;
  SegmentHeader* header_;
  RankControl* control_;
  Offset begin_;
  Area lasting_;
  std::atomic_flag lasting_lock_ = ATOMIC_FLAG_INIT;
  Area payload_;
  RegionHead* head_;
  bool recycling_ = false;
  bool zoned_ = false;
  Offset next_ = 0, end_ = 0;  // of the zone in use; 0: none
  Offset* zone_backed_to_ = nullptr;
  std::uint64_t interval_ = 0;  // the last that has ended
  std::uint64_t over_ = 0;
};

// Appends to a log of mine. The cursor is rebuilt from the log's tail.
template <class T, class Host>
class LogWriter {
 public:
  LogWriter() = default;
  // lasting: never goes round, whatever the limit (others keep indices of its elements).
  LogWriter(Host& host, Region<Host>& region, Log& log, bool lasting = false)
      : host_(&host),
        region_(&region),
        log_(&log),
        tail_(log.tail.load(std::memory_order_acquire)),
        lasting_(lasting) {
    // A ring behind the tail was made for an entry that never became visible.
    std::uint32_t rings = log.rings.load(std::memory_order_relaxed);
    while (rings > 0 && log.ring[rings - 1].from > tail_) --rings;
    log.rings.store(rings, std::memory_order_release);
    goes_round_ = rings != 0;
  }

  std::uint64_t tail() const { return tail_; }
  T* at(std::uint64_t index) const { return log_at<T>(host_->base(), *log_, index); }

  // Where element `tail()` goes: write it, then publish(). nullptr: no more memory.
  T* next() {
    if (cursor_ == backed_end_ && !extend()) return nullptr;
    return cursor_;
  }
  void publish() {
    advance(1);
    show();
  }
  // Entries of several elements become visible together: write up to room() elements at next(),
  // count them by advance(), and so on; then show().
  std::size_t room() const { return static_cast<std::size_t>(backed_end_ - cursor_); }
  void advance(std::size_t elements) {
    cursor_ += elements;
    tail_ += elements;
  }
  void show() { log_->tail.store(tail_, std::memory_order_release); }

  // Elements below `keep_from` may be overwritten. What was appended so far stays where it is.
  void forget(std::uint64_t keep_from) {
    keep_from_ = keep_from;
    if (goes_round_) return;
    goes_round_ = true;
    cursor_ = backed_end_ = nullptr;
  }

 private:
  static constexpr std::uint64_t kStrideBytes = 64 * 1024;
  static constexpr std::uint64_t kSmallestRing = 256;

  bool extend() {
    if (region_->recycling() && !lasting_) forget(tail_ - std::min(tail_, kReadersWithin));
    if (goes_round_) return go_round();
    const std::uint32_t k = log_chunk(tail_);
    const std::uint64_t chunk_bytes = log_chunk_size(k) * sizeof(T);
    if (k >= kLogChunks) return false;
    if (log_->chunk[k] == 0) {
      // Small chunks share pages, so they are backed by the allocator; large ones piecemeal.
      const Offset at = chunk_bytes <= kStrideBytes ? region_->allocate_lasting(chunk_bytes)
                                                    : region_->reserve_lasting(chunk_bytes);
      if (at == 0) return false;
      log_->chunk[k] = at;
    }
    const std::uint64_t index = tail_ - log_chunk_begin(k);
    return run(log_->chunk[k] + index * sizeof(T), log_chunk_size(k) - index,
               chunk_bytes > kStrideBytes);
  }

  // The next elements go to `count` places from `at` on, or to as many of them as are backed at
  // once.
  bool run(Offset at, std::uint64_t count, bool piecemeal) {
    if (piecemeal) {
      count = std::min(count, kStrideBytes / sizeof(T));
      if (!region_->back(at, count * sizeof(T))) return false;
    }
    cursor_ = reinterpret_cast<T*>(host_->base() + at);
    backed_end_ = cursor_ + count;
    return true;
  }

  // The next element overwrites the one `capacity` before it, which must not be kept.
  bool go_round() {
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
      r->at = r->capacity * sizeof(T) <= kStrideBytes
                  ? region_->allocate_lasting(r->capacity * sizeof(T))
                  : region_->reserve_lasting(r->capacity * sizeof(T));
      if (r->at == 0) return false;
      log_->rings.store(rings + 1, std::memory_order_release);
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
  bool lasting_ = false;
  bool goes_round_ = false;
  std::uint64_t keep_from_ = 0;
};

}  // namespace rejoin::engine
