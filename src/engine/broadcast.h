// A large broadcast: the root copies its payload into an extent chunk by chunk, and the others copy
// the chunks out as they appear, or read the root's buffer, if most chunks are missing
// (recovery/DIRECT.md). That is only a head start: the broadcast is the root's record (PROTOCOL.md,
// Must 1), published when the payload is whole, and what was copied counts only if the record names
// the extent that it was copied from, or that the buffer was copied to.
//
// The hint is the root's slot: tag (sequence, incarnation, 2), the extent, and chunks done.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "engine/copy.h"
#include "engine/names.h"
#include "journal/attempt_memory.h"
#include "journal/direct.h"
#include "journal/host.h"
#include "journal/log.h"
#include "journal/own.h"
#include "journal/peer_view.h"
#include "journal/step.h"
#include "journal/waiting.h"

namespace rejoin::engine {

inline constexpr std::size_t kBroadcastChunkBytes = 32 * 1024;
inline constexpr std::size_t kPipelinedBytes = 64 * 1024;  // from here on chunks pay

// How many operations a sender of this many bytes in each may be ahead of its slowest receiver. An
// unlimited sender would fill the journal, with bytes that have left the caches before the
// receivers read them. If they may read its buffer, it waits for them sooner: one that is behind
// finds no open buffer, copies from the journal, which takes longer, and stays behind. wraps: with
// a full journal, records are in rings.
template <Host H>
std::uint64_t operations_ahead(const H& host, std::size_t bytes, bool wraps, bool may_read) {
  constexpr std::uint64_t kAheadOfReaders = 1;
  const std::uint64_t by_bytes =
      may_read ? kAheadOfReaders : 2 + host.ahead_bytes() / std::max(bytes, kLine);
  return wraps ? std::min<std::uint64_t>(by_bytes, journal::kReadersWithin) : by_bytes;
}

constexpr Tag hint_tag(std::uint64_t sequence, std::uint32_t incarnation) {
  return make_tag(sequence, incarnation) + 1;
}
constexpr bool is_hint(Tag tag, std::uint64_t sequence) {
  return tag >> 32 == (sequence & 0xffffffffu) && (tag & 0xffff) == (hint_tag(0, 0) & 0xffff);
}
// Combines a chunk count with half of the owner, which distinguishes former incarnations.
constexpr std::uint64_t chunks_done(std::uint64_t context, Tag tag, std::uint32_t chunks) {
  return owner_of(context, tag) >> 32 << 32 | chunks;
}

// Called by the root. Copies `bytes` of `input` into `extent`, which was reserved in its payload,
// and publishes its progress chunk by chunk. False: no memory.
template <Host H>
bool publish_chunks(H& host, Members& m, std::uint64_t sequence, std::uint32_t incarnation,
                    const void* input, std::size_t bytes, Offset extent) {
  const auto* data = static_cast<const std::byte*>(input);
  const Tag tag = hint_tag(sequence, incarnation);
  Slot& slot = journal::AttemptMemory::own_slot(m, sequence);
  slot.tag.store(host, Step::kSlotNone, 0, std::memory_order_relaxed);
  slot.word[0].store(host, Step::kSame, extent);
  slot.reduced.store(host, Step::kSame, chunks_done(m.context, tag, 0));
  slot.tag.store(host, Step::kSlotTag, tag);
  std::optional<journal::OpenBuffer<H>> open;  // its destructor waits for members that still read
  if (bytes <= journal::DirectRead<H>::kMost) {
    open.emplace(host, m.world, m.size, journal::AttemptMemory(host).place(slot), data);
    ring_sleepers(host, m.world, m.size);
  }
  std::uint32_t chunk = 0;
  for (std::size_t at = 0; at < bytes;) {
    // If all members read the input directly, none of them waits for single chunks.
    const bool is_read = open && open->is_read();
    const std::size_t size = is_read ? bytes - at : std::min(kBroadcastChunkBytes, bytes - at);
    std::byte* to = journal::own_bytes(host, extent + at);
    if (!host.touch(host.rank(), to, size)) return false;
    host.step(Step::kPayload);
    host.payload_stores().copy(to, data + at, size, is_read);
    at += size;
    chunk = static_cast<std::uint32_t>((at + kBroadcastChunkBytes - 1) / kBroadcastChunkBytes);
    slot.reduced.store(host, Step::kReduced, chunks_done(m.context, tag, chunk));
    ring_sleepers(host, m.world, m.size);
  }
  return true;
}

// Used by receivers: copies the published chunks to `to` before the record exists, and afterwards
// only the rest of the extent that the record names.
class ChunkCopier {
 public:
  ChunkCopier(std::byte* to, std::size_t bytes) : to_(to), bytes_(bytes) {}

  template <Host H>
  void advance(H& host, const journal::PeerView& peers, Members& m, std::uint32_t root,
               std::uint64_t sequence) {
    host.step(Step::kCollect);
    const Slot* slot = journal::AttemptMemory(host).slot(m, root, sequence);
    if (slot == nullptr) return;
    if (tag_ == 0) {
      const Tag tag = slot->tag.load();
      if (!is_hint(tag, sequence)) return;
      extent_ = slot->word[0].load();
      tag_ = tag;
    }
    const std::uint64_t word = slot->reduced.load();
    // A new incarnation of the root may be rewriting the slot: its extent with the old count.
    const bool is_same = slot->tag.load() == tag_;
    if (word >> 32 != chunks_done(m.context, tag_, 0) >> 32 || !is_same) {
      tag_ = 0;  // another incarnation's, or a later operation's
      copied_ = 0;
      return;
    }
    const std::size_t published =
        std::size_t{static_cast<std::uint32_t>(word)} * kBroadcastChunkBytes;
    if (copied_ == 0 && 2 * published <= bytes_) {
      const auto still = [&] {
        return slot->tag.load() == tag_ || breaks(host, Rule::kReadOfAttempt);
      };
      journal::DirectRead<H> direct(host, peers);
      const Offset what = journal::AttemptMemory(host).place(*slot);
      if (direct.read(m.world[root], what, to_, 0, bytes_, still)) copied_ = bytes_;
    }
    if (published > copied_) copy_to(peers, std::min(published, bytes_));
  }

  // The record names `extent`, which is complete. Returns whether all of it lies at `to` now.
  template <Host H>
  bool finish(H& host, const journal::PeerView& peers, Offset extent) {
    if (tag_ == 0 || copied_ == 0) return false;
    if (extent != extent_ && !breaks(host, Rule::kHeadStartByExtent)) return false;
    copy_to(peers, bytes_);
    return true;
  }

 private:
  void copy_to(const journal::PeerView& peers, std::size_t end) {
    while (copied_ < end) {
      const std::size_t size = std::min(kBroadcastChunkBytes, end - copied_);
      copy_chunk(to_ + copied_, peers.payload(extent_ + copied_, size).data(), size, bytes_);
      copied_ += size;
    }
  }

  std::byte* to_;
  std::size_t bytes_;
  Tag tag_ = 0;
  Offset extent_ = 0;
  std::size_t copied_ = 0;
};

}  // namespace rejoin::engine
