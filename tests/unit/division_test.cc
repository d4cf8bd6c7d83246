// Which bytes of a departure each node reads (engine/division.h).
#include "engine/division.h"

#include <gtest/gtest.h>

#include <vector>

namespace rejoin::engine {
namespace {

// Requires that the slices of all nodes that read follow each other, cover all bytes and split no
// element, and that the others read nothing.
void expect_whole(std::uint32_t nodes, std::size_t bytes, const Division& division) {
  std::size_t end = 0;
  for (std::uint32_t k = 0; k < nodes; ++k) {
    const Slice s = slice_for(k, nodes, bytes, division);
    if (!division.is_read_by(k)) {
      EXPECT_EQ(s.begin, s.end);
      continue;
    }
    EXPECT_EQ(s.begin, end);
    EXPECT_EQ(s.begin % division.element_bytes, 0u);
    end = s.end;
  }
  EXPECT_EQ(end, bytes) << nodes << " nodes, element " << division.element_bytes;
}

TEST(Division, SlicesCoverAllBytes) {
  for (std::uint32_t nodes = 2; nodes < 20; ++nodes) {
    for (const std::uint32_t element : {1u, 4u, 8u, 24u, 100u}) {
      for (const std::size_t elements : {1000u, 4097u, 65536u}) {
        expect_whole(nodes, elements * element, {.element_bytes = element});
        for (std::uint32_t k = 0; k < nodes; ++k) {
          expect_whole(nodes, elements * element,
                       {.element_bytes = element, .readers = Division::all_but(k)});
        }
      }
    }
  }
}

TEST(Division, ReadersAreAllOrOneOrAllButOne) {
  for (std::uint32_t k = 0; k < 5; ++k) {
    EXPECT_TRUE(Division{}.is_read_by(k));
    EXPECT_EQ(Division{.readers = Division::only(2)}.is_read_by(k), k == 2);
    EXPECT_EQ(Division{.readers = Division::all_but(2)}.is_read_by(k), k != 2);
    EXPECT_EQ(Division{.readers = Division::only(0)}.is_read_by(k), k == 0);
    EXPECT_EQ(Division{.readers = Division::all_but(0)}.is_read_by(k), k != 0);
  }
}

TEST(Division, WithoutElementsEachReaderReadsAll) {
  const Division one = {.readers = Division::only(1)};
  EXPECT_EQ(slice_for(1, 3, 1000, one).end, 1000u);
  EXPECT_EQ(slice_for(2, 3, 1000, one).end, 0u);
  EXPECT_EQ(slice_for(2, 3, 1000, {}).end, 1000u);
}

TEST(Division, ScattersWhenTheRootsLinkIsSparedEnough) {
  EXPECT_FALSE(is_scattered(2, std::size_t{1} << 30));
  EXPECT_FALSE(is_scattered(3, kLeastSaved - 1));
  EXPECT_TRUE(is_scattered(3, kLeastSaved));
  EXPECT_FALSE(is_scattered(100, kLeastScattered - 1));
  EXPECT_TRUE(is_scattered(100, kLeastScattered));
  EXPECT_FALSE(is_reduced_by_nodes(1, std::size_t{1} << 30));
  EXPECT_TRUE(is_reduced_by_nodes(2, kLeastSaved));
  EXPECT_FALSE(is_reduced_by_nodes(1000, kLeastByNodes - 1));
  EXPECT_TRUE(is_reduced_by_nodes(1000, kLeastByNodes));
}

}  // namespace
}  // namespace rejoin::engine
