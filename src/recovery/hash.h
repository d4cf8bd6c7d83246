// Hashes that stand in the journal: of contributions and payloads (fingerprints) and of signatures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#define XXH_INLINE_ALL
#define XXH_NO_STDLIB
#include <xxhash.h>

#include "engine/members.h"

namespace rejoin::recovery {

// Up to kHashAllBytes every byte counts. Of more, the first and last 4 KiB and one cache line in every
// 4 KiB between do: a fingerprint finds programs that are not deterministic, it is no checksum, and
// must cost nothing beside the copy.
inline constexpr std::size_t kHashAllBytes = 64 * 1024;

inline std::uint32_t hash_bytes(const void* data, std::size_t bytes) {
  if (bytes <= 8) {
    std::uint64_t word = bytes;
    if (bytes > 0) {
      word = 0;
      std::memcpy(&word, data, bytes);
    }
    return static_cast<std::uint32_t>(engine::mix(word + bytes));
  }
  if (bytes <= kHashAllBytes) return static_cast<std::uint32_t>(XXH3_64bits(data, bytes));
  constexpr std::size_t kPage = 4096, kLine = 64;
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint64_t h = XXH3_64bits(p, kPage) ^ XXH3_64bits_withSeed(p + bytes - kPage, kPage, bytes);
  for (std::size_t at = kPage; at + kPage < bytes; at += kPage) {
    std::uint64_t line[kLine / 8];
    std::memcpy(line, p + at, kLine);
    std::uint64_t x = 0;
    for (const std::uint64_t w : line) x = x * 0x9e3779b97f4a7c15u + w;
    h = engine::mix(h + x);
  }
  return static_cast<std::uint32_t>(h);
}

}  // namespace rejoin::recovery
