// A user's operator runs on a second thread. The main thread's observations meanwhile are recorded.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "scene.h"

#define ROUNDS 3

static atomic_int in_operator, looked, called;

static void slow_sum(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) ((int*)inout)[i] += ((int*)in)[i];
  atomic_store(&in_operator, 1);
  while (!atomic_load(&looked)) sched_yield();
}

static MPI_Op op;

// The operator runs only when the operation is executed, not in a replay.
static void* reduce(void* unused) {
  int value = 1, sum = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
  REQUIRE(sum == 2);
  atomic_store(&called, 1);
  return unused;
}

int main(int argc, char** argv) {
  int provided, rank;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  REQUIRE(provided == MPI_THREAD_SERIALIZED);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Op_create(slow_sum, 1, &op);
  for (int i = 0; i < ROUNDS; ++i) {
    atomic_store(&in_operator, 0);
    atomic_store(&looked, rank != 0);
    atomic_store(&called, 0);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, reduce, NULL) == 0);
    if (rank == 0) {
      while (!atomic_load(&in_operator) && !atomic_load(&called)) sched_yield();
      struct timespec now;
      clock_gettime(CLOCK_REALTIME, &now);
      SAME(now);
      atomic_store(&looked, 1);
    }
    REQUIRE(pthread_join(thread, NULL) == 0);
    step();
  }
  if (rank == 0) printf("steps %d\n", 2 * steps);
  MPI_Op_free(&op);
  MPI_Finalize();
  return 0;
}
