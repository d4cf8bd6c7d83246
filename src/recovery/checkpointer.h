// Checkpoints: commit and load. PROTOCOL.md, "Which recovery points" and "Checkpoints".
//
// Every checkpoint is counted, and all ranks meet there. What else it does depends on the kind of
// recovery point that the job has: in a job of versions it is a recovery point; in a job of images
// it is none, and models are copied only for versions that are written to files. While that is
// undecided, it is made like a recovery point.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "engine/copy.h"
#include "recovery/cursors.h"
#include "recovery/notice.h"
#include "recovery/operations.h"
#include "recovery/point_to_point.h"
#include "recovery/truncation.h"
#include "recovery/waits.h"

namespace rejoin::recovery {

template <journal::Host H>
class Checkpointer {
 public:
  Checkpointer(Operations<H>& ops, PointToPoint<H>& messages, Inbox<H>& inbox, Outbox<H>& outbox,
               Outcomes<H>& outcomes, Cursors<H>& cursors, Truncation<H>& truncation,
               Waits<H>& waits, Divergence<H>& divergence)
      : ops_(ops),
        host_(ops.host),
        journal_(ops.journal),
        peers_(ops.peers),
        comms_(ops.comms),
        execution_(ops.execution),
        diagnostics_(ops.diagnostics),
        messages_(messages),
        inbox_(inbox),
        outbox_(outbox),
        outcomes_(outcomes),
        cursors_(cursors),
        truncation_(truncation),
        waits_(waits),
        divergence_(divergence),
        header_(journal::job_of(host_)),
        control_(journal::own_control(host_)) {}

  // Collective over all ranks of the job; `world` is a communicator of all of them. Blocks until
  // every rank has prepared its models. kRefused, kMismatch: nothing was changed.
  Status checkpoint(Comm<H>& world, const Call& call, const Models& m) {
    const std::uint32_t index = enter(world, call);
    const std::uint64_t v = execution_.version() + 1;
    if (header_->has_relay != 0 && peers_.goes_back_to() == journal::Return::kVersions) {
      host_.stop(
          "ranks on several hosts go on from snapshots, not from checkpoints of the program: leave "
          "--snapshots off out");
    }
    Status s = may_checkpoint(v);
    if (s == Status::kOk) {
      const std::uint64_t prepared = control_->prepared.load(std::memory_order_relaxed);
      // A checkpoint that a former incarnation has completed is repeated without waiting, so the
      // position must not show this rank as blocked in it.
      if (prepared <= v || journal::breaks(host_, Rule::kPastCheckpoint)) {
        execution_.show_inside();
      }
      bool again = prepared >= v;
      if (!again) {
        execution_.become_live(header_->ranks > 1);
        // Its predecessor may have prepared it, if this process was woken meanwhile.
        while (!again && ops_.repetition.before_anything_new(index)) {
          again = control_->prepared.load(std::memory_order_relaxed) >= v;
        }
      }
      if (again) {
        execution_.count_replayed();
        if (m.compared) compare_with_former(v, m);
        ring_everybody();  // a sender may wait for what this rank does only behind this checkpoint
      } else {
        prepare(v, m);
      }
      execution_.inside();
      s = await_commit(world, index, v);
      if (s == Status::kOk) complete(v, again, m.compared);
    }
    if (s != Status::kOk) execution_.inside();
    execution_.leave(s);
    return s;
  }

  // A lazy checkpoint that is not written: only counts, and is an occasion for an image.
  void pass(Comm<H>& world, const Call& call) {
    enter(world, call);
    execution_.inside();
    execution_.made_version(execution_.version() + 1);
    execution_.leave(Status::kOk);
  }

