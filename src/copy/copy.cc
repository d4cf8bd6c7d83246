#include "copy/copy.h"

namespace rejoin::copying {

// The loader chooses between clones before ThreadSanitizer's runtime is ready, which would crash in
// the function that chooses.
#ifdef __SANITIZE_THREAD__
#define REJOIN_COPY_CLONES
#else
#define REJOIN_COPY_CLONES __attribute__((target_clones("avx2", "default")))
#endif

namespace {
using Vector = long long __attribute__((vector_size(32), aligned(1), may_alias));
}  // namespace

// Loads four vectors before it stores them, so that no load has to wait for a store of the same
// iteration to an address with the same offset in its page.
REJOIN_COPY_CLONES void copy_by_vectors(std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto load = [from](std::size_t at) -> const Vector& {
    return *reinterpret_cast<const Vector*>(from + at);
  };
  const auto store = [to](std::size_t at, const Vector& v) {
    *reinterpret_cast<Vector*>(to + at) = v;
  };
  constexpr std::size_t kVector = sizeof(Vector), kRound = 4 * kVector;
  const auto copy_round = [&](std::size_t at) __attribute__((always_inline)) {
    const Vector a = load(at), b = load(at + kVector), c = load(at + 2 * kVector),
                 d = load(at + 3 * kVector);
    store(at, a);
    store(at + kVector, b);
    store(at + 2 * kVector, c);
    store(at + 3 * kVector, d);
  };
  const Vector first = load(0);
  store(0, first);
  // Stores in the loop are aligned. The final round ends at the last byte and may overlap the one
  // before.
  std::size_t at = kVector - reinterpret_cast<std::uintptr_t>(to) % kVector;
  for (; at + kRound < bytes; at += kRound) copy_round(at);
  copy_round(bytes - kRound);
}

}  // namespace rejoin::copying
