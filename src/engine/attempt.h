// One attempt of one uniform operation among the members of a communicator: each contributes, the
// result is combined in a fixed order, nobody needs an agreement. An attempt of generation g
// completes only with every member's contribution of generation g, and can be given up at any wait:
// nothing of the caller's is touched but `out` and `early`.
//
//   contribution  what a member brings: in its slot up to kSlotBytes, else in its staging
//   operand       a member's contribution as somebody else reads it
//   fold order    operand n-1 first, then n-2 ... 0 from the left: c0 op (c1 op (... c[n-1]))
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/copy.h"
#include "engine/members.h"
#include "engine/plan.h"
#include "engine/reduction.h"
#include "engine/segment.h"
#include "engine/step.h"
#include "engine/waiting.h"

namespace rejoin::engine {

enum class AttemptEnd {
  kComplete,
  kGivenUp,   // a newer generation, somebody's record, or an operand changed while it was read
  kMismatch,  // disagreeing() contributes to another operation
  kNoMemory,
};

// Orders plain stores before it with stores after it (on x86-64 only the compiler must be told).
inline void order_stores() {
#if defined(__SANITIZE_THREAD__)
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_acq_rel);
#endif
}

// Watch: bool over(bool thorough) - the attempt is to be given up. `scratch` is kStageBytes of the
// rank's own memory, for operators that need stable operands.
template <class Host, class Watch>
class Attempt {
 public:
  Attempt(Host& host, Members& members, std::uint64_t sequence, std::uint32_t generation,
          std::uint32_t chain, std::uint32_t call, unsigned& half, std::byte* scratch, Watch& watch)
      : host_(host),
        m_(members),
        parity_(sequence & 1),
        tag_(make_tag(sequence, generation)),
        owner_(owner_of(members.context, tag_)),
        chain_(chain),
        call_(call),
        half_(half),
        scratch_(scratch),
        watch_(watch) {}

  // Allreduce of `bytes` (a whole number of elements, at most kStageBytes), everybody reads
  // everybody. out: `bytes` of the caller's.
  AttemptEnd reduce_flat(const void* input, std::size_t bytes, const Reduction& op, void* out) {
    contribute(input, bytes);
    const std::size_t count = bytes / op.element_bytes;
    const void* right = nullptr;  // what is folded so far
    alignas(16) std::byte local[2][kSlotBytes];
    for (std::uint32_t i = m_.size; i-- > 0;) {
      const void* left = input;
      if (i != m_.rank) {
        if (!await_slot(i)) return end_;
        left = operand(i, bytes, local[right != nullptr], op.user);
        if (left == nullptr) return AttemptEnd::kGivenUp;
      }
      if (right != nullptr) {
        op.combine(op, left, right, out, count);
        right = out;
      } else if (left == scratch_) {  // the next operand goes there
        std::memcpy(out, left, bytes);
        right = out;
      } else {
        right = left;
      }
    }
    // Staged operands were read in place: the result stands only if none of them has changed.
    return bytes <= kSlotBytes || all_valid(bytes) ? AttemptEnd::kComplete : AttemptEnd::kGivenUp;
  }

  // Allgather of small blocks. blocks: as in Uniform; null: equal blocks of `bytes`.
  AttemptEnd gather_flat(const void* input, std::size_t bytes, const std::size_t* blocks,
                         std::byte* out) {
    contribute(input, bytes);
    alignas(16) std::byte local[kSlotBytes];
    for (std::uint32_t i = 0; i < m_.size; ++i) {
      const std::size_t at = blocks ? blocks[i] : i * bytes;
      const std::size_t size = blocks ? blocks[i + 1] - blocks[i] : bytes;
      const void* block = input;
      if (i != m_.rank) {
        if (!await_slot(i)) return end_;
        block = operand(i, size, local, false);
        if (block == nullptr) return AttemptEnd::kGivenUp;
      }
      if (size > 0) std::memcpy(out + at, block, size);
      if (i != m_.rank && !still_valid(i, size)) return AttemptEnd::kGivenUp;
    }
    return AttemptEnd::kComplete;
  }