  // Finds the version to continue from. Called once, before the first checkpoint; never waits, and
  // decides nothing. Fails with kRefused. A job of versions continues at the newest committed one,
  // else at the one that the job was resumed from. Any other job answers with the latter in every
  // incarnation, so that all incarnations do the same from main on.
  Status load(Loaded* loaded) {
    *loaded = {};
    if (execution_.has_loaded() || execution_.version() != 0) {
      diagnostics_.set_error("a %s: a rank loads once, before its first checkpoint",
                             execution_.has_loaded() ? "second load" : "load after a checkpoint");
      return Status::kRefused;
    }
    execution_.note_load();
    host_.step(Step::kLook);
    const bool constant = peers_.goes_back_to() != journal::Return::kVersions &&
                          !journal::breaks(host_, Rule::kLoadIsConstant);
    if (!constant) keep_what_is_there();
    const journal::Version* found = constant ? nullptr : newest_version(peers_.committed());
    if (found == nullptr) {
      begin_bootstrap_phase(loaded);
    } else {
      restore(*found, loaded);
    }
    return Status::kOk;
  }

  // Called for a communicator that this incarnation has just made.
  void adopt(Comm<H>& c) {
    c.late = c.members.size > 1 && execution_.past_first_checkpoint();
    if (restored_ != nullptr) restore(c);
  }

  // Returns whether version v is written: all ranks meet there if it is lazy, and a job of images
  // stores its models if they are written to files. Rank 0 announces it with the newest written
  // version; the first version of the job is always written.
  bool is_written(std::uint64_t v) const {
    if (v == header_->first_version + 1) return true;
    const journal::WrittenVersions written = peers_.written_versions();
    if (journal::breaks(host_, Rule::kWrittenAlready)) return v == written.next;
    return written.contains(v);
  }
  // Whether the models of a version that is written are copied.
  bool keeps_models() const { return keeps_models(peers_.goes_back_to()); }
  // How long it took to copy the models of the newest version that was stored, in ns of the host's
  // clock.
  std::uint64_t copy_ns() const { return copy_ns_; }

  // Bytes of the observation log behind which this rank never goes back.
  std::uint64_t observations_mark() const {
    return journal::read_mark(host_, host_.rank(),
                              [](const journal::Marks& v) { return v.observations; });
  }

 private:
  std::uint32_t enter(Comm<H>& world, const Call& call) {
    const std::uint32_t index = execution_.enter_checkpoint(call).call;
    execution_.show_position(world.members.context, world.next_sequence, index);
    return index;
  }

  // --- Commit

  bool keeps_models(journal::Return job) const {
    switch (job) {
      case journal::Return::kUndecided:
        return true;
      case journal::Return::kVersions:
        return execution_.has_loaded();
      case journal::Return::kImages:
        break;
    }
    return header_->writes_versions != 0 && execution_.has_loaded();
  }

  // A job of versions refuses a checkpoint at which no process could begin. No other job refuses
  // one: an incarnation that begins at main must get the same answers as its predecessors.
  Status may_checkpoint(std::uint64_t v) {
    if (peers_.goes_back_to() != journal::Return::kVersions) return Status::kOk;
    const auto number = static_cast<unsigned long long>(v);
    switch (fault_of(v)) {
      case journal::VersionFault::kNone:
      case journal::VersionFault::kNoLoad:
        return Status::kOk;
      case journal::VersionFault::kOpenRequest:
        diagnostics_.set_error(
            "checkpoint %llu: %s is not complete, and a restarted rank would not have it; complete "
            "all requests before a checkpoint",
            number, messages_.open_request());
        return Status::kRefused;
      case journal::VersionFault::kLateCommunicator:
        diagnostics_.set_error(
            "checkpoint %llu: a communicator of %u ranks that was created after the first "
            "checkpoint still exists, and a restarted rank would not have it; free it before the "
            "checkpoint, or create it before the first checkpoint",
            number, late_communicator()->members.size);
        return Status::kRefused;
      case journal::VersionFault::kOverLimit:
        break;
    }
    diagnostics_.set_error(
        "checkpoint %llu: the results of operations between the load and the first checkpoint, "
        "which rank %u must retain until the job ends, have %llu bytes, more than the %llu of "
        "--bootstrap-limit; make the first checkpoint earlier, or the limit larger",
        number, host_.rank(), static_cast<unsigned long long>(set_up_bytes()),
        static_cast<unsigned long long>(header_->bootstrap_limit_bytes));
    return Status::kNoMemory;
  }

