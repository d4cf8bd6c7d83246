// Conformance of process topologies: Cartesian, graph and distributed graph. neighbours.c tests the
// collectives on them.

#include <mpi.h>

#include "check.h"
#include "topologies.h"

enum { kTag = 5 };

/** Requires `call` to fail with an error of class `expected`. */
#define FAILS(expected, call) check_class(#call, expected, (call))
static void check_class(const char* what, int expected, int code) {
  int got = -1;
  OK(MPI_Error_class(code, &got));
  check_i64(what, expected, got);
}

static int smaller(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }

// --- Dims_create

static void test_dims(void) {
  check_context("dims");
  for (int nodes = 1; nodes <= 4096; ++nodes) {
    for (int n = 1; n <= 6; ++n) {
      int dims[6] = {0};
      OK(MPI_Dims_create(nodes, n, dims));
      int product = 1;
      for (int i = 0; i < n; ++i) {
        product *= dims[i];
        check_true("positive", dims[i] >= 1);
        if (i > 0) check_true("falling", dims[i] <= dims[i - 1]);
        check_state.digest = hash_step(check_state.digest, (uint64_t)dims[i]);
      }
      check_i64("product", nodes, product);
    }
  }
  static const int kLarge[] = {1 << 30, 2147483647, 735134400, 46341 * 46339, 65536 * 3};
  for (int i = 0; i < 5; ++i) {
    int dims[4] = {0};
    OK(MPI_Dims_create(kLarge[i], 4, dims));
    for (int k = 0; k < 4; ++k) {
      check_state.digest = hash_step(check_state.digest, (uint64_t)dims[k]);
    }
  }
  int some[4] = {0, 3, 0, 1};
  static const int kSome[] = {4, 3, 2, 1};
  OK(MPI_Dims_create(24, 4, some));
  check_ints("with given ones", kSome, some, 4);
  OK(MPI_Dims_create(24, 4, some));
  check_ints("all given", kSome, some, 4);
  OK(MPI_Dims_create(1, 0, some));
  FAILS(MPI_ERR_DIMS, MPI_Dims_create(25, 4, some));
  FAILS(MPI_ERR_DIMS, MPI_Dims_create(0, 2, some));
  FAILS(MPI_ERR_DIMS, MPI_Dims_create(4, -1, some));
  FAILS(MPI_ERR_DIMS, MPI_Dims_create(2, 0, some));
  int wrong[2] = {-1, 0};
  FAILS(MPI_ERR_DIMS, MPI_Dims_create(4, 2, wrong));
  wrong[0] = 3;
  FAILS(MPI_ERR_DIMS, MPI_Dims_create(4, 2, wrong));
}

// --- Cartesian

/** Returns the rank at a distance of `by` in dimension d, computed without MPI. */
static int neighbour(const Cart* c, int d, int by) {
  int rank = 0;
  for (int i = 0; i < c->n; ++i) {
    int at = c->coords[i] + (i == d ? by : 0);
    if (at < 0 || at >= c->dims[i]) {
      if (!c->periods[i]) return MPI_PROC_NULL;
      at = (at % c->dims[i] + c->dims[i]) % c->dims[i];
    }
    rank = rank * c->dims[i] + at;
  }
  return rank;
}

static void check_cart(const Cart* c, MPI_Comm comm) {
  int kind = -1;
  int n = -1;
  int dims[4];
  int periods[4];
  int coords[4];
  OK(MPI_Topo_test(comm, &kind));
  check_i64("kind", MPI_CART, kind);
  OK(MPI_Cartdim_get(comm, &n));
  check_i64("dimensions", c->n, n);
  OK(MPI_Cart_get(comm, n, dims, periods, coords));
  check_ints("dims", c->dims, dims, n);
  check_ints("periods", c->periods, periods, n);
  check_ints("coords", c->coords, coords, n);
}

