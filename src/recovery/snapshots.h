// Snapshots: images of this rank's process that the agent requests and wakes. PROTOCOL.md,
// "Snapshots".
//
// An image holds all private state of this rank. When it is woken it reads the segment's words
// again, and the journal answers its operations until it is where its predecessor died.
#pragma once

#include <algorithm>
#include <cstdint>

#include "journal/journal.h"
#include "journal/own.h"
#include "journal/peer_view.h"
#include "recovery/cursors.h"
#include "recovery/execution.h"
#include "recovery/inbox.h"
#include "recovery/outcomes.h"
#include "recovery/repetition.h"
#include "recovery/taking.h"
#include "recovery/truncation.h"

namespace rejoin::recovery {

// A rank whose process is an image that was woken.
class Woken {
 public:
  // Reads every cached cursor of the segment again: another process was the rank meanwhile.
  virtual void rebase() = 0;

 protected:
  ~Woken() = default;
};

template <journal::Host H>
class Snapshots final : public NoticeHandler, public ImageMaker {
 public:
  Snapshots(H& host, journal::Journal<H>& journal, const journal::PeerView& peers,
            Execution<H>& execution, Inbox<H>& inbox, Outcomes<H>& outcomes,
            Repetition<H>& repetition, Taking& taking, Cursors<H>& cursors,
            Truncation<H>& truncation, Woken& rank)
      : host_(host),
        journal_(journal),
        peers_(peers),
        execution_(execution),
        inbox_(inbox),
        outcomes_(outcomes),
        repetition_(repetition),
        taking_(taking),
        cursors_(cursors),
        truncation_(truncation),
        rank_(rank),
        header_(journal::job_of(host)),
        control_(journal::own_control(host)) {
    execution.set_notice_handler(*this);
    if (wanted()) taking.set_maker(*this);
    if (!wanted() || peers.goes_back_to() == journal::Return::kVersions) return;
    journal.region().follow_images(truncation, header_->snapshot_every_bytes);
  }
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  // Returns in a woken image, too.
  void handle() override {
    journal::Notices& notices = journal_.notices();
    const std::uint32_t count = notices.count();
    // First, so that what is raised from here on is handled at the next operation.
    notices.handled(count);
    if (notices.take_raised() || count != looked_at_ || needs_journal_) {
      looked_at_ = count;
      look_whether_full();
      truncate();
    }
    if (!wanted() || !journal_.region().retention().serves_replays()) return;
    if (!take_wanted()) {
      notices.again();
    } else if (peers_.goes_back_to() != journal::Return::kVersions) {
      wait_if_nearly_full();
    }
  }

  // An image that cannot be made here is not made later either: this rank takes something now, so
  // a later image would not fit those of the others.
  Imaged make_inside(std::uint64_t number) override {
    if (breaks(Rule::kImageBeforeTaking)) return Imaged::kNone;
    const std::uint32_t incarnation = execution_.incarnation();
    if (number > taken_ && serves_images() && !take(number, Place::kInside)) {
      host_.tell(wire::MessageType::kNotFrozen, 0, number, nullptr, 0);
      refused_ = true;
    }
    settle(std::max(number, taken_));
    return execution_.incarnation() != incarnation ? Imaged::kWoken : Imaged::kGoesOn;
  }

