// Which bytes of a departure each of the other nodes reads. Relays send no others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/plan.h"
#include "journal/division.h"

namespace rejoin::engine {

using Slice = ChunkPlan::Slice;
using journal::Division;

// What node `k` of a context with `nodes` nodes reads of a departure of `bytes`. With an element,
// readers read slices that follow each other in the order of nodes.
constexpr Slice slice_for(std::uint32_t k, std::uint32_t nodes, std::size_t bytes,
                          const Division& division) {
  if (!division.is_read_by(k)) return {0, 0};
  if (division.element_bytes == 0) return {0, bytes};
  const bool leaves_out_one = (division.readers & Division::kBut) != 0;
  const bool is_behind_it = leaves_out_one && division.all_but(k) > division.readers;
  const ChunkPlan plan =
      chunk_plan(nodes - (leaves_out_one ? 1 : 0), bytes, division.element_bytes, bytes);
  return plan.slice(0, k - (is_behind_it ? 1 : 0));
}

// Whether a broadcast of `bytes` among `nodes` nodes is scattered: the root sends each of the other
// nodes a slice, which that gives to the rest of them. Else the root sends all of it to all. The
// root's link then carries it once instead of nodes - 1 times, and one more message is waited for.
inline constexpr std::size_t kLeastScattered = 64 * 1024;
inline constexpr std::size_t kLeastSaved = 128 * 1024;  // so many bytes less pay for a message more
constexpr bool is_scattered(std::uint32_t nodes, std::size_t bytes) {
  return nodes > 2 && bytes >= kLeastScattered && bytes * (nodes - 2) >= kLeastSaved;
}

// Whether a Reduce of `bytes` is carried out as a reduction by the leaders of the nodes; else each
// member sends its contribution to the root. `others`: members that are not on the root's node. The
// root's link then carries twice the vector, or less, instead of `others` times.
inline constexpr std::size_t kLeastByNodes = 32 * 1024;
constexpr bool is_reduced_by_nodes(std::uint32_t others, std::size_t bytes) {
  return others > 1 && bytes >= kLeastByNodes && bytes * (others - 1) >= kLeastSaved;
}

}  // namespace rejoin::engine
