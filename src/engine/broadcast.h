// A large broadcast: the root copies its payload into an extent chunk by chunk, and the others copy
// the chunks out as they appear. That is only a head start: the broadcast is the root's record
// (PROTOCOL.md, Must 1), published when the payload is whole, and what was copied counts only if
// the record names the extent that it was copied from.
//
// The hint is the root's slot: tag (sequence, incarnation, 2), the extent, and chunks done.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/copy.h"
#include "engine/members.h"
#include "engine/segment.h"
#include "engine/step.h"
#include "engine/waiting.h"

namespace rejoin::engine {

inline constexpr std::size_t kBroadcastChunkBytes = 32 * 1024;
inline constexpr std::size_t kPipelinedBytes = 64 * 1024;  // from here on chunks pay

template <class Host>
class Broadcast {
 public:
  Broadcast(Host& host, Members& members, std::uint64_t sequence, std::size_t bytes)
      : host_(host), m_(members), sequence_(sequence), bytes_(bytes) {}

  // Root. `extent` was reserved in my payload. False: no memory.
  bool pour(const void* input, Offset extent) {
    const std::uint32_t incarnation =
        control_of(host_.base(), host_.rank())->incarnation.load(std::memory_order_relaxed);
    const Tag tag = hint_tag(incarnation);
    Slot& slot = m_.mine->slot[sequence_ & 1];
    host_.step(Step::kSlotNone);
    slot.tag.store(0, std::memory_order_relaxed);
    slot.word[0].store(extent, std::memory_order_release);
    slot.reduced.store(done(tag, 0), std::memory_order_release);
    host_.step(Step::kSlotTag);
    slot.tag.store(tag, std::memory_order_release);
    std::uint32_t chunk = 0;
    for (std::size_t at = 0; at < bytes_; at += kBroadcastChunkBytes) {
      const std::size_t size = std::min(kBroadcastChunkBytes, bytes_ - at);
      std::byte* to = host_.base() + extent + at;
      if (!host_.touch(host_.rank(), to, size)) return false;
      host_.step(Step::kPayload);
      std::memcpy(to, static_cast<const std::byte*>(input) + at, size);
      host_.step(Step::kReduced);
      slot.reduced.store(done(tag, ++chunk), std::memory_order_release);
      ring_sleepers(host_, m_.world, m_.size);
    }
    return true;
  }

  // Others: copies what the root has poured into `to`, until all of it is there or over(thorough)
  // says that there is a record (or something is wrong). Returns the extent that `to` is a copy of;
  // 0: it is not.
  template <class Over>
  Offset drink(std::uint32_t root, std::byte* to, Over&& over) {
    Slot* slot = nullptr;
    Tag tag = 0;
    bool ended = false;
    wait_until(host_, [&](bool thorough) {
      host_.step(Step::kCollect);
      ContextBlock* b = block_of(host_.base(), m_, root);
      slot = b == nullptr ? nullptr : &b->slot[sequence_ & 1];
      tag = slot == nullptr ? 0 : slot->tag.load(std::memory_order_acquire);
      if (is_hint(tag)) return true;
      return ended = over(thorough);
    });
    if (ended) return 0;
    const Offset extent = slot->word[0].load(std::memory_order_acquire);
    std::uint32_t chunk = 0;
    for (std::size_t at = 0; at < bytes_; at += kBroadcastChunkBytes) {
      ++chunk;
      bool there = false;
      wait_until(host_, [&](bool thorough) {
        host_.step(Step::kCollect);
        const std::uint64_t word = slot->reduced.load(std::memory_order_acquire);
        there = word >> 32 == done(tag, 0) >> 32 && static_cast<std::uint32_t>(word) >= chunk;
        return there || over(thorough) || slot->tag.load(std::memory_order_acquire) != tag;
      });
      if (!there) return 0;
      copy_chunk(to + at, host_.base() + extent + at, std::min(kBroadcastChunkBytes, bytes_ - at),
                 bytes_);
    }
    host_.step(Step::kValidate);
    return slot->tag.load(std::memory_order_acquire) == tag ? extent : 0;
  }

 private:
  Tag hint_tag(std::uint32_t incarnation) const { return make_tag(sequence_, incarnation) + 1; }
  bool is_hint(Tag tag) const {
    return tag >> 32 == (sequence_ & 0xffffffffu) && (tag & 0xffff) == (hint_tag(0) & 0xffff);
  }
  // Chunk count, together with what tells it from a former incarnation's.
  std::uint64_t done(Tag tag, std::uint32_t chunks) const {
    return owner_of(m_.context, tag) >> 32 << 32 | chunks;
  }

  Host& host_;
  Members& m_;
  const std::uint64_t sequence_;
  const std::size_t bytes_;
};

}  // namespace rejoin::engine
