// topology_errors: wrong arguments for topologies that Open MPI does not check, so that conformance
// programs cannot test them. Each raises an error of the class that MPI 3.1 names, and the job
// continues.

#include "program.h"

// MPI_UNWEIGHTED is not an array, although the prototypes declare arrays.
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wstringop-overread"

#define FAILS(expected, call) check_class(#call, expected, (call))
static void check_class(const char* what, int expected, int code) {
  int got = -1;
  OK(MPI_Error_class(code, &got));
  check_i64(what, expected, got);
}

static MPI_Comm returning(MPI_Comm comm) {
  OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  return comm;
}

static void test_grids(void) {
  check_context("grids");
  const int zero[2] = {1, 0};
  const int negative[2] = {-1, -1};
  const int ones[2] = {1, 1};
  const int large[2] = {1 << 30, 1 << 30};
  int a = -1;
  int b = -1;
  MPI_Comm comm = MPI_COMM_NULL;
  FAILS(MPI_ERR_DIMS, MPI_Cart_create(MPI_COMM_WORLD, 2, zero, ones, 0, &comm));
  FAILS(MPI_ERR_DIMS, MPI_Cart_create(MPI_COMM_WORLD, 2, negative, ones, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Cart_create(MPI_COMM_WORLD, 2, large, ones, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Cart_create(MPI_COMM_WORLD, 2, ones, ones, 0, NULL));
  FAILS(MPI_ERR_DIMS, MPI_Cart_map(MPI_COMM_WORLD, 2, zero, ones, &a));
  FAILS(MPI_ERR_ARG, MPI_Cart_map(MPI_COMM_WORLD, 2, large, ones, &a));
  OK(MPI_Cart_map(MPI_COMM_WORLD, 2, ones, ones, &a));
  check_i64("map", check_state.rank == 0 ? 0 : MPI_UNDEFINED, a);
  OK(MPI_Cart_create(MPI_COMM_SELF, 2, ones, zero, 0, &comm));
  returning(comm);
  FAILS(MPI_ERR_DIMS, MPI_Cart_shift(comm, 2, 1, &a, &b));
  FAILS(MPI_ERR_RANK, MPI_Cart_coords(comm, 1, 1, &a));
  FAILS(MPI_ERR_ARG, MPI_Cart_sub(comm, NULL, &comm));
  OK(MPI_Comm_free(&comm));
}

static void test_graphs(void) {
  check_context("graphs");
  const int falls[2] = {2, 1};
  const int below[1] = {-1};
  const int one[1] = {1};
  const int two[2] = {1, 2};
  const int beyond[2] = {0, 2};
  int a = -1;
  MPI_Comm comm = MPI_COMM_NULL;
  FAILS(MPI_ERR_ARG, MPI_Graph_create(MPI_COMM_WORLD, 2, falls, beyond, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Graph_create(MPI_COMM_WORLD, 1, below, beyond, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Graph_create(MPI_COMM_WORLD, 2, two, beyond, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Graph_create(MPI_COMM_WORLD, 1, one, NULL, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Graph_map(MPI_COMM_WORLD, check_state.size + 1, two, beyond, &a));
  OK(MPI_Graph_create(MPI_COMM_SELF, 1, one, beyond, 0, &comm));
  returning(comm);
  FAILS(MPI_ERR_RANK, MPI_Graph_neighbors_count(comm, 1, &a));
  OK(MPI_Comm_free(&comm));
}

static void test_dist_graphs(void) {
  check_context("distributed graphs");
  const int me = check_state.rank;
  const int one = 1;
  MPI_Comm comm = MPI_COMM_NULL;
  // An edge of each rank to itself, which has no source.
  FAILS(MPI_ERR_ARG, MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, MPI_UNWEIGHTED, 1, &me,
                                                    MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &me, &one, &me, MPI_WEIGHTS_EMPTY,
                                           MPI_INFO_NULL, 0, &comm));
  // One rank passes weights and the others do not: all of them get the error.
  const int* weights = me == 0 ? &one : MPI_UNWEIGHTED;
  FAILS(MPI_ERR_ARG,
        MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &me, &one, &me, weights, MPI_INFO_NULL, 0, &comm));
  FAILS(MPI_ERR_ARG, MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &me, weights, 1, &me,
                                                    weights, MPI_INFO_NULL, 0, &comm));
  check_true("no graph", comm == MPI_COMM_NULL);
  // A rank without edges may pass either.
  OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, me == 0, &me, weights, me == 0, &me, weights,
                                    MPI_INFO_NULL, 0, &comm));
  int in = -1;
  int out = -1;
  int weighted = -1;
  OK(MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted));
  check_i64("in", me == 0, in);
  check_i64("out", me == 0, out);
  check_i64("weighted", 1, weighted);
  OK(MPI_Comm_free(&comm));
}

static void test_neighbours(void) {
  check_context("neighbours");
  const int ones[1] = {1};
  const int zero[2] = {0, 0};
  const int counts[2] = {1, 1};
  const int negative[2] = {1, -1};
  int in[2] = {7, 7};
  MPI_Comm comm = MPI_COMM_NULL;
  FAILS(MPI_ERR_TOPOLOGY,
        MPI_Neighbor_allgather(counts, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD));
  FAILS(MPI_ERR_COMM, MPI_Neighbor_allgather(counts, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_NULL));
  OK(MPI_Cart_create(MPI_COMM_SELF, 1, ones, ones, 0, &comm));
  returning(comm);
  FAILS(MPI_ERR_COUNT, MPI_Neighbor_allgather(counts, -1, MPI_INT, in, 1, MPI_INT, comm));
  FAILS(MPI_ERR_COUNT, MPI_Neighbor_allgather(counts, 1, MPI_INT, in, -1, MPI_INT, comm));
  FAILS(MPI_ERR_TYPE, MPI_Neighbor_alltoall(counts, 1, MPI_DATATYPE_NULL, in, 1, MPI_INT, comm));
  FAILS(MPI_ERR_TYPE, MPI_Neighbor_alltoall(counts, 1, MPI_INT, in, 1, MPI_DATATYPE_NULL, comm));
  FAILS(MPI_ERR_BUFFER, MPI_Neighbor_alltoall(NULL, 1, MPI_INT, in, 1, MPI_INT, comm));
  FAILS(MPI_ERR_BUFFER, MPI_Neighbor_alltoall(MPI_IN_PLACE, 1, MPI_INT, in, 1, MPI_INT, comm));
  FAILS(MPI_ERR_BUFFER, MPI_Neighbor_alltoall(counts, 1, MPI_INT, NULL, 1, MPI_INT, comm));
  FAILS(MPI_ERR_TRUNCATE, MPI_Neighbor_alltoall(counts, 2, MPI_INT, in, 1, MPI_INT, comm));
  FAILS(MPI_ERR_ARG, MPI_Neighbor_allgatherv(counts, 1, MPI_INT, in, NULL, zero, MPI_INT, comm));
  FAILS(MPI_ERR_ARG, MPI_Neighbor_allgatherv(counts, 1, MPI_INT, in, counts, NULL, MPI_INT, comm));
  FAILS(MPI_ERR_COUNT,
        MPI_Neighbor_alltoallv(counts, negative, zero, MPI_INT, in, counts, zero, MPI_INT, comm));
  check_i64("untouched", 7, in[0]);
  OK(MPI_Comm_free(&comm));
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  returning(MPI_COMM_WORLD);
  returning(MPI_COMM_SELF);
  test_grids();
  test_graphs();
  test_dist_graphs();
  test_neighbours();
  return check_end();
}
