// left KIND [pause_ms=P] [linger_ms=L]: the last operation on a communicator of ranks 0 and 1.
// After it rank 0 frees the communicator and uses others. Rank 1 sleeps P ms before that operation,
// and again before MPI_Finalize. Processes of other ranks than 1 end L ms after MPI_Finalize.
//   KIND: allreduce barrier allgather bcast gather scatter reduce alltoall
// The program needs at least three ranks. After the last operation rank 1 makes kTail more.

#include <unistd.h>

#include "program.h"

enum { kAlone = 3, kTail = 2 };

/** Executes an operation of that kind, and adds its result to the digest. */
static void operation(const char* kind, MPI_Comm comm, int step) {
  int rank = 0;
  int size = 0;
  OK(MPI_Comm_rank(comm, &rank));
  OK(MPI_Comm_size(comm, &size));
  uint64_t in[8] = {0};
  uint64_t out[8] = {0};
  if (size > 8) check_fail("size", "at most 8", "more");
  for (int i = 0; i < size; ++i) in[i] = element(rank, step, i);
  if (strcmp(kind, "allreduce") == 0) {
    OK(MPI_Allreduce(in, out, 1, MPI_UINT64_T, MPI_SUM, comm));
  } else if (strcmp(kind, "barrier") == 0) {
    OK(MPI_Barrier(comm));
  } else if (strcmp(kind, "allgather") == 0) {
    OK(MPI_Allgather(in, 1, MPI_UINT64_T, out, 1, MPI_UINT64_T, comm));
    for (int i = 0; i < size; ++i) check_u64("block", element(i, step, 0), out[i]);
  } else if (strcmp(kind, "bcast") == 0) {
    OK(MPI_Bcast(in, 1, MPI_UINT64_T, 0, comm));
    check_u64("broadcast", element(0, step, 0), in[0]);
  } else if (strcmp(kind, "gather") == 0) {
    OK(MPI_Gather(in, 1, MPI_UINT64_T, out, 1, MPI_UINT64_T, 1, comm));
  } else if (strcmp(kind, "scatter") == 0) {
    OK(MPI_Scatter(in, 1, MPI_UINT64_T, out, 1, MPI_UINT64_T, 0, comm));
    check_u64("scattered", element(0, step, rank), out[0]);
  } else if (strcmp(kind, "reduce") == 0) {
    OK(MPI_Reduce(in, out, 1, MPI_UINT64_T, MPI_SUM, 1, comm));
  } else if (strcmp(kind, "alltoall") == 0) {
    OK(MPI_Alltoall(in, 1, MPI_UINT64_T, out, 1, MPI_UINT64_T, comm));
    for (int i = 0; i < size; ++i) check_u64("message", element(i, step, rank), out[i]);
  } else {
    check_fail("kind", "a collective", kind);
  }
  for (int i = 0; i < size; ++i) check_state.digest = hash_step(check_state.digest, out[i]);
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const char* kind = argc > 1 ? argv[1] : "allreduce";
  const long long pause = argument_number(argc, argv, "pause_ms", 0) * 1000;
  const long long linger = argument_number(argc, argv, "linger_ms", 0) * 1000;
  const int me = check_state.rank;
  MPI_Comm pair = MPI_COMM_NULL;
  MPI_Comm others = MPI_COMM_NULL;
  OK(MPI_Comm_split(MPI_COMM_WORLD, me < 2 ? 0 : MPI_UNDEFINED, me, &pair));
  OK(MPI_Comm_split(MPI_COMM_WORLD, me != 1 ? 0 : MPI_UNDEFINED, me, &others));
  int step = 0;
  if (pair != MPI_COMM_NULL) {
    for (; step < kAlone; ++step) operation(kind, pair, step);
    if (me == 1) pause_us(pause);
    operation(kind, pair, step);
    OK(MPI_Comm_free(&pair));
  }
  if (others != MPI_COMM_NULL) {
    for (step = 10; step < 20; ++step) operation("allreduce", others, step);
    OK(MPI_Comm_free(&others));
  }
  check_section("all");
  if (me == 1) pause_us(pause);
  OK(MPI_Finalize());
  if (me != 1) pause_us(linger);
  return 0;
}