  journal::VersionFault fault_of(std::uint64_t v) {
    using Fault = journal::VersionFault;
    if (messages_.open_request() != nullptr) return Fault::kOpenRequest;
    if (late_communicator() != nullptr) return Fault::kLateCommunicator;
    if (!execution_.has_loaded()) return Fault::kNoLoad;
    const std::uint64_t limit = header_->bootstrap_limit_bytes;
    const bool first = execution_.loaded_version() == 0 && v == header_->first_version + 1;
    const bool over = first && limit != 0 && set_up_bytes() > limit;
    return over || ops_.bootstrap.over_limit() ? Fault::kOverLimit : Fault::kNone;
  }
  const Comm<H>* late_communicator() const {
    for (Comm<H>* c = comms_.first(); c != nullptr; c = c->next) {
      if (c->late) return c;
    }
    return nullptr;
  }
  std::uint64_t set_up_bytes() const {
    return journal_.region().payload_bytes() - payload_at_load_;
  }

  // Ensures that everything of this rank that version v needs lies in the segment.
  void prepare(std::uint64_t v, const Models& m) {
    if (m.compared) put_hash(v, m);
    // Read once: the agent may decide at any moment.
    const journal::Return job = peers_.goes_back_to();
    const bool kept = keeps_models(job) && (job != journal::Return::kImages || is_written(v));
    if (kept) keep_version(v, m, job);
    if (host_.rank() == 0) say_what_is_written(v, m.next, job, kept);
    control_->prepared.store(host_, Step::kPrepare, v);
    ring_everybody();
  }
  void ring_everybody() {
    for (std::uint32_t r = 0; r < header_->ranks; ++r) journal::ring_sleepers(host_, &r, 1);
  }

  // Called by rank 0 before it prepares v: a rank that leaves v finds what was announced with it.
  void say_what_is_written(std::uint64_t v, std::uint64_t next, journal::Return job, bool kept) {
    journal::WrittenVersions written = {static_cast<std::uint32_t>(v),
                                        static_cast<std::uint32_t>(next != 0 ? next : v + 1)};
    if (job == journal::Return::kImages && !kept) {
      if (keeps_models(job)) return;  // one between two that are written
      written.next = journal::WrittenVersions::kNever;
    }
    control_->written_versions.store(host_, Step::kPrepare, written.word());
  }

  // REQUIRES keeps_models(job).
  void keep_version(std::uint64_t v, const Models& m, journal::Return job) {
    char why[kWhyBytes];
    journal::Version& slot = free_version(v);
    slot.marks.number.store(host_, Step::kModel, 0);
    host_.step(Step::kModel);
    slot.fault = fault_of(v);
    slot.can_be_imaged = job != journal::Return::kUndecided || host_.can_be_frozen(why, sizeof why);
    slot.marks.ordinal = execution_.ordinal();
    slot.marks.made_wall_ns = host_.now_ns() + header_->wall_offset_ns;
    if (slot.fault == journal::VersionFault::kNone) {
      if (job != journal::Return::kImages) cursors_.put(slot.marks);
      const std::uint64_t begin = host_.now_ns();
      if (host_.rank() == 0) put_model(slot.global, m.global, m.global_bytes);
      put_model(slot.local, m.local, m.local_bytes);
      slot.global_bytes = m.global_bytes;
      copy_ns_ = host_.now_ns() - begin;
    }
    slot.marks.number.store(host_, Step::kModel, v);
  }

