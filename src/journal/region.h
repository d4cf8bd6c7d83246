// Allocation in my region of the segment. Like everything there it outlives the process: a new
// incarnation goes on where its predecessor was.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "journal/contexts.h"
#include "journal/layout.h"
#include "journal/rules.h"
#include "journal/spin_lock.h"

namespace rejoin::journal {

// The owner's allocator: permanent structure, and payload extents. Extents are freed only with the
// zone that they lie in.
//
// First payload is handed out upwards and kept. From start_zones() on it comes from zones. A zone
// is closed at a checkpoint, with a label: the cursors behind which everything lies that it was
// used for. It is free when the low-water marks of all who may read it have passed the label. Once
// the journal is full, zones are closed at every operation that all ranks of the job must enter
// instead: when such an operation is complete, all that was allocated before it was entered has
// been consumed, so an interval is over with the next one.
template <class Host>
class Region {
 public:
  explicit Region(Host& host)
      : host_(host),
        header_(header_of(host.base())),
        control_(control_of(host.base(), host.rank())),
        begin_(region_offset(header_, host.rank())),
        permanent_{&control_->permanent_bump, begin_, begin_ + payload_begin(header_)},
        payload_{&control_->payload_bump, begin_, begin_ + header_->region_bytes},
        head_(region_of(host.base(), host.rank())) {
    rebase();
  }

