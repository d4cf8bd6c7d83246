// Checkpoints: commit and load. PROTOCOL.md, "Checkpoints".
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine/copy.h"
#include "recovery/cursors.h"
#include "recovery/entry.h"
#include "recovery/point_to_point.h"
#include "recovery/truncation.h"

namespace rejoin::recovery {

template <engine::Host H>
class Checkpointer {
 public:
  Checkpointer(Operations<H>& ops, PointToPoint<H>& messages)
      : ops_(ops), r_(ops.r), messages_(messages), truncation_(ops.r) {}

  // Collective over all ranks of the job; `world` is a communicator of all of them. Blocks until
  // every rank has prepared its models. kRefused, kMismatch: nothing was changed.
  Status checkpoint(Comm<H>& world, const Call& call, const Models& m) {
    r_.heed_notices();
    const std::uint64_t v = r_.progress.version + 1;
    ++r_.progress.ordinal;
    r_.faults.point(r_.progress.ordinal, Moment::kBefore);
    const auto interned = r_.calls.intern(call);
    if (interned.call == CallTable<H>::kNone) r_.journal.out_of_memory();
    r_.show_position(world.members.context, world.next_sequence, interned.call);
    Status s = may_checkpoint(v);
    if (s == Status::kOk) {
      r_.control->phase.store(journal::Phase::kInside, std::memory_order_release);
      const bool again = r_.control->prepared.load(std::memory_order_relaxed) >= v;
      if (again) {
        r_.count_replayed();
        ring_everybody();  // a sender may wait for what I do only behind this checkpoint
      } else {
        if (!r_.progress.live && r_.header->ranks > 1) r_.went_live();
        prepare(v, m);
      }
      r_.faults.point(r_.progress.ordinal, Moment::kInside);
      s = await_commit(world, interned.call, v);
      if (s == Status::kOk) complete(v, again);
    }
    if (s != Status::kOk) r_.faults.point(r_.progress.ordinal, Moment::kInside);
    r_.leave(s);
    return s;
  }

  // Where to go on. Once, before the first checkpoint; never waits. Fails with kRefused.
  Status load(Loaded* loaded) {
    *loaded = {};
    if (r_.progress.load_called || r_.progress.version != 0) {
      r_.diagnostics.set_error("a %s: a rank loads once, before its first checkpoint",
                               r_.progress.load_called ? "second load" : "load after a checkpoint");
      return Status::kRefused;
    }
    if (!goes_back_to_versions()) return Status::kOk;
    r_.progress.load_called = true;
    r_.host.step(Step::kLook);
    const journal::Version* found = newest_version(r_.peers.committed());
    if (found == nullptr) {
      begin_bootstrap_phase(loaded);
    } else {
      restore(*found, loaded);
    }
    return Status::kOk;
  }

  // A communicator that was made just now by this incarnation.
  void adopt(Comm<H>& c) {
    c.late = c.members.size > 1 && r_.progress.past_bootstrap_phase;
    if (restored_ != nullptr) restore(c);
  }

  // The lazy checkpoint that is written next, as rank 0 said with the newest written one.
  std::uint64_t next_lazy() const { return next_lazy_; }

  // Bytes of the observation log that I never go back behind.
  std::uint64_t observations_mark() const {
    return journal::read_mark(r_.host, r_.host.rank(),
                              [](const journal::Version& v) { return v.observations; });
  }

 private:
  // --- Commit

  Status may_checkpoint(std::uint64_t v) {
    if (const char* open = messages_.open_request()) {
      r_.diagnostics.set_error(
          "checkpoint %llu: %s is not over yet, and a restarted rank would not have it; complete "
          "all requests before a checkpoint",
          static_cast<unsigned long long>(v), open);
      return Status::kRefused;
    }
    for (Comm<H>* c = r_.comms.first(); c != nullptr; c = c->next) {
      if (!c->late) continue;
      r_.diagnostics.set_error(
          "checkpoint %llu: a communicator of %u ranks that was made after the first checkpoint is "
          "still there, and a restarted rank would not have it; free it first, or make it before "
          "the first checkpoint",
          static_cast<unsigned long long>(v), c->members.size);
      return Status::kRefused;
    }
    const std::uint64_t limit = r_.header->bootstrap_limit_bytes;
    const bool first =
        r_.progress.load_called && r_.loaded_version == 0 && v == r_.header->first_version + 1;
    const std::uint64_t bytes =
        r_.control->payload_bump.load(std::memory_order_relaxed) - payload_at_load_;
    if (!first || limit == 0 || bytes <= limit) return Status::kOk;
    r_.diagnostics.set_error(
        "checkpoint %llu: the operations between the load and the first checkpoint left rank %u "
        "%llu bytes to keep until the job ends, more than the %llu of --bootstrap-limit; make "
        "the first checkpoint earlier or the limit larger",
        static_cast<unsigned long long>(v), r_.host.rank(), static_cast<unsigned long long>(bytes),
        static_cast<unsigned long long>(limit));
    return Status::kNoMemory;
  }

