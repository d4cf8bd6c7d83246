// Numbers that are derived from others, the same at every rank.
#pragma once

#include <cstdint>

namespace rejoin::journal {

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
constexpr std::uint64_t world_context() { return derive_context(0, 0, 1); }
constexpr std::uint64_t self_context(std::uint32_t rank) { return derive_context(0, rank, 2); }

}  // namespace rejoin::journal
