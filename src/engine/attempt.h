// One attempt of one replicated-result operation among the members of a communicator: each
// contributes, and the result is combined in a fixed order, so no agreement protocol is needed. An
// attempt of generation g completes only with every member's contribution of generation g, and can
// be given up between any two calls of advance(): it changes no memory of the caller's but `out`
// and `early`.
//
//   contribution  what a member brings: in its slot up to kSlotBytes, else in its staging
//   operand       a member's contribution as another member reads it
//   fold          engine/fold.h: the order in which operands are combined
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "copy/copy.h"
#include "engine/attempt_slots.h"
#include "engine/copy.h"
#include "engine/fold.h"
#include "engine/names.h"
#include "engine/plan.h"
#include "engine/reduction.h"
#include "journal/direct.h"
#include "journal/host.h"
#include "journal/peer_view.h"
#include "journal/rules.h"
#include "journal/step.h"

namespace rejoin::engine {

// What is to be done. Everything it points to must stay until the attempt is over.
struct AttemptSpec {
  const void* input;
  std::size_t input_bytes;
  std::size_t result_bytes;
  const Reduction* reduction;  // null: gather
  const FoldStep* order;       // [size] of the reduction; null: all members are on one node
  std::byte* fold_memory;      // if there is an order: 2 * kStageBytes, for one advance() at a time
  // Gather: byte offset of member i's block in the result, [size + 1]; null: all have input_bytes.
  const std::size_t* blocks;
  // Sliced: the result lies here, too, when the attempt is complete; may be null.
  std::byte* early;
  std::byte* scratch;  // kStageBytes of the rank's own, for operators that need stable operands
  bool may_open;       // gather: other members may read the input itself while the attempt lasts
  Algorithm algorithm;
};

template <Host H>
class Attempt {
 public:
  Attempt(H& host, const journal::PeerView& peers, Members& members, const AttemptSpec& spec)
      : host_(host),
        memory_(host),
        m_(members),
        spec_(spec),
        slots_(host, peers, members),
        direct_(host, peers) {}

