// drift [how=values|choices|openmp] [steps=N] [pause_us=U] [checkpoints=N] [files=1|2]: a program
// of which no two runs are the same: the processor's random numbers, which nothing records, decide
// what it does. Whatever they are, the ranks must agree on what has happened; each checks that in
// every step.
//   values   ranks contribute and send random values
//   choices  also: to which rank they send, and whether they ask for the message before they
//   receive openmp   each rank contributes a sum of doubles that the threads of OpenMP add in any
//   order
// Each rank prints a line in each step: the state before, and the state after it. checkpoints: it
// makes a checkpoint in each N-th step. files: in each step it appends a line to a file, which it
// opens for that alone, and makes and renames files and directories that must not be there already;
// with 2 it also removes them later.

#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <omp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"

static const char* how;
static int is(const char* name) { return strcmp(how, name) == 0; }

static uint64_t drawn(void) {
  unsigned long long value = 0;
  while (_rdrand64_step(&value) == 0) {
  }
  return value;
}

struct part {
  uint64_t bits;   // what this rank has drawn
  uint64_t state;  // before this step: the same at all ranks
};

/** Adds what all ranks contribute to the common state. */
static void gather(uint64_t bits) {
  struct part mine = {bits, salt}, all[64];
  OK(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, MPI_COMM_WORLD));
  check_u64("my own part", bits, all[check_state.rank].bits);
  uint64_t next = salt;
  for (int r = 0; r < check_state.size; ++r) {
    check_u64("state of a rank", salt, all[r].state);
    next = hash_step(next, all[r].bits);
  }
  salt = next;
}

/** Sends a message to the next rank, or to the one behind it, with a number that says which. */
static void messages(int step) {
  const int n = check_state.size, rank = check_state.rank;
  int ahead = is("choices") && n > 2 ? 1 + (int)(drawn() % 2) : 1, of_all[64];
  OK(MPI_Allgather(&ahead, 1, MPI_INT, of_all, 1, MPI_INT, MPI_COMM_WORLD));
  uint64_t sent[3] = {drawn(), salt, (uint64_t)step}, sum = 0;
  MPI_Request request;
  const int any = is("choices") && drawn() % 2 == 0;
  OK(MPI_Isend(sent, 3, MPI_UINT64_T, (rank + ahead) % n, 5, MPI_COMM_WORLD, &request));
  for (int from = 0; from < n; ++from) {
    if ((from + of_all[from]) % n != rank) continue;
    uint64_t got[3];
    int there = 0;
    const int source = any ? MPI_ANY_SOURCE : from;
    if (is("choices") && drawn() % 2 == 0) {
      OK(MPI_Iprobe(source, 5, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE));
    }
    OK(MPI_Recv(got, 3, MPI_UINT64_T, source, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    check_u64("state of a message", salt, got[1]);
    check_u64("step of a message", (uint64_t)step, got[2]);
    sum += got[0];
  }
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  uint64_t mine[2] = {sent[0], sum}, total[2];
  OK(MPI_Allreduce(mine, total, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
  check_u64("what was received", total[0], total[1]);
  salt = hash_step(salt, total[0]);
}

static double threads_add(int step) {
  double sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(dynamic, 7)
  for (int i = 0; i < 3000; ++i) {
    const double term = 1.0 / (double)(1 + ((i * 7919 + step) % 3001));
    sum += i % 5 == 0 ? 1e6 * term : term;
  }
  return sum;
}

/** The sums of all ranks are about the same, and all ranks have the same bits of each. */
static void add_doubles(int step) {
  double mine = threads_add(step), all = 0, least = 0;
  OK(MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
  OK(MPI_Allreduce(&mine, &least, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD));
  const double mean = all / check_state.size;
  if (mean - least > 1e-6 || least - mean > 1e-6) check_fail("sum", "a rounding", "another");
  uint64_t bits;
  memcpy(&bits, &all, sizeof bits);
  gather(bits);
}

static void require_ok(const char* what, int result) {
  if (result != 0) check_fail(what, "success", strerror(errno));
}

static void use_files(int step, uint64_t before, int removes) {
  char log[64], made[64], moved[80], directory[64];
  snprintf(log, sizeof log, "log.%d", check_state.rank);
  FILE* file = fopen(log, "a");
  if (file == NULL) check_fail(log, "to be opened", strerror(errno));
  fprintf(file, "%d %016llx %016llx\n", step, (unsigned long long)before, (unsigned long long)salt);
  require_ok(log, fclose(file));
  snprintf(directory, sizeof directory, "directory.%d.%d", check_state.rank, step);
  require_ok(directory, mkdir(directory, 0755));
  snprintf(made, sizeof made, "made.%d.%d", check_state.rank, step);
  const int fd = open(made, O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (fd < 0) check_fail(made, "to be made", strerror(errno));
  require_ok(made, close(fd));
  snprintf(moved, sizeof moved, "%s/moved", directory);
  require_ok(moved, rename(made, moved));
  if (!removes || step <= 2) return;
  snprintf(directory, sizeof directory, "directory.%d.%d", check_state.rank, step - 2);
  snprintf(moved, sizeof moved, "%s/moved", directory);
  require_ok(moved, unlink(moved));
  require_ok(directory, rmdir(directory));
}

int main(int argc, char** argv) {
  int provided;
  OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
  check_attach();
  how = argument_text(argc, argv, "how", "values");
  const int steps = (int)argument_number(argc, argv, "steps", 500);
  const long long pause = argument_number(argc, argv, "pause_us", 0);
  const long long every = argument_number(argc, argv, "checkpoints", 0);
  const long long files = argument_number(argc, argv, "files", 0);
  for (int step = 1; step <= steps; ++step) {
    const uint64_t before = salt;
    if (is("openmp")) {
      add_doubles(step);
    } else {
      gather(drawn());
      messages(step);
    }
    printf("rank %d, step %d: %016llx %016llx\n", check_state.rank, step,
           (unsigned long long)before, (unsigned long long)salt);
    if (step % 10 == 0) fflush(stdout);
    if (files != 0) use_files(step, before, files == 2);
    enum { kCheckpoint = 0x524a02 };  // of MPI_Pcontrol
    if (every != 0 && step % every == 0) MPI_Pcontrol(kCheckpoint, &salt, sizeof salt);
    pause_us(pause);
  }
  OK(MPI_Finalize());
  return 0;
}