  // Everything of mine that version v needs lies in the segment before this returns.
  void prepare(std::uint64_t v, const Models& m) {
    if (r_.progress.load_called) keep_version(v, m);
    r_.host.step(Step::kPrepare);
    r_.control->prepared.store(v, std::memory_order_release);
    ring_everybody();
  }
  void ring_everybody() {
    for (std::uint32_t r = 0; r < r_.header->ranks; ++r) engine::ring_sleepers(r_.host, &r, 1);
  }

  void keep_version(std::uint64_t v, const Models& m) {
    journal::Version& slot = free_version(v);
    slot.number.store(0, std::memory_order_release);
    r_.host.step(Step::kModel);
    put_cursors(r_, messages_.outcomes(), slot);
    slot.ordinal = r_.progress.ordinal;
    if (r_.host.rank() == 0) put_model(slot.global, m.global, m.global_bytes);
    put_model(slot.local, m.local, m.local_bytes);
    slot.next_lazy = m.next_lazy;
    slot.global_bytes = m.global_bytes;
    slot.has_hash = m.compared;
    slot.global_hash = m.compared && m.global_bytes > 0 ? hash_bytes(m.global, m.global_bytes) : 0;
    r_.host.step(Step::kModel);
    slot.number.store(v, std::memory_order_release);
  }

  // The oldest slot that nobody needs: what a rank has loaded lasts until its second checkpoint,
  // and a mark that somebody is reading stays whole. But first of all what a former
  // incarnation has left of this very version.
  journal::Version& free_version(std::uint64_t v) {
    journal::Version* slot = nullptr;
    std::uint64_t oldest = r_.peers.kept_by_all();
    for (journal::Version& other : r_.journal.region().head()->version) {
      const std::uint64_t number = other.number.load(std::memory_order_relaxed);
      if (number != v && number >= oldest && number != 0) continue;
      slot = &other;
      if (number == v) break;
      if (!engine::breaks(r_.host, Rule::kOldestVersionSlot)) oldest = number;
    }
    engine::check(r_.host, slot != nullptr,
                  "more checkpoints are in use than can be: this is a defect of Rejoin");
    return *slot;
  }

  void put_model(journal::Buffer& buffer, const void* data, std::size_t bytes) {
    make_room(buffer, bytes);
    if (bytes == 0) return;
    engine::copy_chunk(r_.host.base() + buffer.at, static_cast<const std::byte*>(data), bytes,
                       bytes);
  }
  void make_room(journal::Buffer& buffer, std::size_t bytes) {
    if (!r_.journal.region().make_room(buffer, bytes)) r_.journal.out_of_memory();
  }

  Status await_commit(Comm<H>& world, std::uint32_t call, std::uint64_t v) {
    typename Agreement<H>::Other other;
    engine::wait_until(r_.host, [&](bool thorough) {
      r_.host.step(Step::kLook);
      if (r_.peers.committed() >= v) return true;
      if (thorough) other = ops_.agreement.find_at_checkpoint(world, world.next_sequence, v);
      return other.found();
    });
    if (!other.found()) return Status::kOk;
    ops_.bootstrap.find_why_members_disagree();
    r_.diagnostics.mismatch_at_checkpoint(v, r_.host.rank(), call,
                                          world.members.world[other.member], other.call);
    return Status::kMismatch;
  }

  // Version v is committed. again: a former incarnation has prepared it.
  void complete(std::uint64_t v, bool again) {
    const journal::Version* mine = r_.peers.version(r_.host.rank(), v);
    const journal::Version* first = r_.peers.version(0, v);
    if (mine != nullptr && first != nullptr) compare_globals(v, *mine, *first);
    r_.progress.version = v;
    r_.progress.past_bootstrap_phase = r_.progress.load_called;
    r_.progress.catching_up = r_.progress.catching_up && again;
    if (mine == nullptr) return;  // without a load there is nothing to go back to but main
    // Rank 0 has none if it has not called load, as I have.
    if (first != nullptr) next_lazy_ = first->next_lazy;
    r_.host.step(Step::kAcknowledge);
    r_.control->kept.store(v, std::memory_order_release);
    truncation_.close(v);
    r_.mail.truncate(*mine);
    messages_.outcomes().truncate(mine->outcomes);
  }

