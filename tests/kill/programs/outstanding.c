// outstanding ROUNDS: several nonblocking collectives are outstanding at once on two communicators,
// with a persistent one, messages and a generalized request. Odd ranks begin them in the reverse
// order. They are completed in another order, or by tests. What a rank contributes depends on what
// it has received.

#include "program.h"
// Needs mpi.h:
#include <mpi-ext.h>

enum { kLong = 3000, kRequests = 9 };

static uint64_t mine = 1;
static uint64_t in[3][kLong];
static uint64_t out[3][kLong];
static uint64_t parts[64];
static uint64_t prefix;
static uint64_t common;

static void learn(uint64_t value) { mine = hash_step(mine, value); }

/** The functions of the generalized request record the order in which they are called. */
static int describe(void* extra, MPI_Status* status) {
  *(uint64_t*)extra = hash_step(*(uint64_t*)extra, 1);
  return MPI_Status_set_elements(status, MPI_INT, 1);
}
static int let_go(void* extra) {
  *(uint64_t*)extra = hash_step(*(uint64_t*)extra, 2);
  return MPI_SUCCESS;
}
static int refuse_to_cancel(void* extra, int complete) {
  (void)extra, (void)complete;
  return MPI_ERR_OTHER;
}

static void one_round(int round, MPI_Comm comms[2], MPI_Request persistent) {
  const int rank = check_state.rank, size = check_state.size;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  const int counts[3] = {1, 100, kLong};
  const int count = counts[round % 3];
  MPI_Request requests[kRequests];
  for (int k = 0; k < 2; ++k) {
    const int c = (k + rank) % 2;
    for (int i = 0; i < count; ++i) in[c][i] = hash_step(mine, (uint64_t)(i + c));
    OK(MPI_Iallreduce(in[c], out[c], count, MPI_UINT64_T, MPI_BXOR, comms[c], &requests[c]));
  }
  uint64_t sent = mine, got = 0;
  OK(MPI_Iscan(&mine, &prefix, 1, MPI_UINT64_T, MPI_BXOR, comms[0], &requests[2]));
  OK(MPI_Isend(&sent, 1, MPI_UINT64_T, next, round, comms[0], &requests[3]));
  OK(MPI_Ialltoall(in[0], 1, MPI_UINT64_T, parts, 1, MPI_UINT64_T, comms[1], &requests[4]));
  OK(MPI_Irecv(&got, 1, MPI_UINT64_T, before, round, comms[0], &requests[5]));
  uint64_t told = round % size == rank ? mine : 0;
  OK(MPI_Ibcast(&told, 1, MPI_UINT64_T, round % size, comms[1], &requests[6]));
  requests[7] = persistent;  // `mine` does not change until it is complete
  OK(MPI_Start(&requests[7]));
  static uint64_t described;
  OK(MPI_Grequest_start(describe, let_go, refuse_to_cancel, &described, &requests[8]));
  if (round % 3 != 2) OK(MPI_Grequest_complete(requests[8]));
  if (round % 3 == 0) {
    for (int i = kRequests; i-- > 0;) OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
  } else if (round % 3 == 1) {
    for (int left = kRequests, index = -1; left > 0; --left) {
      OK(MPI_Waitany(kRequests, requests, &index, MPI_STATUS_IGNORE));
    }
  } else {
    for (int over = 0, asked = 0; !over; ++asked) {
      if (asked == 3) OK(MPI_Grequest_complete(requests[8]));
      if (MPI_Testall(kRequests, requests, &over, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
        check_fail("MPI_Testall", "success", "an error");
    }
  }
  for (int c = 0; c < 2; ++c) {
    for (int i = 0; i < count; ++i) learn(out[c][i]);
  }
  learn(prefix);
  learn(common);
  learn(got);
  learn(told);
  learn(described);
  for (int i = 0; i < size; ++i) learn(parts[i]);
  check_u64("round", mine, mine);
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const int rounds = argc > 1 ? atoi(argv[1]) : 6;
  MPI_Comm comms[2] = {MPI_COMM_WORLD, MPI_COMM_NULL};
  MPI_Request request = MPI_REQUEST_NULL;
  OK(MPI_Comm_idup(MPI_COMM_WORLD, &comms[1], &request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  learn((uint64_t)check_state.rank);
  MPI_Request persistent = MPI_REQUEST_NULL;
  OK(MPIX_Allreduce_init(&mine, &common, 1, MPI_UINT64_T, MPI_BXOR, comms[0], MPI_INFO_NULL,
                         &persistent));
  for (int round = 0; round < rounds; ++round) one_round(round, comms, persistent);
  OK(MPI_Request_free(&persistent));
  OK(MPI_Comm_free(&comms[1]));
  return check_end();
}
