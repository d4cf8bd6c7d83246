// crash HOW [rank=R] [at=K] [count=N]: rank R fails in the same way each time it has done K of N
// operations; a crash that no restart can repair.
//   HOW: segv  abort  exit (with code 7)  init (exits with 7 before MPI_Init)

#include "program.h"

static int* volatile nowhere;

static void fail_by(const char* how) {
  if (strcmp(how, "segv") == 0) *nowhere = 1;
  if (strcmp(how, "abort") == 0) abort();
  exit(7);
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "segv";
  const int rank = (int)argument_number(argc, argv, "rank", 1);
  const int at = (int)argument_number(argc, argv, "at", 20);
  const int count = (int)argument_number(argc, argv, "count", 50);
  if (strcmp(how, "init") == 0) fail_by(how);
  check_begin(&argc, &argv);
  for (int i = 0; i < count; ++i) {
    if (i == at && check_state.rank == rank) fail_by(how);
    int sum = 0;
    OK(MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    check_i64("sum", (long long)i * check_state.size, sum);
  }
  return check_end();
}
