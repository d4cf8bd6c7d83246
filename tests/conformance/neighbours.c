// Conformance of the neighbourhood collectives, on grids, graphs and distributed graphs.

#include <mpi.h>

#include "check.h"
#include "topologies.h"

/** This rank's neighbours in a communicator, as MPI's queries return them. */
typedef struct {
  int in;
  int out;
  int sources[64];
  int destinations[64];
  int crossed;  // whether this rank's block i becomes block i^1 of the neighbour, as in a grid
} Around;

static Around around(MPI_Comm comm) {
  Around a = {.in = 0, .out = 0, .crossed = 0};
  int kind = -1;
  int n = -1;
  OK(MPI_Topo_test(comm, &kind));
  if (kind == MPI_CART) {
    OK(MPI_Cartdim_get(comm, &n));
    for (int d = 0; d < n; ++d) {
      OK(MPI_Cart_shift(comm, d, 1, &a.sources[2 * d], &a.sources[2 * d + 1]));
    }
    a.in = a.out = 2 * n;
    memcpy(a.destinations, a.sources, sizeof a.sources);
    a.crossed = 1;
  } else if (kind == MPI_GRAPH) {
    OK(MPI_Graph_neighbors_count(comm, check_state.rank, &n));
    OK(MPI_Graph_neighbors(comm, check_state.rank, n, a.sources));
    a.in = a.out = n;
    memcpy(a.destinations, a.sources, sizeof a.sources);
  } else {
    OK(MPI_Dist_graph_neighbors_count(comm, &a.in, &a.out, &n));
    OK(MPI_Dist_graph_neighbors(comm, a.in, a.sources, MPI_UNWEIGHTED, a.out, a.destinations,
                                MPI_UNWEIGHTED));
  }
  return a;
}

/** Returns how many earlier blocks have the same neighbour as this block. */
static int which(const int* ranks, int block) {
  int before = 0;
  for (int i = 0; i < block; ++i) before += ranks[i] == ranks[block];
  return before;
}
/** In a grid, the direction distinguishes blocks of the same two ranks. */
static int edge_of(const Around* a, const int* ranks, int block, int receiving) {
  return a->crossed ? (receiving ? block ^ 1 : block) : which(ranks, block);
}
static int length_of(int from, int to, int edge) { return (3 * from + 5 * to + edge) % 4; }

enum { kGap = 5 };  // ints between the displacements of blocks

static void test_neighbours(MPI_Comm comm, int count) {
  check_context("%d ints to the neighbours", count);
  const Around a = around(comm);
  const int me = check_state.rank;
  int* out = new_ints(64 * (count + kGap));
  int* in = new_ints(64 * (count + kGap));
  for (int i = 0; i < count; ++i) out[i] = pattern(me, 77, i);
  set_ints(in, 64 * count, -1);
  OK(MPI_Neighbor_allgather(out, count, MPI_INT, in, count, MPI_INT, comm));
  for (int k = 0; k < a.in; ++k) {
    for (int i = 0; i < count; ++i) {
      const int expected = a.sources[k] == MPI_PROC_NULL ? -1 : pattern(a.sources[k], 77, i);
      check_i64("allgather", expected, in[k * count + i]);
    }
  }
  int counts[64];
  int displs[64];
  for (int k = 0; k < a.in; ++k) {
    counts[k] = count;
    displs[k] = (a.in - 1 - k) * (count + kGap);
  }
  set_ints(in, 64 * (count + kGap), -1);
  OK(MPI_Neighbor_allgatherv(out, count, MPI_INT, in, counts, displs, MPI_INT, comm));
  for (int k = 0; k < a.in; ++k) {
    for (int i = 0; i < count + kGap; ++i) {
      const int there = a.sources[k] != MPI_PROC_NULL && i < count;
      check_i64("allgatherv", there ? pattern(a.sources[k], 77, i) : -1, in[displs[k] + i]);
    }
  }
  for (int k = 0; k < a.out; ++k) {
    const int edge = edge_of(&a, a.destinations, k, 0);
    for (int i = 0; i < count; ++i) {
      out[k * count + i] = pattern(me * 64 + edge, a.destinations[k], i);
    }
  }
  set_ints(in, 64 * (count + kGap), -1);
  OK(MPI_Neighbor_alltoall(out, count, MPI_INT, in, count, MPI_INT, comm));
  for (int k = 0; k < a.in; ++k) {
    const int edge = edge_of(&a, a.sources, k, 1);
    for (int i = 0; i < count; ++i) {
      const int expected =
          a.sources[k] == MPI_PROC_NULL ? -1 : pattern(a.sources[k] * 64 + edge, me, i);
      check_i64("alltoall", expected, in[k * count + i]);
    }
  }
  free(out);
  free(in);
}