  // Returns the oldest slot that no rank needs. In a job of versions, what a rank has loaded is
  // needed until its second checkpoint, and a mark that another rank is reading must not change. In
  // a job of images the agent's writer is the only reader. A slot that a former incarnation has
  // used for this very version is preferred.
  journal::Version& free_version(std::uint64_t v) {
    journal::Version* slot = nullptr;
    const bool of_images = peers_.goes_back_to() == journal::Return::kImages;
    std::uint64_t oldest = of_images ? v : peers_.kept_by_all();
    std::uint64_t in_file = of_images ? header_->version_in_file.load() : 0;
    if (journal::breaks(host_, Rule::kSlotOfFile)) in_file = 0;
    for (journal::Version& other : journal_.region().head()->version) {
      const std::uint64_t number = other.marks.number.load(std::memory_order_relaxed);
      if (number != v && number >= oldest && number != 0) continue;
      if (number != 0 && number == in_file) continue;
      slot = &other;
      if (number == v) break;
      if (!journal::breaks(host_, Rule::kOldestVersionSlot)) oldest = number;
    }
    journal::check(host_, slot != nullptr,
                   "no slot is free for another checkpoint: this is a defect of Rejoin");
    return *slot;
  }

  void put_model(journal::Buffer& buffer, const void* data, std::size_t bytes) {
    make_room(buffer, bytes);
    if (bytes == 0) return;
    engine::copy_chunk(journal::own_bytes(host_, buffer.at), static_cast<const std::byte*>(data),
                       bytes, bytes);
  }
  void make_room(journal::Buffer& buffer, std::size_t bytes) {
    if (!journal_.region().memory().make_room(buffer, bytes)) journal_.out_of_memory();
  }

  Status await_commit(Comm<H>& world, std::uint32_t call, std::uint64_t v) {
    typename Operations<H>::Other other;
    journal::wait_until(host_, [&](bool thorough) {
      // A member may wait for an operation that this rank has entered before this checkpoint.
      waits_.advance(thorough);
      host_.step(Step::kLook);
      // An image that is wanted is made before this rank leaves: others may have made theirs in
      // front of this checkpoint. Behind it this rank looks again.
      while (peers_.committed() >= v) {
        if (ops_.taking.before() == Imaged::kNone) return true;
      }
      if (!thorough) return false;
      inbox_.poll_all(true);
      do {
        other = ops_.find_disagreement_at_checkpoint(world, v);
      } while (other.found() && ops_.taking.before() != Imaged::kNone);
      return other.found();
    });
    if (!other.found()) return Status::kOk;
    ops_.bootstrap.find_why_members_disagree();
    diagnostics_.mismatch_at_checkpoint(v, host_.rank(), call, world.members.world[other.member],
                                        other.call);
    return Status::kMismatch;
  }

  // Completes the committed version v. again: a former incarnation has prepared it.
  void complete(std::uint64_t v, bool again, bool compared) {
    journal::check(host_, execution_.version() + 1 == v && peers_.committed() >= v,
                   "a checkpoint was completed out of order: this is a defect of Rejoin");
    if (compared) compare_globals(v);
    execution_.made_version(v);
    if (!again) execution_.caught_up();
    // First of all, because the next incarnation must know what it may go back to.
    const journal::Return decided = decide(v);
    if (v == header_->first_version + 1) tell_decision(v, decided);
    const bool point =
        decided == journal::Return::kVersions || journal::breaks(host_, Rule::kVersionsAreData);
    const journal::Version* mine = point ? journal::own_version(host_, v) : nullptr;
    if (mine == nullptr) return;  // without a load a rank can go back only to main
    keep_what_is_there();
    control_->kept.store(host_, Step::kAcknowledge, v);
    truncation_.close(v);
    inbox_.truncate(mine->marks);
    outcomes_.truncate(mine->marks.outcomes);
    if (journal::breaks(host_, Rule::kDecideFirst)) journal::decide_return(host_, decided);
  }

