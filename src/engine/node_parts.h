// Combines parts that do not change meanwhile, piece by piece.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "copy/copy.h"
#include "engine/fold.h"
#include "engine/names.h"
#include "engine/reduction.h"

namespace rejoin::engine {

// Combines `bytes` of each of n parts, in that order, to `out`. part(i): where part i lies. more:
// 2 * kStageBytes of memory. scratch: kStageBytes, for copies that the program's operators may
// change. REQUIRES that an element has at most kStageBytes. The stages of one piece stay in a
// cache.
template <class Part>
void fold_parts(const Reduction& op, const FoldStep* order, std::uint32_t n, std::size_t bytes,
                std::byte* out, std::byte* more, std::byte* scratch, Part&& part) {
  constexpr std::size_t kPiece = 8 * 1024;
  const std::size_t piece = std::max(kPiece / op.element_bytes, std::size_t{1}) * op.element_bytes;
  for (std::size_t at = 0; at < bytes; at += piece) {
    const std::size_t size = std::min(piece, bytes - at);
    Fold fold;
    fold.begin(op, size / op.element_bytes, out + at, more);
    for (std::uint32_t k = 0; k < n; ++k) {
      const std::byte* from = part(order[k].member) + at;
      if (op.user) {
        copy_payload(scratch, from, size);
        from = scratch;
      }
      fold.add(from, op.user, order[k].closes);
    }
  }
}

}  // namespace rejoin::engine