  // A member that is not the leader: contributes, and waits until the leader's (or anybody's)
  // record is there. So it is always given up - for the record.
  AttemptEnd follow(const void* input, std::size_t bytes) {
    contribute(input, bytes);
    wait_until(host_, [&](bool) { return watch_.over(true); });
    return AttemptEnd::kGivenUp;
  }

  // Allreduce through one extent in the leader's store. `mine`: the fresh extent, reserved, if I am
  // the leader. early: see Uniform. *extent: where the result lies.
  AttemptEnd reduce_sliced(const std::byte* input, const Reduction& op, const ChunkPlan& plan,
                           std::uint32_t leader, Offset mine, std::byte* early, Offset* extent) {
    open_sliced(mine);
    if (!await_extent(leader, mine, extent)) return end_;
    std::byte* result = host_.base() + *extent;
    for (std::uint32_t k = 0; k < plan.chunks + 2; ++k) {
      // Chunk k-2 is whole when everybody has reduced its slice: then its staging half is free, and
      // it can be read.
      if (k >= 2) {
        if (!await_all(&Slot::reduced, k - 1)) return end_;
        if (early) {
          copy_chunk(early + plan.chunk_begin(k - 2), result + plan.chunk_begin(k - 2),
                     plan.chunk_size(k - 2), plan.bytes);
        }
      }
      // Everybody has entered this operation before the second half is overwritten: it may hold
      // what they read in the one before.
      const bool reduces = k >= 1 && k - 1 < plan.chunks;
      if (reduces && !await_all(&Slot::staged, k)) return end_;
      if (k < plan.chunks) stage(plan, k, input);
      if (reduces) {
        if (!reduce_slice(plan, k - 1, input, op, leader, result)) return end_;
        publish_progress(&Slot::reduced, k, Step::kReduced);
      }
    }
    return AttemptEnd::kComplete;
  }

  // Allgather(v) through one extent in the leader's store: every member writes its own block.
  AttemptEnd gather_direct(const void* input, std::size_t at, std::size_t bytes,
                           std::uint32_t leader, Offset mine, Offset* extent) {
    open_sliced(mine);
    if (!await_extent(leader, mine, extent)) return end_;
    if (bytes > 0) {
      if (!touch(leader, host_.base() + *extent + at, bytes)) return end_;
      std::memcpy(host_.base() + *extent + at, input, bytes);
    }
    publish_progress(&Slot::reduced, 1, Step::kReduced);
    return await_all(&Slot::reduced, 1) ? AttemptEnd::kComplete : end_;
  }

  std::uint32_t disagreeing() const { return disagreeing_; }
  std::uint32_t disagreeing_call() const { return disagreeing_call_; }

 private:
  Slot& my_slot() { return m_.mine->slot[parity_]; }
  Slot* slot_of(std::uint32_t i) {
    ContextBlock* b = block_of(host_.base(), m_, i);
    return b == nullptr ? nullptr : &b->slot[parity_];
  }
  RegionHead* region(std::uint32_t i) { return region_of(host_.base(), m_.world[i]); }

  void close_slot() {
    host_.step(Step::kSlotNone);
    my_slot().tag.store(0, std::memory_order_relaxed);
    host_.step(Step::kSlotContents);
  }
  void show_slot() {
    Slot& slot = my_slot();
    slot.chain.store(chain_, std::memory_order_release);
    slot.call.store(call_, std::memory_order_release);
    host_.step(Step::kSlotTag);
    slot.tag.store(tag_, std::memory_order_release);
    ring_sleepers(host_, m_.world, m_.size);
  }

  void contribute(const void* input, std::size_t bytes) {
    close_slot();
    Slot& slot = my_slot();
    if (bytes <= kSlotBytes) {
      std::uint64_t word[kSlotBytes / 8] = {};
      if (bytes > 0) std::memcpy(word, input, bytes);
      for (std::size_t w = 0; w * 8 < bytes || w == 0; ++w) {
        slot.word[w].store(word[w], std::memory_order_release);
      }
    } else {
      half_ ^= 1;
      fill_half(half_, [&](std::byte* to) { std::memcpy(to, input, bytes); });
      slot.word[0].store(half_, std::memory_order_release);
    }
    show_slot();
  }

