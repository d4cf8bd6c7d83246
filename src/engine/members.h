// A communicator as the engine sees it: who is in it, and where each member's ContextBlock lies.
#pragma once

#include <cstdint>

#include "engine/segment.h"

namespace rejoin::engine {

constexpr std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  return x ^ x >> 32;
}

// Ids of contexts are derived, never negotiated. Never 0.
constexpr std::uint64_t derive_context(std::uint64_t parent, std::uint64_t sequence,
                                       std::uint64_t colour) {
  return mix(mix(parent + 0x9e3779b97f4a7c15u) ^ mix(sequence * 2 + 1) ^ mix(mix(colour) + 3)) | 1;
}

// What names the attempt that a staging buffer belongs to. Never 0.
constexpr std::uint64_t owner_of(std::uint64_t context, Tag tag) {
  return mix(context ^ mix(tag)) | 1;
}

struct Members {
  std::uint64_t context;
  std::uint32_t size;
  std::uint32_t rank;          // mine in it
  const std::uint32_t* world;  // [size] world ranks
  ContextBlock* mine;
  ContextBlock** block;  // [size]; null until the member has made its own
};

// Rank `world_rank`'s block of a context, or null if it has made none yet.
inline ContextBlock* find_block(std::byte* base, std::uint32_t world_rank, std::uint64_t context) {
  RegionHead* region = region_of(base, world_rank);
  for (std::uint32_t i = 0; i < kMaxContexts; ++i) {
    ContextIndexEntry& e = region->context_index[(context + i) % kMaxContexts];
    const std::uint64_t found = e.context.load(std::memory_order_acquire);
    if (found == 0) return nullptr;
    if (found == context) {
      return reinterpret_cast<ContextBlock*>(base + e.block.load(std::memory_order_relaxed));
    }
  }
  return nullptr;
}

inline ContextBlock* block_of(std::byte* base, Members& m, std::uint32_t i) {
  if (m.block[i] == nullptr) m.block[i] = find_block(base, m.world[i], m.context);
  return m.block[i];
}

}  // namespace rejoin::engine
