// steps [count=N] [kinds=LETTERS] [bytes=B] [pause_us=U] [after_us=U] [lines=1]
//       [resident_mib=M] [exit=C]
//
// N steps (default 50). The kinds of steps are the letters in LETTERS, which are repeated:
//   a Allreduce   b Bcast   r Reduce   g Allgather   x Alltoall   t Barrier
//   B Bcast from rank 0   S Scatter from rank 0   G Gather to rank 0 (in these three some ranks
//   wait for no other)
// Each rank contributes B bytes (default 8). Before each step all ranks sleep pause_us
// microseconds, and ranks other than 0 sleep after_us more. Every rank checks every element that it
// receives; rank 0 prints the digest of all. With lines=1 every rank prints a line after each step.
// With resident_mib rank 1 has that much memory, and checks it at the end. The exit code is C.

#include "program.h"

enum { kResident = 77 };

static int count;  // the number of elements that a rank contributes
static uint64_t* in;
static uint64_t* out;

static void fill(int step) {
  for (int i = 0; i < count; ++i) in[i] = element(check_state.rank, step, i);
}

static uint64_t sum_of(int step, int index) {
  uint64_t sum = 0;
  for (int r = 0; r < check_state.size; ++r) sum += element(r, step, index);
  return sum;
}

static void allreduce(int step) {
  fill(step);
  OK(MPI_Allreduce(in, out, count, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
  for (int i = 0; i < count; ++i) check_u64("sum", sum_of(step, i), out[i]);
  received_by_all(out[count - 1]);
}

static void bcast(int step, int root) {
  if (check_state.rank == root) fill(step);
  OK(MPI_Bcast(in, count, MPI_UINT64_T, root, MPI_COMM_WORLD));
  for (int i = 0; i < count; ++i) check_u64("broadcast", element(root, step, i), in[i]);
  received_by_all(in[count - 1]);
}

static void reduce(int step) {
  const int root = step % check_state.size;
  fill(step);
  OK(MPI_Reduce(in, out, count, MPI_UINT64_T, MPI_SUM, root, MPI_COMM_WORLD));
  for (int i = 0; check_state.rank == root && i < count; ++i) {
    check_u64("sum at the root", sum_of(step, i), out[i]);
  }
}

static void allgather(int step) {
  fill(step);
  OK(MPI_Allgather(in, count, MPI_UINT64_T, out, count, MPI_UINT64_T, MPI_COMM_WORLD));
  for (int r = 0; r < check_state.size; ++r) {
    for (int i = 0; i < count; ++i) check_u64("block", element(r, step, i), out[r * count + i]);
  }
  received_by_all(out[check_state.size * count - 1]);
}

static void scatter(int step) {
  const int first = check_state.rank * count;
  if (check_state.rank == 0) {
    for (int i = 0; i < check_state.size * count; ++i) in[i] = element(0, step, i);
  }
  OK(MPI_Scatter(in, count, MPI_UINT64_T, out, count, MPI_UINT64_T, 0, MPI_COMM_WORLD));
  for (int i = 0; i < count; ++i) check_u64("scattered", element(0, step, first + i), out[i]);
}

static void gather(int step) {
  fill(step);
  OK(MPI_Gather(in, count, MPI_UINT64_T, out, count, MPI_UINT64_T, 0, MPI_COMM_WORLD));
  for (int r = 0; check_state.rank == 0 && r < check_state.size; ++r) {
    for (int i = 0; i < count; ++i) check_u64("gathered", element(r, step, i), out[r * count + i]);
  }
}

static void alltoall(int step) {
  const int n = check_state.size;
  for (int i = 0; i < n * count; ++i) in[i] = element(check_state.rank, step, i);
  OK(MPI_Alltoall(in, count, MPI_UINT64_T, out, count, MPI_UINT64_T, MPI_COMM_WORLD));
  for (int r = 0; r < n; ++r) {
    for (int i = 0; i < count; ++i) {
      check_u64("message", element(r, step, check_state.rank * count + i), out[r * count + i]);
    }
  }
}

static void run(char kind, int step) {
  check_context("step %d, %c", step, kind);
  switch (kind) {
    case 'a':
      return allreduce(step);
    case 'b':
      return bcast(step, step % check_state.size);
    case 'B':
      return bcast(step, 0);
    case 'S':
      return scatter(step);
    case 'G':
      return gather(step);
    case 'r':
      return reduce(step);
    case 'g':
      return allgather(step);
    case 'x':
      return alltoall(step);
    case 't':
      OK(MPI_Barrier(MPI_COMM_WORLD));
      return;
    default:
      check_fail("kinds", "letters of abrgxtBSG", "another");
  }
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const long long steps = argument_number(argc, argv, "count", 50);
  const char* kinds = argument_text(argc, argv, "kinds", "abrgxt");
  const long long pause = argument_number(argc, argv, "pause_us", 0);
  const long long after = argument_number(argc, argv, "after_us", 0);
  const long long lines = argument_number(argc, argv, "lines", 0);
  const int code = (int)argument_number(argc, argv, "exit", 0);
  const long long resident_mib = argument_number(argc, argv, "resident_mib", 0);
  const size_t resident = check_state.rank == 1 ? (size_t)resident_mib << 20 : 0;
  count = (int)(argument_number(argc, argv, "bytes", 8) / 8);
  in = malloc((size_t)check_state.size * (size_t)count * sizeof *in);
  out = malloc((size_t)check_state.size * (size_t)count * sizeof *out);
  char* large = malloc(resident + 1);
  if (count < 1 || !in || !out || !large) check_fail("memory", "some", "none");
  memset(large, kResident, resident);

  for (int step = 0; step < steps; ++step) {
    pause_us(check_state.rank == 0 ? pause : pause + after);
    run(kinds[(size_t)step % strlen(kinds)], step);
    if (lines) {
      printf("rank %d, step %d: %016llx\n", check_state.rank, step,
             (unsigned long long)check_state.digest);
      fflush(stdout);
    }
  }
  for (size_t i = 0; i < resident; i += 4096) {
    if (large[i] != kResident) check_fail("resident memory", "what I wrote", "something else");
  }
  free(in);
  free(out);
  free(large);
  const int finished = check_end();
  return finished != 0 ? finished : code;
}
