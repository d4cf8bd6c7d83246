// Entering an operation: the one rule of recovery, up to whether this rank has a record.
//
//     entering an operation, look for my record of it; else for another member's; else run it
#pragma once

#include <cstdint>

#include "recovery/agreement.h"
#include "recovery/bootstrap_cache.h"
#include "recovery/hash.h"
#include "recovery/rooms.h"

namespace rejoin::recovery {

// The rooms, together with what is built on them.
template <engine::Host H>
struct Operations {
  explicit Operations(Rooms<H>& rooms) : r(rooms), agreement(rooms), bootstrap(rooms) {}

  // Calls Agreement::mismatch(), but first looks for an unproven call that explains the
  // disagreement.
  Status mismatch(Comm<H>& c, std::uint64_t sequence, std::uint32_t call,
                  std::uint32_t signature_hash, const typename Agreement<H>::Other& other) {
    bootstrap.find_why_members_disagree();
    return agreement.mismatch(c, sequence, call, signature_hash, other);
  }

  Rooms<H>& r;
  Agreement<H> agreement;
  BootstrapCache<H> bootstrap;
};

struct Entry {
  std::uint64_t sequence = 0;
  std::uint32_t call = 0;  // as in Record: with kUnproven if it is
  std::uint32_t signature_hash = 0;
  std::uint32_t chain = 0;                  // with this operation
  const journal::Record* record = nullptr;  // this rank's, or of a bootstrap replay; else null
  std::uint64_t keep_as = 0;                // bootstrap key for the outcome; 0: none
  Status status = Status::kOk;              // else the operation was not entered
  bool entered() const { return status == Status::kOk; }
};

// Called when members have called different operations, and each has got the error: the calls that
// follow are no longer compared with those before.
template <engine::Host H>
void unlink_chain(Rooms<H>& r, Comm<H>& c) {
  if (!engine::breaks(r.host, Rule::kMismatchToldOnce)) c.chain = engine::kUnlinked;
}

template <engine::Host H>
Entry enter(Operations<H>& ops, Comm<H>& c, const Call& call, bool by_messages) {
  Rooms<H>& r = ops.r;
  r.heed_notices();
  ++r.progress.ordinal;
  r.faults.point(r.progress.ordinal, Moment::kBefore);
  r.host.step(Step::kEnter);
  const auto interned = r.calls.intern(call);
  if (interned.call == CallTable<H>::kNone) [[unlikely]]
    r.journal.out_of_memory();
  if (r.log.wanted()) [[unlikely]]
    r.log.begin(*r.calls.entry(interned.call), r.progress.replayed);
  Entry e;
  e.call = interned.call;
  e.signature_hash = interned.hash;
  if (call.hint != nullptr && call.hint->bootstrap) [[unlikely]] {
    const auto found = ops.bootstrap.find(c, e.call, *call.hint, by_messages);
    e.status = found.status;
    e.keep_as = found.keep_as;
    if (found.marked != nullptr) {
      e.sequence = found.marked->sequence;
      e.record = &found.marked->record;
      r.count_replayed();
    }
    if (found.marked != nullptr || !e.entered()) return e;
  }
  e.sequence = c.next_sequence++;
  if (c.chain != engine::kUnlinked) [[likely]] {
    c.chain =
        static_cast<std::uint32_t>(journal::mix(c.chain + (std::uint64_t{interned.hash} << 32)));
  }
  e.chain = c.chain;
  // Operations of a single member are not recorded: an incarnation that has loaded a version
  // repeats its bootstrap phase at later sequence numbers.
  if (c.members.size > 1 && e.sequence < c.records.tail()) e.record = c.records.at(e.sequence);
  if (e.record != nullptr) {
    if (r.loaded_version != 0) [[unlikely]]
      ops.bootstrap.compare_places(c, e.call, e.record->call);
    r.show_position(c.members.context, e.sequence, e.call);
    r.count_replayed();
    return e;
  }
  if (ops.bootstrap.is_unproven(c, e.call)) [[unlikely]] {
    e.call |= journal::kUnproven;
    r.control->unproven.store(r.host, Step::kFlag, 1, std::memory_order_seq_cst);
  }
  r.show_position(c.members.context, e.sequence, e.call);
  if (!r.progress.live && c.members.size > 1) [[unlikely]]
    r.went_live();
  r.control->phase.store(r.host, Step::kInside, journal::Phase::kInside);
  return e;
}

// Compares an operation with the record that answers it. kMismatch: that is the recorded outcome.
// *other_contribution: the program now contributes other bytes.
template <engine::Host H>
[[gnu::noinline]] Status check_replay(Rooms<H>& r, const Entry& e, bool has_contribution,
                                      std::uint32_t fingerprint, bool* other_contribution) {
  const journal::Record& record = *e.record;
  const std::uint32_t recorded = record.call & journal::kCallIndex;
  if (recorded != e.call && !(r.calls.entry(recorded)->signature ==
                              r.calls.entry(e.call & journal::kCallIndex)->signature)) {
    r.host.stop(r.diagnostics.other_operation(r.progress.ordinal, r.host.rank(), recorded, e.call));
  }
  *other_contribution = false;
  if ((record.call & journal::kRecordFailed) != 0) {  // it has no fingerprint
    r.diagnostics.recorded_mismatch();
    return Status::kMismatch;
  }
  if (!has_contribution || record.fingerprint == fingerprint) return Status::kOk;
  *other_contribution = true;
  r.divergence.report(r.diagnostics.other_contribution(r.progress.ordinal, r.host.rank(), e.call,
                                                       r.divergence.stops()));
  return Status::kOk;
}

// Returns whether a former incarnation has contributed to operation `e`, of which this rank has no
// record. Other members may have used that contribution, so it must be the same. fingerprint: null:
// not compared.
template <engine::Host H>
[[gnu::noinline]] bool repeats_contribution(Rooms<H>& r, const Comm<H>& c, const Entry& e,
                                            const std::uint32_t* fingerprint) {
  const journal::Contribution& shown = c.members.mine->contribution[e.sequence % journal::kSlots];
  if (shown.sequence.load(std::memory_order_acquire) != e.sequence + 1) return false;
  if (engine::breaks(r.host, Rule::kCompareContribution)) return true;
  const std::uint64_t what = shown.what.load(std::memory_order_relaxed);
  const std::uint32_t call = journal::Contribution::call(what);
  const auto signature = [&r](std::uint32_t of) {
    return r.calls.entry(of & journal::kCallIndex)->signature;
  };
  const bool elsewhere =
      (e.call & journal::kUnproven) != 0 && call != (e.call & journal::kCallIndex);
  if (elsewhere) {
    r.host.stop(r.diagnostics.unproven_call(r.host.rank(), e.call, r.host.rank(), call));
  }
  if (!(signature(call) == signature(e.call))) {
    r.host.stop(r.diagnostics.other_operation(r.progress.ordinal, r.host.rank(), call, e.call));
  }
  if (fingerprint != nullptr && *fingerprint != journal::Contribution::fingerprint(what)) {
    r.divergence.report(r.diagnostics.other_contribution(r.progress.ordinal, r.host.rank(), e.call,
                                                         r.divergence.stops()));
  }
  return true;
}

// Compares a message that is sent again with the one that a former incarnation has posted.
template <engine::Host H>
[[gnu::noinline]] void compare_resent(Rooms<H>& r, const journal::ChannelEntry& posted,
                                      std::uint32_t call, std::uint64_t context, std::uint64_t key,
                                      std::uint32_t to, std::uint64_t bytes, std::uint32_t hash) {
  if (engine::breaks(r.host, Rule::kCompareResent)) return;
  const bool same_place = posted.context == context && posted.key == key;
  if (same_place && posted.bytes == bytes && posted.hash == hash) return;
  const char* text =
      r.diagnostics.other_message(r.progress.ordinal, r.host.rank(), call, to, bytes, posted.bytes);
  if (!same_place || posted.bytes != bytes) r.host.stop(text);
  r.divergence.report(text);
}

}  // namespace rejoin::recovery
