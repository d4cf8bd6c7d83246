// Arithmetic of process groups: ordered sets of world ranks. Pure. Ranks are below
// journal::kMaxRanks; outputs have room for every element of the inputs.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "journal/layout.h"

namespace rejoin::pmpi {

using WorldRanks = std::span<const std::uint32_t>;

// The place of each world rank in a group.
class Positions {
 public:
  explicit Positions(WorldRanks group) {
    position_.fill(kAbsent);
    for (std::size_t i = 0; i < group.size(); ++i) {
      position_[group[i]] = static_cast<std::int16_t>(i);
    }
  }
  bool has(std::uint32_t world) const { return position_[world] != kAbsent; }
  // REQUIRES has(world).
  int of(std::uint32_t world) const { return position_[world]; }

 private:
  static constexpr std::int16_t kAbsent = -1;
  std::array<std::int16_t, journal::kMaxRanks> position_;
};

enum class GroupOrder { kIdent, kSimilar, kUnequal };
GroupOrder compare_groups(WorldRanks a, WorldRanks b);

// The set operations of MPI 3.1 section 6.3.2. They return the size of the result, whose order is
// that of `a`, followed in a union by that of `b`.
int unite(WorldRanks a, WorldRanks b, std::uint32_t* out);
int intersect(WorldRanks a, WorldRanks b, std::uint32_t* out);
int subtract(WorldRanks a, WorldRanks b, std::uint32_t* out);

// Whether ranks[0..n) are different from each other and lie in [0, size).
bool are_distinct_ranks(int size, int n, const int* ranks);

// Lists the ranks of triplets (first, last, stride) in `out`, which has room for `size`. Returns
// their number; -1: they are not different from each other, or not all in [0, size), or a stride
// leads away from `last`, which is an error as in Open MPI, although the standard's formula gives
// no ranks.
int expand_ranges(int size, int n, const int (*ranges)[3], int* out);

// Puts `group` without its elements number ranks[0..n) into `out`. Returns the size. REQUIRES
// are_distinct_ranks.
int exclude(WorldRanks group, int n, const int* ranks, std::uint32_t* out);

// What each member of a communicator gives to MPI_Comm_split.
struct ColourAndKey {
  std::int32_t colour;
  std::int32_t key;
};
// Lists the members of the part with `colour`: indices into `given`, ordered by key and then by
// index. Returns their number.
int members_of_part(std::span<const ColourAndKey> given, int colour, std::uint32_t* out);

}  // namespace rejoin::pmpi
