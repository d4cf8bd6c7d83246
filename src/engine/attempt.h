// One attempt of one replicated-result operation among the members of a communicator: each
// contributes, the result is combined in a fixed order, nobody needs an agreement. An attempt of
// generation g completes only with every member's contribution of generation g, and can be given up
// between any two calls of advance(): nothing of the caller's is touched but `out` and `early`.
//
//   contribution  what a member brings: in its slot up to kSlotBytes, else in its staging
//   operand       a member's contribution as somebody else reads it
//   fold order    operand n-1 first, then n-2 ... 0 from the left: c0 op (c1 op (... c[n-1]))
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/copy.h"
#include "engine/plan.h"
#include "engine/reduction.h"
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

// What is to be done. Everything stays as it is until the attempt is over.
struct AttemptSpec {
  const void* input;
  std::size_t input_bytes;
  std::size_t result_bytes;
  const Reduction* reduction;  // null: gather
  // Gather: byte offset of member i's block in the result, [size + 1]; null: all have input_bytes.
  const std::size_t* blocks;
  std::byte* early;  // sliced reduction: chunks are copied there as they become whole; may be null
  std::byte* scratch;  // kStageBytes of the rank's own, for operators that need stable operands
  Algorithm algorithm;
};

template <Host H>
class Attempt {
 public:
  Attempt(H& host, journal::PeerView& peers, Members& members, const AttemptSpec& spec)
      : host_(host), peers_(peers), m_(members), spec_(spec) {}

  // Begins, or begins again in a newer generation. `staging`: of mine, as many as staging_needed().
  // `out`: flat algorithms: result_bytes of memory, which nobody else writes. `extent`: sliced: a
  // fresh extent, reserved, if I am the leader: some record may already refer to the former
  // attempt's.
  void begin(std::uint64_t sequence, std::uint32_t generation, std::uint32_t chain,
             std::uint32_t call, const Offset* staging, std::byte* out, Offset extent) {
    sequence_ = sequence;
    tag_ = make_tag(sequence, generation);
    owner_ = owner_of(m_.context, tag_);
    chain_ = chain;
    call_ = call;
    leader_ = static_cast<std::uint32_t>(sequence % m_.size);
    staging_[0] = staging[0];
    staging_[1] = staging[1];
    out_ = out;
    extent_ = extent;
    right_ = nullptr;
    unproven_ = kNobody;
    seen_ = 0;
    chunk_ = 0;
    stage_ = 0;
    if (spec_.algorithm == Algorithm::kSliced) {
      open_sliced();
    } else {
      next_ = spec_.reduction != nullptr ? m_.size : 0;
      contribute();
    }
  }

  // Goes on as far as it can without waiting.
  AttemptState advance() {
    if (spec_.algorithm == Algorithm::kSliced) {
      if (extent_ == 0) {
        if (const AttemptState s = find_extent(); s != AttemptState::kComplete) return s;
      }
      return spec_.reduction != nullptr ? reduce_sliced() : gather_direct();
    }
    // A member that is not the leader waits for the leader's record, or anybody's.
    if (spec_.algorithm == Algorithm::kLeader && m_.rank != leader_) return AttemptState::kPending;
    return spec_.reduction != nullptr ? reduce_flat() : gather_flat();
  }

  // Staging buffers that such an attempt fills.
  static constexpr unsigned staging_needed(const AttemptSpec& spec) {
    if (spec.algorithm == Algorithm::kSliced) return spec.reduction != nullptr ? 2 : 0;
    return spec.input_bytes > kSlotBytes ? 1 : 0;
  }

  std::uint32_t generation() const { return static_cast<std::uint32_t>(tag_ >> 16 & 0xffff); }
  std::uint32_t leader() const { return leader_; }
  Offset extent() const { return extent_; }
  std::uint32_t disagreeing() const { return disagreeing_; }
  std::uint32_t disagreeing_call() const { return disagreeing_call_; }
  // A member whose call was unproven (see Record); kNobody: there was none.
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  std::uint32_t unproven() const { return unproven_; }
  std::uint32_t unproven_call() const { return unproven_call_; }

