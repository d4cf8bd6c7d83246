// Hashes in the journal: of contributions and payloads (fingerprints) and of signatures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#define XXH_INLINE_ALL
#define XXH_NO_STDLIB
#include <xxhash.h>

#include "journal/copy_inline.h"
#include "journal/layout.h"

namespace rejoin::recovery {

// All bytes are hashed up to kHashAllBytes. Longer data is sampled: the first and the last
// kHashAllBytes / 2, and between them one cache line in eight (one in sixty-four above 64 KiB). A
// fingerprint detects programs that are not deterministic; it is no checksum, and must cost little
// beside the copy.
inline constexpr std::size_t kHashAllBytes = 512;

inline std::uint64_t hash_line(const unsigned char* p) {
  std::uint64_t w[8];
  std::memcpy(w, p, sizeof w);
  // Independent products: the processor overlaps them.
  return w[0] * 0x9e3779b97f4a7c15u + w[1] * 0xc2b2ae3d27d4eb4fu + w[2] * 0x165667b19e3779f9u +
         w[3] * 0xd6e8feb86659fd93u + w[4] * 0xff51afd7ed558ccdu + w[5] * 0xa0761d6478bd642fu +
         w[6] * 0xe7037ed1a0b428dbu + w[7] * 0x8ebc6af09c88c6e3u;
}

inline std::uint32_t hash_bytes(const void* data, std::size_t bytes) {
  if (bytes <= journal::kInlineBytes) {
    std::uint64_t word = 0;
    journal::copy_inline(&word, data, bytes);
    return static_cast<std::uint32_t>(journal::mix(word + bytes));
  }
  if (bytes <= kHashAllBytes) return static_cast<std::uint32_t>(XXH3_64bits(data, bytes));
  constexpr std::size_t kEdge = kHashAllBytes / 2, kLine = 64;
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint64_t h = XXH3_64bits(p, kEdge) ^ XXH3_64bits_withSeed(p + bytes - kEdge, kEdge, bytes);
  const std::size_t stride = bytes <= 64 * 1024 ? 8 * kLine : 64 * kLine;
  for (std::size_t at = kEdge; at + kLine <= bytes - kEdge; at += stride) {
    h = (h ^ hash_line(p + at)) * 0x9e3779b97f4a7c15u;
  }
  return static_cast<std::uint32_t>(journal::mix(h));
}

}  // namespace rejoin::recovery
