// relayed [steps=N] [kib=K] [polls=1] [sums=1] [blocks=1] [pause_us=P]: large messages around a
// ring. In each step every rank sends to the next one up to K KiB (default 1024), whose contents
// follow from the step and the sender: ranks with an even number send first, the others receive
// first, so that receivers wait. polls=1: the receives are posted first, and asked about. sums=1:
// instead of messages, a broadcast of what one rank contributes, in turn, and the sum of all
// contributions. blocks=1: instead of messages, in turn, the operations in which blocks of K KiB
// are moved. Each rank prints a line a step. P: microseconds between two steps.

#include "program.h"

static void fill(uint64_t* data, size_t count, int source, int step) {
  uint64_t x = element(source, step, 0);
  for (size_t i = 0; i < count; ++i) data[i] = x += 0x9e3779b97f4a7c15u;
}

static uint64_t count_wrong(const uint64_t* data, size_t count, int source, int step) {
  uint64_t x = element(source, step, 0), wrong = 0;
  for (size_t i = 0; i < count; ++i) wrong += data[i] != (x += 0x9e3779b97f4a7c15u);
  return wrong;
}

// The received numbers are right; `in` holds the sum in the end. Every other step one of the ranks
// has its result in the buffer of its contribution.
static void add_up(uint64_t* out, uint64_t* in, size_t count, int step) {
  const int n = check_state.size, me = check_state.rank, root = step % n;
  if (me == root) memcpy(in, out, count * sizeof *in);
  OK(MPI_Bcast(in, (int)count, MPI_UINT64_T, root, MPI_COMM_WORLD));
  check_u64("wrong words of a broadcast", 0, count_wrong(in, count, root, step));
  if (step % 2 == 0 && me == root) {
    memcpy(in, out, count * sizeof *in);
    OK(MPI_Allreduce(MPI_IN_PLACE, in, (int)count, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
  } else {
    OK(MPI_Allreduce(out, in, (int)count, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
  }
  uint64_t sum = 0, wrong = 0;
  for (int r = 0; r < n; ++r) sum += element(r, step, 0);
  const uint64_t each = (uint64_t)n * 0x9e3779b97f4a7c15u;
  for (size_t i = 0; i < count; ++i) wrong += in[i] != (sum += each);
  check_u64("wrong words of a sum", 0, wrong);
}

enum { kBlockOperations = 8 };

// Moves blocks of `count` numbers, whose contents follow from sender, receiver and step, checks
// what was received, and overwrites what was sent. Returns memory whose contents are the same in
// each run.
static const uint64_t* move_blocks(uint64_t* out, uint64_t* in, size_t count, int step) {
  const int n = check_state.size, me = check_state.rank, size = (int)count;
  const int next = (me + 1) % n, before = (me + n - 1) % n, root = step % n;
  const int kind = step % kBlockOperations, first = step * n;
  for (int r = 0; r < n; ++r) fill(out + r * count, count, me, first + r);
  for (int r = 0; r < n; ++r) memset(in + r * count, 0xff, count * sizeof *in);
  int from = -1, to = -1;  // in place 0; otherwise one block from each rank
  switch (kind) {
    case 0:
      OK(MPI_Sendrecv(out + next * count, size, MPI_UINT64_T, next, 1, in, size, MPI_UINT64_T,
                      before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      from = before, to = me;
      break;
    case 1:
      memcpy(in, out + next * count, count * sizeof *in);
      OK(MPI_Sendrecv_replace(in, size, MPI_UINT64_T, next, 1, before, 1, MPI_COMM_WORLD,
                              MPI_STATUS_IGNORE));
      from = before, to = me;
      break;
    case 2:
      OK(MPI_Alltoall(out, size, MPI_UINT64_T, in, size, MPI_UINT64_T, MPI_COMM_WORLD));
      break;
    case 3:
      memcpy(in, out, (size_t)n * count * sizeof *in);
      OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_UINT64_T, in, size, MPI_UINT64_T, MPI_COMM_WORLD));
      break;
    case 4:
      OK(MPI_Gather(out + root * count, size, MPI_UINT64_T, in, size, MPI_UINT64_T, root,
                    MPI_COMM_WORLD));
      if (me != root) return out;
      break;
    case 5:
      OK(MPI_Scatter(out, size, MPI_UINT64_T, in, size, MPI_UINT64_T, root, MPI_COMM_WORLD));
      from = root, to = me;
      break;
    case 6:
      OK(MPI_Allgather(out, size, MPI_UINT64_T, in, size, MPI_UINT64_T, MPI_COMM_WORLD));
      memset(out, 0, (size_t)n * count * sizeof *out);
      for (int r = 0; r < n; ++r) {
        check_u64("wrong words", 0, count_wrong(in + r * count, count, r, first));
      }
      return in;
    default: {
      MPI_Request requests[2];
      OK(MPI_Irecv(in, size, MPI_UINT64_T, before, 1, MPI_COMM_WORLD, &requests[0]));
      OK(MPI_Isend(out + next * count, size, MPI_UINT64_T, next, 1, MPI_COMM_WORLD, &requests[1]));
      OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
      from = before, to = me;
    }
  }
  memset(out, 0, (size_t)n * count * sizeof *out);
  if (from >= 0) {
    check_u64("wrong words", 0, count_wrong(in, count, from, first + to));
    return in;
  }
  for (int r = 0; r < n; ++r) {
    check_u64("wrong words", 0, count_wrong(in + r * count, count, r, first + me));
  }
  return in;
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const int steps = (int)argument_number(argc, argv, "steps", 100);
  const size_t most = (size_t)argument_number(argc, argv, "kib", 1024) * 1024 / sizeof(uint64_t);
  const int polls = (int)argument_number(argc, argv, "polls", 0);
  const int sums = (int)argument_number(argc, argv, "sums", 0);
  const int blocks = (int)argument_number(argc, argv, "blocks", 0);
  const long long pause = argument_number(argc, argv, "pause_us", 0);
  const int n = check_state.size, me = check_state.rank;
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  const size_t room = blocks != 0 ? (size_t)n * most : most;
  uint64_t* out = malloc(room * sizeof *out);
  uint64_t* in = malloc(room * sizeof *in);
  if (out == NULL || in == NULL) check_fail("memory", "some", "none");
  for (int step = 0; step < steps; ++step) {
    check_context("step %d", step);
    const size_t count = most >> (step % 4);
    const int bytes = (int)(count * sizeof *out);
    const uint64_t* shown = in;
    if (blocks == 0) {
      fill(out, count, me, step);
      memset(in, 0xff, count * sizeof *in);
    }
    MPI_Request request = MPI_REQUEST_NULL;
    int over = 0;
    if (blocks != 0) {
      shown = move_blocks(out, in, most >> (step / kBlockOperations % 4), step);
    } else if (sums != 0) {
      add_up(out, in, count, step);
    } else if (polls != 0) {
      OK(MPI_Irecv(in, bytes, MPI_BYTE, before, step, MPI_COMM_WORLD, &request));
      OK(MPI_Send(out, bytes, MPI_BYTE, next, step, MPI_COMM_WORLD));
      while (!over) {
        if (MPI_Test(&request, &over, MPI_STATUS_IGNORE) != MPI_SUCCESS) return 1;
      }
    } else if (me % 2 == 0) {
      OK(MPI_Send(out, bytes, MPI_BYTE, next, step, MPI_COMM_WORLD));
      OK(MPI_Recv(in, bytes, MPI_BYTE, before, step, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
      OK(MPI_Recv(in, bytes, MPI_BYTE, before, step, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      OK(MPI_Send(out, bytes, MPI_BYTE, next, step, MPI_COMM_WORLD));
    }
    if (sums == 0 && blocks == 0) check_u64("wrong words", 0, count_wrong(in, count, before, step));
    check_state.digest = hash_step(check_state.digest, shown[count - 1]);
    printf("rank %d, step %d: %016llx\n", me, step, (unsigned long long)check_state.digest);
    fflush(stdout);
    pause_us(pause);
  }
  free(out);
  free(in);
  return check_end();
}