 private:
  // --- My contribution

  Slot& my_slot() { return m_.mine->slot[sequence_ % kSlots]; }

  void close_slot() {
    host_.step(Step::kSlotNone);
    if (!breaks(host_, Rule::kSlotTagNone)) my_slot().tag.store(0, std::memory_order_relaxed);
    host_.step(Step::kSlotContents);
  }
  void show_slot() {
    Slot& slot = my_slot();
    slot.chain.store(chain_, std::memory_order_release);
    slot.call.store(call_, std::memory_order_release);
    host_.step(Step::kSlotTag);
    slot.tag.store(tag_, std::memory_order_release);
    if (!breaks(host_, Rule::kRingAfterSlot)) ring_sleepers(host_, m_.world, m_.size);
  }

  void contribute() {
    close_slot();
    Slot& slot = my_slot();
    const std::size_t bytes = spec_.input_bytes;
    if (bytes <= kSlotBytes) {
      std::uint64_t word[kSlotBytes / 8] = {};
      if (bytes > 0) std::memcpy(word, spec_.input, bytes);
      for (std::size_t w = 0; w * 8 < bytes || w == 0; ++w) {
        slot.word[w].store(word[w], std::memory_order_release);
      }
    } else {
      fill(staging_[0], [&](std::byte* to) { std::memcpy(to, spec_.input, bytes); });
      slot.word[0].store(staging_[0], std::memory_order_release);
    }
    show_slot();
  }

  template <class Fill>
  void fill(Offset buffer, Fill&& write) {
    StagingBuffer& s = peers_.staging(buffer);
    host_.step(Step::kStage);
    if (!breaks(host_, Rule::kStagingOwnerNone)) s.owner.store(0, std::memory_order_relaxed);
    order_stores();
    write(s.bytes);
    host_.step(Step::kStage);
    s.owner.store(owner_, std::memory_order_release);
  }

  // --- The others' contributions

  Slot* slot_of(std::uint32_t i) { return peers_.slot(m_, i, sequence_); }

  // kComplete: member i's slot is there, and for the same operation.
  AttemptState see(std::uint32_t i) {
    host_.step(Step::kCollect);
    Slot* s = slot_of(i);
    if (s == nullptr || s->tag.load(std::memory_order_acquire) != tag_) {
      return AttemptState::kPending;
    }
    const std::uint32_t chain = s->chain.load(std::memory_order_acquire);
    const std::uint32_t call = s->call.load(std::memory_order_acquire);
    if ((call & kUnproven) != 0) [[unlikely]] {
      unproven_ = i;
      unproven_call_ = call;
    }
    if (chain == chain_) [[likely]]
      return AttemptState::kComplete;
    host_.step(Step::kValidate);
    if (s->tag.load(std::memory_order_acquire) != tag_) return AttemptState::kBroken;
    disagreeing_ = i;
    disagreeing_call_ = call;
    return AttemptState::kMismatch;
  }

  // REQUIRES see(i) complete. Small operands are copied to `local`; large ones are read where they
  // are, or copied to scratch if they must be stable. nullptr: overwritten meanwhile.
  const void* operand(std::uint32_t i, std::size_t bytes, std::byte* local, bool stable) {
    host_.step(Step::kCollect);
    Slot& slot = *slot_of(i);
    if (bytes <= kSlotBytes) {
      std::uint64_t word[kSlotBytes / 8];
      for (std::size_t w = 0; w * 8 < bytes || w == 0; ++w) {
        word[w] = slot.word[w].load(std::memory_order_acquire);
      }
      std::memcpy(local, word, (bytes + 7) / 8 * 8);
      const bool valid = breaks(host_, Rule::kValidateOperand) || still_valid(i, bytes);
      return valid ? local : nullptr;
    }
    const std::byte* staged = staged_of(i);
    if (staged == nullptr) return nullptr;
    if (!stable) return staged;
    std::memcpy(spec_.scratch, staged, bytes);
    const bool valid = breaks(host_, Rule::kValidateStable) || still_valid(i, bytes);
    return valid ? spec_.scratch : nullptr;
  }