 private:
  bool breaks(Rule rule) const { return journal::breaks(host_, rule); }
  bool serves_images() const {
    return journal_.region().retention().serves_replays() &&
           peers_.goes_back_to() != journal::Return::kVersions;
  }
  bool wanted() const { return header_->snapshots != 0; }
  // Handles a full journal (PROTOCOL.md, "When the journal is full"). Reports it to the supervisor
  // once this rank's own replay is complete, and starts to recycle memory when the supervisor has
  // ordered that.
  void look_whether_full() {
    journal::Region<H>& region = journal_.region();
    if (!region.retention().serves_replays() || !region.memory().is_full()) return;
    const bool told = control_->told_full.load(std::memory_order_relaxed) != 0;
    needs_journal_ = !told && !breaks(Rule::kNeedsJournal) && has_more_to_repeat();
    if (needs_journal_) return journal_.notices().again();
    if (!told) {
      host_.tell(wire::MessageType::kLimit, 0, 0, nullptr, 0);
      control_->told_full.store(host_, Step::kFlag, 1);
    }
    wait_for_word_if_growing();
    if (!peers_.recycles()) return;
    if (!region.give_up_replays([this](journal::Zone& z) { return truncation_.label(z); }))
      journal_.out_of_memory();
  }
  bool has_more_to_repeat() {
    if (execution_.incarnation() == 0) return false;
    repetition_.look_in_wait();
    return repetition_.open() || outcomes_.has_more() || inbox_.has_more() ||
           inbox_.receives_again();
  }
  // What a former incarnation has shown, without a record, is past, too.
  bool has_more_shown() { return !breaks(Rule::kImageBehindShown) && repetition_.may_be_left(); }
  // Back-pressure: waits for the supervisor's order, at most about a second for each 64th of the
  // limit. Without it, ranks would exhaust the machine's memory while ftrun is stopped (SIGSTOP).
  void wait_for_word_if_growing() {
    const journal::RegionMemory<H>& memory = journal_.region().memory();
    const std::uint64_t steps = memory.steps_when_nearly_full(memory.all_backed_bytes());
    if (steps <= waited_at_) return;
    waited_at_ = steps;
    for (unsigned turn = 0; !peers_.recycles() && peers_.recycle_soon(); ++turn) {
      if (!host_.wait_for_agent(turn)) return;
    }
  }

  // Ranks can fill the rest of a nearly full journal faster than the agent requests and accepts
  // images, and with a full journal no death can be repaired. If a nearly full journal has grown
  // since the newest image of this rank was made, the rank therefore requests another one and waits
  // until it is kept. That needs no other rank. It waits no longer than the host allows, nor if no
  // image can be made now; and only a few times until the journal is full, because images do not
  // help if another rank's mark holds everything back.
  void wait_if_nearly_full() {
    const std::uint64_t backed = journal_.region().memory().all_backed_bytes();
    const std::uint64_t steps = journal_.region().memory().steps_when_nearly_full(backed);
    if (steps <= waited_at_ || breaks(Rule::kWaitsWhenNearlyFull)) return;
    waited_at_ = steps;
    const std::uint64_t before = control_->kept_image.load(std::memory_order_acquire);
    const std::uint32_t incarnation = execution_.incarnation();
    if (imaged_at_ < backed) host_.tell(wire::MessageType::kSnapshotDue, 1, 0, nullptr, 0);
    for (unsigned turn = 0; host_.wait_for_agent(turn); ++turn) {
      const std::uint64_t kept = control_->kept_image.load(std::memory_order_acquire);
      if (kept != before || (kept >= taken_ && imaged_at_ >= backed)) return truncate();
      if (!take_wanted() || refused_ || execution_.incarnation() != incarnation) return;
      if (journal_.region().memory().is_full()) return;
      if (peers_.goes_back_to() == journal::Return::kVersions) return;
    }
  }

  // Truncates what lies behind the marks of images.
  void truncate() {
    if (peers_.goes_back_to() != journal::Return::kImages) return;
    if (!journal_.region().retention().serves_replays()) return;
    truncation_.truncate_all();
    const std::uint64_t kept = control_->kept_image.load(std::memory_order_acquire);
    const journal::Image* mine = journal::own_image(host_, kept);
    if (mine == nullptr) return;
    inbox_.truncate(mine->marks);
    outcomes_.truncate(mine->marks.outcomes);
  }

  // Takes the image that the agent wants, if it wants one. Returns in a woken image, too. False:
  // not now.
  bool take_wanted() {
    const std::uint64_t number = control_->snapshot_wanted.load(std::memory_order_acquire);
    if (number <= taken_) return true;
    refused_ = false;
    return take(number, Place::kEntry);
  }

  // Where in the program the image is made.
  enum class Place : std::uint8_t { kEntry, kInside };

