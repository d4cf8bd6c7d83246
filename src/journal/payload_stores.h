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

// Memory that is about to be written is fetched into this processor's cache while its rank waits
// for others. The journal's memory is hardly ever there: it is used again only behind a snapshot,
// when megabytes of others have been written. A store that misses takes its time from the program,
// and with it the message, whose receiver cannot read it earlier. Not thread-safe.
class Prefetch {
 public:
  static constexpr std::size_t kMost = 64 * 1024;  // part of a cache that a rank has for itself

  // The next payload will probably be written here; any memory is allowed, also none.
  void expect(const std::byte* begin, std::size_t bytes) {
    next_ = begin;
    end_ = begin + std::min(bytes, kMost);
  }
  static constexpr std::size_t kAhead = 8 * 1024;  // of small payload
  // Called before `bytes` bytes are written at `begin`. Fetches as many lines further on, where the
  // next messages will lie: a fetch from memory takes longer than writing one message.
  static void fetch_ahead(const std::byte* begin, std::size_t bytes, std::size_t ahead = kAhead) {
    for (std::size_t at = 0; at < bytes; at += kLineBytes) fetch(begin + ahead + at);
  }
  // Fetches some of it. To be called between two looks of a wait, which it does not delay
  // noticeably.
  void fetch_some() {
    constexpr int kLinesAtOnce = 16;
    for (int i = 0; i < kLinesAtOnce && next_ < end_; ++i, next_ += kLineBytes) fetch(next_);
  }

 private:
  static constexpr std::size_t kLineBytes = 64;

  static void fetch(const std::byte* line) { asm volatile("prefetchw %0" : : "m"(*line)); }

  const std::byte* next_ = nullptr;
  const std::byte* end_ = nullptr;
};

// No static rule knows which stores are faster: that depends on whether ranks share a cache, how
// much of it a virtual machine has at the moment, and how large the journal has become. Both kinds
// are therefore timed on the real work: the faster one is used, and the other tried now and then.
// The bytes are the same either way. Not thread-safe.
class PayloadStores {
 public:
  // Smaller payload is always written through the cache.
  static constexpr std::size_t kLeastCopied = 8 * 1024;
  static constexpr std::size_t kLeastReduced = 16 * 1024;

  // Writes are visible to others when it returns, as those of memcpy. unread: no process reads the
  // bytes soon.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes, bool unread = false) {
    if (unread) {
      copy_past_cache(to, from, bytes);
      _mm_sfence();
      return;
    }
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

  Prefetch& prefetch() { return prefetch_; }

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
  Prefetch prefetch_;
  StoreChoice choices_[static_cast<std::size_t>(PayloadUse::kCount)];
};

}  // namespace rejoin::journal