  // Where member i has staged its contribution; null: its slot has changed.
  const std::byte* staged_of(std::uint32_t i) {
    const Offset at = slot_of(i)->word[0].load(std::memory_order_acquire);
    // A word that was torn by the next operation may lead anywhere.
    if (slot_of(i)->tag.load(std::memory_order_acquire) != tag_) return nullptr;
    return peers_.staging(at).bytes;
  }

  bool still_valid(std::uint32_t i, std::size_t bytes) {
    host_.step(Step::kValidate);
    order_stores();
    Slot& slot = *slot_of(i);
    if (bytes > kSlotBytes) {
      const Offset at = slot.word[0].load(std::memory_order_acquire);
      if (slot.tag.load(std::memory_order_acquire) != tag_) return false;
      return peers_.staging(at).owner.load(std::memory_order_acquire) == owner_;
    }
    return slot.tag.load(std::memory_order_acquire) == tag_;
  }
  bool all_valid(std::size_t bytes) {
    if (breaks(host_, Rule::kValidateAll)) return true;
    for (std::uint32_t i = 0; i < m_.size; ++i) {
      if (i != m_.rank && !still_valid(i, bytes)) return false;
    }
    return true;
  }

  // --- Flat: everybody, or the leader, reads everybody

  AttemptState reduce_flat() {
    const std::size_t bytes = spec_.input_bytes;
    const Reduction& op = *spec_.reduction;
    const std::size_t count = bytes / op.element_bytes;
    for (; next_ > 0; --next_) {
      const std::uint32_t i = next_ - 1;
      const void* left = spec_.input;
      if (i != m_.rank) {
        if (const AttemptState s = see(i); s != AttemptState::kComplete) return s;
        left = operand(i, bytes, local_[right_ != nullptr], op.user);
        if (left == nullptr) return AttemptState::kBroken;
      }
      if (right_ != nullptr) {
        op.combine(op, left, right_, out_, count);
        right_ = out_;
      } else if (left == spec_.scratch) {  // the next operand goes there
        std::memcpy(out_, left, bytes);
        right_ = out_;
      } else {
        right_ = left;
      }
    }
    // Staged operands were read in place: the result stands only if none of them has changed.
    return bytes <= kSlotBytes || all_valid(bytes) ? AttemptState::kComplete
                                                   : AttemptState::kBroken;
  }

  AttemptState gather_flat() {
    for (; next_ < m_.size; ++next_) {
      const std::uint32_t i = next_;
      const std::size_t at = block_begin(i), size = block_begin(i + 1) - at;
      const void* block = spec_.input;
      if (i != m_.rank) {
        if (const AttemptState s = see(i); s != AttemptState::kComplete) return s;
        block = operand(i, size, local_[0], false);
        if (block == nullptr) return AttemptState::kBroken;
      }
      if (size > 0) std::memcpy(out_ + at, block, size);
      const bool trust = i == m_.rank || breaks(host_, Rule::kValidateGathered);
      if (!trust && !still_valid(i, size)) return AttemptState::kBroken;
    }
    return AttemptState::kComplete;
  }

  std::size_t block_begin(std::uint32_t i) const {
    return spec_.blocks != nullptr ? spec_.blocks[i] : i * spec_.input_bytes;
  }

  // --- Sliced: through one extent in the leader's store

  std::uint64_t progress(std::uint32_t count) const { return (owner_ >> 32 << 32) | count; }
  bool reached(std::uint64_t word, std::uint32_t count) const {
    return word >> 32 == owner_ >> 32 && static_cast<std::uint32_t>(word) >= count;
  }

  void open_sliced() {
    if (spec_.reduction != nullptr) {
      plan_ = chunk_plan(m_.size, spec_.result_bytes, spec_.reduction->element_bytes, kStageBytes);
    }
    close_slot();
    Slot& slot = my_slot();
    slot.word[0].store(extent_, std::memory_order_release);
    slot.word[1].store(staging_[0], std::memory_order_release);  // of even chunks
    slot.word[2].store(staging_[1], std::memory_order_release);  // of odd ones
    slot.staged.store(progress(0), std::memory_order_release);
    slot.reduced.store(progress(0), std::memory_order_release);
    show_slot();
  }

