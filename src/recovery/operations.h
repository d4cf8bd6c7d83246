// Enters an operation of a communicator. The rule of recovery: if this rank has a record of the
// operation, the record answers it; else another member's record is adopted; else the operation is
// executed. Its first step is here.
#pragma once

#include <cstdint>

#include "recovery/agreement.h"
#include "recovery/bootstrap_cache.h"
#include "recovery/communicators.h"
#include "recovery/divergence.h"
#include "recovery/execution.h"
#include "recovery/hash.h"
#include "recovery/nonblocking.h"
#include "recovery/repetition.h"
#include "recovery/result_zones.h"
#include "recovery/taking.h"

namespace rejoin::recovery {

struct Entry {
  std::uint64_t sequence = 0;
  std::uint32_t call = 0;  // as in Record, with kUnproven while it is an unproven call
  std::uint32_t signature_hash = 0;
  std::uint32_t chain = 0;                  // over all signatures up to this one
  const journal::Record* record = nullptr;  // this rank's, or of a bootstrap replay; else null
  std::uint64_t keep_as = 0;                // bootstrap key for the outcome; 0: none
  Status status = Status::kOk;              // else the operation was not entered
  bool entered() const { return status == Status::kOk; }
};

// How operations of communicators are entered, and what an operation object uses of its rank. The
// object itself holds one reference to this, because an operation takes 100 ns.
template <journal::Host H>
class Operations {
 public:
  using Other = typename Agreement<H>::Other;

  Operations(H& host_of_rank, journal::Arena& arena_of_rank, journal::Journal<H>& rank_journal,
             const journal::PeerView& others, CallTable<H>& calls, Communicators<H>& communicators,
             Execution<H>& this_execution, Repetition<H>& this_repetition, Taking& taking_of_rank,
             BootstrapCache<H>& bootstrap_cache, Diagnostics& diagnostics_of_rank,
             Divergence<H>& divergence)
      : host(host_of_rank),
        arena(arena_of_rank),
        journal(rank_journal),
        peers(others),
        comms(communicators),
        execution(this_execution),
        repetition(this_repetition),
        taking(taking_of_rank),
        bootstrap(bootstrap_cache),
        diagnostics(diagnostics_of_rank),
        zones(host, rank_journal.region(), communicators, peers),
        scratch(static_cast<std::byte*>(arena.allocate(journal::kStageBytes))),
        fold_memory(others.has_several_nodes()
                        ? static_cast<std::byte*>(arena.allocate(2 * journal::kStageBytes))
                        : nullptr),
        calls_(calls),
        divergence_(divergence),
        control_(journal::own_control(host_of_rank)),
        agreement_(host_of_rank, communicators, others, this_execution, diagnostics_of_rank) {}
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  // Enters the next operation of c. by_messages: it is a channel operation.
  Entry enter(Comm<H>& c, const Call& call, bool by_messages) {
    const auto interned = execution.enter(call);
    Entry e;
    e.call = interned.call;
    e.signature_hash = interned.hash;
    if (call.hint != nullptr && call.hint->bootstrap) [[unlikely]] {
      const auto found = bootstrap.find(c, e.call, *call.hint, by_messages);
      e.status = found.status;
      e.keep_as = found.keep_as;
      if (found.marked != nullptr) {
        e.sequence = found.marked->sequence;
        e.record = &found.marked->record;
        execution.count_replayed();
      }
      if (found.marked != nullptr || !e.entered()) return e;
    }
    e.sequence = c.next_sequence++;
    if (c.chain != journal::kUnlinked) [[likely]] {
      c.chain =
          static_cast<std::uint32_t>(journal::mix(c.chain + (std::uint64_t{interned.hash} << 32)));
    }
    e.chain = c.chain;
    // Every incarnation executes operations of a single member again. They have no records: behind
    // a load their sequence numbers are others than those of the first execution.
    if (c.members.size > 1 && e.sequence < c.records.tail()) e.record = c.records.at(e.sequence);
    if (e.record != nullptr) {
      if (execution.loaded_version() != 0) [[unlikely]]
        bootstrap.compare_places(c, e.call, e.record->call);
      execution.show_position(c.members.context, e.sequence, e.call);
      execution.count_replayed();
      return e;
    }
    if (bootstrap.is_unproven(c, e.call)) [[unlikely]] {
      e.call |= journal::kUnproven;
      control_->unproven.store(host, Step::kFlag, 1, std::memory_order_seq_cst);
    }
    execution.show_position(c.members.context, e.sequence, e.call);
    execution.become_live(c.members.size > 1);
    execution.show_inside();
    return e;
  }

  // Compares an operation with the record that answers it. kMismatch: the record says that the
  // members disagreed. *other_contribution: the program now contributes other bytes.
  [[gnu::noinline]] Status check_replay(const Entry& e, bool has_contribution,
                                        std::uint32_t fingerprint, bool* other_contribution) {
    const journal::Record& record = *e.record;
    const std::uint32_t recorded = record.call & journal::kCallIndex;
    if (recorded != e.call && !(signature(recorded) == signature(e.call))) {
      host.stop(diagnostics.other_operation(execution.ordinal(), host.rank(), recorded, e.call));
    }
    *other_contribution = false;
    if ((record.call & journal::kRecordFailed) != 0) {  // it has no fingerprint
      diagnostics.recorded_mismatch();
      return Status::kMismatch;
    }
    if (!has_contribution || record.fingerprint == fingerprint) return Status::kOk;
    *other_contribution = true;
    report_other_contribution(e.call);
    return Status::kOk;
  }

