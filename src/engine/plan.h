// Pure arithmetic: which algorithm, which slice, which chunk. A function of the job's layout, the
// number of elements, the datatype and the operation only, so that the order of a reduction, and
// with it every bit of the result, is the same however often it is executed and wherever.
//
//     n     members                       S     bytes of one contribution
//     flat     every member reads all contributions:            n*S read by each, one meeting
//     leader   one member reads all, the others read its record: (n+1)*S in all, two meetings
//     sliced   member i reduces slice i of every chunk into one extent that all read:
//              S*(n-1)/n staged, S reduced and S read by each, K + 1 meetings for K chunks
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/names.h"
#include "journal/layout.h"

namespace rejoin::engine {

enum class Algorithm { kFlat, kLeader, kSliced };

inline constexpr std::size_t kFlatTotalBytes = 16 * 1024;  // n*S up to which flat beats sliced
inline constexpr std::uint32_t kLeaderRanks = 24;          // n from which a leader beats flat

constexpr Algorithm algorithm_for(std::uint32_t n, std::size_t contribution_bytes) {
  if (contribution_bytes * n > kFlatTotalBytes && contribution_bytes > kSlotBytes) {
    return Algorithm::kSliced;
  }
  return n >= kLeaderRanks ? Algorithm::kLeader : Algorithm::kFlat;
}

// A vector cut into chunks that fit staging, and a chunk into one slice a member.
struct ChunkPlan {
  std::size_t bytes;          // of the vector
  std::size_t element_bytes;  // never split
  std::size_t chunk_bytes;    // of all chunks but the last
  std::uint32_t chunks;
  std::uint32_t n;

  std::size_t chunk_begin(std::uint32_t k) const { return k * chunk_bytes; }
  std::size_t chunk_size(std::uint32_t k) const {
    return std::min(chunk_bytes, bytes - chunk_begin(k));
  }
  // Bytes [begin, end) of chunk k, relative to the chunk, that member i reduces. Cut at cache lines
  // as far as elements allow, so that neighbours do not share one.
  struct Slice {
    std::size_t begin, end;
  };
  Slice slice(std::uint32_t k, std::uint32_t i) const { return {cut(k, i), cut(k, i + 1)}; }

 private:
  std::size_t cut(std::uint32_t k, std::uint32_t i) const {
    if (i == n) return chunk_size(k);
    const std::size_t grain = std::max(element_bytes, kLine / element_bytes * element_bytes);
    const std::size_t grains = chunk_size(k) / grain;
    return grains * i / n * grain;
  }
};

constexpr ChunkPlan chunk_plan(std::uint32_t n, std::size_t bytes, std::size_t element_bytes,
                               std::size_t chunk_limit_bytes) {
  const std::size_t chunk =
      std::max(chunk_limit_bytes / element_bytes, std::size_t{1}) * element_bytes;
  const std::size_t chunks = bytes == 0 ? 0 : (bytes + chunk - 1) / chunk;
  return {bytes, element_bytes, chunk, static_cast<std::uint32_t>(chunks), n};
}

}  // namespace rejoin::engine