  AttemptState find_extent() {
    if (const AttemptState s = see(leader_); s != AttemptState::kComplete) return s;
    host_.step(Step::kCollect);
    const Offset at = slot_of(leader_)->word[0].load(std::memory_order_acquire);
    if (!breaks(host_, Rule::kValidateExtent) && !still_valid(leader_, 0)) {
      return AttemptState::kBroken;
    }
    extent_ = at;
    return AttemptState::kComplete;
  }

  using Counter = std::atomic<std::uint64_t> Slot::*;

  // kComplete: every member's counter has reached `count`.
  AttemptState all_reached(Counter counter, std::uint32_t count) {
    for (; seen_ < m_.size; ++seen_) {
      if (seen_ == m_.rank) continue;
      if (const AttemptState s = see(seen_); s != AttemptState::kComplete) return s;
      const std::uint64_t word = (slot_of(seen_)->*counter).load(std::memory_order_acquire);
      if (!reached(word, count)) return AttemptState::kPending;
    }
    seen_ = 0;
    return AttemptState::kComplete;
  }

  void publish_progress(Counter counter, std::uint32_t count, Step step) {
    host_.step(step);
    (my_slot().*counter).store(progress(count), std::memory_order_release);
    if (!breaks(host_, Rule::kRingAfterProgress)) ring_sleepers(host_, m_.world, m_.size);
  }

  // In round k chunk k is staged, chunk k-1 reduced, and chunk k-2, which is whole then, copied
  // out.
  AttemptState reduce_sliced() {
    std::byte* result = host_.base() + extent_;
    for (; chunk_ < plan_.chunks + 2; ++chunk_, stage_ = 0) {
      const std::uint32_t k = chunk_;
      const bool reduces = k >= 1 && k - 1 < plan_.chunks;
      // Everybody has reduced chunk k-2: it can be read, and its staging filled again.
      if (stage_ == 0) {
        if (k >= 2) {
          if (const AttemptState s = all_reached(&Slot::reduced, k - 1);
              s != AttemptState::kComplete) {
            return s;
          }
          copy_out(k - 2, result);
        }
        stage_ = 1;
      }
      // Everybody has entered this operation before the second buffer is filled: it may hold what
      // they read in the one before.
      if (reduces) {
        if (const AttemptState s = all_reached(&Slot::staged, k); s != AttemptState::kComplete) {
          return s;
        }
      }
      if (k < plan_.chunks) stage(k);
      if (reduces) {
        if (const AttemptState s = reduce_slice(k - 1, result); s != AttemptState::kComplete) {
          return s;
        }
        publish_progress(&Slot::reduced, k, Step::kReduced);
      }
    }
    return AttemptState::kComplete;
  }

  void copy_out(std::uint32_t k, const std::byte* result) {
    if (spec_.early == nullptr) return;
    copy_chunk(spec_.early + plan_.chunk_begin(k), result + plan_.chunk_begin(k),
               plan_.chunk_size(k), plan_.bytes);
  }

  // Copies what others will reduce of chunk k.
  void stage(std::uint32_t k) {
    const std::byte* chunk = static_cast<const std::byte*>(spec_.input) + plan_.chunk_begin(k);
    const ChunkPlan::Slice own = plan_.slice(k, m_.rank);
    fill(staging_[k % 2], [&](std::byte* to) {
      std::memcpy(to, chunk, own.begin);
      std::memcpy(to + own.end, chunk + own.end, plan_.chunk_size(k) - own.end);
    });
    publish_progress(&Slot::staged, k + 1, Step::kStaged);
  }

  // Where member i has staged chunk k; null: its slot has changed.
  StagingBuffer* chunk_of(std::uint32_t i, std::uint32_t k) {
    Slot* slot = slot_of(i);
    const Offset at = slot->word[1 + k % 2].load(std::memory_order_acquire);
    if (slot->tag.load(std::memory_order_acquire) != tag_) return nullptr;
    return &peers_.staging(at);
  }