  // The first checkpoint of the job decides, if no image was kept before. The slot of each rank
  // says whether images of it are possible, so all ranks compute the same decision. Versions are
  // chosen only if some rank cannot have images and a process of each rank can begin at this
  // version; images are always safe, because a rank that has none goes back to main.
  journal::Return decide(std::uint64_t v) {
    using journal::Return;
    const Return before = peers_.goes_back_to();
    if (before != Return::kUndecided) return before;
    std::uint32_t without_image = kNobody, without_version = kNobody;
    for (std::uint32_t r = header_->ranks; r-- > 0;) {
      // The slot still exists: a rank that makes the next version has decided, and waits for this
      // one.
      const auto facts = peers_.version(r, v);
      journal::check(host_, facts.has_value(),
                     "a rank's first checkpoint was overwritten before all ranks had seen it: this "
                     "is a defect of Rejoin");
      if (!facts->can_be_imaged) without_image = r;
      if (facts->fault != journal::VersionFault::kNone) without_version = r;
    }
    const bool images = without_image == kNobody || without_version != kNobody;
    const Return decided = images ? Return::kImages : Return::kVersions;
    if (journal::breaks(host_, Rule::kDecideFirst)) return decided;
    return journal::decide_return(host_, decided);
  }

  // Reports the decision, from the first rank of which no image is possible, behind the first
  // checkpoint of the job.
  void tell_decision(std::uint64_t v, journal::Return decided) {
    // A former incarnation has reported it.
    if (control_->decision_told.load(std::memory_order_relaxed) != 0) return;
    std::uint32_t without_version = kNobody;
    for (std::uint32_t r = header_->ranks; r-- > 0;) {
      const auto facts = peers_.version(r, v);
      if (!facts) return;  // there was nothing to decide
      if (facts->fault != journal::VersionFault::kNone) without_version = r;
      const bool possible = facts->can_be_imaged;
      if (possible ? r == host_.rank() : r < host_.rank()) return;
    }
    char why[kWhyBytes], text[kWhyBytes + 300];
    if (host_.can_be_frozen(why, sizeof why)) return;
    if (decided == journal::Return::kImages && without_version == kNobody) return;
    if (decided == journal::Return::kVersions) {
      std::snprintf(text, sizeof text,
                    "no snapshots are made in this job, because this rank %s; ranks that die go on "
                    "from their checkpoints (docs/checkpoints.md)",
                    why);
    } else {
      std::snprintf(text, sizeof text,
                    "no snapshot of this rank can be made, because it %s, and ranks cannot go on "
                    "from checkpoint %llu, because rank %u %s: if this rank dies, it goes back to "
                    "the start of the program (docs/checkpoints.md)",
                    why, static_cast<unsigned long long>(v), without_version,
                    journal::text_of(peers_.version(without_version, v)->fault));
    }
    send_notice(host_, text);
    control_->decision_told.store(host_, Step::kFlag, 1);
  }

  // Protects everything allocated so far from reuse: in a job of versions every incarnation runs
  // through its set-up again. Zones begin behind the first checkpoint.
  void keep_what_is_there() {
    journal::Region<H>& region = journal_.region();
    if (!region.retention().serves_replays() || journal::breaks(host_, Rule::kKeepForCheckpoints))
      return;
    if (region.head()->past_version == 0) region.keep_everything();
  }

  // --- Global models: the same at every rank, and in every replay

  void put_hash(std::uint64_t v, const Models& m) {
    journal::ModelHash& h = journal::own_region(host_)->model_hash[v % journal::kModelHashes];
    h.version.store(host_, Step::kModel, 0, std::memory_order_relaxed);
    journal::order_stores();
    host_.step(Step::kModel);
    h.bytes.store(host_, Step::kSame, m.global_bytes, std::memory_order_relaxed);
    h.hash.store(host_, Step::kSame, hash_of(m), std::memory_order_relaxed);
    h.version.store(host_, Step::kModel, v);
  }
  static std::uint64_t hash_of(const Models& m) {
    return m.global_bytes > 0 ? hash_bytes(m.global, m.global_bytes) : 0;
  }
  journal::GivenModel given_by(std::uint32_t rank, std::uint64_t v) const {
    return peers_.given_model(rank, v, journal::breaks(host_, Rule::kHashOfThisVersion));
  }

