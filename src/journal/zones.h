// Zones of payload: extents are freed only together, with the zone that they lie in.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "journal/contexts.h"
#include "journal/layout.h"
#include "journal/region_memory.h"
#include "journal/retention.h"
#include "journal/rules.h"

namespace rejoin::journal {

// Labels a full zone with all that it may have been used for. False: no memory.
class ZoneLabels {
 public:
  virtual bool label(Zone& zone) = 0;

 protected:
  ~ZoneLabels() = default;
};

// The zones of one rank; what frees them is the retention's kind.
//
// kForVersions: a zone is closed at a checkpoint, with a label: cursors above everything that the
// zone was used for. It is free when the low-water marks of all ranks that may read it have passed
// the label. kForImages: a zone is closed and labelled when it is full, and the marks are those of
// the newest images. kForReaders: zones of results are closed at every operation that all ranks of
// the job must enter: when such an operation is complete, all results that were allocated before it
// was entered have been read, so an interval is over with the next one. Zones of messages are
// closed when they are full, and free when their messages are consumed.
template <class Host>
class Zones {
 public:
  Zones(Host& host, RegionMemory<Host>& memory, const Retention& retention)
      : host_(host),
        memory_(memory),
        retention_(retention),
        header_(header_of(host.base())),
        control_(control_of(host.base(), host.rank())),
        head_(region_of(host.base(), host.rank())) {}
  Zones(const Zones&) = delete;
  Zones& operator=(const Zones&) = delete;

  // A result of a nonblocking operation was put into the zone of results in use. A member may not
  // have read it when all have entered a later operation.
  void note_nonblocking() {
    if (Zone* z = zone_of(Use::kResults)) z->nonblocking = 1;
  }
  // Called before the retention follows images. `labels` labels zones when they are full; the agent
  // is asked for a snapshot after each `snapshot_every` bytes of zones.
  void follow_images(ZoneLabels& labels, std::uint64_t snapshot_every) {
    labels_ = &labels;
    snapshot_every_ = snapshot_every;
    expect_snapshot();
  }
  // Images protect the job no longer, and nothing that lies in zones is freed any more.
  void keep_all() {
    for (std::uint32_t i = 0; i < head_->zones; ++i) head_->zone[i].use = Use::kKept;
    labels_ = nullptr;
    rebase();
  }
  // Reads the region's words again, after this process slept while another one used the region.
  void rebase() { zone_[0] = zone_[1] = nullptr; }
  // Restarts the count of bytes until the next snapshot is requested.
  void expect_snapshot() {
    ask_at_.store(control_->used_bytes.load(std::memory_order_relaxed) + snapshot_every_,
                  std::memory_order_relaxed);
  }

  // Accounts for memory that is used, perhaps again. Requests a snapshot when one is due.
  void note_use(std::uint64_t bytes) {
    const std::uint64_t used = control_->used_bytes.load(std::memory_order_relaxed) + bytes;
    control_->used_bytes.store(host_, Step::kSame, used, std::memory_order_relaxed);
    if (used < ask_at_.load(std::memory_order_relaxed) || !retention_.is_for_images()) return;
    ask_at_.store(used + snapshot_every_, std::memory_order_relaxed);
    host_.tell(wire::MessageType::kSnapshotDue, 0, 0, nullptr, 0);
  }

  // Bytes, safe to touch. A zone counts against the limit as a whole, from its first use. 0: no
  // more memory.
  Offset allocate(Use use, std::size_t bytes) {
    const Offset at = reserve(use, bytes);
    if (at == 0) return 0;
    Zone& z = *zone_of(use);
    if (bytes < PayloadStores::kLeastCopied) Prefetch::fetch_ahead(host_.base() + at, bytes);
    // The next payload will probably be as large.
    host_.payload_stores().prefetch().expect(host_.base() + z.begin + z.used,
                                             std::min<std::uint64_t>(bytes, z.bytes - z.used));
    if (at + bytes <= z.backed_to) return at;
    Offset from = std::max(at, z.backed_to);
    if (!memory_.back_ahead(&from, at + bytes, z.begin + z.bytes)) return 0;
    z.backed_to = from;
    return at;
  }
  // Bytes, each of which its writer touches first (Host::touch). 0: no more memory.
  Offset reserve(Use use, std::size_t bytes) {
    const std::uint64_t rounded = round_up_line(bytes);
    Zone*& z = zone_of(use);
    if ((z == nullptr || !fits(*z, rounded)) && !open_zone(use, rounded)) return 0;
    const Offset at = z->begin + z->used;
    z->used += rounded;
    return at;
  }
  // REQUIRES kForReaders. Bytes of a message, safe to touch. sent[ranks]: the number of messages
  // sent to each rank, this one included. 0: no more memory.
  Offset allocate_message(std::size_t bytes, const std::uint64_t* sent) {
    const Zone* z = zone_of(Use::kMessages);
    if (z != nullptr && !fits(*z, round_up_line(bytes)) && !close_messages(sent)) return 0;
    return allocate(Use::kMessages, bytes);
  }

