#pragma once

// The topologies that topology.c queries and in which neighbours.c communicates.

#include "check.h"

// MPI_UNWEIGHTED is not an array, although the prototypes declare arrays.
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wstringop-overread"

/** A grid of all ranks; dimension i is periodic if bit i of `periodic` is set. */
typedef struct {
  MPI_Comm comm;
  int n;
  int dims[4];
  int periods[4];
  int coords[4];
  int rank;
  int size;
} Cart;

static inline Cart make_cart(int n, int periodic) {
  Cart c = {.comm = MPI_COMM_NULL, .n = n};
  OK(MPI_Dims_create(check_state.size, n, c.dims));
  for (int i = 0; i < n; ++i) c.periods[i] = periodic >> i & 1;
  OK(MPI_Cart_create(MPI_COMM_WORLD, n, c.dims, c.periods, 0, &c.comm));
  OK(MPI_Comm_rank(c.comm, &c.rank));
  OK(MPI_Comm_size(c.comm, &c.size));
  OK(MPI_Cart_coords(c.comm, c.rank, n, c.coords));
  return c;
}

/** Makes a star: every rank is a neighbour of rank 0, which is also its own neighbour. */
static inline MPI_Comm make_star(void) {
  const int n = check_state.size;
  int* index = new_ints(n);
  int* edges = new_ints(2 * n);
  index[0] = n;
  for (int i = 0; i < n; ++i) edges[i] = i;
  for (int i = 1; i < n; ++i) index[i] = n + i;
  MPI_Comm star = MPI_COMM_NULL;
  OK(MPI_Graph_create(MPI_COMM_WORLD, n, index, edges, 0, &star));
  int* got_index = new_ints(n);
  int* got_edges = new_ints(2 * n);
  int nodes = -1;
  int ends = -1;
  OK(MPI_Graphdims_get(star, &nodes, &ends));
  check_i64("nodes", n, nodes);
  check_i64("edges", 2 * n - 1, ends);
  OK(MPI_Graph_get(star, nodes, ends, got_index, got_edges));
  check_ints("index", index, got_index, nodes);
  check_ints("edges", edges, got_edges, ends);
  free(index);
  free(edges);
  free(got_index);
  free(got_edges);
  return star;
}

// A distributed graph: rank r has edges to r+1 and r+2, and one more to r+1.

enum { kOut = 3 };
static const int kSteps[kOut] = {1, 2, 1};

static inline int weight(int from, int i) { return 10 * from + i; }

/** Makes the graph. Every rank passes its own edges, or (everybody_else) those of the next. */
static inline MPI_Comm make_by_edges(int weighted, int everybody_else) {
  const int n = check_state.size;
  const int from = (check_state.rank + everybody_else) % n;
  const int degree = kOut;
  int targets[kOut];
  int weights[kOut];
  for (int i = 0; i < kOut; ++i) {
    targets[i] = (from + kSteps[i]) % n;
    weights[i] = weight(from, i);
  }
  MPI_Comm comm = MPI_COMM_NULL;
  OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &from, &degree, targets,
                           weighted ? weights : MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
  return comm;
}

/** Makes the graph: every rank passes the edges at which it ends. Edges between the same two ranks
 * are in the same order at both. */
static inline MPI_Comm make_adjacent(int weighted) {
  const int n = check_state.size;
  const int me = check_state.rank;
  int lists[4][kOut];
  for (int i = 0; i < kOut; ++i) {
    lists[0][i] = (me + 2 * n - kSteps[i]) % n;
    lists[1][i] = weight(lists[0][i], i);
    lists[2][i] = (me + kSteps[i]) % n;
    lists[3][i] = weight(me, i);
  }
  MPI_Comm comm = MPI_COMM_NULL;
  OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, kOut, lists[0],
                                    weighted ? lists[1] : MPI_UNWEIGHTED, kOut, lists[2],
                                    weighted ? lists[3] : MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
  return comm;
}

enum { kHows = 3 };
static inline MPI_Comm make_dist_graph(int how, int weighted) {
  return how < 2 ? make_by_edges(weighted, how) : make_adjacent(weighted);
}