  // Begins, or begins again in a newer generation. `staging`: this rank's buffers, as many as
  // staging_needed(). `out`: flat algorithms: result_bytes of memory that only this rank writes.
  // `extent`: sliced: at the leader, a fresh reserved extent: a record may already refer to the
  // former attempt's.
  void begin(std::uint64_t sequence, std::uint32_t generation, std::uint32_t chain,
             std::uint32_t call, const Offset* staging, std::byte* out, Offset extent) {
    open_.reset();
    slots_.begin(sequence, generation, chain, call);
    leader_ = static_cast<std::uint32_t>(sequence % m_.size);
    staging_[0] = staging[0];
    staging_[1] = staging[1];
    out_ = out;
    extent_ = extent;
    chunk_ = 0;
    stage_ = 0;
    if (spec_.algorithm == Algorithm::kSliced) {
      open_sliced();
    } else {
      next_ = 0;
      seen_ = 0;
      if (spec_.reduction != nullptr) begin_fold();
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
    // A member that is not the leader waits for the leader's record, or any other member's.
    if (spec_.algorithm == Algorithm::kLeader && m_.rank != leader_) return AttemptState::kPending;
    return spec_.reduction != nullptr ? reduce_flat() : gather_flat();
  }

  // Staging buffers that such an attempt fills.
  static constexpr unsigned staging_needed(const AttemptSpec& spec) {
    if (spec.algorithm == Algorithm::kSliced) return spec.reduction != nullptr ? 2 : 0;
    return spec.input_bytes > kSlotBytes ? 1 : 0;
  }

  std::uint32_t leader() const { return leader_; }
  Offset extent() const { return extent_; }
  const AttemptSlots<H>& slots() const { return slots_; }

 private:
  // --- This rank's contribution

  void contribute() {
    slots_.close();
    Slot& slot = slots_.mine();
    const std::size_t bytes = spec_.input_bytes;
    if (bytes <= kSlotBytes) {
      std::uint64_t word[kSlotBytes / 8] = {};
      if (bytes > 0) std::memcpy(word, spec_.input, bytes);
      for (std::size_t w = 0; w * 8 < bytes || w == 0; ++w) {
        slot.word[w].store(host_, Step::kSame, word[w]);
      }
    } else {
      fill(staging_[0], [&](std::byte* to) { copy_payload(to, spec_.input, bytes); });
      slot.word[0].store(host_, Step::kSame, staging_[0]);
    }
    slots_.show();
  }

  template <class Fill>
  void fill(Offset buffer, Fill&& write) {
    StagingBuffer& s = memory_.own_staging(buffer);
    if (!breaks(host_, Rule::kStagingOwnerNone)) {
      s.owner.store(host_, Step::kStage, 0, std::memory_order_relaxed);
    }
    order_stores();
    host_.plain_store();
    write(s.bytes);
    s.owner.store(host_, Step::kStage, slots_.owner());
  }

  // --- The other members' contributions

  // REQUIRES see(i) complete. Small operands are copied to `local`; large ones are read in place,
  // or copied to scratch if they must be stable. nullptr: overwritten meanwhile.
  const void* operand(std::uint32_t i, std::size_t bytes, std::byte* local, bool stable) {
    host_.step(Step::kCollect);
    const Slot& slot = *slots_.of(i);
    if (bytes <= kSlotBytes) {
      std::uint64_t word[kSlotBytes / 8];
      for (std::size_t w = 0; w * 8 < bytes || w == 0; ++w) {
        word[w] = slot.word[w].load();
      }
      std::memcpy(local, word, (bytes + 7) / 8 * 8);
      const bool valid = breaks(host_, Rule::kValidateOperand) || still_valid(i, bytes);
      return valid ? local : nullptr;
    }
    const StagingBuffer* staged = slots_.staging(i, 0);
    if (staged == nullptr) return nullptr;
    if (!stable) return staged->bytes;
    copy_payload(spec_.scratch, staged->bytes, bytes);
    const bool valid = breaks(host_, Rule::kValidateStable) || still_valid(i, bytes);
    return valid ? spec_.scratch : nullptr;
  }

  bool still_valid(std::uint32_t i, std::size_t bytes) {
    host_.step(Step::kValidate);
    order_stores();
    return bytes > kSlotBytes ? slots_.staging_holds(i, 0) : slots_.holds(i);
  }
  bool all_valid(std::size_t bytes) {
    if (breaks(host_, Rule::kValidateAll)) return true;
    for (std::uint32_t i = 0; i < m_.size; ++i) {
      if (i != m_.rank && !still_valid(i, bytes)) return false;
    }
    return true;
  }

  // --- Flat: every member, or only the leader, reads all contributions

  AttemptState reduce_flat() {
    const std::size_t bytes = spec_.input_bytes;
    const FoldStep* const order = spec_.order;
    if (order != nullptr) [[unlikely]] {
      // Other operations of this rank use the same memory, so this fold begins only when all
      // contributions are there, and begins anew if one is withdrawn.
      if (const AttemptState s = see_all(); s != AttemptState::kComplete) return s;
      next_ = 0;
      begin_fold();
    }
    for (; next_ < m_.size; ++next_) {
      FoldStep step = {m_.size - 1 - next_, 0};
      if (order != nullptr) [[unlikely]]
        step = order[next_];
      const void* left = spec_.input;
      bool copies = false;
      if (step.member != m_.rank) {
        if (const AttemptState s = slots_.see(step.member); s != AttemptState::kComplete) {
          seen_ = 0;
          return s;
        }
        left = operand(step.member, bytes, local_[fold_.is_begun()], spec_.reduction->user);
        if (left == nullptr) return broken();
        // With several nodes, more than two small operands may be needed at once.
        copies = left == spec_.scratch || (order != nullptr && bytes <= kSlotBytes);
      }
      fold_.add(left, copies, step.closes);
    }
    // Staged operands were read in place: the result is valid only if none of them has changed.
    return bytes <= kSlotBytes || all_valid(bytes) ? AttemptState::kComplete : broken();
  }
  AttemptState broken() {
    seen_ = 0;
    return AttemptState::kBroken;
  }

  void begin_fold() {
    const Reduction& op = *spec_.reduction;
    fold_.begin(op, spec_.input_bytes / op.element_bytes, out_, spec_.fold_memory);
  }

  AttemptState see_all() {
    for (; seen_ < m_.size; ++seen_) {
      if (seen_ == m_.rank) continue;
      if (const AttemptState s = slots_.see(seen_); s != AttemptState::kComplete) return s;
    }
    return AttemptState::kComplete;
  }

  AttemptState gather_flat() {
    for (; next_ < m_.size; ++next_) {
      const std::uint32_t i = next_;
      const std::size_t at = block_begin(i), size = block_begin(i + 1) - at;
      const void* block = spec_.input;
      if (i != m_.rank) {
        if (const AttemptState s = slots_.see(i); s != AttemptState::kComplete) return s;
        block = operand(i, size, local_[0], false);
        if (block == nullptr) return AttemptState::kBroken;
      }
      copy_payload(out_ + at, block, size);
      const bool trust = i == m_.rank || breaks(host_, Rule::kValidateGathered);
      if (!trust && !still_valid(i, size)) return AttemptState::kBroken;
    }
    return AttemptState::kComplete;
  }

  std::size_t block_begin(std::uint32_t i) const {
    return spec_.blocks != nullptr ? spec_.blocks[i] : i * spec_.input_bytes;
  }

  // --- Sliced: through one extent in the leader's store

  void open_sliced() {
    if (spec_.reduction != nullptr) {
      plan_ = chunk_plan(m_.size, spec_.result_bytes, spec_.reduction->element_bytes, kStageBytes);
    }
    copied_ = 0;
    member_ = 0;
    most_chunks_ = 0;
    for (std::uint32_t i = 0; spec_.reduction == nullptr && i < m_.size; ++i) {
      most_chunks_ = std::max(most_chunks_, chunks_of(i));
    }
    slots_.close();
    Slot& slot = slots_.mine();
    slot.word[0].store(host_, Step::kSame, extent_);
    slot.word[kStagingWord].store(host_, Step::kSame, staging_[0]);
    slot.word[kStagingWord + 1].store(host_, Step::kSame, staging_[1]);
    slots_.reset(&Slot::staged);
    slots_.reset(&Slot::reduced);
    slots_.show();
    read_ = 0;
    const bool pays = spec_.input_bytes > chunk_bytes() && spec_.input_bytes <= direct_.kMost;
    if (spec_.reduction == nullptr && spec_.may_open && pays) {
      open_.emplace(host_, m_.world, m_.size, memory_.place(slot),
                    static_cast<const std::byte*>(spec_.input));
    }
  }
  // The slot word that names chunk k's staging buffer.
  static constexpr unsigned kStagingWord = 1;
  static constexpr unsigned staging_word(std::uint32_t k) { return kStagingWord + k % 2; }

  AttemptState find_extent() {
    if (const AttemptState s = slots_.see(leader_); s != AttemptState::kComplete) return s;
    host_.step(Step::kCollect);
    const Offset at = slots_.of(leader_)->word[0].load();
    if (!breaks(host_, Rule::kValidateExtent) && !still_valid(leader_, 0)) {
      return AttemptState::kBroken;
    }
    extent_ = at;
    return AttemptState::kComplete;
  }

  std::byte* result() const { return memory_.extent(extent_); }

  // --- Sliced reduction. Round k stages chunk k, reduces this rank's slice of chunk k-1, and
  // copies the other slices of chunk k-2, which is complete then, to the program.

  AttemptState reduce_sliced() {
    for (; chunk_ < plan_.chunks + 2; ++chunk_, stage_ = 0) {
      const std::uint32_t k = chunk_;
      const bool reduces = k >= 1 && k - 1 < plan_.chunks;
      // All members have reduced chunk k-2: it can be read, and its staging filled again.
      if (stage_ == 0) {
        if (k >= 2) {
          if (const AttemptState s = slots_.all_reached(&Slot::reduced, k - 1);
              s != AttemptState::kComplete) {
            return s;
          }
          copy_slices(k - 2);
        }
        stage_ = 1;
      }
      // The second buffer is filled only when all members have entered this operation: they may
      // still have been reading the previous operation's data in it.
      if (reduces) {
        if (const AttemptState s = slots_.all_reached(&Slot::staged, k);
            s != AttemptState::kComplete) {
          return s;
        }
      }
      if (k < plan_.chunks) stage(k);
      if (reduces) {
        if (const AttemptState s = reduce_slice(k - 1); s != AttemptState::kComplete) return s;
        slots_.publish(&Slot::reduced, k, Step::kReduced);
      }
    }
    return AttemptState::kComplete;
  }

  // Copies the other members' slices; this rank's own lies there since it was reduced.
  void copy_slices(std::uint32_t k) {
    if (spec_.early == nullptr) return;
    const std::size_t at = plan_.chunk_begin(k);
    const ChunkPlan::Slice own = plan_.slice(k, m_.rank);
    const bool past = streams(plan_.bytes);
    copy_part(spec_.early + at, result() + at, own.begin, past);
    copy_part(spec_.early + at + own.end, result() + at + own.end, plan_.chunk_size(k) - own.end,
              past);
  }

  // Stages the part of chunk k that other members will reduce.
  void stage(std::uint32_t k) {
    const std::byte* chunk = static_cast<const std::byte*>(spec_.input) + plan_.chunk_begin(k);
    const ChunkPlan::Slice own = plan_.slice(k, m_.rank);
    fill(staging_[k % 2], [&](std::byte* to) {
      copy_payload(to, chunk, own.begin);
      copy_payload(to + own.end, chunk + own.end, plan_.chunk_size(k) - own.end);
    });
    slots_.publish(&Slot::staged, k + 1, Step::kStaged);
  }

  // Blocks that stay in the nearest cache between being reduced and being copied.
  static constexpr std::size_t kFoldBytes = 8 * 1024;

  AttemptState reduce_slice(std::uint32_t k) {
    const Reduction& op = *spec_.reduction;
    const ChunkPlan::Slice own = plan_.slice(k, m_.rank);
    const std::size_t bytes = own.end - own.begin;
    if (bytes == 0) return AttemptState::kComplete;
    std::byte* out = result() + plan_.chunk_begin(k) + own.begin;
    if (!host_.touch(m_.world[leader_], out, bytes)) return AttemptState::kNoMemory;
    bool valid = true;
    if (op.user) {
      valid = reduce_block(k, own.begin, bytes, out);
      if (valid && spec_.early != nullptr) {
        copy_payload(spec_.early + plan_.chunk_begin(k) + own.begin, out, bytes);
      }
    } else {
      const auto reduce = [&](bool past_cache) { valid = reduce_blocks(k, own, out, past_cache); };
      if (spec_.early != nullptr && bytes >= journal::PayloadStores::kLeastReduced) {
        host_.payload_stores().timed(journal::PayloadUse::kReduction, bytes, reduce);
      } else {
        reduce(false);
      }
    }
    return valid && chunk_valid(k, Rule::kValidateChunk) ? AttemptState::kComplete
                                                         : AttemptState::kBroken;
  }

  // Reduces block by block, into the extent and to the program. past_cache: the stores to the
  // extent bypass the cache, which REQUIRES `early`.
  bool reduce_blocks(std::uint32_t k, ChunkPlan::Slice own, std::byte* out, bool past_cache) {
    const std::size_t element = spec_.reduction->element_bytes;
    const std::size_t block = std::max(kFoldBytes / element, std::size_t{1}) * element;
    std::byte* early = spec_.early;
    if (early != nullptr) early += plan_.chunk_begin(k) + own.begin;
    for (std::size_t at = 0; at < own.end - own.begin; at += block) {
      const std::size_t size = std::min(block, own.end - own.begin - at);
      std::byte* first = past_cache ? early + at : out + at;
      if (!reduce_block(k, own.begin + at, size, first)) return false;
      if (past_cache) {
        journal::copy_past_cache(out + at, first, size);
      } else if (early != nullptr) {
        copy_part(early + at, first, size, streams(plan_.bytes));
      }
    }
    return true;
  }

  // Reduces `bytes` of all members' chunk k, from `at` on, to `out`. False: an operand has changed.
  bool reduce_block(std::uint32_t k, std::size_t at, std::size_t bytes, std::byte* out) {
    const Reduction& op = *spec_.reduction;
    const auto* mine = static_cast<const std::byte*>(spec_.input) + plan_.chunk_begin(k);
    const auto source = [&](std::uint32_t i) -> const std::byte* {
      if (i == m_.rank) return mine + at;
      const StagingBuffer* s = slots_.staging(i, staging_word(k));
      host_.step(Step::kCollect);  // it may be filled again from now on
      return s == nullptr ? nullptr : s->bytes + at;
    };
    Fold fold;
    fold.begin(op, bytes / op.element_bytes, out, spec_.fold_memory);
    for (std::uint32_t next = 0; next < m_.size; ++next) {
      FoldStep step = {m_.size - 1 - next, 0};
      if (spec_.order != nullptr) [[unlikely]]
        step = spec_.order[next];
      const void* left = source(step.member);
      if (left == nullptr) return false;
      const bool copies = op.user && step.member != m_.rank;
      if (copies) {
        copy_payload(spec_.scratch, left, bytes);
        if (!chunk_valid(k, Rule::kValidateStable)) return false;
        left = spec_.scratch;
      }
      fold.add(left, copies, step.closes);
    }
    return true;
  }

  // Returns whether everything that was read of the members' chunk k belonged to this attempt.
  bool chunk_valid(std::uint32_t k, Rule rule) {
    host_.step(Step::kValidate);
    if (breaks(host_, rule)) return true;
    order_stores();
    for (std::uint32_t i = 0; i < m_.size; ++i) {
      if (i != m_.rank && !slots_.staging_holds(i, staging_word(k))) return false;
    }
    return true;
  }

  // --- Sliced gather: every member writes its own block, chunk by chunk, and copies the others'
  // chunks out as they come, or reads a member's input directly, if that member has only begun to
  // write its block.

  // Bytes of a chunk. All members compute the same value. Small chunks let a member notice sooner
  // that it can read another one's input; large ones copy large blocks faster.
  std::size_t chunk_bytes() const {
    constexpr std::size_t kLargeBlock = 256 * 1024;
    return spec_.result_bytes > m_.size * kLargeBlock ? 64 * 1024 : 16 * 1024;
  }

  AttemptState gather_direct() {
    for (; chunk_ < chunks_of(m_.rank);) {
      read_others();
      // If all other members read the input directly, none of them waits for single chunks.
      const std::uint32_t end = open_ && open_->is_read() ? chunks_of(m_.rank) : chunk_ + 1;
      if (!write_own(chunk_, end)) return AttemptState::kNoMemory;
      chunk_ = end;
      slots_.publish(&Slot::reduced, chunk_, Step::kReduced);
      if (const AttemptState s = copy_others();
          s == AttemptState::kBroken || s == AttemptState::kMismatch) {
        return s;
      }
    }
    open_.reset();
    return copy_others();
  }

  // Reads the inputs of members that have them open and have written less than half of their block.
  void read_others() {
    if (spec_.early == nullptr || !host_.may_read_others()) return;
    for (std::uint32_t i = 0; i < m_.size && i < kMostRead; ++i) {
      if (i == m_.rank || is_read(i) || chunks_of(i) == 1) continue;  // a single chunk is not open
      if (slots_.see(i) != AttemptState::kComplete) continue;
      if (slots_.reached(i, &Slot::reduced, chunks_of(i) / 2 + 1) != AttemptState::kPending) {
        continue;
      }
      const bool is_read =
          direct_.read(m_.world[i], memory_.place(*slots_.of(i)), spec_.early + block_begin(i), 0,
                       block_begin(i + 1) - block_begin(i),
                       [&] { return slots_.holds(i) || breaks(host_, Rule::kReadOfAttempt); });
      if (is_read) read_ |= std::uint64_t{1} << i;
    }
  }
  bool is_read(std::uint32_t i) const { return i < kMostRead && (read_ >> i & 1) != 0; }

  // An empty block counts as one empty chunk, which shows that its member has entered.
  std::uint32_t chunks_of(std::uint32_t i) const {
    const std::size_t bytes = block_begin(i + 1) - block_begin(i);
    return static_cast<std::uint32_t>(
        std::max((bytes + chunk_bytes() - 1) / chunk_bytes(), std::size_t{1}));
  }
  // Bytes [begin, end) of the result, for chunk k of member i's block.
  struct Part {
    std::size_t begin, end;
  };
  Part chunk_of(std::uint32_t i, std::uint32_t k) const {
    const std::size_t begin = block_begin(i) + k * chunk_bytes();
    return {begin, std::min(begin + chunk_bytes(), block_begin(i + 1))};
  }

  // Writes chunks [k, end). False: no memory.
  bool write_own(std::uint32_t k, std::uint32_t end) {
    const std::size_t at = k * chunk_bytes(), begin = chunk_of(m_.rank, k).begin;
    const std::size_t bytes = chunk_of(m_.rank, end - 1).end - begin;
    if (bytes == 0) return true;
    const auto* from = static_cast<const std::byte*>(spec_.input) + at;
    std::byte* to = result() + begin;
    if (!host_.touch(m_.world[leader_], to, bytes)) return false;
    host_.payload_stores().copy(to, from, bytes, end - k > 1);
    const bool there = spec_.early == nullptr || spec_.early + begin == from;
    if (!there) copy_chunk(spec_.early + begin, from, bytes, spec_.result_bytes);
    return true;
  }

  // Copies the first chunks of all members, then the second, and so on. kComplete: all members have
  // written all chunks, and all are copied.
  AttemptState copy_others() {
    for (; copied_ < most_chunks_; ++copied_, member_ = 0) {
      for (; member_ < m_.size; ++member_) {
        if (member_ == m_.rank || copied_ >= chunks_of(member_)) continue;
        const AttemptState s = slots_.reached(member_, &Slot::reduced, copied_ + 1);
        const bool trust = s == AttemptState::kPending && breaks(host_, Rule::kGatheredWhenWritten);
        if (s != AttemptState::kComplete && !trust) return s;
        if (spec_.early == nullptr || is_read(member_)) continue;
        const Part part = chunk_of(member_, copied_);
        copy_chunk(spec_.early + part.begin, result() + part.begin, part.end - part.begin,
                   spec_.result_bytes);
      }
    }
    return AttemptState::kComplete;
  }

  H& host_;
  journal::AttemptMemory memory_;
  Members& m_;
  const AttemptSpec& spec_;
  AttemptSlots<H> slots_;
  std::uint32_t leader_ = 0;
  std::uint32_t next_ = 0;  // flat: the next member, or step of the fold
  std::uint32_t seen_ = 0;  // flat reduction with an order: members whose contributions are there
  Fold fold_;               // flat reduction
  std::byte* out_ = nullptr;
  Offset staging_[2] = {};
  Offset extent_ = 0;
  ChunkPlan plan_ = {};
  std::uint32_t chunk_ = 0;  // sliced: the round
  std::uint32_t stage_ = 0;
  std::uint32_t most_chunks_ = 0;  // sliced gather: of the member with most chunks
  std::uint32_t copied_ = 0;       // chunks of all that are copied, and members of the next one
  std::uint32_t member_ = 0;
  static constexpr std::uint32_t kMostRead = 64;
  std::uint64_t read_ = 0;  // sliced gather: members whose blocks were read where they are
  journal::DirectRead<H> direct_;
  std::optional<journal::OpenBuffer<H>> open_;
  alignas(16) std::byte local_[2][kSlotBytes];
};

}  // namespace rejoin::engine
