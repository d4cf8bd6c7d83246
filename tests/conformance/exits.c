// Conformance of the ends of a job: `exits abort CODE` (the last rank aborts), `exits return CODE`
// (every rank returns CODE from main), `exits fatal` (a wrong root under MPI_ERRORS_ARE_FATAL).
// run.sh compares the exit code of the job, and what was printed before the end.

#include <mpi.h>
#include <time.h>

#include "check.h"

/** Waits until the launcher has forwarded the output, of which an abort may lose the end. */
static void let_output_drain(void) {
  struct timespec pause = {.tv_sec = 0, .tv_nsec = 100 * 1000 * 1000};
  nanosleep(&pause, NULL);
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "return";
  int code = argc > 2 ? atoi(argv[2]) : 0;
  check_context("exits %s", mode);
  check_begin(&argc, &argv);
  int sum = 0;
  OK(MPI_Allreduce(&check_state.rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  check_i64("sum of ranks", check_state.size * (check_state.size - 1) / 2, sum);
  check_section(mode);
  OK(MPI_Barrier(MPI_COMM_WORLD));
  if (strcmp(mode, "abort") == 0) {
    let_output_drain();
    if (check_state.rank == check_state.size - 1) MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Barrier(MPI_COMM_WORLD);
    check_fail("MPI_Abort", "no return", "a return");
  }
  if (strcmp(mode, "fatal") == 0) {
    let_output_drain();
    MPI_Bcast(&sum, 1, MPI_INT, check_state.size, MPI_COMM_WORLD);
    check_fail("a wrong root", "the end of the job", "a return");
  }
  check_text("mode", "return", mode);
  OK(MPI_Finalize());
  return code;
}
