// threads [alone|late|once]: two threads of each rank send at the same time (MPI_THREAD_MULTIPLE),
// after some operations of the main thread alone. alone: the other thread does not call MPI. late:
// the main thread waits for the other one, which calls MPI only after 2.5 s, twice. once: the other
// thread has ended before the main one continues for a second.

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

static MPI_Request promise = MPI_REQUEST_NULL;

static int query(void* state, MPI_Status* status) {
  (void)state;
  MPI_Status_set_elements(status, MPI_BYTE, 0);
  MPI_Status_set_cancelled(status, 0);
  return MPI_SUCCESS;
}
static int nothing(void* state) {
  (void)state;
  return MPI_SUCCESS;
}
static int no_cancel(void* state, int complete) {
  (void)complete;
  return nothing(state);
}

static void* call_late(void* comm) {
  MPI_Request complete = promise;
  const int value = 7;
  pause_us(2500000);
  errors += MPI_Send(&value, 1, MPI_INT, check_state.rank, 2, *(MPI_Comm*)comm) != MPI_SUCCESS;
  pause_us(2500000);
  errors += MPI_Grequest_complete(complete) != MPI_SUCCESS;
  return NULL;
}

static void wait_for_thread(MPI_Comm comm) {
  pthread_t thread;
  int value = 0;
  OK(MPI_Grequest_start(query, nothing, no_cancel, NULL, &promise));
  check_i64("thread", 0, pthread_create(&thread, NULL, call_late, &comm));
  OK(MPI_Recv(&value, 1, MPI_INT, check_state.rank, 2, comm, MPI_STATUS_IGNORE));
  check_i64("value", 7, value);
  OK(MPI_Wait(&promise, MPI_STATUS_IGNORE));
  check_i64("join", 0, pthread_join(thread, NULL));
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
  const int late = argc > 1 && strcmp(argv[1], "late") == 0;
  const int once = argc > 1 && strcmp(argv[1], "once") == 0;
  const int alone = argc > 1;
  if (once) {
    check_i64("thread", 0, pthread_create(&thread, NULL, send_to_self, &copy));
    check_i64("join", 0, pthread_join(thread, NULL));
    printf("rank %d is one thread again\n", check_state.rank);
    fflush(stdout);
  }
  for (int i = 0; late && i < 300; ++i) {
    pause_us(1000);
    OK(MPI_Barrier(copy));
  }
  if (late) wait_for_thread(copy);
  if (!alone) check_i64("thread", 0, pthread_create(&thread, NULL, send_to_self, &copy));
  int sum = 0;
  for (int i = 0; i < (once ? 1500 : 20); ++i) {
    if (once) pause_us(1000);
    OK(MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    check_i64("sum", i * check_state.size, sum);
  }
  if (!alone) check_i64("join", 0, pthread_join(thread, NULL));
  check_i64("errors", 0, errors);
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Comm_free(&copy));
  return check_end();
}
