// Arithmetic of process topologies (MPI 3.1 chapter 7). Pure. Ranks are those of the communicator
// that has the topology.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rejoin::pmpi {

using Ints = std::span<const int>;

inline constexpr int kNowhere = -1;  // returned for a place beyond the border of a grid

// --- Cartesian: ranks in row-major order, so the last coordinate varies fastest

struct Grid {
  Ints dims;     // each at least 1
  Ints periods;  // one for each dimension; not 0: the coordinate wraps
};

// Returns how many ranks a grid has. INT_MAX: that many or more; 0: a dimension is less than 1.
int positions_of(Ints dims);

// Returns the rank at these coordinates, one for each dimension, or kNowhere.
int rank_at(const Grid& grid, Ints coords);

// Gives the first coords.size() coordinates of a rank, or all if there are fewer.
void coords_of(Ints dims, int rank, std::span<int> coords);

// Returns the rank at a distance of `displacement` in a dimension, or kNowhere.
int shifted(const Grid& grid, int rank, int dimension, std::int64_t displacement);

// Returns which of the grids of MPI_Cart_sub a rank is in. The ranks of one grid agree in the
// coordinates that do not remain, and keep their order.
int part_of(Ints dims, Ints remain, int rank);

// Replaces the zeros in `dims` so that the product is `nodes`, as Open MPI does: each prime factor,
// largest first, is multiplied into the smallest dimension so far, and the results are sorted in
// falling order. False: it cannot be done.
bool balance_dims(int nodes, std::span<int> dims);

// --- Graphs: the neighbours of node i are edges[index[i - 1]..index[i]), index[-1] being 0

bool is_index(Ints index);  // whether it begins at 0 or more and never decreases
bool are_ranks(Ints ranks, int size);
// REQUIRES is_index(index), and rank < index.size().
Ints neighbours_of(Ints index, Ints edges, int rank);

// --- Distributed graphs

struct Edge {
  int from;
  int to;
  int weight;
};

// The part of a distributed graph that one rank knows. Edges between the same two ranks are in the
// same order at both.
struct Neighbours {
  std::span<int> sources, source_weights;
  std::span<int> destinations, destination_weights;
};

std::size_t in_degree(std::span<const Edge> edges, int rank);
std::size_t out_degree(std::span<const Edge> edges, int rank);
// Fills `out` with the neighbours of a rank. REQUIRES that `out` has room for in_degree() sources
// and out_degree() destinations, and for as many weights.
void collect_neighbours(std::span<const Edge> edges, int rank, const Neighbours& out);

}  // namespace rejoin::pmpi
