// lopsided: a distributed graph in which rank 0 passes an edge to rank 1 that rank 1 does not pass;
// then a graph in which all ranks agree.

#include "program.h"

// MPI_UNWEIGHTED is not an array, although the prototypes declare arrays.
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wstringop-overread"

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const int me = check_state.rank;
  const int n = check_state.size;
  const int right = (me + 1) % n;
  const int left = (me + n - 1) % n;
  for (int i = 0; i < 2; ++i) {
    const int sources = i == 0 && me == 1 ? 0 : 1;
    int in = -1;
    int out = -1;
    int weighted = -1;
    MPI_Comm comm = MPI_COMM_NULL;
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, sources, &left, MPI_UNWEIGHTED, 1, &right,
                                      MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
    OK(MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted));
    check_i64("sources", sources, in);
    check_i64("destinations", 1, out);
    int got = -1;
    OK(MPI_Neighbor_allgather(&me, 1, MPI_INT, &got, 1, MPI_INT, comm));
    check_i64("what the left one sends", sources == 1 ? left : -1, got);
    OK(MPI_Comm_free(&comm));
  }
  return check_end();
}