  // Returns whether a former incarnation has contributed to operation `e`, of which this rank has
  // no record. Other members may have used that contribution, so it must be the same. fingerprint:
  // null: not compared.
  [[gnu::noinline]] bool repeats_contribution(const Comm<H>& c, const Entry& e,
                                              const std::uint32_t* fingerprint) {
    const journal::Contribution& shown = c.members.mine->contribution[e.sequence % journal::kSlots];
    if (shown.sequence.load(std::memory_order_acquire) != e.sequence + 1) return false;
    if (journal::breaks(host, Rule::kCompareContribution)) return true;
    const std::uint64_t what = shown.what.load(std::memory_order_relaxed);
    const std::uint32_t call = journal::Contribution::call(what);
    const bool elsewhere =
        (e.call & journal::kUnproven) != 0 && call != (e.call & journal::kCallIndex);
    if (elsewhere) {
      host.stop(diagnostics.unproven_call(host.rank(), e.call, host.rank(), call));
    }
    if (!(signature(call) == signature(e.call))) {
      host.stop(diagnostics.other_operation(execution.ordinal(), host.rank(), call, e.call));
    }
    if (fingerprint != nullptr && *fingerprint != journal::Contribution::fingerprint(what)) {
      report_other_contribution(e.call);
    }
    return true;
  }

  // Compares what this rank has given to other nodes in operation `e`, of which it has no record.
  void compare_departed(const Entry& e, const journal::Departed& d, std::uint32_t fingerprint) {
    if (journal::breaks(host, Rule::kCompareContribution)) return;
    const std::uint32_t call = d.call & journal::kCallIndex;
    if (!(signature(call) == signature(e.call))) {
      host.stop(diagnostics.other_operation(execution.ordinal(), host.rank(), call, e.call));
    }
    if (d.fingerprint != fingerprint) report_other_contribution(e.call);
  }

  // Returns a member that is inside another operation than `e`. `waits_for`: the only member that
  // this rank waits for, or kNobody for all.
  Other find_disagreement(Comm<H>& c, const Entry& e, std::uint32_t waits_for) {
    return agreement_.find(c, e.sequence, e.signature_hash, waits_for);
  }
  // The same for a rank that waits in checkpoint `version`.
  Other find_disagreement_at_checkpoint(Comm<H>& world, std::uint64_t version) {
    return agreement_.find_at_checkpoint(world, world.next_sequence, version);
  }
  // Records the disagreement for all members, but first looks for an unproven call that explains
  // it.
  Status mismatch(Comm<H>& c, const Entry& e, const Other& other) {
    bootstrap.find_why_members_disagree();
    return agreement_.mismatch(c, e.sequence, e.call, e.signature_hash, other);
  }
  // Called when members have called different operations, and each has got the error: the calls
  // that follow are no longer compared with those before.
  void unlink_chain(Comm<H>& c) {
    if (!journal::breaks(host, Rule::kMismatchToldOnce)) c.chain = journal::kUnlinked;
  }

  // Proves this rank's call of `e`, if it is unproven.
  void prove_mine(Comm<H>& c, Entry& e) {
    if ((e.call & journal::kUnproven) == 0) [[likely]]
      return;
    if (bootstrap.prove(c, e.sequence, c.members.rank, e.call)) e.call &= ~journal::kUnproven;
  }

  static Standing standing(const Comm<H>& c, const Entry& e) {
    return {c.members.context, e.sequence, e.call};
  }

  // --- For operation objects

  // Whether a replay may contribute other bytes than before, and go on (--on-divergence warn).
  bool may_contribute_others() const { return !divergence_.stops(); }

  // Memory of this process for a result that its record has in pieces; valid until the next call.
  // The journal's would not do: a replay would allocate it in the place of operations to come.
  std::byte* memory_to_join(std::size_t bytes) {
    if (bytes > joined_bytes_) {
      arena.release(joined_, joined_bytes_);
      joined_ = static_cast<std::byte*>(arena.allocate(bytes));
      joined_bytes_ = bytes;
      if (joined_ == nullptr) journal.out_of_memory();
    }
    return joined_;
  }

  H& host;
  journal::Arena& arena;
  journal::Journal<H>& journal;
  const journal::PeerView& peers;
  Communicators<H>& comms;
  Execution<H>& execution;
  Repetition<H>& repetition;
  Taking& taking;
  BootstrapCache<H>& bootstrap;
  Diagnostics& diagnostics;
  ResultZones<H> zones;
  std::byte* const scratch;      // kStageBytes, for user operators
  std::byte* const fold_memory;  // twice that, if the job has several nodes

 private:
  const Signature& signature(std::uint32_t call) {
    return calls_.entry(call & journal::kCallIndex)->signature;
  }
  void report_other_contribution(std::uint32_t call) {
    divergence_.report(diagnostics.other_contribution(execution.ordinal(), host.rank(), call,
                                                      divergence_.stops()));
  }

  CallTable<H>& calls_;
  Divergence<H>& divergence_;
  journal::RankControl* const control_;
  Agreement<H> agreement_;
  std::byte* joined_ = nullptr;
  std::size_t joined_bytes_ = 0;
};

}  // namespace rejoin::recovery
