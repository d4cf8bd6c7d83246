// How payload is copied, everywhere in the library: between the program's buffers, the journal and
// staging memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rejoin {

namespace copying {

// From this size on the C library copies by `rep movsb` on processors that say that it is fast.
inline constexpr std::size_t kLeastStringCopy = 2048;

// Some processors (AMD Zen 2 to 4) need 10 to 20 times as long for `rep movsb` when the destination
// begins less than a cache line behind the source modulo the page size. That is an ordinary case: a
// large block of malloc() begins 16 bytes behind a page, payload in the journal at one.
inline bool aliases(const void* to, const void* from) {
  const auto distance =
      reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
  return distance % 4096 - 1 < 63;
}

// By vector loads and stores, forwards. REQUIRES bytes >= 128, and that `to` does not lie in
// from[0, bytes).
void copy_by_vectors(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace copying

// memmove, but as fast at every alignment as at the best ones (bench/copies). Pointers may be null
// if there are no bytes.
inline void copy_payload(void* to, const void* from, std::size_t bytes) {
  if (bytes >= copying::kLeastStringCopy && copying::aliases(to, from)) [[unlikely]] {
    const auto distance =
        reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
    if (distance >= bytes) {
      return copying::copy_by_vectors(static_cast<std::byte*>(to),
                                      static_cast<const std::byte*>(from), bytes);
    }
  }
  if (bytes > 0) std::memmove(to, from, bytes);
}

}  // namespace rejoin
