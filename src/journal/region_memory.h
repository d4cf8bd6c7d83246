// Memory of this rank's region of the segment: addresses, which are given out once, the pages
// behind them, and how much all of it may be. Like everything there it outlives the process: a new
// incarnation continues where its predecessor was.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "journal/contexts.h"
#include "journal/layout.h"
#include "journal/notices.h"
#include "journal/retention.h"
#include "journal/spin_lock.h"
#include "wire/messages.h"

namespace rejoin::journal {

template <class Host>
class RegionMemory {
 public:
  RegionMemory(Host& host, Notices& notices, const Retention& retention)
      : host_(host),
        notices_(notices),
        retention_(retention),
        header_(header_of(host.base())),
        control_(control_of(host.base(), host.rank())),
        begin_(region_offset(header_, host.rank())),
        permanent_{&control_->permanent_bump, begin_, begin_ + payload_begin(header_)},
        payload_{&control_->payload_bump, begin_, begin_ + header_->region_bytes} {
    rebase();
  }
  RegionMemory(const RegionMemory&) = delete;
  RegionMemory& operator=(const RegionMemory&) = delete;

  // Reads the region's words again, after this process slept while another one used the region.
  void rebase() {
    permanent_.backed_to = begin_ + control_->permanent_bump.load(std::memory_order_relaxed);
    payload_.backed_to = begin_ + control_->payload_bump.load(std::memory_order_relaxed);
  }

  // --- Memory. All functions return 0, or false, if there is no more

  // Payload, safe to touch.
  Offset allocate_payload(std::size_t bytes) { return allocate_in(payload_, bytes); }
  // Addresses of payload; the caller backs and counts its pages.
  Offset reserve_payload(std::size_t bytes) { return reserve_in(payload_, bytes); }
  // Bytes for a model, safe to touch.
  Offset allocate_model(std::size_t bytes) {
    const Offset at = reserve_in(payload_, bytes);
    return at != 0 && back(at, bytes) ? at : 0;
  }
  // Makes room in `buffer` for `bytes`; what was there is lost.
  bool make_room(Buffer& buffer, std::size_t bytes) {
    if (buffer.capacity < bytes) {
      // Doubles, so that a buffer that grows slowly does not leave all its former places behind.
      const std::size_t room = std::max<std::size_t>(bytes, 2 * buffer.capacity);
      buffer.capacity = 0;
      buffer.at = allocate_model(room);
      if (buffer.at == 0) return false;
      buffer.capacity = room;
    }
    host_.plain_store();
    buffer.bytes = bytes;
    return true;
  }
  // Structure, safe to touch. This function and the next may run while another thread is in the
  // region: the main thread records libc while another one is inside MPI.
  Offset allocate_permanent(std::size_t bytes) {
    const SpinLock::Guard guard(permanent_lock_);
    return allocate_in(permanent_, bytes);
  }
  // Structure memory; the caller backs its pages piecemeal.
  Offset reserve_permanent(std::size_t bytes) {
    const SpinLock::Guard guard(permanent_lock_);
    return reserve_in(permanent_, bytes);
  }
  // Payload addresses that were given out so far.
  std::uint64_t payload_reserved() const {
    return control_->payload_bump.load(std::memory_order_relaxed);
  }

  // Backs [at, at + bytes) and counts it.
  bool back(Offset at, std::size_t bytes) {
    if (!host_.back(host_.base() + at, bytes)) return false;
    count(bytes);
    return true;
  }
  // Backs [from, end) of memory that was counted already, and some more of it up to `last`. Sets
  // *from to what is backed now.
  bool back_ahead(Offset* from, Offset end, Offset last) {
    const Offset ahead = std::min(std::max(end, *from + kAheadBytes), last);
    if (!host_.back(host_.base() + *from, ahead - *from)) return false;
    *from = ahead;
    return true;
  }
  // Counts memory against the limit. Raises a notice if the journal is full or nearly full.
  void count(std::size_t bytes) {
    control_->backed_bytes.add(host_, Step::kSame, bytes);
    if (header_->journal_limit_bytes == 0 || !retention_.serves_replays()) return;
    const std::uint64_t all = all_backed_bytes();
    if (all <= header_->journal_limit_bytes && !retention_.is_for_images()) return;
    const std::uint64_t steps = steps_when_nearly_full(all);
    if (steps <= noticed_steps_) return;
    noticed_steps_ = steps;
    notices_.raise();
    host_.tell(wire::MessageType::kJournalStep, 0, 0, nullptr, 0);  // the other ranks
  }

  // --- The limit

  // Whether the journals use more than the limit. They never use less again.
  bool is_full() const {
    return header_->journal_limit_bytes != 0 && all_backed_bytes() > header_->journal_limit_bytes;
  }
  // Returns the memory that the journals of all ranks use together.
  std::uint64_t all_backed_bytes() const {
    std::uint64_t all = 0;
    for (std::uint32_t r = 0; r < header_->ranks; ++r) {
      all += control_of(host_.base(), r)->backed_bytes.load(std::memory_order_relaxed);
    }
    return all;
  }
  // The last quarter of the journal limit has sixteen steps; above it they go on, as large. Returns
  // how many of them this much memory has reached; 0: the journals are not nearly full. At each
  // step above the limit, and in a job of images below it, too, all ranks get a notice.
  std::uint64_t steps_when_nearly_full(std::uint64_t all_backed) const {
    const std::uint64_t limit = header_->journal_limit_bytes;
    const std::uint64_t from = limit - limit / 4;
    const std::uint64_t step = limit / 64 + 1;
    if (limit == 0 || all_backed <= from) return 0;
    return all_backed <= limit ? (all_backed - from) / step + 1
                               : (all_backed - limit - 1) / step + kStepsToLimit + 1;
  }

 private:
  // Pages are backed this far ahead: one system call serves many small extents, and the pages are
  // still in the cache when they are written.
  static constexpr std::size_t kAheadBytes = 128 * 1024;
  static constexpr std::uint64_t kStepsToLimit = 16;

  struct Area {
    OwnerWord<std::uint64_t>* bump;
    Offset begin;  // of the region
    Offset end;
    Offset backed_to = 0;  // everything allocated since start-up lies below it and is backed
  };
  Offset reserve_in(Area& area, std::size_t bytes) {
    const std::uint64_t at = area.bump->load(std::memory_order_relaxed);
    const std::uint64_t next = at + round_up_line(bytes);
    if (next < at || area.begin + next > area.end) return 0;
    // Advanced before use: memory that a dead incarnation half wrote is never allocated again.
    area.bump->store(host_, Step::kAllocate, next, std::memory_order_relaxed);
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

  Host& host_;
  Notices& notices_;
  const Retention& retention_;
  SegmentHeader* header_;
  RankControl* control_;
  Offset begin_;
  Area permanent_;
  SpinLock permanent_lock_;
  Area payload_;
  std::uint64_t noticed_steps_ = 0;  // steps_when_nearly_full() that a notice was given for
};

}  // namespace rejoin::journal
