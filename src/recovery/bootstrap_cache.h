// What a restarted rank replays out of order, and how an operation that should have been marked is
// detected. docs/checkpoints.md states the rule; PROTOCOL.md, "Bootstrap", why it holds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "copy/copy.h"
#include "journal/arena.h"
#include "journal/journal.h"
#include "journal/own.h"
#include "journal/peer_view.h"
#include "recovery/call_table.h"
#include "recovery/communicators.h"
#include "recovery/diagnostics.h"
#include "recovery/execution.h"

namespace rejoin::recovery {

// Between the load and the first checkpoint a rank is in its bootstrap phase. Outcomes of
// operations that are marked are stored until the job ends, under a key, and returned to every
// incarnation that asks; no other member takes part then.
template <journal::Host H>
class BootstrapCache {
 public:
  BootstrapCache(H& host, journal::Arena& arena, journal::Journal<H>& journal,
                 const journal::PeerView& peers, CallTable<H>& calls, Communicators<H>& comms,
                 const Execution<H>& execution, Diagnostics& diagnostics)
      : host_(host),
        arena_(arena),
        journal_(journal),
        peers_(peers),
        calls_(calls),
        comms_(comms),
        execution_(execution),
        diagnostics_(diagnostics),
        header_(journal::job_of(host)),
        control_(journal::own_control(host)) {}

  struct Found {
    Status status = Status::kOk;              // kKey, kRefused: the operation was not entered
    const journal::Marked* marked = nullptr;  // the recorded outcome
    std::uint64_t keep_as = 0;                // key to keep the outcome under; 0: none
  };

  // Looks up the marked operation `call` of c, which is about to be entered.
  [[gnu::noinline]] Found find(Comm<H>& c, std::uint32_t call, const Hint& hint, bool by_messages) {
    if (by_messages) return refuse_messages(call);
    std::uint64_t key = hint.key;
    if (key == 0) {  // by call site, and how often it was used
      const std::uint64_t site =
          journal::mix(journal::mix(c.members.context) + (call & journal::kCallIndex)) | 1;
      std::uint64_t used = 0;
      while (is_used(key = journal::mix(site + used * 2) | 1)) ++used;
    } else if (is_used(key)) {
      diagnostics_.set_error(
          "%s: its bootstrap key was used for another operation before; each operation needs a key "
          "of its own",
          describe_mine(call).text);
      return {Status::kKey};
    }
    note_used(key);
    auto& marked = journal_.marked();
    for (std::uint64_t i = 0; i < marked.tail(); ++i) {
      const journal::Marked& m = *marked.at(i);
      if (m.key != key) continue;
      // The operation lies ahead in this execution, and is answered in its turn.
      if (m.context != c.members.context || m.sequence >= c.next_sequence) return {};
      check_signature(m, call);
      return {Status::kOk, &m};
    }
    return {Status::kOk, nullptr, key};
  }

  // Stores the outcome of a completed operation under its key, for later incarnations.
  [[gnu::noinline]] Status keep(Comm<H>& c, std::uint64_t key, std::uint64_t sequence,
                                std::size_t result_bytes) {
    // No process that begins at an image asks for it.
    if (peers_.goes_back_to() == journal::Return::kImages) return Status::kOk;
    journal::Record record = *c.records.at(sequence);
    if (result_bytes > journal::kInlineBytes) {
      journal::RegionHead* head = journal_.region().head();
      const std::uint64_t kept = head->marked_bytes + result_bytes;
      const std::uint64_t limit = header_->bootstrap_limit_bytes;
      if (limit != 0 && kept > limit) {
        if (peers_.goes_back_to() == journal::Return::kUndecided) {
          over_limit_ = true;
          return Status::kOk;
        }
        diagnostics_.set_error(
            "the results of operations marked as bootstrap need %llu bytes, more than the %llu of "
            "--bootstrap-limit",
            static_cast<unsigned long long>(kept), static_cast<unsigned long long>(limit));
        return Status::kNoMemory;
      }
      const journal::Offset at = journal_.region().memory().allocate_model(result_bytes);
      if (at == 0) journal_.out_of_memory();
      head->marked_bytes = kept;
      std::byte* const to = journal::own_bytes(host_, at);
      const auto copy = [&](std::uint64_t place, const std::byte* from, std::uint64_t bytes) {
        std::memcpy(to + place, from, bytes);
      };
      if (journal::is_in_pieces(record.value)) {
        peers_.for_each_piece(record.value, result_bytes, copy);
      } else {
        copy(0, peers_.payload(record.value, result_bytes).data(), result_bytes);
      }
      record.value = at;
    }
    journal::Marked* m = journal_.marked().next();
    if (m == nullptr) journal_.out_of_memory();
    *m = {key, c.members.context, sequence, record};
    journal_.marked().publish(Step::kCommit);
    return Status::kOk;
  }

