// unsteady HOW: rank 1 is killed in its first incarnation (from outside, or by --kill 1@8) and does
// something else in its second one. It knows which one it is from a file, which it makes with
// system calls that are not recorded.
//   HOW: operation  count  order (asks for another operation)    bytes  message (contributes
//   others)

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "program.h"

enum { kSteps = 12, kUnsteadyStep = 3 };

static int is_first_incarnation(void) {
  const long fd = syscall(SYS_openat, AT_FDCWD, "second-is-next",
                          O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0) syscall(SYS_close, fd);
  return fd >= 0;
}

static void unsteady_step(const char* how) {
  int in[2] = {check_state.rank, 5};
  int out[2] = {0, 0};
  const int count = strcmp(how, "count") == 0 ? 2 : 1;
  if (strcmp(how, "bytes") == 0) in[0] += 100;
  if (strcmp(how, "message") == 0) {
    in[0] += 100;
    MPI_Reduce(in, out, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  } else if (strcmp(how, "operation") == 0) {
    MPI_Barrier(MPI_COMM_WORLD);
  } else if (strcmp(how, "order") == 0) {
    MPI_Bcast(in, 1, MPI_INT, 0, MPI_COMM_WORLD);
  } else {
    MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const char* how = argc > 1 ? argv[1] : "operation";
  const int unsteady = check_state.rank == 1 && !is_first_incarnation();
  for (int step = 0; step < kSteps; ++step) {
    if (unsteady && step == kUnsteadyStep) {
      unsteady_step(how);
      continue;
    }
    int in = check_state.rank;
    int out = 0;
    if (strcmp(how, "message") == 0 && step == kUnsteadyStep) {
      OK(MPI_Reduce(&in, &out, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD));
      continue;
    }
    OK(MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    check_i64("sum", check_state.size * (check_state.size - 1) / 2, out);
  }
  note("done");
  OK(MPI_Finalize());
  return 0;
}
