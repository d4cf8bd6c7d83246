// Whether the members of a communicator call the same operations: finds a member that is inside
// another operation, and turns a disagreement into an error that all members see.
#pragma once

#include <algorithm>
#include <cstdint>

#include "journal/journal.h"
#include "journal/peer_view.h"
#include "journal/waiting.h"
#include "recovery/communicators.h"
#include "recovery/diagnostics.h"
#include "recovery/execution.h"

namespace rejoin::recovery {

template <journal::Host H>
class Agreement {
 public:
  Agreement(H& host, Communicators<H>& communicators, const journal::PeerView& peers,
            Execution<H>& execution, Diagnostics& diagnostics)
      : host_(host),
        comms_(communicators),
        peers_(peers),
        execution_(execution),
        diagnostics_(diagnostics) {}

  struct Other {
    std::uint32_t member = kNobody;
    std::uint32_t call = 0;
    bool found() const { return member != kNobody; }
  };

  // Returns a member that is inside another operation at this sequence of this context.
  // `waits_for`: the only member that the caller waits for, or kNobody for all; another member's
  // checkpoint counts only if that member is waited for.
  [[gnu::noinline]] Other find(Comm<H>& c, std::uint64_t sequence, std::uint32_t signature_hash,
                               std::uint32_t waits_for) {
    for (std::uint32_t i = 0; i < c.members.size; ++i) {
      const std::uint32_t world = c.members.world[i];
      journal::Position p;
      if (i == c.members.rank || !peers_.position(world, &p)) continue;
      if (p.context != c.members.context || p.sequence > sequence) continue;
      const auto theirs = peers_.call(world, p.call);
      if (!theirs || theirs->hash == signature_hash) continue;
      if (is_checkpoint(*theirs)) {
        // The member is about to leave a checkpoint that this rank has made; in another one it
        // waits for this rank.
        if (p.prepared <= execution_.version()) continue;
        if (waits_for != kNobody && waits_for != i) continue;
      } else if (p.sequence < sequence || p.prepared > execution_.version()) {
        continue;  // it still has this operation ahead of it
      }
      return {i, p.call};
    }
    return {};
  }

  // Returns a member that waits for this rank inside an operation in front of which, or of an
  // earlier one, this rank makes checkpoint `version`. A rank that waits for receivers that are far
  // behind (a broadcast's root, a sender) finds that out itself; for messages only the receiver is
  // found here. The other case is a member that has left the operation behind the checkpoint with
  // an error, without making the checkpoint: it may have looked first, and now waits for no other
  // rank.
  [[gnu::noinline]] Other find_at_checkpoint(Comm<H>& world, std::uint64_t sequence,
                                             std::uint64_t version) {
    for (std::uint32_t i = 0; i < world.members.size; ++i) {
      if (i == world.members.rank) continue;
      const std::uint32_t failed = failed_call(world, i, sequence);
      if (failed != kNobody && peers_.prepared(world.members.world[i]) < version) {
        return {i, failed};
      }
      journal::Position p;
      if (!peers_.position(world.members.world[i], &p)) continue;
      if (p.context != world.members.context || p.sequence < sequence) continue;
      const auto theirs = peers_.call(world.members.world[i], p.call);
      if (!theirs || is_checkpoint(*theirs) || p.prepared >= version) continue;
      if (!waits_for(*theirs, i, world.members.rank)) continue;
      return {i, p.call};
    }
    return {};
  }

  // Records the failure, so that members that enter later, and replays, see it too.
  [[gnu::noinline]] Status mismatch(Comm<H>& c, std::uint64_t sequence, std::uint32_t call,
                                    std::uint32_t signature_hash, const Other& other) {
    std::uint32_t my_call = call, their_call = other.call;
    const std::uint32_t world = c.members.world[other.member];
    if (((call | other.call) & journal::kUnproven) != 0) {
      const bool mine = (call & journal::kUnproven) != 0;
      host_.stop(mine ? diagnostics_.unproven_call(host_.rank(), call, world, other.call)
                      : diagnostics_.unproven_call(world, other.call, host_.rank(), call));
    }
    const bool earlier =
        find_earlier(c, sequence, signature_hash, other.member, &my_call, &their_call);
    diagnostics_.mismatch(earlier, host_.rank(), my_call, world, their_call);
    execution_.inside();
    comms_.commit(c, sequence, {call | journal::kRecordFailed, 0, 0});
    journal::ring_sleepers(host_, c.members.world, c.members.size);
    return Status::kMismatch;
  }

