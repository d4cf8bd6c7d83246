// absent [seconds=S] [steps=N] [pause_us=P]: three ranks exchange messages. Then rank 1 makes no
// call of MPI for S seconds, while ranks 0 and 2 send each other N messages, with a pause between
// two. Rank 0 prints a line when they are done, rank 1 when it begins and when it is back.

#include "program.h"

static void exchange(int peer, int step) {
  uint64_t mine = element(check_state.rank, step, 0), theirs = 0;
  OK(MPI_Sendrecv(&mine, 1, MPI_UINT64_T, peer, 0, &theirs, 1, MPI_UINT64_T, peer, 0,
                  MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  check_u64("message", element(peer, step, 0), theirs);
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const int me = check_state.rank;
  const long long seconds = argument_number(argc, argv, "seconds", 5);
  const int steps = (int)argument_number(argc, argv, "steps", 1000);
  const long long pause = argument_number(argc, argv, "pause_us", 1000);
  if (me != 0) exchange(3 - me, 0);
  if (me != 2) exchange(1 - me, 0);
  if (me == 1) {
    printf("rank 1 is away\n");
    fflush(stdout);
    pause_us(seconds * 1000000);
    printf("rank 1 is back\n");
  } else {
    for (int i = 0; i < steps; ++i) {
      exchange(2 - me, i);
      pause_us(pause);
    }
    if (me == 0) printf("the others are done\n");
  }
  fflush(stdout);
  OK(MPI_Barrier(MPI_COMM_WORLD));
  return check_end();
}