  AttemptState reduce_slice(std::uint32_t k, std::byte* result) {
    const Reduction& op = *spec_.reduction;
    const ChunkPlan::Slice own = plan_.slice(k, m_.rank);
    const std::size_t bytes = own.end - own.begin;
    if (bytes == 0) return AttemptState::kComplete;
    std::byte* out = result + plan_.chunk_begin(k) + own.begin;
    if (!host_.touch(m_.world[leader_], out, bytes)) return AttemptState::kNoMemory;
    const auto* mine = static_cast<const std::byte*>(spec_.input) + plan_.chunk_begin(k);
    const auto source = [&](std::uint32_t i) -> const std::byte* {
      if (i == m_.rank) return mine + own.begin;
      const StagingBuffer* s = chunk_of(i, k);
      host_.step(Step::kCollect);  // it may be filled again from now on
      return s == nullptr ? nullptr : s->bytes + own.begin;
    };
    const void* right = source(m_.size - 1);
    if (right == nullptr) return AttemptState::kBroken;
    if (op.user) {
      std::memcpy(out, right, bytes);
      if (!chunk_valid(k, Rule::kValidateStable)) return AttemptState::kBroken;
      right = out;
    }
    for (std::uint32_t i = m_.size - 1; i-- > 0;) {
      const void* left = source(i);
      if (left == nullptr) return AttemptState::kBroken;
      if (op.user && i != m_.rank) {
        std::memcpy(spec_.scratch, left, bytes);
        if (!chunk_valid(k, Rule::kValidateStable)) return AttemptState::kBroken;
        left = spec_.scratch;
      }
      op.combine(op, left, right, out, bytes / op.element_bytes);
      right = out;
    }
    return chunk_valid(k, Rule::kValidateChunk) ? AttemptState::kComplete : AttemptState::kBroken;
  }

  // Whether everything read of the members' chunk k belonged to this attempt.
  bool chunk_valid(std::uint32_t k, Rule rule) {
    host_.step(Step::kValidate);
    if (breaks(host_, rule)) return true;
    order_stores();
    for (std::uint32_t i = 0; i < m_.size; ++i) {
      if (i == m_.rank) continue;
      const StagingBuffer* s = chunk_of(i, k);
      if (s == nullptr || s->owner.load(std::memory_order_acquire) != owner_) return false;
    }
    return true;
  }

  // Every member writes its own block.
  AttemptState gather_direct() {
    if (chunk_ == 0) {
      const std::size_t at = block_begin(m_.rank), bytes = spec_.input_bytes;
      std::byte* to = host_.base() + extent_ + at;
      if (bytes > 0) {
        if (!host_.touch(m_.world[leader_], to, bytes)) return AttemptState::kNoMemory;
        std::memcpy(to, spec_.input, bytes);
      }
      publish_progress(&Slot::reduced, 1, Step::kReduced);
      chunk_ = 1;
    }
    return all_reached(&Slot::reduced, 1);
  }

  H& host_;
  journal::PeerView& peers_;
  Members& m_;
  const AttemptSpec& spec_;
  std::uint64_t sequence_ = 0;
  Tag tag_ = 0;
  std::uint64_t owner_ = 0;
  std::uint32_t chain_ = 0;
  std::uint32_t call_ = 0;
  std::uint32_t leader_ = 0;
  std::uint32_t next_ = 0;       // flat: member that comes next; counts down in a reduction
  const void* right_ = nullptr;  // flat reduction: what is folded so far
  std::byte* out_ = nullptr;
  Offset staging_[2] = {};
  Offset extent_ = 0;
  ChunkPlan plan_ = {};
  std::uint32_t chunk_ = 0;  // sliced: round
  std::uint32_t stage_ = 0;
  std::uint32_t seen_ = 0;  // members that were seen to have come so far
  std::uint32_t unproven_ = kNobody;
  std::uint32_t unproven_call_ = 0;
  std::uint32_t disagreeing_ = 0;
  std::uint32_t disagreeing_call_ = 0;
  alignas(16) std::byte local_[2][kSlotBytes];
};

}  // namespace rejoin::engine