  // While the job was undecided, outcomes were dropped: no process can start from a version.
  bool over_limit() const { return over_limit_; }

  bool is_used(std::uint64_t key) const {
    return std::find(used_, used_ + used_count_, key) != used_ + used_count_;
  }

  // --- Operations that are not marked

  // Returns whether an operation that is about to be executed is unproven: a rank that has begun at
  // a version calls it from a place that it has called only in its bootstrap phase. A program that
  // marks its set-up makes no unproven calls.
  bool is_unproven(const Comm<H>& c, std::uint32_t call) const {
    if (execution_.loaded_version() == 0 || c.members.size == 1) [[likely]]
      return false;
    if (peers_.any_marks_set_up()) return false;
    return calls_.phases(call) == journal::kCalledInBootstrapPhase;
  }
  // Called when this rank's record answers an operation. Stops the job if the record names another
  // place and the call is unproven, because the call may then belong to the bootstrap phase.
  void compare_places(const Comm<H>& c, std::uint32_t call, std::uint32_t recorded) {
    if ((recorded & journal::kCallIndex) == call || !is_unproven(c, call)) return;
    if (breaks(host_, Rule::kProveBootstrapCall)) return;
    host_.stop(diagnostics_.unproven_call(host_.rank(), call, host_.rank(), recorded));
  }
  // Called after an operation that no record answered. `call`: as in Record.
  void note_live(std::uint32_t call) {
    if (!execution_.has_loaded() || (call & journal::kUnproven) != 0) [[likely]]
      return;
    if (peers_.goes_back_to() == journal::Return::kImages) return;
    const bool bootstrap = execution_.version() == header_->first_version;
    calls_.add_phase(call,
                     bootstrap ? journal::kCalledInBootstrapPhase : journal::kCalledInIterations);
  }

  // Member `who` (perhaps this rank) takes part in this operation by an unproven call. Returns
  // true, so that the call counts, if another member, with a call that is proven, calls from the
  // same place. If all members are known and none does, the job stops. Else the call stays unproven
  // until the member that completes the operation last, and so knows all calls, decides.
  // wants_all: false to decide by the members that are known.
  [[gnu::noinline]] bool prove(Comm<H>& c, std::uint64_t sequence, std::uint32_t who,
                               std::uint32_t call, bool wants_all = true) {
    if (breaks(host_, Rule::kProveBootstrapCall)) return true;
    const std::uint32_t world = c.members.world[who];
    std::uint32_t other = kNobody, other_call = 0;
    bool all_known = true;
    for (std::uint32_t i = 0; i < c.members.size; ++i) {
      if (i == who) continue;
      std::uint32_t theirs;
      if (!call_of(c, i, sequence, &theirs)) {
        all_known = false;
      } else if (!same_place(world, call, c.members.world[i], theirs)) {
        other = c.members.world[i];
        other_call = theirs;
      } else if ((theirs & journal::kUnproven) == 0) {
        return true;
      }
    }
    if (other == kNobody || (wants_all && !all_known)) return false;
    host_.stop(diagnostics_.unproven_call(world, call, other, other_call));
    return false;
  }

  // Called when this rank has completed an operation, with a record. It may be the last one, and a
  // call of another member may still be unproven.
  void prove_others(Comm<H>& c, std::uint64_t sequence) {
    if (peers_.any_unproven(c.members)) [[unlikely]]
      prove_recorded(c, sequence);
  }

  // Called when members disagree. The reason is an unproven call if no member that has entered that
  // operation calls it from the same place, and some member calls it from another one: the rank
  // that made it is one operation off, and the disagreement shows before the last member has
  // entered. The job stops and says what to mark.
  [[gnu::noinline]] void find_why_members_disagree() {
    for (Comm<H>* c = comms_.first(); c != nullptr; c = c->next) {
      if (c->members.size > 1 && peers_.any_unproven(c->members)) find_why_members_disagree(*c);
    }
  }

 private:
  CallText describe_mine(std::uint32_t call) const { return describe(peers_, host_.rank(), call); }

