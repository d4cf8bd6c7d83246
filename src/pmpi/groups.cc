#include "pmpi/groups.h"

namespace rejoin::pmpi {

GroupOrder compare_groups(WorldRanks a, WorldRanks b) {
  if (a.size() != b.size()) return GroupOrder::kUnequal;
  const Positions in_b(b);
  bool same_order = true;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!in_b.has(a[i])) return GroupOrder::kUnequal;
    same_order &= a[i] == b[i];
  }
  return same_order ? GroupOrder::kIdent : GroupOrder::kSimilar;
}

int unite(WorldRanks a, WorldRanks b, std::uint32_t* out) {
  int n = 0;
  for (const std::uint32_t r : a) out[n++] = r;
  return n + subtract(b, a, out + n);
}

int intersect(WorldRanks a, WorldRanks b, std::uint32_t* out) {
  const Positions in_b(b);
  int n = 0;
  for (const std::uint32_t r : a) {
    if (in_b.has(r)) out[n++] = r;
  }
  return n;
}

int subtract(WorldRanks a, WorldRanks b, std::uint32_t* out) {
  const Positions in_b(b);
  int n = 0;
  for (const std::uint32_t r : a) {
    if (!in_b.has(r)) out[n++] = r;
  }
  return n;
}

bool are_distinct_ranks(int size, int n, const int* ranks) {
  std::array<bool, journal::kMaxRanks> seen = {};
  for (int i = 0; i < n; ++i) {
    if (ranks[i] < 0 || ranks[i] >= size || seen[ranks[i]]) return false;
    seen[ranks[i]] = true;
  }
  return true;
}

int expand_ranges(int size, int n, const int (*ranges)[3], int* out) {
  int count = 0;
  for (int i = 0; i < n; ++i) {
    const auto [first, last, stride] = ranges[i];
    if (stride == 0 || first < 0 || first >= size || last < 0 || last >= size) return -1;
    if (stride > 0 ? first > last : first < last) return -1;
    for (int r = first; stride > 0 ? r <= last : r >= last; r += stride) {
      if (count == size) return -1;  // some rank is there twice
      out[count++] = r;
      if (stride >= size || -stride >= size) break;  // the next rank would be outside [0, size)
    }
  }
  return are_distinct_ranks(size, count, out) ? count : -1;
}

int exclude(WorldRanks group, int n, const int* ranks, std::uint32_t* out) {
  std::array<bool, journal::kMaxRanks> excluded = {};
  for (int i = 0; i < n; ++i) excluded[ranks[i]] = true;
  int count = 0;
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (!excluded[i]) out[count++] = group[i];
  }
  return count;
}

int members_of_part(std::span<const ColourAndKey> given, int colour, std::uint32_t* out) {
  int n = 0;
  for (std::uint32_t i = 0; i < given.size(); ++i) {
    if (given[i].colour != colour) continue;
    int at = n++;
    for (; at > 0 && given[out[at - 1]].key > given[i].key; --at) out[at] = out[at - 1];
    out[at] = i;
  }
  return n;
}

}  // namespace rejoin::pmpi