  void compare_globals(std::uint64_t v, const journal::Version& mine,
                       const journal::Version& first) {
    if (!mine.has_hash || !first.has_hash) return;
    if (mine.global_bytes == first.global_bytes && mine.global_hash == first.global_hash) return;
    r_.host.stop(
        r_.diagnostics.other_model(v, r_.host.rank(), mine.global_bytes, first.global_bytes));
  }

  // --- Load

  // False: the job goes back to images, which have all that a checkpoint could give.
  bool goes_back_to_versions() {
    using journal::Return;
    auto now = Return::kUndecided;
    auto& word = r_.header->goes_back_to;
    word.compare_exchange_strong(now, Return::kVersions, std::memory_order_seq_cst);
    if (word.load(std::memory_order_relaxed) == Return::kImages) {
      r_.notice(
          "loads a checkpoint after the first snapshot of a process was taken: there is nothing to "
          "load, and snapshots protect this job; --snapshots off leaves it to the program's own "
          "checkpoints");
      return false;
    }
    if (r_.journal.region().head()->past_version == 0) r_.journal.region().keep_for_checkpoints();
    return true;
  }

  const journal::Version* newest_version(std::uint64_t committed) {
    const journal::Version* found = nullptr;
    std::uint64_t newest = 0;
    for (const journal::Version& v : r_.journal.region().head()->version) {
      const std::uint64_t number = v.number.load(std::memory_order_acquire);
      if (number == 0 || number > committed || number < newest) continue;
      newest = number;
      found = &v;
    }
    return found;
  }

  // There is nothing to load but what a former job may have left.
  void begin_bootstrap_phase(Loaded* loaded) {
    payload_at_load_ = r_.control->payload_bump.load(std::memory_order_relaxed);
    if (r_.header->first_version == 0) return;
    r_.progress.version = r_.header->first_version;
    const journal::RegionHead* first = journal::region_of(r_.host.base(), 0);
    const journal::RegionHead* mine = r_.journal.region().head();
    *loaded = {r_.progress.version,
               r_.host.base() + first->resume_global,
               first->resume_global_bytes,
               r_.host.base() + mine->resume_local,
               mine->resume_local_bytes,
               0,
               false};
  }

  void restore(const journal::Version& v, Loaded* loaded) {
    restored_ = &v;
    r_.progress.restore(r_.host.base(), v);
    r_.loaded_version = r_.progress.version;
    r_.faults.go_on_behind(r_.incarnation, r_.progress.ordinal);
    // An incarnation that died before it said so must not hold back the marks, again and again.
    if (r_.control->kept.load(std::memory_order_relaxed) < r_.loaded_version) {
      r_.host.step(Step::kAcknowledge);
      r_.control->kept.store(r_.loaded_version, std::memory_order_release);
    }
    r_.journal.region().start_zones();
    for (Comm<H>* c = r_.comms.first(); c != nullptr; c = c->next) restore(*c);
    r_.mail.restore(v);
    messages_.outcomes().restore(v.outcomes);
    for (std::uint32_t to = 0; to < r_.header->ranks; ++to) {
      if (r_.progress.sent[to] > 0) truncation_.truncate_messages(to);
    }
    const journal::Version* globals = r_.peers.version(0, r_.loaded_version);
    engine::check(r_.host, globals != nullptr,
                  "rank 0 lacks a checkpoint that is needed: this is a defect of Rejoin");
    next_lazy_ = globals->next_lazy;
    *loaded = {r_.loaded_version,
               r_.host.base() + globals->global.at,
               globals->global.bytes,
               r_.host.base() + v.local.at,
               v.local.bytes,
               v.observations,
               true};
  }

  // A communicator of a restored rank goes on where the version was made. The slot itself is used
  // again by later versions: by then, no communicator is made that was there.
  void restore(Comm<H>& c) {
    const bool current = r_.progress.version == r_.loaded_version;
    const journal::Cursor* then =
        current ? journal::cursor_of(r_.host.base(), *restored_, c.members.context) : nullptr;
    c.late = then == nullptr && c.members.size > 1;
    if (then == nullptr) return;
    c.next_sequence = then->sequence;
    c.chain = then->chain;
    truncation_.truncate_records(c);
  }

  Operations<H>& ops_;
  Rooms<H>& r_;
  PointToPoint<H>& messages_;
  Truncation<H> truncation_;
  const journal::Version* restored_ = nullptr;  // where this incarnation went on
  std::uint64_t next_lazy_ = 0;
  std::uint64_t payload_at_load_ = 0;
};

}  // namespace rejoin::recovery