static void test_cart(int n, int periodic) {
  check_context("grid of %d dimensions, periodic %d", n, periodic);
  Cart c = make_cart(n, periodic);
  check_i64("size", check_state.size, c.size);
  check_cart(&c, c.comm);
  for (int r = 0; r < c.size; ++r) {
    int coords[4];
    int back = -1;
    OK(MPI_Cart_coords(c.comm, r, n, coords));
    OK(MPI_Cart_rank(c.comm, coords, &back));
    check_i64("rank of coords", r, back);
    for (int d = 0; d < n; ++d) {
      if (!c.periods[d]) continue;
      coords[d] -= 3 * c.dims[d];
      OK(MPI_Cart_rank(c.comm, coords, &back));
      check_i64("rank of coords beyond", r, back);
    }
  }
  for (int d = 0; d < n; ++d) {
    for (int by = -5; by <= 5; ++by) {
      int source = -7;
      int dest = -7;
      OK(MPI_Cart_shift(c.comm, d, by, &source, &dest));
      check_i64("source", neighbour(&c, d, -by), source);
      check_i64("dest", neighbour(&c, d, by), dest);
      int in = -1;
      OK(MPI_Sendrecv(&c.rank, 1, MPI_INT, dest, kTag, &in, 1, MPI_INT, source, kTag, c.comm,
                      MPI_STATUS_IGNORE));
      check_i64("shifted", source == MPI_PROC_NULL ? -1 : source, in);
    }
  }
  MPI_Comm copy = MPI_COMM_NULL;
  OK(MPI_Comm_dup(c.comm, &copy));
  OK(MPI_Comm_free(&c.comm));
  check_cart(&c, copy);
  OK(MPI_Comm_free(&copy));
}

static void test_cart_sub(int n, int remain_bits) {
  check_context("sub-grids, dimensions %d of %d", remain_bits, n);
  Cart c = make_cart(n, 2);
  int remain[4];
  Cart part = {.comm = MPI_COMM_NULL, .n = 0};
  for (int i = 0; i < n; ++i) {
    remain[i] = remain_bits >> i & 1;
    if (!remain[i]) continue;
    part.dims[part.n] = c.dims[i];
    part.periods[part.n] = c.periods[i];
    part.coords[part.n++] = c.coords[i];
  }
  OK(MPI_Cart_sub(c.comm, remain, &part.comm));
  check_cart(&part, part.comm);
  OK(MPI_Comm_size(part.comm, &part.size));
  OK(MPI_Comm_rank(part.comm, &part.rank));
  int ranks = 1;
  for (int i = 0; i < part.n; ++i) ranks *= part.dims[i];
  check_i64("size", ranks, part.size);
  check_i64("rank", part.n == 0 ? 0 : neighbour(&part, 0, 0), part.rank);
  int sum = -1;
  int expected = 0;
  OK(MPI_Allreduce(&c.rank, &sum, 1, MPI_INT, MPI_SUM, part.comm));
  for (int r = 0; r < c.size; ++r) {
    int coords[4];
    int in_part = 1;
    OK(MPI_Cart_coords(c.comm, r, n, coords));
    for (int i = 0; i < n; ++i) in_part = in_part && (remain[i] || coords[i] == c.coords[i]);
    if (in_part) expected += r;
  }
  check_i64("sum", expected, sum);
  OK(MPI_Comm_free(&part.comm));
  OK(MPI_Comm_free(&c.comm));
}

/** Makes grids that are smaller than the world, and one without dimensions. */
static void test_small_carts(void) {
  check_context("small grids");
  const int used = (check_state.size + 1) / 2;
  const int me = check_state.rank;
  int period = 1;
  int n = -1;
  int where = -1;
  MPI_Comm comm = MPI_COMM_WORLD;
  OK(MPI_Cart_map(MPI_COMM_WORLD, 1, &used, &period, &where));
  if (me < used) check_i64("map", me, where);  // Open MPI does not return MPI_UNDEFINED elsewhere
  OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &used, &period, 0, &comm));
  check_true("member", (comm != MPI_COMM_NULL) == (me < used));
  if (comm != MPI_COMM_NULL) OK(MPI_Comm_free(&comm));
  OK(MPI_Cart_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &comm));
  check_true("member without dimensions", (comm != MPI_COMM_NULL) == (me == 0));
  if (comm == MPI_COMM_NULL) return;
  int size = -1;
  OK(MPI_Comm_size(comm, &size));
  check_i64("size without dimensions", 1, size);
  OK(MPI_Cartdim_get(comm, &n));
  check_i64("dimensions", 0, n);
  OK(MPI_Comm_free(&comm));
}

