// disagree HOW: after a few operations rank 0 makes another collective call than the others. That
// is an error of the program, which ftrun must report instead of waiting for ever. Rank 0 first
// prints the lines of the two calls.

#include "program.h"

enum { kBefore = 5 };

static int in[64];
static int out[64];
static const int one = 1;
static const int two = 2;
static MPI_Comm grid;  // for calls that need a topology
static MPI_Comm new_grid;

typedef struct {
  void (*make)(void);
  int line;
} Call;

static volatile int calls;

// The code of a macro has the line where the macro is used, so the line of the call is that of
// CALL. The function counts after the call, because a call at its end would be a jump without a
// return address.
#define CALL(name, call)          \
  static void make_##name(void) { \
    call;                         \
    calls += 1;                   \
  }                               \
  static const Call name = {make_##name, __LINE__};

CALL(barrier, MPI_Barrier(MPI_COMM_WORLD))
CALL(sum_of_1, MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD))
CALL(sum_of_2, MPI_Allreduce(in, out, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD))
CALL(sum_of_floats, MPI_Allreduce(in, out, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD))
CALL(max_of_1, MPI_Allreduce(in, out, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD))
CALL(bcast_of_1, MPI_Bcast(in, 1, MPI_INT, 0, MPI_COMM_WORLD))
CALL(bcast_of_2, MPI_Bcast(in, 2, MPI_INT, 0, MPI_COMM_WORLD))
CALL(bcast_from_1, MPI_Bcast(in, 1, MPI_INT, 1, MPI_COMM_WORLD))
CALL(gather_to_0, MPI_Gather(in, 1, MPI_INT, out, 1, MPI_INT, 0, MPI_COMM_WORLD))
CALL(gather_to_1, MPI_Gather(in, 1, MPI_INT, out, 1, MPI_INT, 1, MPI_COMM_WORLD))
CALL(reduce_to_0, MPI_Reduce(in, out, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD))
CALL(scatter_from_0, MPI_Scatter(in, 1, MPI_INT, out, 1, MPI_INT, 0, MPI_COMM_WORLD))
CALL(alltoall, MPI_Alltoall(in, 1, MPI_INT, out, 1, MPI_INT, MPI_COMM_WORLD))
CALL(grid_of_1, MPI_Cart_create(MPI_COMM_WORLD, 1, &one, in, 0, &new_grid))
CALL(grid_of_2, MPI_Cart_create(MPI_COMM_WORLD, 1, &two, in, 0, &new_grid))
CALL(neighbours, MPI_Neighbor_alltoall(in, 1, MPI_INT, out, 1, MPI_INT, grid))
CALL(grid_sum, MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, grid))
CALL(nothing, (void)0)
CALL(finalize, MPI_Finalize())

typedef struct {
  const char* how;
  const Call* rank_0;
  const Call* others;
} Pair;

static const Pair kPairs[] = {
    {"kind", &barrier, &sum_of_1},
    {"count", &sum_of_1, &sum_of_2},
    {"type", &sum_of_1, &sum_of_floats},
    {"operator", &sum_of_1, &max_of_1},
    {"bcast_count", &bcast_of_1, &bcast_of_2},
    {"bcast_root", &bcast_from_1, &bcast_of_1},
    {"bcast_roots", &bcast_of_1, &bcast_from_1},
    {"gather_root", &gather_to_0, &gather_to_1},
    {"gather_reduce", &gather_to_0, &reduce_to_0},
    {"scatter_gather", &gather_to_0, &scatter_from_0},
    {"channel_replicated", &alltoall, &sum_of_1},
    {"grid", &grid_of_1, &grid_of_2},
    {"neighbours", &neighbours, &grid_sum},
    {"one_more", &sum_of_1, &finalize},
    {"one_less", &finalize, &reduce_to_0},
    {"same", &nothing, &nothing},
};

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const Pair* pair = NULL;
  for (size_t i = 0; i < sizeof kPairs / sizeof *kPairs; ++i) {
    if (argc > 1 && strcmp(kPairs[i].how, argv[1]) == 0) pair = &kPairs[i];
  }
  if (pair == NULL) check_fail("argument", "how to disagree", argc > 1 ? argv[1] : "nothing");
  for (int i = 0; i < kBefore; ++i) sum_of_2.make();
  if (pair->rank_0 == &neighbours) {
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &check_state.size, &one, 0, &grid));
  }
  note("lines %d and %d", pair->rank_0->line, pair->others->line);
  (check_state.rank == 0 ? pair->rank_0 : pair->others)->make();
  // If both calls have succeeded, these operations fail, because the ranks are in different ones.
  for (int i = 0; i < kBefore; ++i) barrier.make();
  return check_end();
}
