// The copy function for payload: between the program's buffers, the journal and staging memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rejoin {

namespace copying {

// The smallest copy for which glibc uses `rep movsb` on processors that report ERMS (enhanced `rep
// movsb`). glibc's own threshold is 2112 bytes.
inline constexpr std::size_t kLeastStringCopy = 2048;

// Returns whether `rep movsb` would be slow: some processors (measured: an AMD EPYC) take 10 to 30
// times as long if the destination begins less than a cache line behind the source modulo the page
// size. This is common: large blocks of malloc() begin 16 bytes behind a page boundary, payload in
// the journal at one.
inline bool aliases(const void* to, const void* from) {
  const auto distance =
      reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
  return distance % 4096 - 1 < 63;
}

// Copies upwards with vector loads and stores. Requires bytes >= 128 and that `to` is not inside
// from[0, bytes).
void copy_by_vectors(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace copying

// Same contract as memmove, with the same speed at every alignment (bench/copies). Pointers may be
// null if bytes is 0.
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