  // Reads the region's words again, as a process must that has slept while another one was here.
  void rebase() {
    permanent_.backed_to = begin_ + control_->permanent_bump.load(std::memory_order_relaxed);
    payload_.backed_to = begin_ + control_->payload_bump.load(std::memory_order_relaxed);
    zone_ = nullptr;
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
  // Makes room in `buffer` for `bytes`; what was there is lost. False: no more memory.
  bool make_room(Buffer& buffer, std::size_t bytes) {
    if (buffer.capacity < bytes) {
      // What grows a little every time must not leave all its former places behind.
      const std::size_t room = std::max<std::size_t>(bytes, 2 * buffer.capacity);
      buffer.capacity = 0;
      buffer.at = allocate_model(room);
      if (buffer.at == 0) return false;
      buffer.capacity = room;
    }
    buffer.bytes = bytes;
    return true;
  }
  // Structure, safe to touch. 0: no more memory. These two also beside a thread that is in another
  // function of this region: the main thread records libc while another one is inside MPI.
  Offset allocate_permanent(std::size_t bytes) {
    const SpinLock::Guard guard(permanent_lock_);
    return allocate_in(permanent_, bytes);
  }
  // Structure whose pages the caller backs as it goes. 0: no more addresses.
  Offset reserve_permanent(std::size_t bytes) {
    const SpinLock::Guard guard(permanent_lock_);
    return reserve_in(permanent_, bytes);
  }

  // Backs [at, at + bytes) and counts it. False: there is no more.
  bool back(Offset at, std::size_t bytes) {
    if (!host_.back(host_.base() + at, bytes)) return false;
    count(bytes);
    return true;
  }

  // The journal is full: nothing new is kept for a replay.
  bool recycling() const { return recycling_; }
  void start_recycling() {
    recycling_ = true;
    start_zones();
    close_zones([](Zone&) { return true; });
  }

  // From now on payload comes from zones. All that is there stays.
  void start_zones() { zoned_ = true; }

  // Whether an extent of so many bytes fits the zone in use.
  bool has_room(std::size_t bytes) const {
    return bytes <= kInlineBytes || (zone_ != nullptr && fits(*zone_, round_up_line(bytes)));
  }

  // Closes the zones in use, labelled by label(zone). False: label() found no
  // memory.
  template <class Label>
  bool close_zones(Label&& label) {
    const std::uint64_t interval = head_->interval + 1;
    for (std::uint32_t i = 0; i < head_->zones; ++i) {
      Zone& z = head_->zone[i];
      if (z.interval != 0) continue;
      if (!label(z)) return false;
      z.interval = interval;
    }
    head_->interval = interval;
    zone_ = nullptr;
    return true;
  }
  // REQUIRES recycling(), and that every rank of the job has entered the operation that I have just
  // completed, or has returned from the one that ended the interval before.
  void recycle() {
    over_ = head_->interval;
    close_zones([](Zone&) { return true; });
  }

  RegionHead* head() { return head_; }

 private:
  // Pages are made this far ahead: one system call for many small extents, and still in the cache
  // when they are written.
  static constexpr std::size_t kAheadBytes = 128 * 1024;
  static constexpr std::uint64_t kSmallestZoneBytes = 1 << 20;

  struct Area {
    std::atomic<std::uint64_t>* bump;
    Offset begin;  // of the region
    Offset end;
    Offset backed_to = 0;  // everything handed out since start-up lies below it and is backed
  };
  Offset reserve_in(Area& area, std::size_t bytes) {
    const std::uint64_t at = area.bump->load(std::memory_order_relaxed);
    const std::uint64_t next = at + round_up_line(bytes);
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

  // A zone counts to the limit as a whole, from its first use.
  Offset allocate_in_zone(std::size_t bytes) {
    const Offset at = reserve_in_zone(bytes);
    if (at == 0 || at + bytes <= zone_->backed_to) return at;
    const Offset from = std::max(at, zone_->backed_to);
    const Offset end = zone_->begin + zone_->bytes;
    const Offset ahead = std::min(std::max(at + bytes, from + kAheadBytes), end);
    if (!host_.back(host_.base() + from, ahead - from)) return 0;
    zone_->backed_to = ahead;
    return at;
  }

  Offset reserve_in_zone(std::size_t bytes) {
    const std::uint64_t rounded = round_up_line(bytes);
    if ((zone_ == nullptr || !fits(*zone_, rounded)) && !open_zone(rounded)) return 0;
    const Offset at = zone_->begin + zone_->used;
    zone_->used += rounded;
    return at;
  }

  static bool fits(const Zone& z, std::uint64_t bytes) { return z.used + bytes <= z.bytes; }

  bool is_free(const Zone& z) const {
    if (z.interval == 0) return false;
    if (recycling_) return z.interval <= over_;
    return breaks(host_, Rule::kZonesBehindAllMarks) || is_past(host_, z);
  }

  // Goes on in a zone that a former incarnation has left open, else in the free one that was closed
  // last, if there is one of this size, else in a new one.
  bool open_zone(std::uint64_t bytes) {
    Zone* found = nullptr;
    std::uint64_t largest = kSmallestZoneBytes / 2;
    bool any_open = false;
    for (std::uint32_t i = 0; i < head_->zones; ++i) {
      Zone& z = head_->zone[i];
      largest = std::max(largest, z.bytes);
      any_open |= z.interval == 0;
      if (z.interval == 0 && fits(z, bytes)) return use(&z);
      if (z.bytes < bytes || (found != nullptr && found->interval >= z.interval)) continue;
      if (is_free(z)) found = &z;
    }
    if (found == nullptr) {
      if (head_->zones == kZones) return false;
      const std::uint64_t size = std::max(any_open ? 2 * largest : largest, 2 * bytes);
      const Offset at = reserve_in(payload_, size);
      if (at == 0) return false;
      count(size);
      found = &head_->zone[head_->zones];
      *found = {at, size, 0, at, 0, {}, 0};
      ++head_->zones;
    }
    found->used = 0;
    found->interval = 0;
    return use(found);
  }
  bool use(Zone* z) {
    zone_ = z;
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
      header_->journal_full.store(1, std::memory_order_relaxed);
    }
  }

  Host& host_;
  SegmentHeader* header_;
  RankControl* control_;
  Offset begin_;
  Area permanent_;
  SpinLock permanent_lock_;
  Area payload_;
  RegionHead* head_;
  bool recycling_ = false;
  bool zoned_ = false;
  Zone* zone_ = nullptr;    // in use
  std::uint64_t over_ = 0;  // with a full journal: intervals up to this one are over
};

}  // namespace rejoin::journal