  // Returns whether a result of this size can be stored without opening another zone.
  bool has_room(std::size_t bytes) const {
    const Zone* z = zone_[static_cast<std::uint32_t>(Use::kResults)];
    return bytes <= kInlineBytes || (z != nullptr && fits(*z, round_up_line(bytes)));
  }
  // Bytes of zones that no extent takes.
  std::uint64_t unused_bytes() const {
    std::uint64_t bytes = 0;
    for (std::uint32_t i = 0; i < head_->zones; ++i) {
      bytes += head_->zone[i].bytes - head_->zone[i].used;
    }
    return bytes;
  }

  // The journal is full: from now on zones are free as soon as all ranks have entered a later
  // operation. That is too early for those that note_nonblocking() named. Then close().
  template <class Label>
  bool begin_reuse(Label&& label) {
    for (std::uint32_t i = 0; i < head_->zones; ++i) {
      Zone& z = head_->zone[i];
      const bool may_be_read = z.nonblocking != 0 && !(z.interval != 0 && is_past(host_, z));
      if (may_be_read && !breaks(host_, Rule::kKeepNonblockingZones)) z.use = Use::kKept;
    }
    return close(std::forward<Label>(label));
  }
  // Closes the zones of results in use and labels each by label(zone). False: no memory for a
  // label.
  template <class Label>
  bool close(Label&& label) {
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
  // REQUIRES kForReaders, and that every rank of the job either has entered the operation that this
  // rank has just completed, or has returned from the one that ended the interval before.
  void end_interval() {
    over_ = head_->interval;
    close([](Zone&) { return true; });
  }

 private:
  static constexpr std::uint64_t kSmallestZoneBytes = 512 * 1024;
  static constexpr std::uint64_t kSmallestMessageZoneBytes = 128 * 1024;
  static constexpr std::uint64_t kZonesBetweenSnapshots = 4;
  static constexpr std::uint32_t kZonesOfOneSize = kZones / 8;

  Zone*& zone_of(Use use) { return zone_[static_cast<std::uint32_t>(use)]; }
  static bool fits(const Zone& z, std::uint64_t bytes) { return z.used + bytes <= z.bytes; }

  bool close_messages(const std::uint64_t* sent) {
    Zone*& z = zone_of(Use::kMessages);
    const std::size_t bytes = header_->ranks * sizeof(std::uint64_t);
    if (!memory_.make_room(z->label, bytes)) return false;
    std::memcpy(host_.base() + z->label.at, sent, bytes);
    z->interval = head_->interval + 1;
    z = nullptr;
    return true;
  }
  // Returns whether the receivers have consumed all messages that had been sent when the zone was
  // labelled. Their numbers follow the cursors in the label.
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
    if (retention_.reuses_what_was_read()) return z.interval <= over_ && are_consumed(z);
    return breaks(host_, Rule::kZonesBehindAllMarks) || is_past(host_, z);
  }

  // Opens an open zone that has room (left by a former incarnation, or by this one for a larger
  // extent), else the smallest free one that is large enough (the one closed last, of several),
  // else a new one.
  bool open_zone(Use use, std::uint64_t bytes) {
    Zone* found = nullptr;
    if (!close_full(use)) return false;
    std::uint64_t largest = use == Use::kMessages ? kSmallestMessageZoneBytes : kSmallestZoneBytes;
    // What decides the size of a new zone: all zones of messages; zones of results that are open
    // but too full, and with images those that are not free.
    std::uint32_t others = 0;
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
      const Offset at = memory_.reserve_payload(size);
      if (at == 0) return false;
      memory_.count(size);
      found = &head_->zone[head_->zones];
      *found = {at, size, 0, at, 0, {}, 0, use, 0};
      ++head_->zones;
    }
    found->used = 0;
    found->interval = 0;
    found->nonblocking = 0;
    note_use(found->bytes);
    return open(*found);
  }
  std::uint64_t new_zone_bytes(Use use, std::uint64_t bytes, std::uint64_t largest,
                               std::uint32_t others) const {
    if (!retention_.is_for_images()) {
      const bool larger = others >= (use == Use::kMessages ? 2 : 1);
      return std::max(larger ? 2 * largest : largest, 2 * bytes);
    }
    // Several zones between two snapshots, so that little memory waits for the next one. If no
    // snapshots come, zones grow, and the last places take what is needed until the journal is
    // full.
    if (head_->zones >= kZones - kZonesOfOneSize) return std::max(2 * largest, bytes);
    return std::max((snapshot_every_ / kZonesBetweenSnapshots) << (others / kZonesOfOneSize),
                    bytes);
  }
  // Labels and closes the zone that is too full for the allocation.
  bool close_full(Use use) {
    Zone*& z = zone_of(use);
    if (!retention_.is_for_images() || z == nullptr) return true;
    if (!labels_->label(*z)) return false;
    order_stores();  // the agent reads the label concurrently (needed_payload())
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

  Host& host_;
  RegionMemory<Host>& memory_;
  const Retention& retention_;
  SegmentHeader* header_;
  RankControl* control_;
  RegionHead* head_;
  ZoneLabels* labels_ = nullptr;  // images protect the job, or did when the journal became full
  std::uint64_t snapshot_every_ = 0;
  std::atomic<std::uint64_t> ask_at_{~std::uint64_t{0}};  // used_bytes
  Zone* zone_[2] = {};                                    // in use, by Use
  std::uint64_t over_ = 0;  // with a full journal: intervals up to this one are over
};

}  // namespace rejoin::journal
