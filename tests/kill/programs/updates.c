// updates rounds=N updates=N: ranks send each other updates, and then that they have finished, to
// four receives of any source. A rank takes what MPI_Waitany gives it, until all others have
// finished, and cancels the receives that are left, as HPCC's RandomAccess does. That is right only
// if of several messages the one that came first is given first.

#include "program.h"

enum { kReceives = 4, kUpdate = 1, kFinished = 2 };

static void post(int i, uint64_t values[], MPI_Request requests[]) {
  OK(MPI_Irecv(&values[i], 1, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
               &requests[i]));
}

static void one_round(int round, int updates) {
  const int rank = check_state.rank, size = check_state.size;
  uint64_t values[kReceives], got = 0, expected = 0;
  MPI_Request requests[kReceives];
  for (int i = kReceives; i-- > 0;) post(i, values, requests);
  for (int k = 0; k <= updates; ++k) {
    for (int to = 0; to < size; ++to) {
      if (to == rank) continue;
      const uint64_t value = element(rank * size + to, round, k);
      OK(MPI_Send(&value, 1, MPI_UINT64_T, to, k < updates ? kUpdate : kFinished, MPI_COMM_WORLD));
      if (k < updates) expected += element(to * size + rank, round, k);
    }
  }
  OK(MPI_Barrier(MPI_COMM_WORLD));  // all messages are there
  for (int left = size - 1; left > 0;) {
    int index = -1;
    MPI_Status status;
    OK(MPI_Waitany(kReceives, requests, &index, &status));
    if (status.MPI_TAG == kUpdate) {
      got += values[index];
    } else {
      --left;
    }
    post(index, values, requests);
  }
  for (int i = 0; i < kReceives; ++i) {
    OK(MPI_Cancel(&requests[i]));
    OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
  }
  check_u64("the sum of all updates", expected, got);
  uint64_t all = 0;
  OK(MPI_Allreduce(&got, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
  received_by_all(all);
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const int rounds = (int)argument_number(argc, argv, "rounds", 2);
  const int updates = (int)argument_number(argc, argv, "updates", 3);
  for (int round = 0; round < rounds; ++round) one_round(round, updates);
  return check_end();
}