  template <class Fill>
  void fill_half(unsigned half, Fill&& fill) {
    StagingHalf& s = region_of(host_.base(), host_.rank())->staging[half];
    host_.step(Step::kStage);
    s.owner.store(0, std::memory_order_relaxed);
    order_stores();
    fill(s.bytes);
    s.owner.store(owner_, std::memory_order_release);
  }

  // False: given up or mismatch; end_ says which.
  bool await_slot(std::uint32_t i) {
    bool there = false;
    wait_until(host_, [&](bool thorough) {
      host_.step(Step::kCollect);
      Slot* s = slot_of(i);
      there = s != nullptr && s->tag.load(std::memory_order_acquire) == tag_;
      return there || watch_.over(thorough);
    });
    if (!there) {
      end_ = AttemptEnd::kGivenUp;
      return false;
    }
    const std::uint32_t chain = slot_of(i)->chain.load(std::memory_order_acquire);
    const std::uint32_t call = slot_of(i)->call.load(std::memory_order_acquire);
    host_.step(Step::kValidate);
    if (chain != chain_ && slot_of(i)->tag.load(std::memory_order_acquire) == tag_) {
      disagreeing_ = i;
      disagreeing_call_ = call;
      end_ = AttemptEnd::kMismatch;
      return false;
    }
    return true;
  }

  // REQUIRES await_slot(i). Small operands are copied to `local`; large ones are read where they
  // are, or copied to scratch if they must be stable. nullptr: a copy that was overwritten
  // meanwhile.
  const void* operand(std::uint32_t i, std::size_t bytes, std::byte* local, bool stable) {
    Slot& slot = *slot_of(i);
    if (bytes <= kSlotBytes) {
      std::uint64_t word[kSlotBytes / 8];
      for (std::size_t w = 0; w * 8 < bytes || w == 0; ++w) {
        word[w] = slot.word[w].load(std::memory_order_acquire);
      }
      std::memcpy(local, word, (bytes + 7) / 8 * 8);
      return still_valid(i, bytes) ? local : nullptr;
    }
    const unsigned half = slot.word[0].load(std::memory_order_acquire) & 1;
    const std::byte* staged = region(i)->staging[half].bytes;
    if (!stable) return staged;
    std::memcpy(scratch_, staged, bytes);
    return still_valid(i, bytes) ? scratch_ : nullptr;
  }

  bool all_valid(std::size_t bytes) {
    for (std::uint32_t i = 0; i < m_.size; ++i) {
      if (i != m_.rank && !still_valid(i, bytes)) return false;
    }
    return true;
  }

  bool still_valid(std::uint32_t i, std::size_t bytes) {
    host_.step(Step::kValidate);
    order_stores();
    Slot& slot = *slot_of(i);
    if (bytes > kSlotBytes) {
      const unsigned half = slot.word[0].load(std::memory_order_acquire) & 1;
      if (region(i)->staging[half].owner.load(std::memory_order_acquire) != owner_) return false;
    }
    return slot.tag.load(std::memory_order_acquire) == tag_;
  }

  // -------------------------------------------------------------------------------- large
  // operations

  std::uint64_t progress(std::uint32_t count) const { return (owner_ >> 32 << 32) | count; }
  bool reached(std::uint64_t word, std::uint32_t count) const {
    return word >> 32 == owner_ >> 32 && static_cast<std::uint32_t>(word) >= count;
  }

  void open_sliced(Offset extent) {
    close_slot();
    Slot& slot = my_slot();
    half_ ^= 1;
    slot.word[0].store(extent, std::memory_order_release);
    slot.word[1].store(half_, std::memory_order_release);  // of chunk 0
    first_half_ = half_;
    slot.staged.store(progress(0), std::memory_order_release);
    slot.reduced.store(progress(0), std::memory_order_release);
    show_slot();
  }

  bool await_extent(std::uint32_t leader, Offset mine, Offset* extent) {
    *extent = mine;
    if (m_.rank == leader) return true;
    if (!await_slot(leader)) return false;
    *extent = slot_of(leader)->word[0].load(std::memory_order_acquire);
    if (still_valid(leader, 0)) return true;
    end_ = AttemptEnd::kGivenUp;
    return false;
  }

