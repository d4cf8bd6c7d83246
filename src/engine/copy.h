// Copies of large results into the program's buffers.
#pragma once

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rejoin::engine {

// Vectors from here on do not stay in the cache until the program reads them: their copies go past
// it, which saves reading every destination line first.
inline constexpr std::size_t kStreamingBytes = 4 << 20;

// memcpy of one chunk of a vector of `total` bytes. Streaming stores are fenced before it returns.
inline void copy_chunk(std::byte* to, const std::byte* from, std::size_t bytes, std::size_t total) {
  if (total < kStreamingBytes || bytes < 256) {
    std::memcpy(to, from, bytes);
    return;
  }
  const std::size_t head = (16 - reinterpret_cast<std::uintptr_t>(to) % 16) % 16;
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + 64 <= bytes; at += 64) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(to + at, from + at, bytes - at);
  _mm_sfence();
}

}  // namespace rejoin::engine