/** Sends blocks of different lengths: ints in alltoallv, ints and doubles in alltoallw. */
static void test_neighbours_v(MPI_Comm comm) {
  check_context("alltoallv and alltoallw to the neighbours");
  const Around a = around(comm);
  const int me = check_state.rank;
  int counts[2][64];
  int displs[2][64];
  MPI_Aint byte_displs[2][64];
  MPI_Datatype types[2][64];
  int* buffers[2] = {new_ints(64 * kGap), new_ints(64 * kGap)};
  for (int in = 0; in < 2; ++in) {
    const int n = in ? a.in : a.out;
    const int* ranks = in ? a.sources : a.destinations;
    set_ints(buffers[in], 64 * kGap, -1);
    for (int k = 0; k < n; ++k) {
      const int edge = edge_of(&a, ranks, k, in);
      const int from = in ? ranks[k] : me;
      const int to = in ? me : ranks[k];
      counts[in][k] = ranks[k] == MPI_PROC_NULL ? 1 : length_of(from, to, edge);
      displs[in][k] = (n - 1 - k) * kGap;
      byte_displs[in][k] = displs[in][k] * (MPI_Aint)sizeof(int);
      types[in][k] = edge % 2 == 0 ? MPI_INT : MPI_FLOAT;
      for (int i = 0; !in && i < counts[in][k]; ++i) {
        buffers[0][displs[0][k] + i] = pattern(me * 64 + edge, to, i);
      }
    }
  }
  for (int w = 0; w < 2; ++w) {
    set_ints(buffers[1], 64 * kGap, -1);
    if (w) {
      OK(MPI_Neighbor_alltoallw(buffers[0], counts[0], byte_displs[0], types[0], buffers[1],
                                counts[1], byte_displs[1], types[1], comm));
    } else {
      OK(MPI_Neighbor_alltoallv(buffers[0], counts[0], displs[0], MPI_INT, buffers[1], counts[1],
                                displs[1], MPI_INT, comm));
    }
    for (int k = 0; k < a.in; ++k) {
      const int edge = edge_of(&a, a.sources, k, 1);
      for (int i = 0; i < kGap; ++i) {
        const int there = a.sources[k] != MPI_PROC_NULL && i < counts[1][k];
        const int expected = there ? pattern(a.sources[k] * 64 + edge, me, i) : -1;
        check_i64(w ? "alltoallw" : "alltoallv", expected, buffers[1][displs[1][k] + i]);
      }
    }
  }
  free(buffers[0]);
  free(buffers[1]);
}

/** Sends a type with a gap: {double, int}. */
static void test_gaps(MPI_Comm comm) {
  check_context("values with gaps");
  struct Pair {
    double value;
    int index;
  };
  const Around a = around(comm);
  struct Pair out[2] = {{check_state.rank + 0.5, 1}, {check_state.rank + 0.25, 2}};
  struct Pair in[128];
  memset(in, 0, sizeof in);
  OK(MPI_Neighbor_allgather(out, 2, MPI_DOUBLE_INT, in, 2, MPI_DOUBLE_INT, comm));
  for (int k = 0; k < a.in; ++k) {
    if (a.sources[k] == MPI_PROC_NULL) continue;
    check_true("first", in[2 * k].value == a.sources[k] + 0.5 && in[2 * k].index == 1);
    check_true("second", in[2 * k + 1].value == a.sources[k] + 0.25 && in[2 * k + 1].index == 2);
  }
}

static void test_neighbourhoods(MPI_Comm comm) {
  static const int kCounts[] = {1, 0, 1000};
  for (int i = 0; i < 3; ++i) test_neighbours(comm, kCounts[i]);
  test_neighbours_v(comm);
  test_gaps(comm);
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  for (int periodic = 0; periodic < 8; ++periodic) {
    Cart c = make_cart(3, periodic);
    test_neighbourhoods(c.comm);
    check_section("grid");
    OK(MPI_Comm_free(&c.comm));
  }
  MPI_Comm star = make_star();
  test_neighbourhoods(star);
  check_section("star");
  OK(MPI_Comm_free(&star));
  for (int weighted = 0; weighted < 2; ++weighted) {
    for (int how = 0; how < kHows; ++how) {
      MPI_Comm graph = make_dist_graph(how, weighted);
      const uint64_t before = check_state.digest;
      test_neighbourhoods(graph);
      // MPI does not define the order of neighbours if other ranks pass the edges.
      if (how < 2) check_state.digest = hash_step(before, (uint64_t)check_state.checks);
      check_section("distributed graph");
      OK(MPI_Comm_free(&graph));
    }
  }
  return check_end();
}