  void compare_globals(std::uint64_t v) {
    const journal::GivenModel mine = given_by(host_.rank(), v), first = given_by(0, v);
    if (!mine.known || !first.known) return;
    if (mine.bytes == first.bytes && mine.hash == first.hash) return;
    host_.stop(diagnostics_.other_model(v, host_.rank(), mine.bytes, first.bytes));
  }
  void compare_with_former(std::uint64_t v, const Models& m) {
    const journal::GivenModel former = given_by(host_.rank(), v);
    if (!former.known || (former.bytes == m.global_bytes && former.hash == hash_of(m))) return;
    divergence_.report(diagnostics_.other_model_again(v, host_.rank(), divergence_.stops()));
  }

  // --- Load

  const journal::Version* newest_version(std::uint64_t committed) {
    const journal::Version* found = nullptr;
    std::uint64_t newest = 0;
    for (const journal::Version& v : journal_.region().head()->version) {
      const std::uint64_t number = v.marks.number.load(std::memory_order_acquire);
      if (number == 0 || number > committed || number < newest) continue;
      newest = number;
      found = &v;
    }
    return found;
  }

  // Nothing can be loaded but what a former job may have left.
  void begin_bootstrap_phase(Loaded* loaded) {
    payload_at_load_ = journal_.region().payload_bytes();
    if (header_->first_version == 0) return;
    execution_.made_version(header_->first_version);
    const auto first = peers_.first_global_model();
    const journal::RegionHead* mine = journal_.region().head();
    *loaded = {execution_.version(),
               first.data(),
               first.size(),
               journal::own_bytes(host_, mine->resume_local),
               mine->resume_local_bytes,
               0,
               false};
  }

  void restore(const journal::Version& v, Loaded* loaded) {
    restored_ = &v;
    execution_.begin_at(v.marks);
    outbox_.restore(v.marks);
    // Otherwise incarnations that die before publishing it would hold back the marks.
    if (control_->kept.load(std::memory_order_relaxed) < execution_.loaded_version()) {
      control_->kept.store(host_, Step::kAcknowledge, execution_.loaded_version());
    }
    journal_.region().follow_versions();
    for (Comm<H>* c = comms_.first(); c != nullptr; c = c->next) restore(*c);
    inbox_.restore(v.marks);
    outcomes_.restore(v.marks.outcomes);
    const auto global = peers_.global_model(execution_.loaded_version());
    journal::check(host_, global.has_value(),
                   "rank 0 does not have the loaded checkpoint: this is a defect of Rejoin");
    *loaded = {execution_.loaded_version(),
               global->data(),
               global->size(),
               journal::own_bytes(host_, v.local.at),
               v.local.bytes,
               v.marks.observations,
               true};
  }

  // A communicator of a restored rank continues where the version was made. Later versions reuse
  // the slot itself: by then, no communicator is made that was there.
  void restore(Comm<H>& c) {
    const bool current = execution_.version() == execution_.loaded_version();
    const journal::Cursor* then =
        current ? journal::own_cursor(host_, restored_->marks, c.members.context) : nullptr;
    c.late = then == nullptr && c.members.size > 1;
    if (then == nullptr) return;
    c.next_sequence = then->sequence;
    c.chain = then->chain;
    truncation_.truncate_records(c);
  }

  static constexpr std::size_t kWhyBytes = 400;  // why there is no image of this process

  Operations<H>& ops_;
  H& host_;
  journal::Journal<H>& journal_;
  const journal::PeerView& peers_;
  Communicators<H>& comms_;
  Execution<H>& execution_;
  Diagnostics& diagnostics_;
  PointToPoint<H>& messages_;
  Inbox<H>& inbox_;
  Outbox<H>& outbox_;
  Outcomes<H>& outcomes_;
  Cursors<H>& cursors_;
  Truncation<H>& truncation_;
  Waits<H>& waits_;
  Divergence<H>& divergence_;
  const journal::SegmentHeader* const header_;
  journal::RankControl* const control_;
  const journal::Version* restored_ = nullptr;  // the version at which this incarnation began
  std::uint64_t payload_at_load_ = 0;
  std::uint64_t copy_ns_ = 0;
};

}  // namespace rejoin::recovery
