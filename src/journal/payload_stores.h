// Copies of large payload through the cache or past it.
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "copy/copy.h"

namespace rejoin::journal {

// memcpy with non-temporal stores, which neither read the destination's lines first nor leave them
// in the cache. They are visible to others after _mm_sfence().
inline void copy_past_cache(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t head = std::min(bytes, (64 - reinterpret_cast<std::uintptr_t>(to) % 64) % 64);
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
}

// What large payload is written for. Each use is timed separately.
enum class PayloadUse : std::uint8_t {
  kCopy,
  kReduction,  // of operands that others have just written
  kCount,
};

// Chooses the faster of two ways. Pure: a function of the times that note() was given.
class StoreChoice {
 public:
  // Processor clock ticks that a way takes for 1 KiB.
  using Ticks = std::uint64_t;
  static constexpr unsigned kTryEvery = 64;  // the slower way is tried again this often
  static constexpr Ticks kOutlier = 4;       // times the average: something else ran meanwhile

  // Whether the next payload goes past the cache.
  bool next_is_past_cache() {
    const bool faster = ticks_[true] < ticks_[false];
    return ++turn_ % kTryEvery == 0 ? !faster : faster;
  }
  void note(bool past_cache, Ticks ticks) {
    Ticks& average = ticks_[past_cache];
    if (average == 0) average = ticks;
    average = (7 * average + std::min(ticks, kOutlier * average)) / 8 + 1;
  }

 private:
  Ticks ticks_[2] = {};  // moving averages; 0: not tried yet, which is the fastest
  unsigned turn_ = 0;
};

// No static rule knows which stores are faster: that depends on whether ranks share a cache, how
// much of it a virtual machine has at the moment, and how large the journal has become. Both kinds
// are therefore timed on the real work: the faster one is used, and the other tried now and then.
// The bytes are the same either way. Not thread-safe.
class PayloadStores {
 public:
  // Smaller payload is always written through the cache.
  static constexpr std::size_t kLeastCopied = 4 * 1024;
  static constexpr std::size_t kLeastReduced = 16 * 1024;

  // Writes are visible to others when it returns, as those of memcpy.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes < kLeastCopied) {
      copy_payload(to, from, bytes);
      return;
    }
    timed(PayloadUse::kCopy, bytes, [&](bool past_cache) {
      if (past_cache) {
        copy_past_cache(to, from, bytes);
      } else {
        copy_payload(to, from, bytes);
      }
    });
  }

  // write(past_cache) writes `bytes` bytes, past the cache or through it.
  template <class Write>
  void timed(PayloadUse use, std::size_t bytes, Write&& write) {
    StoreChoice& choice = choices_[static_cast<std::size_t>(use)];
    const bool past_cache = choice.next_is_past_cache();
    const std::uint64_t begin = __builtin_ia32_rdtsc();
    write(past_cache);
    if (past_cache) _mm_sfence();
    choice.note(past_cache, (__builtin_ia32_rdtsc() - begin) * 1024 / bytes);
  }

 private:
  StoreChoice choices_[static_cast<std::size_t>(PayloadUse::kCount)];
};

}  // namespace rejoin::journal
