// Conformance of the persistent collectives, which are extensions in Open MPI 4.1. They are started
// again and again with other data, in different orders at each rank, are completed in every order,
// and run beside persistent messages. With an argument the program includes calls in which Open MPI
// crashes.

#include <mpi.h>
// clang-format off: mpi-ext.h needs mpi.h
#include <mpi-ext.h>
// clang-format on

// nonblocking.h begins collectives by these names; here they only create requests, which MPI_Start
// begins.
#define MPI_Ibarrier(comm, request) MPIX_Barrier_init(comm, MPI_INFO_NULL, request)
#define MPI_Ibcast(a, b, c, d, comm, request) \
  MPIX_Bcast_init(a, b, c, d, comm, MPI_INFO_NULL, request)
#define MPI_Iallreduce(a, b, c, d, e, comm, request) \
  MPIX_Allreduce_init(a, b, c, d, e, comm, MPI_INFO_NULL, request)
#define MPI_Iallgather(a, b, c, d, e, f, comm, request) \
  MPIX_Allgather_init(a, b, c, d, e, f, comm, MPI_INFO_NULL, request)
#define MPI_Iallgatherv(a, b, c, d, e, f, g, comm, request) \
  MPIX_Allgatherv_init(a, b, c, d, e, f, g, comm, MPI_INFO_NULL, request)
#define MPI_Ireduce_scatter(a, b, c, d, e, comm, request) \
  MPIX_Reduce_scatter_init(a, b, c, d, e, comm, MPI_INFO_NULL, request)
#define MPI_Ireduce_scatter_block(a, b, c, d, e, comm, request) \
  MPIX_Reduce_scatter_block_init(a, b, c, d, e, comm, MPI_INFO_NULL, request)
#define MPI_Ireduce(a, b, c, d, e, f, comm, request) \
  MPIX_Reduce_init(a, b, c, d, e, f, comm, MPI_INFO_NULL, request)
#define MPI_Igather(a, b, c, d, e, f, g, comm, request) \
  MPIX_Gather_init(a, b, c, d, e, f, g, comm, MPI_INFO_NULL, request)
#define MPI_Igatherv(a, b, c, d, e, f, g, h, comm, request) \
  MPIX_Gatherv_init(a, b, c, d, e, f, g, h, comm, MPI_INFO_NULL, request)
#define MPI_Iscatter(a, b, c, d, e, f, g, comm, request) \
  MPIX_Scatter_init(a, b, c, d, e, f, g, comm, MPI_INFO_NULL, request)
#define MPI_Iscatterv(a, b, c, d, e, f, g, h, comm, request) \
  MPIX_Scatterv_init(a, b, c, d, e, f, g, h, comm, MPI_INFO_NULL, request)
#define MPI_Ialltoall(a, b, c, d, e, f, comm, request) \
  MPIX_Alltoall_init(a, b, c, d, e, f, comm, MPI_INFO_NULL, request)
#define MPI_Ialltoallv(a, b, c, d, e, f, g, h, comm, request) \
  MPIX_Alltoallv_init(a, b, c, d, e, f, g, h, comm, MPI_INFO_NULL, request)
#define MPI_Ialltoallw(a, b, c, d, e, f, g, h, comm, request) \
  MPIX_Alltoallw_init(a, b, c, d, e, f, g, h, comm, MPI_INFO_NULL, request)
#define MPI_Iscan(a, b, c, d, e, comm, request) \
  MPIX_Scan_init(a, b, c, d, e, comm, MPI_INFO_NULL, request)
#define MPI_Iexscan(a, b, c, d, e, comm, request) \
  MPIX_Exscan_init(a, b, c, d, e, comm, MPI_INFO_NULL, request)

#include "nonblocking.h"

enum { kRounds = 4, kMessages = 2, kAll = kFunctions + kMessages };

/** Fills the buffers with other values for the next round. */
static void fill_again(Begun* b) {
  const int n = b->on->size;
  const int me = b->on->rank;
  b->salt += 7;
  set_ints(b->out, b->length, kUntouched);
  for (int i = 0; i < n * (b->count + 5); ++i) b->in[i] = begun_value(b, me, 0, i);
  if (b->function == 1 && me == b->root) memcpy(b->out, b->in, (size_t)b->count * sizeof(int));
  const int bytes = b->function == 14 ? (int)sizeof(int) : 1;
  for (int to = 0; b->function >= 10 && b->function <= 14 && to < n; ++to) {
    const int equal = b->function == 10 || b->function == 12;
    const int at = equal ? to * b->count : b->displs[to] / bytes;
    for (int i = 0; i < b->count + 3; ++i) b->in[at + i] = begun_value(b, me, to, i);
  }
}

static void start(int round, int count, MPI_Request* requests) {
  if (round % 2 == 0) {
    OK(MPI_Startall(count, requests));
    return;
  }
  // Every rank starts the collectives of one communicator in another order.
  for (int i = 0; i < count; ++i) OK(MPI_Start(&requests[(i + check_state.rank) % count]));
}

static void complete(int round, int count, MPI_Request* requests) {
  int index = -1;
  switch (round % 4) {
    case 0:
      OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
      break;
    case 1:
      for (int i = count; i-- > 0;) OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
      break;
    case 2:
      for (int left = count; left > 0; --left) {
        OK(MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE));
        check_true("it stays", index >= 0 && requests[index] != MPI_REQUEST_NULL);
      }
      OK(MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE));
      check_i64("no index", MPI_UNDEFINED, index);
      break;
    default:
      for (int i = 0; i < count; ++i) {
        for (int flag = 0; !flag;) {
          if (MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            check_fail("MPI_Test", "success", "an error");
        }
      }
  }
}

