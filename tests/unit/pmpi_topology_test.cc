// The arithmetic of process topologies.
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <functional>
#include <numeric>
#include <vector>

#include "pmpi/topology.h"

namespace rejoin::pmpi {
namespace {

using Vector = std::vector<int>;

struct Shape {
  Vector dims, periods;
  Grid grid() const { return {dims, periods}; }
};

TEST(Topology, PositionsOfAGrid) {
  EXPECT_EQ(positions_of(Vector{}), 1);
  EXPECT_EQ(positions_of(Vector{3, 4, 5}), 60);
  EXPECT_EQ(positions_of(Vector{3, 0}), 0);
  EXPECT_EQ(positions_of(Vector{-1, -1}), 0);
  EXPECT_EQ(positions_of(Vector{INT_MAX, INT_MAX, INT_MAX}), INT_MAX);
  EXPECT_EQ(positions_of(Vector{INT_MAX, INT_MAX, 0}), 0);
}

TEST(Topology, RanksAreInRowMajorOrder) {
  const Shape s = {{2, 3, 4}, {0, 0, 0}};
  EXPECT_EQ(rank_at(s.grid(), Vector{0, 0, 1}), 1);
  EXPECT_EQ(rank_at(s.grid(), Vector{0, 1, 0}), 4);
  EXPECT_EQ(rank_at(s.grid(), Vector{1, 0, 0}), 12);
  Vector coords(3);
  for (int rank = 0; rank < 24; ++rank) {
    coords_of(s.dims, rank, coords);
    EXPECT_EQ(coords, (Vector{rank / 12, rank / 4 % 3, rank % 4}));
    EXPECT_EQ(rank_at(s.grid(), coords), rank);
  }
}

TEST(Topology, FewerAndMoreCoordinatesThanDimensions) {
  const Vector dims = {2, 3};
  Vector few = {-7}, many = {-7, -7, -7};
  coords_of(dims, 5, few);
  coords_of(dims, 5, many);
  EXPECT_EQ(few, Vector{1});
  EXPECT_EQ(many, (Vector{1, 2, -7}));
  EXPECT_EQ(rank_at({}, {}), 0);  // a grid without dimensions is one rank
}

TEST(Topology, CoordinatesWrapWhereTheGridIsPeriodic) {
  const Shape s = {{3, 4}, {1, 0}};
  EXPECT_EQ(rank_at(s.grid(), Vector{3, 1}), 1);
  EXPECT_EQ(rank_at(s.grid(), Vector{-1, 1}), 9);
  EXPECT_EQ(rank_at(s.grid(), Vector{-7, 1}), 9);
  EXPECT_EQ(rank_at(s.grid(), Vector{INT_MIN, 0}), 4);  // -2^31 = 1 modulo 3
  EXPECT_EQ(rank_at(s.grid(), Vector{0, 4}), kNowhere);
  EXPECT_EQ(rank_at(s.grid(), Vector{0, -1}), kNowhere);
}

TEST(Topology, ShiftsAreMovesOfOneCoordinate) {
  const Shape s = {{3, 4, 2}, {1, 0, 1}};
  Vector coords(3);
  for (int rank = 0; rank < 24; ++rank) {
    for (int d = 0; d < 3; ++d) {
      for (int by = -9; by <= 9; ++by) {
        coords_of(s.dims, rank, coords);
        coords[static_cast<std::size_t>(d)] += by;
        EXPECT_EQ(shifted(s.grid(), rank, d, by), rank_at(s.grid(), coords));
      }
    }
  }
  EXPECT_EQ(shifted(s.grid(), 23, 1, INT_MAX), kNowhere);
  EXPECT_EQ(shifted(s.grid(), 23, 2, INT_MAX), 22);
}

TEST(Topology, RanksOfAPartAgreeInTheDroppedCoordinates) {
  const Vector dims = {2, 3, 4};
  EXPECT_EQ(part_of(dims, Vector{1, 1, 1}, 17), 0);
  EXPECT_EQ(part_of(dims, Vector{0, 0, 0}, 17), 17);
  EXPECT_EQ(part_of(dims, Vector{1, 0, 1}, 17), 1);
  EXPECT_EQ(part_of(dims, Vector{0, 1, 0}, 17), 5);
}

Vector balanced(int nodes, Vector dims) { return balance_dims(nodes, dims) ? dims : Vector{}; }

// The results of Open MPI 4.1; tests/conformance/topology.c compares many more.
TEST(Topology, DimsAreThoseOfOpenMpi) {
  EXPECT_EQ(balanced(12, {0, 0}), (Vector{4, 3}));
  EXPECT_EQ(balanced(24, {0, 0}), (Vector{6, 4}));
  EXPECT_EQ(balanced(72, {0, 0, 0}), (Vector{6, 4, 3}));
  EXPECT_EQ(balanced(60, {0, 3, 0}), (Vector{5, 3, 4}));
  EXPECT_EQ(balanced(16, {0, 0, 0}), (Vector{4, 2, 2}));
  EXPECT_EQ(balanced(7, {0, 0}), (Vector{7, 1}));
  EXPECT_EQ(balanced(1, {0, 0}), (Vector{1, 1}));
  EXPECT_EQ(balanced(INT_MAX, {0, 0}), (Vector{INT_MAX, 1}));  // a prime
}

TEST(Topology, DimsFitTheGivenSizes) {
  for (int nodes = 1; nodes <= 1000; ++nodes) {
    for (std::size_t free = 1; free <= 5; ++free) {
      const Vector dims = balanced(nodes, Vector(free, 0));
      ASSERT_EQ(dims.size(), free);
      EXPECT_EQ(std::accumulate(dims.begin(), dims.end(), 1, std::multiplies<>()), nodes);
      EXPECT_TRUE(std::is_sorted(dims.rbegin(), dims.rend()));
    }
  }
  // There are more dimensions than any number has prime factors.
  const Vector dims = balanced(1 << 30, Vector(40, 0));
  EXPECT_EQ(std::count(dims.begin(), dims.end(), 2), 30);
  EXPECT_EQ(std::count(dims.begin(), dims.end(), 1), 10);
}

TEST(Topology, InvalidDims) {
  Vector none, fixed = {2, 2}, wrong = {3, 0}, negative = {-1, 0}, both = {4, 4, 0};
  EXPECT_TRUE(balance_dims(1, none));
  EXPECT_FALSE(balance_dims(2, none));
  EXPECT_TRUE(balance_dims(4, fixed));
  EXPECT_FALSE(balance_dims(8, fixed));
  EXPECT_FALSE(balance_dims(4, wrong));
  EXPECT_FALSE(balance_dims(4, negative));
  EXPECT_FALSE(balance_dims(8, both));  // each given size divides 8, but their product does not
  EXPECT_FALSE(balance_dims(0, wrong));
  EXPECT_FALSE(balance_dims(-4, wrong));
}

TEST(Topology, Graphs) {
  const Vector index = {2, 3, 3, 4}, edges = {1, 3, 0, 0};
  EXPECT_TRUE(is_index(index));
  EXPECT_TRUE(is_index(Vector{}));
  EXPECT_FALSE(is_index(Vector{2, 1}));
  EXPECT_FALSE(is_index(Vector{-1, 1}));
  EXPECT_TRUE(are_ranks(edges, 4));
  EXPECT_FALSE(are_ranks(edges, 3));
  EXPECT_FALSE(are_ranks(Vector{-1}, 3));
  const auto neighbours = [&](int rank) {
    const Ints n = neighbours_of(index, edges, rank);
    return Vector(n.begin(), n.end());
  };
  EXPECT_EQ(neighbours(0), (Vector{1, 3}));
  EXPECT_EQ(neighbours(1), (Vector{0}));
  EXPECT_EQ(neighbours(2), (Vector{}));
  EXPECT_EQ(neighbours(3), (Vector{0}));
}

TEST(Topology, DistributedGraphs) {
  const std::vector<Edge> edges = {{0, 1, 5}, {2, 1, 6}, {0, 1, 7}, {1, 1, 8}, {1, 0, 9}};
  EXPECT_EQ(in_degree(edges, 1), 4u);
  EXPECT_EQ(out_degree(edges, 1), 2u);
  EXPECT_EQ(in_degree(edges, 2), 0u);
  Vector sources(4), source_weights(4), destinations(2), destination_weights(2);
  collect_neighbours(edges, 1, {sources, source_weights, destinations, destination_weights});
  EXPECT_EQ(sources, (Vector{0, 2, 0, 1}));
  EXPECT_EQ(source_weights, (Vector{5, 6, 7, 8}));
  EXPECT_EQ(destinations, (Vector{1, 0}));
  EXPECT_EQ(destination_weights, (Vector{8, 9}));
}

}  // namespace
}  // namespace rejoin::pmpi
