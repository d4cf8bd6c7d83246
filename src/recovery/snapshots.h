// Snapshots: images of this rank's process that the agent requests and wakes. PROTOCOL.md,
// "Snapshots".
//
// An image holds all private state of this rank. When it is woken it reads the segment's words
// again, and the journal answers its operations until it is where its predecessor died.
#pragma once

#include <cstdint>

#include "recovery/cursors.h"
#include "recovery/point_to_point.h"
#include "recovery/truncation.h"

namespace rejoin::recovery {

template <engine::Host H>
class Snapshots final : public NoticeHandler {
 public:
  Snapshots(Rooms<H>& rooms, PointToPoint<H>& messages)
      : r_(rooms), messages_(messages), truncation_(rooms) {
    r_.notice_handler = this;
    if (!wanted() || r_.goes_back_to() == journal::Return::kVersions) return;
    r_.journal.region().recycle_behind_images(truncation_, r_.header->snapshot_every_bytes);
  }
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  // Returns in a woken image, too.
  void handle(bool at_checkpoint) override {
    journal::Notices& notices = r_.journal.notices();
    const std::uint32_t count = notices.count();
    // First, so that what is raised from here on is handled at the next operation.
    notices.handled(count);
    if (notices.take_raised() || count != looked_at_ || needs_journal_) {
      looked_at_ = count;
      look_whether_full();
      truncate();
    }
    if (!wanted() || r_.journal.region().recycling()) return;
    if (!take_wanted(at_checkpoint)) {
      notices.again();
    } else if (r_.goes_back_to() != journal::Return::kVersions) {
      wait_if_nearly_full();
    }
  }

 private:
  bool breaks(Rule rule) const { return engine::breaks(r_.host, rule); }
  bool wanted() const { return r_.header->snapshots != 0; }
  // Handles a full journal (PROTOCOL.md, "When the journal is full"). Reports it to the supervisor
  // once this rank's own replay is complete, and starts to recycle memory when the supervisor has
  // ordered that.
  void look_whether_full() {
    journal::Region<H>& region = r_.journal.region();
    if (region.recycling() || !region.is_full()) return;
    const bool told = r_.control->told_full.load(std::memory_order_relaxed) != 0;
    needs_journal_ = !told && !breaks(Rule::kNeedsJournal) && has_more_to_repeat();
    if (needs_journal_) return r_.journal.notices().again();
    if (!told) {
      r_.host.tell(wire::MessageType::kLimit, 0, 0, nullptr, 0);
      r_.control->told_full.store(r_.host, Step::kFlag, 1);
    }
    wait_for_word_if_growing();
    if (!r_.peers.recycles()) return;
    if (!region.start_recycling([this](journal::Zone& z) { return truncation_.label(z); }))
      r_.journal.out_of_memory();
  }
  bool has_more_to_repeat() {
    if (r_.incarnation == 0) return false;
    r_.repetition.look_in_wait(r_.loaded_version == 0);
    return r_.repetition.open() || messages_.outcomes().has_more() || r_.mail.has_more() ||
           r_.mail.receives_again();
  }
  // Back-pressure: waits for the supervisor's order, at most about a second for each 64th of the
  // limit. Without it, ranks would exhaust the machine's memory while ftrun is stopped (SIGSTOP).
  void wait_for_word_if_growing() {
    const journal::Region<H>& region = r_.journal.region();
    const std::uint64_t steps = region.steps_when_nearly_full(region.all_backed_bytes());
    if (steps <= waited_at_) return;
    waited_at_ = steps;
    for (unsigned turn = 0; !r_.peers.recycles() && r_.peers.recycle_soon(); ++turn) {
      if (!r_.host.wait_for_agent(turn)) return;
    }
  }

  // Ranks can fill the rest of a nearly full journal faster than the agent requests and accepts
  // images, and with a full journal no death can be repaired. If a nearly full journal has grown
  // since the newest image of this rank was made, the rank therefore requests another one and waits
  // until it is kept. That needs no other rank. It waits no longer than the host allows, nor if no
  // image can be made now; and only a few times until the journal is full, because images do not
  // help if another rank's mark holds everything back.
  void wait_if_nearly_full() {
    const std::uint64_t backed = r_.journal.region().all_backed_bytes();
    const std::uint64_t steps = r_.journal.region().steps_when_nearly_full(backed);
    if (steps <= waited_at_ || breaks(Rule::kWaitsWhenNearlyFull)) return;
    waited_at_ = steps;
    const std::uint64_t before = r_.control->kept_image.load(std::memory_order_acquire);
    const std::uint32_t incarnation = r_.incarnation;
    if (imaged_at_ < backed) r_.host.tell(wire::MessageType::kSnapshotDue, 1, 0, nullptr, 0);
    for (unsigned turn = 0; r_.host.wait_for_agent(turn); ++turn) {
      const std::uint64_t kept = r_.control->kept_image.load(std::memory_order_acquire);
      if (kept != before || (kept >= taken_ && imaged_at_ >= backed)) return truncate();
      if (!take_wanted(false) || refused_ || r_.incarnation != incarnation) return;
      if (r_.journal.region().is_full()) return;
      if (r_.goes_back_to() == journal::Return::kVersions) return;
    }
  }

