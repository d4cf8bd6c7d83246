// Allocation in this rank's region of the segment. Like everything there it outlives the process: a
// new incarnation continues where its predecessor was.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "journal/contexts.h"
#include "journal/layout.h"
#include "journal/notices.h"
#include "journal/rules.h"
#include "journal/spin_lock.h"
#include "wire/messages.h"

namespace rejoin::journal {

// The owner's allocator: permanent structure, and payload extents. Extents are freed only with the
// zone that they lie in.
//
// Payload is first allocated upwards and never freed. After start_zones() it is allocated in zones.
// A zone is closed at a checkpoint, with a label: cursors above everything that the zone was used
// for. It is free when the low-water marks of all ranks that may read it have passed the label.
// Once the journal is full, zones of results are instead closed at every operation that all ranks
// of the job must enter: when such an operation is complete, all results that were allocated before
// it was entered have been read, so an interval is over with the next one. Zones of messages are
// closed when they are full, and free when their messages are consumed.
//
// A job that is protected by process images allocates all payload in zones from the start. A zone
// is closed when it is full. It is labelled in the same way, and is free when the low-water marks
// that belong to the newest images have passed its label.
template <class Host>
class Region {
 public:
  // Labels a full zone with all that it may have been used for. False: no memory.
  class Labels {
   public:
    virtual bool label(Zone& zone) = 0;

   protected:
    ~Labels() = default;
  };

  Region(Host& host, Notices& notices)
      : host_(host),
        notices_(notices),
        header_(header_of(host.base())),
        control_(control_of(host.base(), host.rank())),
        begin_(region_offset(header_, host.rank())),
        permanent_{&control_->permanent_bump, begin_, begin_ + payload_begin(header_)},
        payload_{&control_->payload_bump, begin_, begin_ + header_->region_bytes},
        head_(region_of(host.base(), host.rank())) {
    rebase();
  }