static void test_rounds(const TestComm* on, int count, int first_round) {
  MPI_Request requests[kAll];
  Begun begun[kFunctions];
  int sent = 0;
  int received = 0;
  const int next = (on->rank + 1) % on->size;
  const int before = (on->rank + on->size - 1) % on->size;
  for (int f = 0; f < kFunctions; ++f) begun[f] = begin(f, on, count, f, 0, &requests[f]);
  OK(MPI_Send_init(&sent, 1, MPI_INT, next, 3, on->comm, &requests[kFunctions]));
  OK(MPI_Recv_init(&received, 1, MPI_INT, before, 3, on->comm, &requests[kFunctions + 1]));
  for (int round = first_round; round < first_round + kRounds; ++round) {
    sent = 100 * round + on->rank;
    start(round, kAll, requests);
    complete(round, kAll, requests);
    check_i64("message", 100 * round + before, received);
    for (int f = 0; f < kFunctions; ++f) {
      check_result(&begun[f]);
      fill_again(&begun[f]);
    }
  }
  for (int i = 0; i < kAll; ++i) {
    OK(MPI_Request_free(&requests[i]));
    check_true("it is null", requests[i] == MPI_REQUEST_NULL);
  }
  for (int f = 0; f < kFunctions; ++f) release(&begun[f]);
}

/** In a ring, every function gives this rank the values of its two neighbours. */
static void test_neighbours(void) {
  enum { kKinds = 5 };
  const int size = check_state.size;
  const int periodic = 1;
  const int counts[2] = {1, 1};
  const int displs[2] = {0, 1};
  const MPI_Aint bytes[2] = {0, sizeof(int)};
  const MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  int out[2];
  int in[kKinds][2];
  int me = -1;
  MPI_Comm ring;
  MPI_Request requests[kKinds];
  OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring));
  OK(MPI_Comm_rank(ring, &me));
  const int before = (me + size - 1) % size;
  const int behind = (me + 1) % size;
  OK(MPIX_Neighbor_allgather_init(out, 1, MPI_INT, in[0], 1, MPI_INT, ring, MPI_INFO_NULL,
                                  &requests[0]));
  OK(MPIX_Neighbor_allgatherv_init(out, 1, MPI_INT, in[1], counts, displs, MPI_INT, ring,
                                   MPI_INFO_NULL, &requests[1]));
  OK(MPIX_Neighbor_alltoall_init(out, 1, MPI_INT, in[2], 1, MPI_INT, ring, MPI_INFO_NULL,
                                 &requests[2]));
  OK(MPIX_Neighbor_alltoallv_init(out, counts, displs, MPI_INT, in[3], counts, displs, MPI_INT,
                                  ring, MPI_INFO_NULL, &requests[3]));
  OK(MPIX_Neighbor_alltoallw_init(out, counts, bytes, types, in[4], counts, bytes, types, ring,
                                  MPI_INFO_NULL, &requests[4]));
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 2; ++i) out[i] = 1000 * round + 10 * me + i;
    start(round, kKinds, requests);
    complete(round, kKinds, requests);
    for (int kind = 0; kind < kKinds; ++kind) {
      // A neighbour sends the same value to all (allgather), or one for each of its neighbours.
      check_i64("from before", 1000 * round + 10 * before + (kind < 2 ? 0 : 1), in[kind][0]);
      check_i64("from behind", 1000 * round + 10 * behind, in[kind][1]);
    }
  }
  for (int kind = 0; kind < kKinds; ++kind) OK(MPI_Request_free(&requests[kind]));
  OK(MPI_Comm_free(&ring));
}

/** The program frees the communicator and the datatype before it starts the collective. Open
 * MPI 4.1 crashes then. */
static void test_freed(const TestComm* on) {
  MPI_Comm own;
  MPI_Datatype pairs;
  MPI_Request request;
  int values[4] = {on->rank, 1, 2, on->rank};
  OK(MPI_Comm_dup(on->comm, &own));
  OK(MPI_Type_vector(2, 1, 3, MPI_INT, &pairs));
  OK(MPI_Type_commit(&pairs));
  OK(MPIX_Bcast_init(values, 1, pairs, 0, own, MPI_INFO_NULL, &request));
  OK(MPI_Type_free(&pairs));
  for (int round = 0; round < 2; ++round) {
    if (on->rank == 0) values[0] = values[3] = 50 + round;
    OK(MPI_Start(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    check_i64("first", 50 + round, values[0]);
    check_i64("gap", 1, values[1]);
    check_i64("second", 50 + round, values[3]);
  }
  OK(MPI_Request_free(&request));
  OK(MPI_Comm_free(&own));
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  TestComm comms[kTestComms];
  make_test_comms(comms);
  static const int kCounts[] = {0, 1, 7, 300};
  for (int c = 0; c < kTestComms; ++c) {
    for (int k = 0; k < 4; ++k) test_rounds(&comms[c], kCounts[k], c + k);
  }
  check_section("rounds");
  // If both neighbours are the same rank, Open MPI 4.1 exchanges the two blocks.
  if (check_state.size > 2) test_neighbours();
  check_section("neighbours");
  for (int c = 0; argc > 1 && c < kTestComms; ++c) test_freed(&comms[c]);
  check_section("freed");
  free_test_comms(comms);
  return check_end();
}
