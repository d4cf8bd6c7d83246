#include "pmpi/topology.h"

#include <algorithm>
#include <array>
#include <climits>
#include <functional>

namespace rejoin::pmpi {
namespace {

// Returns the difference between the ranks of two neighbours in a dimension.
int stride_of(Ints dims, std::size_t dimension) {
  int stride = 1;
  for (std::size_t i = dimension + 1; i < dims.size(); ++i) stride *= dims[i];
  return stride;
}

// Returns the coordinate reduced to [0, extent); kNowhere: it is outside of a dimension that is not
// periodic.
int wrap(std::int64_t coordinate, int extent, bool periodic) {
  if (coordinate >= 0 && coordinate < extent) return static_cast<int>(coordinate);
  if (!periodic) return kNowhere;
  const std::int64_t rest = coordinate % extent;
  return static_cast<int>(rest < 0 ? rest + extent : rest);
}

// A number below 2^31 has at most 30 prime factors.
constexpr std::size_t kMostFactors = 30;
struct Factors {
  std::array<int, kMostFactors> prime;  // rising
  std::size_t count = 0;
};

Factors factors_of(int number) {
  Factors f;
  for (int p = 2; static_cast<std::int64_t>(p) * p <= number; ++p) {
    for (; number % p == 0; number /= p) f.prime[f.count++] = p;
  }
  if (number > 1) f.prime[f.count++] = number;
  return f;
}

}  // namespace

int positions_of(Ints dims) {
  std::int64_t positions = 1;
  for (const int d : dims) {
    if (d < 1) return 0;
    positions = std::min<std::int64_t>(positions * d, INT_MAX);
  }
  return static_cast<int>(positions);
}

int rank_at(const Grid& grid, Ints coords) {
  int rank = 0;
  for (std::size_t i = 0; i < grid.dims.size(); ++i) {
    const int c = wrap(coords[i], grid.dims[i], grid.periods[i] != 0);
    if (c == kNowhere) return kNowhere;
    rank = rank * grid.dims[i] + c;
  }
  return rank;
}

void coords_of(Ints dims, int rank, std::span<int> coords) {
  for (std::size_t i = 0; i < std::min(dims.size(), coords.size()); ++i) {
    coords[i] = rank / stride_of(dims, i) % dims[i];
  }
}

int shifted(const Grid& grid, int rank, int dimension, std::int64_t displacement) {
  const auto d = static_cast<std::size_t>(dimension);
  const int stride = stride_of(grid.dims, d), here = rank / stride % grid.dims[d];
  const int there = wrap(here + displacement, grid.dims[d], grid.periods[d] != 0);
  return there == kNowhere ? kNowhere : rank + (there - here) * stride;
}

int part_of(Ints dims, Ints remain, int rank) {
  int part = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (remain[i] == 0) part = part * dims[i] + rank / stride_of(dims, i) % dims[i];
  }
  return part;
}

bool balance_dims(int nodes, std::span<int> dims) {
  if (nodes < 1) return false;
  std::size_t unset = 0;
  for (const int d : dims) {
    if (d < 0 || (d > 0 && nodes % d != 0)) return false;
    if (d == 0) ++unset;
    if (d > 0) nodes /= d;
  }
  if (unset == 0) return nodes == 1;
  // Each prime factor enlarges one dimension, so kMostFactors entries suffice; all dimensions
  // beyond them have size 1.
  std::array<int, kMostFactors> balanced;
  balanced.fill(1);
  const auto end = balanced.begin() + static_cast<std::ptrdiff_t>(std::min(unset, kMostFactors));
  const Factors factors = factors_of(nodes);
  for (std::size_t i = factors.count; i-- > 0;) {
    *std::min_element(balanced.begin(), end) *= factors.prime[i];
  }
  std::sort(balanced.begin(), end, std::greater<>());
  std::size_t next = 0;
  for (int& d : dims) {
    if (d != 0) continue;
    d = next < kMostFactors ? balanced[next] : 1;
    ++next;
  }
  return true;
}

bool is_index(Ints index) {
  return std::is_sorted(index.begin(), index.end()) && (index.empty() || index[0] >= 0);
}

bool are_ranks(Ints ranks, int size) {
  return std::all_of(ranks.begin(), ranks.end(), [&](int r) { return r >= 0 && r < size; });
}

Ints neighbours_of(Ints index, Ints edges, int rank) {
  const auto i = static_cast<std::size_t>(rank);
  const auto begin = static_cast<std::size_t>(i == 0 ? 0 : index[i - 1]);
  return edges.subspan(begin, static_cast<std::size_t>(index[i]) - begin);
}

std::size_t in_degree(std::span<const Edge> edges, int rank) {
  return static_cast<std::size_t>(
      std::count_if(edges.begin(), edges.end(), [&](const Edge& e) { return e.to == rank; }));
}

std::size_t out_degree(std::span<const Edge> edges, int rank) {
  return static_cast<std::size_t>(
      std::count_if(edges.begin(), edges.end(), [&](const Edge& e) { return e.from == rank; }));
}

void collect_neighbours(std::span<const Edge> edges, int rank, const Neighbours& out) {
  std::size_t in = 0, to = 0;
  for (const Edge& e : edges) {
    if (e.to == rank) {
      out.sources[in] = e.from;
      out.source_weights[in++] = e.weight;
    }
    if (e.from == rank) {
      out.destinations[to] = e.to;
      out.destination_weights[to++] = e.weight;
    }
  }
}

}  // namespace rejoin::pmpi
