// The per-attempt slots that members share (seqlocks), and each member's progress counters.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/names.h"
#include "journal/attempt_memory.h"
#include "journal/host.h"
#include "journal/peer_view.h"
#include "journal/rules.h"
#include "journal/step.h"
#include "journal/waiting.h"

namespace rejoin::engine {

enum class AttemptState : std::uint8_t {
  kPending,
  kComplete,
  kBroken,    // an operand changed while it was read: its rank has gone on, and has a record
  kMismatch,  // disagreeing() contributes to another operation
  kNoMemory,
};

// Progress of a large contribution, by member: chunks staged (or, in a gather, written) or reduced.
using Counter = journal::OwnerWord<std::uint64_t> Slot::*;

template <Host H>
class AttemptSlots {
 public:
  AttemptSlots(H& host, const journal::PeerView& peers, Members& members)
      : host_(host), peers_(peers), memory_(host), m_(members) {}

  void begin(std::uint64_t sequence, std::uint32_t generation, std::uint32_t chain,
             std::uint32_t call) {
    sequence_ = sequence;
    tag_ = make_tag(sequence, generation);
    owner_ = owner_of(m_.context, tag_);
    chain_ = chain;
    call_ = call;
    unproven_ = kNobody;
    seen_ = 0;
  }

  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  std::uint32_t generation() const { return static_cast<std::uint32_t>(tag_ >> 16 & 0xffff); }
  std::uint64_t owner() const { return owner_; }
  // Valid after kMismatch.
  std::uint32_t disagreeing() const { return disagreeing_; }
  std::uint32_t disagreeing_call() const { return disagreeing_call_; }
  // A member that made an unproven call (see Record); kNobody: there was none.
  std::uint32_t unproven() const { return unproven_; }
  std::uint32_t unproven_call() const { return unproven_call_; }

  // --- This rank's own slot. Written between close() and show(), its counters also later.

  Slot& mine() { return journal::AttemptMemory::own_slot(m_, sequence_); }

  void close() {
    if (!breaks(host_, Rule::kSlotTagNone)) {
      mine().tag.store(host_, Step::kSlotNone, 0, std::memory_order_relaxed);
    }
    host_.step(Step::kSlotContents);
  }
  void show() {
    Slot& slot = mine();
    slot.chain.store(host_, Step::kSame, chain_);
    slot.call.store(host_, Step::kSame, call_);
    slot.tag.store(host_, Step::kSlotTag, tag_);
    if (!breaks(host_, Rule::kRingAfterSlot)) ring_sleepers(host_, m_.world, m_.size);
  }

  // REQUIRES that the slot is closed.
  void reset(Counter counter) { (mine().*counter).store(host_, Step::kSame, counted(0)); }
  void publish(Counter counter, std::uint32_t count, Step step) {
    (mine().*counter).store(host_, step, counted(count));
    if (!breaks(host_, Rule::kRingAfterProgress)) ring_sleepers(host_, m_.world, m_.size);
  }

  // --- The other members' slots

  const Slot* of(std::uint32_t i) { return memory_.slot(m_, i, sequence_); }

  // kComplete: member i has shown its slot, for the same operation.
  AttemptState see(std::uint32_t i) {
    host_.step(Step::kCollect);
    const Slot* s = of(i);
    if (s == nullptr || s->tag.load() != tag_) {
      return AttemptState::kPending;
    }
    const std::uint32_t chain = s->chain.load();
    const std::uint32_t call = s->call.load();
    if ((call & kUnproven) != 0) [[unlikely]] {
      unproven_ = i;
      unproven_call_ = call;
    }
    if (chain == chain_ && chain != kUnlinked) [[likely]]
      return AttemptState::kComplete;
    host_.step(Step::kValidate);
    if (s->tag.load() != tag_) return AttemptState::kBroken;
    if ((chain == kUnlinked || chain_ == kUnlinked) && is_same_call(i, call)) {
      return AttemptState::kComplete;
    }
    disagreeing_ = i;
    disagreeing_call_ = call;
    return AttemptState::kMismatch;
  }

  // Returns whether the slot still contains what see(i) saw.
  bool holds(std::uint32_t i) { return of(i)->tag.load() == tag_; }

  // Returns the staging buffer that a word of member i's slot names; null: the slot has changed,
  // and the word may be torn and lead anywhere.
  const StagingBuffer* staging(std::uint32_t i, unsigned word) {
    const Offset at = of(i)->word[word].load();
    return holds(i) ? &memory_.staging(at) : nullptr;
  }
  // Returns whether the word still names that buffer, with bytes of this attempt.
  bool staging_holds(std::uint32_t i, unsigned word) {
    const StagingBuffer* s = staging(i, word);
    return s != nullptr && s->owner.load() == owner_;
  }

  // kComplete: member i's counter has reached `count`.
  AttemptState reached(std::uint32_t i, Counter counter, std::uint32_t count) {
    if (const AttemptState s = see(i); s != AttemptState::kComplete) return s;
    const std::uint64_t word = (of(i)->*counter).load();
    const bool mine = word >> 32 == owner_ >> 32;
    return mine && static_cast<std::uint32_t>(word) >= count ? AttemptState::kComplete
                                                             : AttemptState::kPending;
  }
  // kComplete: the counters of all other members have reached `count`.
  AttemptState all_reached(Counter counter, std::uint32_t count) {
    for (; seen_ < m_.size; ++seen_) {
      if (seen_ == m_.rank) continue;
      if (const AttemptState s = reached(seen_, counter, count); s != AttemptState::kComplete) {
        return s;
      }
    }
    seen_ = 0;
    return AttemptState::kComplete;
  }

 private:
  bool is_same_call(std::uint32_t i, std::uint32_t call) const {
    const auto own = peers_.call(m_.world[m_.rank], call_);
    return own && peers_.is_call(m_.world[i], call, own->hash);
  }
  // Combines a count with half of the owner, which distinguishes it from another attempt's.
  std::uint64_t counted(std::uint32_t count) const { return (owner_ >> 32 << 32) | count; }

  H& host_;
  const journal::PeerView& peers_;
  journal::AttemptMemory memory_;
  Members& m_;
  std::uint64_t sequence_ = 0;
  Tag tag_ = 0;
  std::uint64_t owner_ = 0;
  std::uint32_t chain_ = 0;
  std::uint32_t call_ = 0;
  std::uint32_t seen_ = 0;  // members seen to have reached the count so far
  std::uint32_t unproven_ = kNobody;
  std::uint32_t unproven_call_ = 0;
  std::uint32_t disagreeing_ = 0;
  std::uint32_t disagreeing_call_ = 0;
};

}  // namespace rejoin::engine
