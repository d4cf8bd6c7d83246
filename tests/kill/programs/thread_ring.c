// thread_ring STEPS [OTHERS] [elsewhere]: the main thread and OTHERS (default 3) others of each
// rank call MPI at the same time (MPI_THREAD_MULTIPLE), each on a communicator of its own:
// reductions, messages around a ring, and receives of any source, whose order is different in every
// run. Nothing may be lost and nothing may come twice: tokens carry their numbers, and each
// thread's total is a function of STEPS. The threads also add to one counter, which is exchanged:
// its value depends on their order, its last value does not. elsewhere: the main thread never calls
// MPI; another one does all that it would do.

#include <pthread.h>
#include <stdlib.h>

#include "program.h"

enum { kMost = 16 };

static int steps, threads;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int counter;

struct worker {
  MPI_Comm comm;
  int errors;
  long long total;
};

static void run(struct worker* w) {
  const int n = check_state.size, me = check_state.rank;
  const int next = (me + 1) % n, previous = (me + n - 1) % n;
  for (int i = 0; i < steps; ++i) {
    pthread_mutex_lock(&lock);
    ++counter;
    long long token[2] = {i, counter};
    pthread_mutex_unlock(&lock);
    long long got[2] = {-1, -1};
    w->errors += MPI_Sendrecv(token, 2, MPI_LONG_LONG, next, 1, got, 2, MPI_LONG_LONG, previous, 1,
                              w->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    w->errors += got[0] != i || got[1] < 1 || got[1] > (long long)steps * threads;
    long long mine = (long long)i * (me + 1), sum = 0;
    w->errors += MPI_Allreduce(&mine, &sum, 1, MPI_LONG_LONG, MPI_SUM, w->comm) != MPI_SUCCESS;
    w->errors += sum != (long long)i * n * (n + 1) / 2;
    w->total += sum;
    if (i % 8 != 0) continue;
    if (me != 0) {
      w->errors += MPI_Send(&i, 1, MPI_INT, 0, 2, w->comm) != MPI_SUCCESS;
      continue;
    }
    for (int r = 1; r < n; ++r) {
      int number = -1;
      w->errors += MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, 2, w->comm, MPI_STATUS_IGNORE) !=
                   MPI_SUCCESS;
      w->errors += number != i;
    }
  }
}

static void* run_worker(void* w) {
  run(w);
  return NULL;
}

static int run_all(int argc, char** argv) {
  int provided = -1;
  OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
  check_attach();
  check_i64("provided", MPI_THREAD_MULTIPLE, provided);
  steps = argc > 1 ? atoi(argv[1]) : 100;
  const int others = argc > 2 ? atoi(argv[2]) : 3;
  threads = others + 1;
  struct worker workers[kMost] = {{MPI_COMM_NULL, 0, 0}};
  pthread_t ids[kMost];
  for (int t = 0; t < threads; ++t) OK(MPI_Comm_dup(MPI_COMM_WORLD, &workers[t].comm));
  for (int t = 1; t < threads; ++t)
    check_i64("thread", 0, pthread_create(&ids[t], NULL, run_worker, &workers[t]));
  run(&workers[0]);
  for (int t = 1; t < threads; ++t) check_i64("join", 0, pthread_join(ids[t], NULL));
  const long long n = check_state.size;
  const long long expected = (long long)steps * (steps - 1) / 2 * n * (n + 1) / 2;
  for (int t = 0; t < threads; ++t) {
    check_i64("errors", 0, workers[t].errors);
    check_i64("total", expected, workers[t].total);
    OK(MPI_Comm_free(&workers[t].comm));
  }
  check_i64("counter", (long long)steps * threads, counter);
  return check_end();
}

struct arguments {
  int count, result;
  char** words;
};

static void* run_elsewhere(void* a) {
  struct arguments* arguments = a;
  arguments->result = run_all(arguments->count, arguments->words);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc <= 3) return run_all(argc, argv);
  struct arguments arguments = {argc, 1, argv};
  pthread_t thread;
  if (pthread_create(&thread, NULL, run_elsewhere, &arguments) != 0) return 1;
  pthread_join(thread, NULL);
  return arguments.result;
}
