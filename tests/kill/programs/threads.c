// threads: two threads of each rank send at the same time (MPI_THREAD_MULTIPLE), after some
// operations of the main thread alone. `alone`: the other thread does nothing.

#include <pthread.h>

#include "program.h"

static int errors;

static void* send_to_self(void* comm) {
  int value = 5;
  for (int i = 0; i < 20; ++i) {
    errors += MPI_Sendrecv_replace(&value, 1, MPI_INT, check_state.rank, 1, check_state.rank, 1,
                                   *(MPI_Comm*)comm, MPI_STATUS_IGNORE) != MPI_SUCCESS;
  }
  return NULL;
}

int main(int argc, char** argv) {
  int provided = -1;
  OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
  check_attach();
  check_i64("provided", MPI_THREAD_MULTIPLE, provided);
  MPI_Comm copy = MPI_COMM_NULL;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  for (int i = 0; i < 4; ++i) OK(MPI_Barrier(MPI_COMM_WORLD));
  pthread_t thread;
  const int alone = argc > 1;
  if (!alone) check_i64("thread", 0, pthread_create(&thread, NULL, send_to_self, &copy));
  int sum = 0;
  for (int i = 0; i < 20; ++i) {
    OK(MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    check_i64("sum", i * check_state.size, sum);
  }
  if (!alone) check_i64("join", 0, pthread_join(thread, NULL));
  check_i64("errors", 0, errors);
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Comm_free(&copy));
  return check_end();
}