  // Switches to the mode for process images: allocates payload in zones, which `labels` labels when
  // they are full, and asks the agent for a snapshot after each `snapshot_every` allocated bytes.
  void recycle_behind_images(Labels& labels, std::uint64_t snapshot_every) {
    labels_ = &labels;
    zoned_ = true;
    snapshot_every_ = snapshot_every;
    expect_snapshot();
  }
  // The program makes checkpoints: nothing allocated so far is reused, and there are no zones until
  // its first checkpoint.
  void keep_for_checkpoints() {
    for (std::uint32_t i = 0; i < head_->zones; ++i) head_->zone[i].use = Use::kKept;
    zone_[0] = zone_[1] = nullptr;
    labels_ = nullptr;
    zoned_ = false;
  }
  // Restarts the count of bytes until the next snapshot is requested.
  void expect_snapshot() {
    ask_at_.store(control_->used_bytes.load(std::memory_order_relaxed) + snapshot_every_,
                  std::memory_order_relaxed);
  }
  // Accounts for an allocation; the memory may be reused. Requests a snapshot when one is due.
  void use(std::uint64_t bytes) {
    const std::uint64_t used = control_->used_bytes.load(std::memory_order_relaxed) + bytes;
    control_->used_bytes.store(host_, Step::kSame, used, std::memory_order_relaxed);
    if (used < ask_at_.load(std::memory_order_relaxed) || labels_ == nullptr || recycling_) return;
    ask_at_.store(used + snapshot_every_, std::memory_order_relaxed);
    host_.tell(wire::MessageType::kSnapshotDue, 0, 0, nullptr, 0);
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

  // Reads the region's words again, after this process slept while another one used the region.
  void rebase() {
    permanent_.backed_to = begin_ + control_->permanent_bump.load(std::memory_order_relaxed);
    payload_.backed_to = begin_ + control_->payload_bump.load(std::memory_order_relaxed);
    zone_[0] = zone_[1] = nullptr;
  }

  // Bytes of a result or a message, safe to touch. 0: no more memory.
  Offset allocate(std::size_t bytes) {
    return zoned_ ? allocate_in_zone(Use::kResults, bytes) : allocate_in(payload_, bytes);
  }
  // Bytes of a message, safe to touch. sent[ranks]: the number of messages sent to each rank, this
  // one included. 0: no more memory.
  Offset allocate_message(std::size_t bytes, const std::uint64_t* sent) {
    if (!recycling_) [[likely]]
      return allocate(bytes);
    const Zone* z = zone_of(Use::kMessages);
    if (z != nullptr && !fits(*z, round_up_line(bytes)) && !close_messages(sent)) return 0;
    return allocate_in_zone(Use::kMessages, bytes);
  }
  // Bytes of a large result. Each writer touches its part first (Host::touch), so that members
  // share that work. 0: no more addresses.
  Offset reserve(std::size_t bytes) {
    if (zoned_) return reserve_in_zone(Use::kResults, bytes);
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
  // Bytes of payload allocated so far, provided that no zone was reused.
  std::uint64_t payload_bytes() const {
    std::uint64_t bytes = control_->payload_bump.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < head_->zones; ++i) {
      bytes -= head_->zone[i].bytes - head_->zone[i].used;
    }
    return bytes;
  }
  // Structure, safe to touch. 0: no more memory. This function and the next may run while another
  // thread is in the region: the main thread records libc while another one is inside MPI.
  Offset allocate_permanent(std::size_t bytes) {
    const SpinLock::Guard guard(permanent_lock_);
    return allocate_in(permanent_, bytes);
  }
  // Structure memory; the caller backs its pages piecemeal. 0: no more addresses.
  Offset reserve_permanent(std::size_t bytes) {
    const SpinLock::Guard guard(permanent_lock_);
    return reserve_in(permanent_, bytes);
  }

  // Backs [at, at + bytes) and counts it. False: no more memory.
  bool back(Offset at, std::size_t bytes) {
    if (!host_.back(host_.base() + at, bytes)) return false;
    count(bytes);
    return true;
  }

  // Whether the journals use more than the limit. They never use less again.
  bool is_full() const {
    return header_->journal_limit_bytes != 0 && all_backed_bytes() > header_->journal_limit_bytes;
  }
  // The journal is full: nothing new is kept for a replay.
  bool recycling() const { return recycling_; }
  // REQUIRES PeerView::recycles(). Labels the zones in use by label(zone); false: no memory for a
  // label.
  template <class Label>
  bool start_recycling(Label&& label) {
    // A rank that consumes a message looks at that word without a fence between the two: what such
    // a rank stored before it could see the word is visible before this rank waits for it.
    host_.settle_stores();
    recycling_ = true;
    start_zones();
    return close_zones(label);
  }

  // Makes later allocations of payload use zones. Payload that is allocated already is not freed.
  void start_zones() { zoned_ = true; }

  // Returns whether an extent of this size fits the zone in use.
  bool has_room(std::size_t bytes) const {
    const Zone* z = zone_[static_cast<std::uint32_t>(Use::kResults)];
    return bytes <= kInlineBytes || (z != nullptr && fits(*z, round_up_line(bytes)));
  }

  // Closes the zones of results in use and labels each by label(zone). False: no memory for a
  // label.
  template <class Label>
  bool close_zones(Label&& label) {
    const std::uint64_t interval = head_->interval + 1;
    for (std::uint32_t i = 0; i < head_->zones; ++i) {
      Zone& z = head_->zone[i];
      if (z.interval != 0 || z.use != Use::kResults) continue;
      if (!label(z)) return false;
      z.interval = interval;
    }
    head_->interval = interval;
    zone_of(Use::kResults) = nullptr;
    return true;
  }
  // REQUIRES recycling(), and that every rank of the job has entered the operation that this rank
  // has just completed, or has returned from the one that ended the interval before.
  void recycle() {
    over_ = head_->interval;
    close_zones([](Zone&) { return true; });
  }

  RegionHead* head() { return head_; }

 private:
  // Pages are backed this far ahead: one system call serves many small extents, and the pages are
  // still in the cache when they are written.
  static constexpr std::size_t kAheadBytes = 128 * 1024;
  static constexpr std::uint64_t kSmallestZoneBytes = 1 << 20;
  static constexpr std::uint64_t kSmallestMessageZoneBytes = 256 * 1024;
  static constexpr std::uint64_t kZonesBetweenSnapshots = 4;
  static constexpr std::uint32_t kZonesOfOneSize = kZones / 8;
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

  Zone*& zone_of(Use use) { return zone_[static_cast<std::uint32_t>(use)]; }

  // A zone counts against the limit as a whole, from its first use.
  Offset allocate_in_zone(Use use, std::size_t bytes) {
    const Offset at = reserve_in_zone(use, bytes);
    if (at == 0) return 0;
    Zone& z = *zone_of(use);
    if (at + bytes <= z.backed_to) return at;
    const Offset from = std::max(at, z.backed_to);
    const Offset end = z.begin + z.bytes;
    const Offset ahead = std::min(std::max(at + bytes, from + kAheadBytes), end);
    if (!host_.back(host_.base() + from, ahead - from)) return 0;
    z.backed_to = ahead;
    return at;
  }

  Offset reserve_in_zone(Use use, std::size_t bytes) {
    const std::uint64_t rounded = round_up_line(bytes);
    Zone*& z = zone_of(use);
    if ((z == nullptr || !fits(*z, rounded)) && !open_zone(use, rounded)) return 0;
    const Offset at = z->begin + z->used;
    z->used += rounded;
    return at;
  }

  static bool fits(const Zone& z, std::uint64_t bytes) { return z.used + bytes <= z.bytes; }

  bool close_messages(const std::uint64_t* sent) {
    Zone*& z = zone_of(Use::kMessages);
    const std::size_t bytes = header_->ranks * sizeof(std::uint64_t);
    if (!make_room(z->label, bytes)) return false;
    std::memcpy(host_.base() + z->label.at, sent, bytes);
    z->interval = head_->interval + 1;
    z = nullptr;
    return true;
  }
  // All messages that were sent when the zone was labelled. The numbers of those are the end of
  // its label.
  bool are_consumed(const Zone& z) const {
    if (z.label.bytes == 0 || breaks(host_, Rule::kMessagesUntilConsumed)) return true;
    const auto* sent = reinterpret_cast<const std::uint64_t*>(host_.base() + z.label.at +
                                                              z.contexts * sizeof(Cursor));
    for (std::uint32_t to = 0; to < header_->ranks; ++to) {
      if (sent[to] == 0) continue;
      host_.step(Step::kMark);
      const auto& consumed = consumed_of(host_.base(), to)[host_.rank()];
      if (consumed.load(std::memory_order_acquire) < sent[to]) return false;
    }
    return true;
  }

  bool is_free(const Zone& z) const {
    if (z.interval == 0) return false;
    if (z.use == Use::kMessages) return are_consumed(z);
    // Before the journal was full, messages lay among results.
    if (recycling_) return z.interval <= over_ && are_consumed(z);
    return breaks(host_, Rule::kZonesBehindAllMarks) || is_past(host_, z);
  }

  // Opens a zone that a former incarnation left open, else the smallest free one that is large
  // enough (the one closed last, of several), else a new one.
  bool open_zone(Use use, std::uint64_t bytes) {
    Zone* found = nullptr;
    if (!close_full(use)) return false;
    const std::uint64_t smallest =
        use == Use::kMessages ? kSmallestMessageZoneBytes : kSmallestZoneBytes;
    std::uint64_t largest = smallest / 2;
    std::uint32_t others = 0;  // that cannot be used now
    for (std::uint32_t i = 0; i < head_->zones; ++i) {
      Zone& z = head_->zone[i];
      if (z.use != use) continue;
      largest = std::max(largest, z.bytes);
      if (z.interval == 0 && fits(z, bytes)) return open(z);
      // Two zones that alternate may have one size; if two do not suffice, the next ones are
      // larger.
      others += z.interval == 0 || use == Use::kMessages;
      if (z.bytes < bytes || (found != nullptr && is_better(*found, z))) continue;
      if (is_free(z)) {
        found = &z;
      } else {
        others += labels_ != nullptr;
      }
    }
    if (found == nullptr) {
      if (head_->zones == kZones) return false;
      const std::uint64_t size = new_zone_bytes(use, bytes, largest, others);
      const Offset at = reserve_in(payload_, size);
      if (at == 0) return false;
      count(size);
      found = &head_->zone[head_->zones];
      *found = {at, size, 0, at, 0, {}, 0, use};
      ++head_->zones;
    }
    found->used = 0;
    found->interval = 0;
    this->use(found->bytes);
    return open(*found);
  }
  std::uint64_t new_zone_bytes(Use use, std::uint64_t bytes, std::uint64_t largest,
                               std::uint32_t others) const {
    if (labels_ == nullptr || recycling_) {
      const bool larger = others >= (use == Use::kMessages ? 2 : 1);
      return std::max(larger ? 2 * largest : largest, 2 * bytes);
    }
    // Several zones between two snapshots, so that little memory waits for the next one. If no
    // snapshots come, zones grow, and the last places take what is needed until the journal is
    // full.
    if (head_->zones >= kZones - kZonesOfOneSize) return std::max(2 * largest, bytes);
    return std::max(snapshot_every_ / kZonesBetweenSnapshots << others / kZonesOfOneSize, bytes);
  }
  // Labels and closes the zone that is too full for the allocation. Used in the mode for images.
  bool close_full(Use use) {
    Zone*& z = zone_of(use);
    if (labels_ == nullptr || recycling_ || z == nullptr) return true;
    if (!labels_->label(*z)) return false;
    z->interval = ++head_->interval;
    z = nullptr;
    return true;
  }
  static bool is_better(const Zone& a, const Zone& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.interval >= b.interval;
  }
  bool open(Zone& z) {
    zone_of(z.use) = &z;
    return true;
  }

  void count(std::size_t bytes) {
    control_->backed_bytes.add(host_, Step::kSame, bytes);
    if (header_->journal_limit_bytes == 0) return;
    if (recycling_) return;
    const std::uint64_t all = all_backed_bytes();
    if (all <= header_->journal_limit_bytes && labels_ == nullptr) return;
    const std::uint64_t steps = steps_when_nearly_full(all);
    if (steps <= noticed_steps_) return;
    noticed_steps_ = steps;
    notices_.raise();
    host_.tell(wire::MessageType::kJournalStep, 0, 0, nullptr, 0);  // the other ranks
  }

  Host& host_;
  Notices& notices_;
  SegmentHeader* header_;
  RankControl* control_;
  Offset begin_;
  Area permanent_;
  SpinLock permanent_lock_;
  Area payload_;
  RegionHead* head_;
  bool recycling_ = false;
  std::uint64_t noticed_steps_ = 0;  // steps_when_nearly_full() that a notice was given for
  bool zoned_ = false;
  Labels* labels_ = nullptr;  // in a job of snapshots
  std::uint64_t snapshot_every_ = 0;
  std::atomic<std::uint64_t> ask_at_{~std::uint64_t{0}};  // used_bytes
  Zone* zone_[2] = {};                                    // in use, by Use
  std::uint64_t over_ = 0;  // with a full journal: intervals up to this one are over
};

}  // namespace rejoin::journal
