// Copies of large data between the program's buffers and the journal.
#pragma once

#include <cstddef>

#include "copy/copy.h"
#include "engine/names.h"
#include "journal/payload_stores.h"

namespace rejoin::engine {

// Vectors of at least this size do not stay in the cache until the program reads them: their copies
// bypass it, which saves reading every destination line first.
inline constexpr std::size_t kStreamingBytes = 4 << 20;

inline bool streams(std::size_t total) { return total >= kStreamingBytes; }

// memcpy. past_cache: with streaming stores, which are fenced before it returns.
inline void copy_part(std::byte* to, const std::byte* from, std::size_t bytes, bool past_cache) {
  if (!past_cache || bytes < 256) {
    copy_payload(to, from, bytes);
    return;
  }
  journal::copy_past_cache(to, from, bytes);
  _mm_sfence();
}

// One chunk of a vector of `total` bytes.
inline void copy_chunk(std::byte* to, const std::byte* from, std::size_t bytes, std::size_t total) {
  copy_part(to, from, bytes, streams(total));
}

}  // namespace rejoin::engine
