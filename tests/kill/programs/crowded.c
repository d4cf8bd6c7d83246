// crowded: two large reductions are outstanding on each of many communicators. Odd ranks use the
// communicators in the reverse order, and all ranks complete the reductions in another order.

#include "program.h"

enum { kComms = 100, kOutstanding = 2 * kComms, kCount = 1500 };

static uint64_t in[kOutstanding][kCount];
static uint64_t out[kOutstanding][kCount];

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  MPI_Comm comms[kComms];
  MPI_Request requests[kOutstanding];
  for (int k = 0; k < kComms; ++k) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[k]));
  for (int j = 0; j < kOutstanding; ++j) {
    const int k = check_state.rank % 2 ? j : kOutstanding - 1 - j;
    // The two reductions of a communicator are begun in the same order at all ranks.
    const int number = (j < kComms ? 0 : kComms) + k % kComms;
    for (int i = 0; i < kCount; ++i) in[number][i] = element(check_state.rank, number, i);
    OK(MPI_Iallreduce(in[number], out[number], kCount, MPI_UINT64_T, MPI_SUM, comms[k % kComms],
                      &requests[number]));
  }
  for (int j = kOutstanding; j-- > 0;) OK(MPI_Wait(&requests[j], MPI_STATUS_IGNORE));
  for (int j = 0; j < kOutstanding; ++j) {
    for (int i = 0; i < kCount; ++i) {
      uint64_t sum = 0;
      for (int r = 0; r < check_state.size; ++r) sum += element(r, j, i);
      check_u64("sum", sum, out[j][i]);
    }
  }
  for (int k = 0; k < kComms; ++k) OK(MPI_Comm_free(&comms[k]));
  return check_end();
}