  bool touch(std::uint32_t leader, std::byte* begin, std::size_t bytes) {
    if (host_.touch(m_.world[leader], begin, bytes)) return true;
    end_ = AttemptEnd::kNoMemory;
    return false;
  }

  using Progress = std::atomic<std::uint64_t> Slot::*;

  bool await_all(Progress word, std::uint32_t count) {
    for (std::uint32_t i = 0; i < m_.size; ++i) {
      if (i == m_.rank) continue;
      if (!await_slot(i)) return false;
      Slot* s = slot_of(i);
      bool there = false;
      wait_until(host_, [&](bool thorough) {
        host_.step(Step::kCollect);
        there = reached((s->*word).load(std::memory_order_acquire), count);
        return there || watch_.over(thorough);
      });
      if (!there) {
        end_ = AttemptEnd::kGivenUp;
        return false;
      }
    }
    return true;
  }

  void publish_progress(Progress word, std::uint32_t count, Step step) {
    host_.step(step);
    (my_slot().*word).store(progress(count), std::memory_order_release);
    ring_sleepers(host_, m_.world, m_.size);
  }

  // Copies what others will reduce of chunk k.
  void stage(const ChunkPlan& plan, std::uint32_t k, const std::byte* input) {
    const std::byte* chunk = input + plan.chunk_begin(k);
    const ChunkPlan::Slice own = plan.slice(k, m_.rank);
    half_ = (first_half_ + k) & 1;
    fill_half(half_, [&](std::byte* to) {
      std::memcpy(to, chunk, own.begin);
      std::memcpy(to + own.end, chunk + own.end, plan.chunk_size(k) - own.end);
    });
    publish_progress(&Slot::staged, k + 1, Step::kStaged);
  }

  bool reduce_slice(const ChunkPlan& plan, std::uint32_t k, const std::byte* input,
                    const Reduction& op, std::uint32_t leader, std::byte* result) {
    const ChunkPlan::Slice own = plan.slice(k, m_.rank);
    const std::size_t bytes = own.end - own.begin;
    if (bytes == 0) return true;
    std::byte* out = result + plan.chunk_begin(k) + own.begin;
    if (!touch(leader, out, bytes)) return false;
    end_ = AttemptEnd::kGivenUp;  // what a false below means
    auto source = [&](std::uint32_t i) {
      return i == m_.rank ? input + plan.chunk_begin(k) + own.begin
                          : staging_of(i, k).bytes + own.begin;
    };
    const void* right = source(m_.size - 1);
    if (op.user) {
      std::memcpy(out, right, bytes);
      if (!owners_valid(k)) return false;
      right = out;
    }
    for (std::uint32_t i = m_.size - 1; i-- > 0;) {
      const void* left = source(i);
      if (op.user && i != m_.rank) {
        std::memcpy(scratch_, left, bytes);
        if (!owners_valid(k)) return false;
        left = scratch_;
      }
      op.combine(op, left, right, out, bytes / op.element_bytes);
      right = out;
    }
    return owners_valid(k);
  }

  // Where member i has staged chunk k.
  StagingHalf& staging_of(std::uint32_t i, std::uint32_t k) {
    const std::uint64_t first = slot_of(i)->word[1].load(std::memory_order_acquire);
    return region(i)->staging[(first + k) & 1];
  }

  // Whether everything read of the members' chunk k belonged to this attempt.
  bool owners_valid(std::uint32_t k) {
    host_.step(Step::kValidate);
    order_stores();
    for (std::uint32_t i = 0; i < m_.size; ++i) {
      if (i == m_.rank) continue;
      if (staging_of(i, k).owner.load(std::memory_order_acquire) != owner_) return false;
    }
    return true;
  }

  Host& host_;
  Members& m_;
  const unsigned parity_;
  const Tag tag_;
  const std::uint64_t owner_;
  const std::uint32_t chain_;
  const std::uint32_t call_;
  unsigned& half_;  // of my staging that was used last
  unsigned first_half_ = 0;
  std::byte* scratch_;
  Watch& watch_;
  AttemptEnd end_ = AttemptEnd::kGivenUp;
  std::uint32_t disagreeing_ = 0;
  std::uint32_t disagreeing_call_ = 0;
};

}  // namespace rejoin::engine
