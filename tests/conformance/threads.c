// Conformance of MPI_THREAD_MULTIPLE: threads communicate at the same time, each in its own
// communicator, or in one communicator with its own tag; and a thread waits for a message that
// another thread of the same rank sends.

#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

#include "check.h"

enum { kThreads = 4, kRounds = 200 };

/** The task of a thread, and the sum of the values that it has received. Threads must not use
 * check.h. */
typedef struct {
  MPI_Comm comm;
  int number;
  long long sum;
  int errors;
} Work;

static int next_rank(int by) {
  return (check_state.rank + by + check_state.size) % check_state.size;
}

/** Calls collectives, and sends messages along a ring, in the thread's own communicator. */
static void* in_own_communicator(void* argument) {
  Work* w = (Work*)argument;
  for (int round = 0; round < kRounds; ++round) {
    int mine = pattern(check_state.rank, w->number, round);
    int got = 0;
    int all = 0;
    w->errors += MPI_Sendrecv(&mine, 1, MPI_INT, next_rank(1), 0, &got, 1, MPI_INT, next_rank(-1),
                              0, w->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    w->errors += MPI_Allreduce(&got, &all, 1, MPI_INT, MPI_SUM, w->comm) != MPI_SUCCESS;
    if (round % 50 == 0) w->errors += MPI_Barrier(w->comm) != MPI_SUCCESS;
    w->sum += (long long)got * (round + 1) + all;
  }
  return NULL;
}

/** Uses requests in the common communicator, with the thread's number as the tag. */
static void* in_common_communicator(void* argument) {
  Work* w = (Work*)argument;
  for (int round = 0; round < kRounds; ++round) {
    int mine = pattern(check_state.rank, w->number + 100, round);
    int got = 0;
    int flag = 0;
    MPI_Request requests[2];
    w->errors +=
        MPI_Irecv(&got, 1, MPI_INT, next_rank(-1), w->number, w->comm, &requests[0]) != MPI_SUCCESS;
    w->errors +=
        MPI_Isend(&mine, 1, MPI_INT, next_rank(1), w->number, w->comm, &requests[1]) != MPI_SUCCESS;
    while (w->number == 0 && !flag) {
      w->errors += MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    }
    w->errors += MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) != MPI_SUCCESS;
    w->sum += (long long)got * (round + 1);
  }
  return NULL;
}

/** Waits in a receive until the main thread sends. */
static void* waits_for_main(void* argument) {
  Work* w = (Work*)argument;
  int got = 0;
  w->errors +=
      MPI_Recv(&got, 1, MPI_INT, check_state.rank, 77, w->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS;
  w->sum = got;
  return NULL;
}

static void run(void* (*body)(void*), int own_communicators, Work* work) {
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    work[i] = (Work){MPI_COMM_WORLD, i, 0, 0};
    if (own_communicators) OK(MPI_Comm_dup(MPI_COMM_WORLD, &work[i].comm));
  }
  for (int i = 0; i < kThreads; ++i) {
    check_i64("thread", 0, pthread_create(&threads[i], NULL, body, &work[i]));
  }
  for (int i = 0; i < kThreads; ++i) check_i64("join", 0, pthread_join(threads[i], NULL));
  for (int i = 0; i < kThreads; ++i) {
    check_i64("errors", 0, work[i].errors);
    if (own_communicators) OK(MPI_Comm_free(&work[i].comm));
  }
}

static long long received(int number, int salt, int sums) {
  long long sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    long long all = 0;
    for (int r = 0; r < check_state.size; ++r) all += pattern(r, number + salt, round);
    sum += (long long)pattern(next_rank(-1), number + salt, round) * (round + 1);
    if (sums) sum += all;
  }
  return sum;
}

// --- A generalized request that another thread completes

static int no_query(void* extra, MPI_Status* status) {
  (void)extra;
  return MPI_Status_set_elements(status, MPI_INT, 1);
}
static int no_free(void* extra) {
  *(int*)extra += 1;
  return MPI_SUCCESS;
}
static int no_cancel(void* extra, int complete) {
  (void)extra, (void)complete;
  return MPI_SUCCESS;
}
static void* completes(void* argument) {
  usleep(20000);
  return MPI_Grequest_complete(*(MPI_Request*)argument) == MPI_SUCCESS ? NULL : argument;
}
static void test_completed_by_thread(void) {
  check_context("a request that a thread completes");
  pthread_t thread;
  MPI_Request request = MPI_REQUEST_NULL;
  int freed = 0;
  void* failed = NULL;
  OK(MPI_Grequest_start(no_query, no_free, no_cancel, &freed, &request));
  MPI_Request theirs = request;
  check_i64("thread", 0, pthread_create(&thread, NULL, completes, &theirs));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  check_i64("freed", 1, freed);
  check_i64("join", 0, pthread_join(thread, &failed));
  check_true("completed", failed == NULL);
}

int main(int argc, char** argv) {
  int provided = -1;
  OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
  check_attach();
  check_i64("provided", MPI_THREAD_MULTIPLE, provided);
  Work work[kThreads];
  check_context("own communicators");
  run(in_own_communicator, 1, work);
  for (int i = 0; i < kThreads; ++i) check_i64("received", received(i, 0, 1), work[i].sum);
  check_section("own communicators");
  check_context("one communicator");
  run(in_common_communicator, 0, work);
  for (int i = 0; i < kThreads; ++i) check_i64("received", received(i, 100, 0), work[i].sum);
  check_section("one communicator");
  check_context("a waiting thread");
  pthread_t thread;
  Work w = {MPI_COMM_WORLD, 0, 0, 0};
  check_i64("thread", 0, pthread_create(&thread, NULL, waits_for_main, &w));
  int value = 4711 + check_state.rank;
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Send(&value, 1, MPI_INT, check_state.rank, 77, MPI_COMM_WORLD));
  check_i64("join", 0, pthread_join(thread, NULL));
  check_i64("errors", 0, w.errors);
  check_i64("received", value, w.sum);
  test_completed_by_thread();
  return check_end();
}
