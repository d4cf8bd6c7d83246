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

constexpr std::uint32_t log_chunk(std::uint64_t index) {
  return static_cast<std::uint32_t>(std::bit_width(index / kLogFirst + 1) - 1);
}
constexpr std::uint64_t log_chunk_begin(std::uint32_t chunk) {
  return kLogFirst * ((std::uint64_t{1} << chunk) - 1);
}
constexpr std::uint64_t log_chunk_size(std::uint32_t chunk) { return kLogFirst << chunk; }

// Element `index` of a log. REQUIRES index < tail, or that the caller owns the log.
template <class T>
T* log_at(std::byte* base, Log& log, std::uint64_t index) {
  const std::uint64_t ring_from = log.ring_from.load(std::memory_order_acquire);
  if (ring_from != 0 && index + 1 >= ring_from) {
    return reinterpret_cast<T*>(base + log.ring) + (index + 1 - ring_from) % kLogRing;
  }
  const std::uint32_t k = log_chunk(index);
  return reinterpret_cast<T*>(base + log.chunk[k]) + (index - log_chunk_begin(k));
}

// The owner's allocator: lasting structure, and payload extents. Extents are freed only wholesale.
//
// Once the journal limit is met (`recycling`), payload is needed only until everybody has consumed it.
// When an operation that all ranks of the job must enter is complete, all that was allocated before it
// was entered has been consumed. So there are two zones: allocate in one; at each such operation go
// over to the other, whose contents are older than the last but one.
template <class Host>
class Region {
 public:
  explicit Region(Host& host)
      : host_(host),
        header_(header_of(host.base())),
        control_(control_of(host.base(), host.rank())),
        begin_(region_offset(header_, host.rank())),
        lasting_{&control_->lasting_bump, begin_, begin_ + payload_begin(header_)},
        payload_{&control_->payload_bump, begin_, begin_ + header_->region_bytes} {
    lasting_.backed_to = begin_ + control_->lasting_bump.load(std::memory_order_relaxed);
    payload_.backed_to = begin_ + control_->payload_bump.load(std::memory_order_relaxed);
  }

  // Bytes of a result or a message, safe to touch. 0: no more memory.
  Offset allocate(std::size_t bytes) {
    return recycling_ ? allocate_in_zone(bytes) : allocate_in(payload_, bytes);
  }
  // Bytes of a large result; whoever writes there touches them first (Host::touch), so that members
  // share that work. 0: no more addresses.
  Offset reserve(std::size_t bytes) {
    if (recycling_) return reserve_in_zone(bytes);
    const Offset at = reserve_in(payload_, bytes);
    if (at != 0) count(bytes);
    return at;
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

  bool recycling() const { return recycling_; }

  // From now on nothing new is kept. All that is there stays: others may still need it.
  void start_recycling() {
    recycling_ = true;
    const std::uint64_t used = control_->payload_bump.load(std::memory_order_relaxed);
    lay_zones(std::max(kSmallestZoneBytes, (used - payload_begin(header_)) / 4));
  }

  // Whether an extent of so many bytes fits the zone in use. REQUIRES recycling().
  bool has_room(std::size_t bytes) const {
    const Zone& z = zone_[current_];
    return bytes <= kInlineBytes || z.next + bytes + kLine <= z.begin + zone_bytes_;
  }

  // REQUIRES that every rank of the job has entered the operation that I have just completed, or has
  // completed the one before it.
  void recycle() {
    if (outgrown_ > zone_bytes_) lay_zones(outgrown_);
    current_ ^= 1;
    zone_[current_].next = zone_[current_].begin;
  }

 private:
  // Pages are made this far ahead: one system call for many small extents, and still in the cache
  // when they are written.
  static constexpr std::size_t kAheadBytes = 128 * 1024;
  static constexpr std::uint64_t kSmallestZoneBytes = 4 << 20;

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
  struct Zone {
    Offset begin = 0, next = 0, backed_to = 0;
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

  void lay_zones(std::uint64_t bytes) {
    zone_bytes_ = (bytes + kLine - 1) / kLine * kLine;
    for (Zone& z : zone_) {
      z.begin = reserve_in(payload_, zone_bytes_);
      z.next = z.backed_to = z.begin;
    }
    payload_.backed_to = 0;
  }

  Offset allocate_in_zone(std::size_t bytes) {
    const Offset at = reserve_in_zone(bytes);
    Zone& z = zone_[current_];
    if (at < z.begin || at >= z.begin + zone_bytes_) return at != 0 && back(at, bytes) ? at : 0;
    return back_to(z.backed_to, at, at + bytes, z.begin + zone_bytes_) ? at : 0;
  }

  Offset reserve_in_zone(std::size_t bytes) {
    Zone& z = zone_[current_];
    const std::uint64_t rounded = (bytes + kLine - 1) / kLine * kLine;
    if (z.begin != 0 && z.next + rounded <= z.begin + zone_bytes_) {
      z.next += rounded;
      return z.next - rounded;
    }
    // The zone is too small: this extent is taken from fresh memory, and larger zones are laid at the
    // next occasion.
    outgrown_ = std::max(outgrown_, 2 * (zone_bytes_ + rounded));
    return reserve_in(payload_, bytes);
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
  bool recycling_ = false;
  unsigned current_ = 0;
  Zone zone_[2];
  std::uint64_t zone_bytes_ = 0;
  std::uint64_t outgrown_ = 0;  // zone size that would have been enough
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
        lasting_(lasting) {}

  std::uint64_t tail() const { return tail_; }
  T* at(std::uint64_t index) const { return log_at<T>(host_->base(), *log_, index); }

  // Where element `tail()` goes: write it, then publish(). nullptr: no more memory.
  T* next() {
    if (cursor_ == backed_end_ && !extend()) return nullptr;
    return cursor_;
  }
  void publish() {
    ++cursor_;
    ++tail_;
    log_->tail.store(tail_, std::memory_order_release);
  }

  // In a ring, element tail() overwrites the one before it by this many: readers must be past that.
  bool in_ring() const { return ring_; }

 private:
  static constexpr std::uint64_t kStrideBytes = 64 * 1024;

  bool extend() {
    if (region_->recycling() && !lasting_) return go_round();
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
    const Offset from = log_->chunk[k] + index * sizeof(T);
    std::uint64_t count = log_chunk_size(k) - index;
    if (chunk_bytes > kStrideBytes) {
      count = std::min(count, kStrideBytes / sizeof(T));
      if (!region_->back(from, count * sizeof(T))) return false;
    }
    cursor_ = reinterpret_cast<T*>(host_->base() + from);
    backed_end_ = cursor_ + count;
    return true;
  }

  bool go_round() {
    if (!ring_) {
      const Offset at = region_->allocate_lasting(kLogRing * sizeof(T));
      if (at == 0) return false;
      log_->ring = at;
      log_->ring_from.store(tail_ + 1, std::memory_order_release);
      ring_ = true;
    }
    cursor_ = reinterpret_cast<T*>(host_->base() + log_->ring);
    backed_end_ = cursor_ + kLogRing;
    return true;
  }

  Host* host_ = nullptr;
  Region<Host>* region_ = nullptr;
  Log* log_ = nullptr;
  std::uint64_t tail_ = 0;
  T* cursor_ = nullptr;
  T* backed_end_ = nullptr;
  bool lasting_ = false;
  bool ring_ = false;
};

}  // namespace rejoin::engine