  Found refuse_messages(std::uint32_t call) {
    if (execution_.version() <= header_->first_version) return {};
    diagnostics_.set_error(
        "%s: after the first checkpoint, only operations that give all ranks the same result "
        "(Barrier, Bcast, Allreduce, Allgather) can be marked as bootstrap",
        describe_mine(call).text);
    return {Status::kRefused};
  }

  void check_signature(const journal::Marked& m, std::uint32_t call) {
    const journal::CallEntry* was = calls_.entry(m.record.call & journal::kCallIndex);
    if (was->signature == calls_.entry(call)->signature) return;
    host_.stop(diagnostics_.other_key(host_.rank(), m.record.call, call));
  }

  [[gnu::noinline]] void prove_recorded(Comm<H>& c, std::uint64_t sequence) {
    // If two members complete the operation at the same time, one sees the other's record.
    host_.fence();
    for (std::uint32_t i = 0; i < c.members.size; ++i) {
      if (peers_.tail(c.members, i) <= sequence) continue;
      const std::uint32_t call = peers_.record(c.members, i, sequence).call;
      if ((call & journal::kUnproven) != 0) prove(c, sequence, i, call);
    }
  }

  void find_why_members_disagree(Comm<H>& c) {
    if (breaks(host_, Rule::kFindWhyMembersDisagree)) return;
    std::uint64_t end = 0, begin = 0;  // records that no member may have truncated
    for (std::uint32_t i = 0; i < c.members.size; ++i) {
      end = std::max(end, peers_.tail(c.members, i));
      begin = std::max(begin, journal::mark_of(host_, c.members.world[i], c.members.context));
    }
    for (std::uint64_t s = begin; s < end; ++s) {
      for (std::uint32_t i = 0; i < c.members.size; ++i) {
        if (peers_.tail(c.members, i) <= s) continue;
        const std::uint32_t call = peers_.record(c.members, i, s).call;
        if ((call & journal::kUnproven) != 0) prove(c, s, i, call, false);
      }
    }
  }

  // Finds how member i calls this operation. False: not known yet.
  bool call_of(Comm<H>& c, std::uint32_t i, std::uint64_t sequence, std::uint32_t* call) {
    if (peers_.tail(c.members, i) > sequence) {
      *call = peers_.record(c.members, i, sequence).call;
      return true;
    }
    journal::Position p;
    if (i != c.members.rank && !peers_.position(c.members.world[i], &p)) return false;
    if (i == c.members.rank) {
      p.context = control_->context.load(std::memory_order_relaxed);
      p.sequence = control_->sequence.load(std::memory_order_relaxed);
      p.call = control_->call.load(std::memory_order_relaxed);
    }
    *call = p.call;
    if (p.context != c.members.context || p.sequence != sequence) return false;
    // A checkpoint has no sequence of its own: a rank that is in one has not entered yet.
    const auto entry = peers_.call(c.members.world[i], p.call);
    return entry && entry->signature.kind != static_cast<std::uint16_t>(OpKind::kCheckpoint);
  }

  bool same_place(std::uint32_t a_rank, std::uint32_t a_call, std::uint32_t b_rank,
                  std::uint32_t b_call) const {
    const auto a = peers_.call(a_rank, a_call), b = peers_.call(b_rank, b_call);
    if (!a || !b || a->place != b->place) return false;
    const auto m = peers_.module(a_rank, a->module), n = peers_.module(b_rank, b->module);
    return m && n && std::memcmp(&*m, &*n, sizeof *m) == 0;
  }

  void note_used(std::uint64_t key) {
    if (used_count_ == used_room_) {
      const std::size_t room = std::max<std::size_t>(64, 2 * used_room_);
      auto* moved = arena_.template make_array<std::uint64_t>(room);
      if (moved == nullptr) journal_.out_of_memory();
      std::copy(used_, used_ + used_count_, moved);
      arena_.release(used_, used_room_ * sizeof *used_);
      used_ = moved;
      used_room_ = room;
    }
    used_[used_count_++] = key;
  }

  H& host_;
  journal::Arena& arena_;
  journal::Journal<H>& journal_;
  const journal::PeerView& peers_;
  CallTable<H>& calls_;
  Communicators<H>& comms_;
  const Execution<H>& execution_;
  Diagnostics& diagnostics_;
  const journal::SegmentHeader* const header_;
  journal::RankControl* const control_;
  std::uint64_t* used_ = nullptr;  // keys, by this execution
  std::size_t used_count_ = 0;
  std::size_t used_room_ = 0;
  bool over_limit_ = false;
};

}  // namespace rejoin::recovery
