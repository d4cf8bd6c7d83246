// large KIND [mib=M] [rounds=N]: collectives of large vectors of doubles. Rank 0 prints a line when
// an operation begins.
//   KIND: allreduce  allreduce_in_place  bcast  allgather  reduce

#include "program.h"

static int count;

static double value(int source, int round, int index) {
  return (double)((index * 7 + source * 31 + round * 13) & 1023);
}

static void fill(double* buffer, int first, int source, int round, int elements) {
  for (int i = 0; i < elements; ++i) buffer[first + i] = value(source, round, i);
}

/** Requires `elements` values from `first` on to be those of `source`; sums if it is negative. */
static void check_vector(const double* buffer, int first, int source, int round, int elements) {
  uint64_t wrong = 0;
  uint64_t digest = 0;
  for (int i = 0; i < elements; ++i) {
    double expected = source < 0 ? 0 : value(source, round, i);
    for (int r = 0; source < 0 && r < check_state.size; ++r) expected += value(r, round, i);
    wrong += buffer[first + i] != expected;
    digest += (uint64_t)buffer[first + i] * (uint64_t)(i + 1);
  }
  check_u64("wrong elements", 0, wrong);
  check_state.digest = hash_step(check_state.digest, digest);
}

static void run(const char* kind, int round, double* in, double* out) {
  const int n = check_state.size;
  const int root = round % n;
  check_context("round %d, %s", round, kind);
  fill(in, 0, check_state.rank, round, count);
  note("round %d begins", round);
  if (strcmp(kind, "allreduce") == 0) {
    OK(MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    check_vector(out, 0, -1, round, count);
    check_vector(in, 0, check_state.rank, round, count);
  } else if (strcmp(kind, "allreduce_in_place") == 0) {
    OK(MPI_Allreduce(MPI_IN_PLACE, in, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    check_vector(in, 0, -1, round, count);
  } else if (strcmp(kind, "bcast") == 0) {
    OK(MPI_Bcast(in, count, MPI_DOUBLE, root, MPI_COMM_WORLD));
    check_vector(in, 0, root, round, count);
  } else if (strcmp(kind, "allgather") == 0) {
    const int block = count / n;
    OK(MPI_Allgather(in, block, MPI_DOUBLE, out, block, MPI_DOUBLE, MPI_COMM_WORLD));
    for (int r = 0; r < n; ++r) check_vector(out, r * block, r, round, block);
  } else if (strcmp(kind, "reduce") == 0) {
    OK(MPI_Reduce(in, out, count, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD));
    if (check_state.rank == root) check_vector(out, 0, -1, round, count);
  } else {
    check_fail("kind", "a collective", kind);
  }
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const char* kind = argc > 1 ? argv[1] : "allreduce";
  const long long rounds = argument_number(argc, argv, "rounds", 4);
  const size_t bytes = (size_t)argument_number(argc, argv, "mib", 64) << 20;
  count = (int)(bytes / sizeof(double));
  double* in = malloc(bytes);
  double* out = malloc(bytes);
  if (!in || !out) check_fail("memory", "some", "none");
  for (int round = 0; round < rounds; ++round) run(kind, round, in, out);
  free(in);
  free(out);
  return check_end();
}
