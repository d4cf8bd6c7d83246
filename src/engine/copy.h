// Copies of large results into the program's buffers.
#pragma once

#include <cstddef>
#include <cstring>

#include "journal/payload_stores.h"

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
  journal::copy_past_cache(to, from, bytes);
  _mm_sfence();
}

}  // namespace rejoin::engine