static void test_cart_errors(void) {
  check_context("errors of grids");
  int dims[2] = {1, 1};
  int periods[2] = {0, 1};
  int coords[2] = {0, 0};
  int large[2] = {check_state.size, 2};
  int a = -1;
  int b = -1;
  MPI_Comm comm = MPI_COMM_NULL;
  FAILS(MPI_ERR_ARG, MPI_Cart_create(MPI_COMM_WORLD, -1, dims, periods, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Cart_create(MPI_COMM_WORLD, 2, large, periods, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Cart_create(MPI_COMM_WORLD, 2, NULL, periods, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Cart_create(MPI_COMM_WORLD, 2, dims, NULL, 0, &comm));
  FAILS(MPI_ERR_COMM, MPI_Cart_create(MPI_COMM_NULL, 2, dims, periods, 0, &comm));
  FAILS(MPI_ERR_TOPOLOGY, MPI_Cartdim_get(MPI_COMM_WORLD, &a));
  FAILS(MPI_ERR_TOPOLOGY, MPI_Cart_get(MPI_COMM_WORLD, 2, dims, periods, coords));
  FAILS(MPI_ERR_TOPOLOGY, MPI_Cart_rank(MPI_COMM_WORLD, coords, &a));
  FAILS(MPI_ERR_TOPOLOGY, MPI_Cart_coords(MPI_COMM_WORLD, 0, 2, coords));
  FAILS(MPI_ERR_TOPOLOGY, MPI_Cart_shift(MPI_COMM_WORLD, 0, 1, &a, &b));
  FAILS(MPI_ERR_TOPOLOGY, MPI_Cart_sub(MPI_COMM_WORLD, coords, &comm));
  FAILS(MPI_ERR_TOPOLOGY, MPI_Graphdims_get(MPI_COMM_WORLD, &a, &b));
  FAILS(MPI_ERR_TOPOLOGY, MPI_Graph_get(MPI_COMM_WORLD, 1, 1, &a, &b));
  FAILS(MPI_ERR_TOPOLOGY, MPI_Graph_neighbors_count(MPI_COMM_WORLD, 0, &a));
  FAILS(MPI_ERR_TOPOLOGY, MPI_Graph_neighbors(MPI_COMM_WORLD, 0, 1, &a));
  FAILS(MPI_ERR_TOPOLOGY, MPI_Dist_graph_neighbors_count(MPI_COMM_WORLD, &a, &b, dims));
  FAILS(MPI_ERR_TOPOLOGY,
        MPI_Dist_graph_neighbors(MPI_COMM_WORLD, 1, &a, &a, 1, &b, MPI_UNWEIGHTED));
  FAILS(MPI_ERR_TOPOLOGY,
        MPI_Neighbor_alltoall(dims, 1, MPI_INT, coords, 1, MPI_INT, MPI_COMM_WORLD));
  MPI_Comm cart = MPI_COMM_NULL;
  OK(MPI_Cart_create(MPI_COMM_SELF, 2, dims, periods, 0, &cart));
  OK(MPI_Comm_set_errhandler(cart, MPI_ERRORS_RETURN));
  coords[0] = 1;
  FAILS(MPI_ERR_ARG, MPI_Cart_rank(cart, coords, &a));
  FAILS(MPI_ERR_ARG, MPI_Cart_rank(cart, NULL, &a));
  FAILS(MPI_ERR_RANK, MPI_Cart_coords(cart, 2, 2, coords));
  FAILS(MPI_ERR_RANK, MPI_Cart_coords(cart, -1, 2, coords));
  FAILS(MPI_ERR_ARG, MPI_Cart_coords(cart, 0, -1, coords));
  FAILS(MPI_ERR_ARG, MPI_Cart_get(cart, -1, dims, periods, coords));
  FAILS(MPI_ERR_DIMS, MPI_Cart_shift(cart, -1, 1, &a, &b));
  FAILS(MPI_ERR_TOPOLOGY, MPI_Graphdims_get(cart, &a, &b));
  OK(MPI_Comm_free(&cart));
}

// --- Graphs

static void test_graph(void) {
  check_context("graph");
  const int n = check_state.size;
  MPI_Comm star = make_star();
  MPI_Comm copy = MPI_COMM_NULL;
  OK(MPI_Comm_dup(star, &copy));
  OK(MPI_Comm_free(&star));
  int kind = -1;
  OK(MPI_Topo_test(copy, &kind));
  check_i64("kind", MPI_GRAPH, kind);
  int* neighbours = new_ints(n);
  for (int r = 0; r < n; ++r) {
    int count = -1;
    OK(MPI_Graph_neighbors_count(copy, r, &count));
    check_i64("neighbours", r == 0 ? n : 1, count);
    set_ints(neighbours, n, -1);
    OK(MPI_Graph_neighbors(copy, r, count, neighbours));
    for (int i = 0; i < count; ++i) check_i64("neighbour", r == 0 ? i : 0, neighbours[i]);
  }
  OK(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
  int a = -1;
  FAILS(MPI_ERR_RANK, MPI_Graph_neighbors_count(copy, n + 1, &a));
  FAILS(MPI_ERR_RANK, MPI_Graph_neighbors(copy, -1, 1, &a));
  FAILS(MPI_ERR_ARG, MPI_Graph_neighbors(copy, 0, -1, &a));
  FAILS(MPI_ERR_ARG, MPI_Graph_get(copy, -1, 1, &a, &a));
  FAILS(MPI_ERR_TOPOLOGY, MPI_Cartdim_get(copy, &a));
  int index[1] = {1};
  int edges[1] = {0};
  MPI_Comm none = MPI_COMM_WORLD;
  FAILS(MPI_ERR_ARG, MPI_Graph_create(MPI_COMM_WORLD, -1, index, edges, 0, &none));
  FAILS(MPI_ERR_ARG, MPI_Graph_create(MPI_COMM_WORLD, n + 1, index, edges, 0, &none));
  FAILS(MPI_ERR_ARG, MPI_Graph_create(MPI_COMM_WORLD, 1, NULL, edges, 0, &none));
  OK(MPI_Graph_create(MPI_COMM_WORLD, 0, index, edges, 0, &none));
  check_true("no graph", none == MPI_COMM_NULL);
  OK(MPI_Graph_create(MPI_COMM_WORLD, 1, index, edges, 0, &none));
  check_true("of one node", (none != MPI_COMM_NULL) == (check_state.rank == 0));
  if (none != MPI_COMM_NULL) OK(MPI_Comm_free(&none));
  OK(MPI_Graph_map(MPI_COMM_WORLD, 1, index, edges, &a));
  if (check_state.rank == 0) check_i64("map", 0, a);
  free(neighbours);
  OK(MPI_Comm_free(&copy));
}

// --- Distributed graphs

/** Requires that `comm` has the neighbours of the graph, in any order. */
static void check_dist_graph(MPI_Comm comm, int weighted) {
  const int n = check_state.size;
  const int me = check_state.rank;
  int in = -1;
  int out = -1;
  int has_weights = -1;
  int kind = -1;
  OK(MPI_Topo_test(comm, &kind));
  check_i64("kind", MPI_DIST_GRAPH, kind);
  OK(MPI_Dist_graph_neighbors_count(comm, &in, &out, &has_weights));
  check_i64("in", kOut, in);
  check_i64("out", kOut, out);
  check_i64("weighted", weighted, has_weights != 0);
  int sources[kOut] = {-1, -1, -1};
  int destinations[kOut] = {-1, -1, -1};
  int in_weights[kOut] = {0};
  int out_weights[kOut] = {0};
  OK(MPI_Dist_graph_neighbors(comm, in, sources, weighted ? in_weights : MPI_UNWEIGHTED, out,
                              destinations, weighted ? out_weights : MPI_UNWEIGHTED));
  int expected[4][kOut];
  for (int i = 0; i < kOut; ++i) {
    const int from = (me + 2 * n - kSteps[i]) % n;
    expected[0][i] = 100000 * from + (weighted ? weight(from, i) : 0);
    expected[1][i] = 100000 * ((me + kSteps[i]) % n) + (weighted ? weight(me, i) : 0);
    expected[2][i] = 100000 * sources[i] + in_weights[i];
    expected[3][i] = 100000 * destinations[i] + out_weights[i];
  }
  for (int i = 0; i < 4; ++i) qsort(expected[i], kOut, sizeof(int), smaller);
  check_ints("sources", expected[0], expected[2], kOut);
  check_ints("destinations", expected[1], expected[3], kOut);
}

static void test_dist_graph_errors(void) {
  check_context("errors of distributed graphs");
  int rank = 0;
  int one = 1;
  int wrong = -1;
  int far = check_state.size;
  MPI_Comm comm = MPI_COMM_NULL;
  FAILS(MPI_ERR_ARG,
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, -1, &rank, MPI_UNWEIGHTED, 0, &rank,
                                       MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
  FAILS(MPI_ERR_ARG,
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, NULL, MPI_UNWEIGHTED, 0, &rank,
                                       MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
  FAILS(MPI_ERR_ARG,
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &far, MPI_UNWEIGHTED, 0, &rank,
                                       MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &rank, &wrong, 1, &rank,
                                                    &wrong, MPI_INFO_NULL, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Dist_graph_create(MPI_COMM_WORLD, -1, &rank, &one, &rank, MPI_UNWEIGHTED,
                                           MPI_INFO_NULL, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &wrong, &rank, MPI_UNWEIGHTED,
                                           MPI_INFO_NULL, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &far, &one, &rank, MPI_UNWEIGHTED,
                                           MPI_INFO_NULL, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &one, &far, MPI_UNWEIGHTED,
                                           MPI_INFO_NULL, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &one, &rank, &wrong,
                                           MPI_INFO_NULL, 0, &comm));
}

/** If no rank has an edge, the weight arguments determine whether the graph is weighted. */
static void test_dist_graphs_without_edges(void) {
  int none[1] = {0};
  int* const given[] = {MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY, none};
  for (int i = 0; i < 3; ++i) {
    for (int adjacent = 0; adjacent < 2; ++adjacent) {
      check_context("no edges, weights %d, adjacent %d", i, adjacent);
      MPI_Comm graph = MPI_COMM_NULL;
      if (adjacent) {
        OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, none, given[i], 0, none, given[i],
                                          MPI_INFO_NULL, 0, &graph));
      } else {
        OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 0, none, none, none, given[i], MPI_INFO_NULL, 0,
                                 &graph));
      }
      int in = -1;
      int out = -1;
      int weighted = -1;
      OK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted));
      check_i64("in", 0, in);
      check_i64("out", 0, out);
      check_i64("weighted", i > 0, weighted != 0);
      OK(MPI_Comm_free(&graph));
    }
  }
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  int kind = -1;
  OK(MPI_Topo_test(MPI_COMM_WORLD, &kind));
  check_i64("no topology", MPI_UNDEFINED, kind);
  test_dims();
  check_section("dims");
  for (int n = 1; n <= 4; ++n) {
    for (int periodic = 0; periodic < 1 << n; ++periodic) test_cart(n, periodic);
  }
  check_section("cart");
  for (int n = 1; n <= 3; ++n) {
    for (int remain = 0; remain < 1 << n; ++remain) test_cart_sub(n, remain);
  }
  test_small_carts();
  check_section("cart_sub");
  test_cart_errors();
  test_graph();
  test_dist_graph_errors();
  test_dist_graphs_without_edges();
  check_section("graph");
  for (int weighted = 0; weighted < 2; ++weighted) {
    for (int how = 0; how < kHows; ++how) {
      check_context("distributed graph %d, weighted %d", how, weighted);
      MPI_Comm graph = make_dist_graph(how, weighted);
      MPI_Comm copy = MPI_COMM_NULL;
      check_dist_graph(graph, weighted);
      OK(MPI_Comm_dup(graph, &copy));
      OK(MPI_Comm_free(&graph));
      check_dist_graph(copy, weighted);
      OK(MPI_Comm_free(&copy));
    }
  }
  return check_end();
}
