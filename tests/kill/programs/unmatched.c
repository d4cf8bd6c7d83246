// unmatched HOW: calls of different ranks that do not match, with MPI_ERRORS_RETURN. Each rank
// prints the error that it got. HOW:
//   gather, scatter, reduce  rank 0 alone begins such a nonblocking operation, then one that all
//                            ranks begin
//   order                    the same, twice, and no rank waits
//   room                     a root gathers into less memory than one member needs
//   count                    rank 0 reduces another count than the others; then all reduce the same

#include "program.h"

static int in[64];
static int out[64];

static void start(const char* how, MPI_Request* r) {
  if (strcmp(how, "gather") == 0) {
    MPI_Igather(in, 2, MPI_INT, out, 2, MPI_INT, 0, MPI_COMM_WORLD, r);
  } else if (strcmp(how, "scatter") == 0) {
    MPI_Iscatter(in, 2, MPI_INT, out, 2, MPI_INT, 0, MPI_COMM_WORLD, r);
  } else {
    MPI_Ireduce(in, out, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD, r);
  }
}

static void say(const char* what, int code) {
  int class = 0;
  OK(MPI_Error_class(code, &class));
  printf("rank %d: %s: %s\n", check_state.rank, what,
         class == MPI_SUCCESS        ? "well"
         : class == MPI_ERR_TRUNCATE ? "truncated"
         : class == MPI_ERR_NOT_SAME ? "not the same"
                                     : "another error");
  fflush(stdout);
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  const char* how = argc > 1 ? argv[1] : "";
  MPI_Request r[4];
  for (int i = 0; i < 4; ++i) r[i] = MPI_REQUEST_NULL;
  if (strcmp(how, "room") == 0) {
    const int mine = check_state.rank == 1 ? 4 : 2;
    int sent[8], received[8], places[8];
    for (int i = 0; i < 8; ++i) {
      sent[i] = mine;
      received[i] = i == 1 && check_state.rank == 1 ? 4 : 2;
      places[i] = 4 * i;
    }
    say("gather",
        MPI_Gatherv(in, mine, MPI_INT, out, received, places, MPI_INT, 0, MPI_COMM_WORLD));
    say("alltoall",
        MPI_Alltoallv(in, sent, places, MPI_INT, out, received, places, MPI_INT, MPI_COMM_WORLD));
    say("barrier", MPI_Barrier(MPI_COMM_WORLD));
  } else if (strcmp(how, "count") == 0) {
    const int count = check_state.rank == 0 ? 1 : 2;
    say("allreduce", MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    say("barrier", MPI_Barrier(MPI_COMM_WORLD));
  } else {
    if (check_state.rank == 0 && strcmp(how, "order") != 0) start(how, &r[0]);
    if (check_state.rank == 0 && strcmp(how, "order") == 0) {
      start("gather", &r[0]);
      start("scatter", &r[1]);
    }
    MPI_Iallgather(in, 2, MPI_INT, out, 2, MPI_INT, MPI_COMM_WORLD, &r[2]);
    MPI_Ialltoall(in, 2, MPI_INT, out, 2, MPI_INT, MPI_COMM_WORLD, &r[3]);
  }
  OK(MPI_Finalize());
  return 0;
}