  // Truncates what lies behind the marks of images.
  void truncate() {
    if (r_.goes_back_to() != journal::Return::kImages || r_.journal.region().recycling()) return;
    truncation_.truncate_all();
    const std::uint64_t kept = r_.control->kept_image.load(std::memory_order_acquire);
    const journal::Image* mine = journal::own_image(r_.host, kept);
    if (mine == nullptr) return;
    r_.mail.truncate(mine->marks);
    messages_.outcomes().truncate(mine->marks.outcomes);
  }

  // Takes the image that the agent wants, if it wants one here. Returns in a woken image, too.
  // False: not now.
  bool take_wanted(bool at_checkpoint) {
    const std::uint64_t word = r_.control->snapshot_wanted.load(std::memory_order_acquire);
    const std::uint64_t number = word & ~journal::kAtCheckpoint;
    if (number <= taken_ || (word != number && !at_checkpoint)) return true;
    refused_ = false;
    return take(number);
  }

  // False: not now.
  bool take(std::uint64_t number) {
    const bool replaying = r_.incarnation > 0 && !r_.progress.live && r_.header->ranks > 1;
    // A rank can be live in one operation while outcomes of MPI_Test are still being replayed.
    const bool told = messages_.outcomes().has_more() && !breaks(Rule::kImageWhenTold);
    const bool cancelled = r_.mail.has_more() && !breaks(Rule::kImageWhenCancelled);
    if (replaying || told || cancelled) return false;
    if (r_.outstanding.any() && !breaks(Rule::kImageTakesNothingOpen)) {
      if (++put_off_ < kMostPutOff) return false;
      return give_up(number, "has nonblocking collectives outstanding whenever a snapshot is due");
    }
    put_off_ = 0;
    if (r_.goes_back_to() == journal::Return::kVersions) {
      taken_ = number;
      return true;
    }
    switch (r_.host.may_freeze(number)) {
      case engine::MayFreeze::kYes:
        break;
      case engine::MayFreeze::kNotNow:
        return false;
      case engine::MayFreeze::kNo:
        taken_ = number;
        refused_ = true;
        return true;
    }
    put_image(number);
    r_.host.step(Step::kFreeze);
    taken_ = number;
    imaged_at_ = r_.journal.region().all_backed_bytes();
    r_.journal.region().expect_snapshot();
    const engine::Frozen frozen = r_.host.freeze(number);
    if (frozen == engine::Frozen::kWoken) wake();
    refused_ = frozen == engine::Frozen::kNot;
    return true;
  }

  bool give_up(std::uint64_t number, const char* why) {
    put_off_ = 0;
    taken_ = number;
    refused_ = true;
    r_.host.tell(wire::MessageType::kNotFrozen, 0, number, why, std::strlen(why));
    return true;
  }

  // Writes the marks of this image.
  void put_image(std::uint64_t number) {
    journal::Image& slot = free_slot();
    slot.marks.number.store(r_.host, Step::kCursors, 0);
    r_.host.step(Step::kCursors);
    put_cursors(r_, messages_.outcomes(), slot.marks);
    // + 1: a communicator that was freed after the newest operation is past, too.
    slot.marks.ordinal = r_.progress.ordinal + 1;
    slot.version = r_.progress.version;
    slot.marks.number.store(r_.host, Step::kCursors, number);
  }

  // The agent accepts only the newest image that it has requested, so a slot is free if it is not
  // that of the image that is kept.
  journal::Image& free_slot() {
    journal::Image* image = r_.journal.region().head()->image;
    const std::uint64_t kept = r_.control->kept_image.load(std::memory_order_acquire);
    const bool first = image[0].marks.number.load(std::memory_order_relaxed) != kept || kept == 0;
    return image[first ? 0 : 1];
  }

  void wake() {
    messages_.outcomes().rebase();
    r_.rebase();
    looked_at_ = r_.journal.notices().count() - 1;
    r_.journal.notices().again();
    truncate();  // as far as its predecessors may have, before the operation that comes now
    r_.control->initialized.store(r_.host, Step::kPosition, 1);
    r_.host.tell(wire::MessageType::kInitialized, 0, 0, nullptr, 0);
  }

  // Operations in a row that found a nonblocking collective outstanding: this many mean that the
  // program always has one.
  static constexpr std::uint32_t kMostPutOff = 1 << 16;

  Rooms<H>& r_;
  PointToPoint<H>& messages_;
  Truncation<H> truncation_;
  std::uint64_t taken_ = 0;      // number of the newest snapshot that was taken, or refused
  std::uint64_t imaged_at_ = 0;  // Region::all_backed_bytes() when that was taken
  std::uint64_t waited_at_ = 0;  // Region::steps_when_nearly_full() when it was last waited for
  bool refused_ = false;         // the newest one was refused
  std::uint32_t looked_at_ = 0;
  std::uint32_t put_off_ = 0;
  bool needs_journal_ = false;  // the journal is full, but this rank has not repeated its past yet
};

}  // namespace rejoin::recovery
