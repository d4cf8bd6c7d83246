// The arithmetic of process groups.
#include <gtest/gtest.h>

#include <vector>

#include "pmpi/groups.h"

namespace rejoin::pmpi {
namespace {

using Ranks = std::vector<std::uint32_t>;

template <class Operation>
Ranks apply(Operation operation, const Ranks& a, const Ranks& b) {
  Ranks out(a.size() + b.size());
  out.resize(static_cast<std::size_t>(operation(WorldRanks(a), WorldRanks(b), out.data())));
  return out;
}

TEST(Groups, SetOperationsKeepTheOrderOfTheFirst) {
  const Ranks a = {5, 1, 3}, b = {3, 7, 5, 0};
  EXPECT_EQ(apply(unite, a, b), (Ranks{5, 1, 3, 7, 0}));
  EXPECT_EQ(apply(unite, b, a), (Ranks{3, 7, 5, 0, 1}));
  EXPECT_EQ(apply(intersect, a, b), (Ranks{5, 3}));
  EXPECT_EQ(apply(intersect, b, a), (Ranks{3, 5}));
  EXPECT_EQ(apply(subtract, a, b), (Ranks{1}));
  EXPECT_EQ(apply(subtract, b, a), (Ranks{7, 0}));
}

TEST(Groups, SetOperationsWithNothing) {
  const Ranks a = {2, 1}, none;
  EXPECT_EQ(apply(unite, none, a), a);
  EXPECT_EQ(apply(unite, a, none), a);
  EXPECT_EQ(apply(intersect, a, none), none);
  EXPECT_EQ(apply(subtract, a, none), a);
  EXPECT_EQ(apply(subtract, none, a), none);
}

TEST(Groups, Compare) {
  EXPECT_EQ(compare_groups(Ranks{1, 2}, Ranks{1, 2}), GroupOrder::kIdent);
  EXPECT_EQ(compare_groups(Ranks{1, 2}, Ranks{2, 1}), GroupOrder::kSimilar);
  EXPECT_EQ(compare_groups(Ranks{1, 2}, Ranks{1, 3}), GroupOrder::kUnequal);
  EXPECT_EQ(compare_groups(Ranks{1, 2}, Ranks{1}), GroupOrder::kUnequal);
  EXPECT_EQ(compare_groups(Ranks{}, Ranks{}), GroupOrder::kIdent);
}

TEST(Groups, Positions) {
  const Ranks group = {9, 0, 1023};
  const Positions positions(group);
  EXPECT_EQ(positions.of(9), 0);
  EXPECT_EQ(positions.of(0), 1);
  EXPECT_EQ(positions.of(1023), 2);
  EXPECT_FALSE(positions.has(1));
}

TEST(Groups, DistinctRanks) {
  const int good[] = {2, 0, 1}, twice[] = {2, 0, 2}, negative[] = {-1}, large[] = {3};
  EXPECT_TRUE(are_distinct_ranks(3, 3, good));
  EXPECT_TRUE(are_distinct_ranks(3, 0, nullptr));
  EXPECT_FALSE(are_distinct_ranks(3, 3, twice));
  EXPECT_FALSE(are_distinct_ranks(3, 1, negative));
  EXPECT_FALSE(are_distinct_ranks(3, 1, large));
}

std::vector<int> expand(int size, const std::vector<std::array<int, 3>>& ranges) {
  std::vector<int> out(static_cast<std::size_t>(size));
  const auto* triplets = reinterpret_cast<const int(*)[3]>(ranges.data());
  const int n = expand_ranges(size, static_cast<int>(ranges.size()), triplets, out.data());
  if (n < 0) return {-1};
  out.resize(static_cast<std::size_t>(n));
  return out;
}

TEST(Groups, Ranges) {
  EXPECT_EQ(expand(10, {{1, 7, 2}}), (std::vector<int>{1, 3, 5, 7}));
  EXPECT_EQ(expand(10, {{1, 8, 3}, {9, 0, -9}}), (std::vector<int>{1, 4, 7, 9, 0}));
  EXPECT_EQ(expand(10, {{4, 4, 1}, {6, 5, -1}}), (std::vector<int>{4, 6, 5}));
  EXPECT_EQ(expand(10, {}), std::vector<int>{});
  EXPECT_EQ(expand(10, {{0, 9, 1 << 30}, {9, 1, -(1 << 30)}}), (std::vector<int>{0, 9}));
}

TEST(Groups, WrongRanges) {
  const std::vector<int> wrong = {-1};
  EXPECT_EQ(expand(10, {{0, 3, 0}}), wrong);
  EXPECT_EQ(expand(10, {{5, 2, 1}}), wrong);
  EXPECT_EQ(expand(10, {{5, 4, 2}}), wrong);
  EXPECT_EQ(expand(10, {{0, 1, 1}, {2, 5, -1}}), wrong);
  EXPECT_EQ(expand(10, {{0, 10, 1}}), wrong);
  EXPECT_EQ(expand(10, {{-1, 3, 1}}), wrong);
  EXPECT_EQ(expand(10, {{0, 3, 1}, {3, 4, 1}}), wrong);
  EXPECT_EQ(expand(3, {{0, 2, 1}, {0, 2, 1}}), wrong);
}

TEST(Groups, Exclude) {
  const Ranks group = {4, 5, 6, 7};
  const int ranks[] = {3, 1};
  Ranks out(4);
  out.resize(static_cast<std::size_t>(exclude(group, 2, ranks, out.data())));
  EXPECT_EQ(out, (Ranks{4, 6}));
}

TEST(Groups, PartsAreOrderedByKeyThenByRank) {
  const std::vector<ColourAndKey> given = {{1, 5}, {0, 0}, {1, -2}, {1, 5}, {2, 0}, {1, 4}};
  Ranks out(given.size());
  out.resize(static_cast<std::size_t>(members_of_part(given, 1, out.data())));
  EXPECT_EQ(out, (Ranks{2, 5, 0, 3}));
  EXPECT_EQ(members_of_part(given, 7, out.data()), 0);
}

}  // namespace
}  // namespace rejoin::pmpi
