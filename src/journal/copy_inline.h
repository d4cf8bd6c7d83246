// Copies of values that lie inside their record or message.
#pragma once

#include <cstddef>
#include <cstring>

#include "journal/layout.h"

namespace rejoin::journal {

// REQUIRES bytes <= kInlineBytes. Nearly all values have 8 or 4 bytes: those need no call.
inline void copy_inline(void* to, const void* from, std::size_t bytes) {
  if (bytes == kInlineBytes) {
    std::memcpy(to, from, kInlineBytes);
  } else if (bytes == 4) {
    std::memcpy(to, from, 4);
  } else if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace rejoin::journal