 private:
  static bool is_checkpoint(const journal::CallEntry& call) {
    return call.signature.kind == static_cast<std::uint16_t>(OpKind::kCheckpoint);
  }

  // Returns the call of an operation that member `i` has recorded as failed; else kNobody.
  std::uint32_t failed_call(Comm<H>& c, std::uint32_t i, std::uint64_t sequence) {
    if (journal::breaks(host_, Rule::kFailureAtCheckpoint)) return kNobody;
    if (peers_.tail(c.members, i) <= sequence) return kNobody;
    const std::uint32_t call = peers_.record(c.members, i, sequence).call;
    return (call & journal::kRecordFailed) != 0 ? call & ~journal::kRecordFailed : kNobody;
  }

  // Returns whether member `i`, inside this operation, has to wait for member `me`. Leaders of
  // nodes wait for others in a large Bcast or Reduce, too, but find out themselves what those are
  // doing.
  static bool waits_for(const journal::CallEntry& call, std::uint32_t i, std::uint32_t me) {
    switch (static_cast<OpKind>(call.signature.kind)) {
      case OpKind::kBarrier:
      case OpKind::kAllreduce:
      case OpKind::kAllgather:
      case OpKind::kAllgatherv:
      case OpKind::kReduceScatter:
      case OpKind::kReduceScatterBlock:
      case OpKind::kCommDup:
      case OpKind::kCommSplit:
      case OpKind::kCommCreate:
      case OpKind::kCartCreate:
      case OpKind::kCartSub:
      case OpKind::kGraphCreate:
      case OpKind::kDistGraphCreate:
      case OpKind::kDistGraphCreateAdjacent:
      case OpKind::kAlltoall:
      case OpKind::kAlltoallv:
      case OpKind::kAlltoallw:
      case OpKind::kFinalize:
      case OpKind::kIbarrier:
      case OpKind::kIallreduce:
      case OpKind::kIallgather:
      case OpKind::kIallgatherv:
      case OpKind::kIreduceScatter:
      case OpKind::kIreduceScatterBlock:
      case OpKind::kIalltoall:
      case OpKind::kIalltoallv:
      case OpKind::kIalltoallw:
      case OpKind::kCommIdup:
        return true;
      case OpKind::kBcast:
      case OpKind::kScatter:
      case OpKind::kScatterv:
      case OpKind::kIbcast:
      case OpKind::kIscatter:
      case OpKind::kIscatterv:
        return call.signature.root == static_cast<std::int32_t>(me);
      case OpKind::kReduce:
      case OpKind::kGather:
      case OpKind::kGatherv:
      case OpKind::kIreduce:
      case OpKind::kIgather:
      case OpKind::kIgatherv:
        return call.signature.root == static_cast<std::int32_t>(i);
      default:
        return false;
    }
  }

  // A broadcast's root does not wait for the other members: two roots are detected only in the next
  // operation, by `chain`. If the calls themselves agree, this finds the newest earlier pair of
  // calls that do not.
  bool find_earlier(Comm<H>& c, std::uint64_t sequence, std::uint32_t signature_hash,
                    std::uint32_t member, std::uint32_t* my_call, std::uint32_t* their_call) {
    constexpr std::uint64_t kFar = 1000;
    const std::uint32_t world = c.members.world[member], me = host_.rank();
    const auto hash = [&](std::uint32_t of, std::uint32_t call) {
      const auto e = peers_.call(of, call);
      return e ? e->hash : 0;
    };
    if (hash(world, *their_call) != signature_hash) return false;
    std::uint64_t s = std::min(peers_.tail(c.members, member), sequence);
    for (const std::uint64_t stop = s > kFar ? s - kFar : 0; s-- > stop;) {
      const std::uint32_t a = c.records.at(s)->call;
      const std::uint32_t b = peers_.record(c.members, member, s).call;
      if (hash(me, a) == hash(world, b)) continue;
      *my_call = a;
      *their_call = b;
      return true;
    }
    return false;
  }

  H& host_;
  Communicators<H>& comms_;
  const journal::PeerView& peers_;
  Execution<H>& execution_;
  Diagnostics& diagnostics_;
};

}  // namespace rejoin::recovery