  // False: not now.
  bool take(std::uint64_t number, Place place) {
    const bool replaying =
        execution_.incarnation() > 0 && !execution_.is_live() && header_->ranks > 1;
    // A rank can be live in one operation while outcomes of MPI_Test are still being replayed.
    const bool told = outcomes_.has_more() && !breaks(Rule::kImageWhenTold);
    const bool cancelled = inbox_.has_more() && !breaks(Rule::kImageWhenCancelled);
    if (replaying || told || cancelled || has_more_shown()) return false;
    if (peers_.goes_back_to() == journal::Return::kVersions) {
      settle(number);
      return true;
    }
    switch (host_.may_freeze(number)) {
      case journal::MayFreeze::kYes:
        break;
      case journal::MayFreeze::kNotNow:
        return false;
      case journal::MayFreeze::kNo:
        settle(number);
        refused_ = true;
        return true;
    }
    put_image(number, place);
    host_.step(Step::kFreeze);
    settle(number);
    const auto shown = execution_.shown();
    imaged_at_ = journal_.region().memory().all_backed_bytes();
    journal_.region().zones().expect_snapshot();
    const journal::Frozen frozen = host_.freeze(number);
    if (frozen == journal::Frozen::kWoken) wake(shown, place);
    refused_ = frozen == journal::Frozen::kNot;
    return true;
  }

  // This process has made the image, or cannot make it any more.
  void settle(std::uint64_t number) {
    taken_ = number;
    taking_.settled(number);
  }

  // Writes the marks of this image.
  void put_image(std::uint64_t number, Place place) {
    journal::Image& slot = slot_for(number);
    slot.marks.number.store(host_, Step::kCursors, 0);
    journal::order_stores();
    host_.plain_store();
    host_.step(Step::kCursors);
    cursors_.put(slot.marks);
    // A communicator that was freed behind the newest operation is past, too, but not one that will
    // be freed behind the operation that this rank is inside of.
    slot.marks.ordinal = execution_.ordinal() + (place == Place::kEntry ? 1 : 0);
    slot.version = execution_.version();
    slot.prepared = control_->prepared.load(std::memory_order_relaxed);
    slot.written_versions = control_->written_versions.load(std::memory_order_relaxed);
    slot.marks.number.store(host_, Step::kCursors, number);
  }

  // A former incarnation may have made an image of this number, too, which was not kept: no two
  // slots have the same number. Otherwise a slot is free if it is neither that of the image that is
  // kept, nor that of the newest one, of which the agent may not have heard yet.
  journal::Image& slot_for(std::uint64_t wanted) {
    const std::uint64_t kept = control_->kept_image.load(std::memory_order_acquire);
    journal::Image* free = nullptr;
    for (journal::Image& image : journal_.region().head()->image) {
      const std::uint64_t number = image.marks.number.load(std::memory_order_relaxed);
      if (number == wanted) return image;
      if (number == 0 || (number != kept && number != taken_)) free = &image;
    }
    return free != nullptr ? *free : journal_.region().head()->image[0];
  }

  void wake(const typename Execution<H>::Shown& shown, Place place) {
    rank_.rebase();
    execution_.show_again(shown);
    looked_at_ = journal_.notices().count() - 1;
    journal_.notices().again();
    truncate();  // as far as its predecessors may have, before the operation that comes now
    execution_.show_initialized(1);
    execution_.go_on(place == Place::kInside);
  }

  H& host_;
  journal::Journal<H>& journal_;
  const journal::PeerView& peers_;
  Execution<H>& execution_;
  Inbox<H>& inbox_;
  Outcomes<H>& outcomes_;
  Repetition<H>& repetition_;
  Taking& taking_;
  Cursors<H>& cursors_;
  Truncation<H>& truncation_;
  Woken& rank_;
  const journal::SegmentHeader* const header_;
  journal::RankControl* const control_;
  std::uint64_t taken_ = 0;      // number of the newest snapshot that was taken, or refused
  std::uint64_t imaged_at_ = 0;  // Region::all_backed_bytes() when that was taken
  std::uint64_t waited_at_ = 0;  // Region::steps_when_nearly_full() when it was last waited for
  bool refused_ = false;         // the newest one was refused
  std::uint32_t looked_at_ = 0;
  bool needs_journal_ = false;  // the journal is full, but this rank has not repeated its past yet
};

}  // namespace rejoin::recovery
