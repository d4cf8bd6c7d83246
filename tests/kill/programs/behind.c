// behind WHERE [COUNT] [BYTES]: with a journal that is full. Rank 0 broadcasts COUNT times on one
// communicator, and all ranks reduce on another. The other ranks receive the broadcasts when they
// have done all reductions, in a second thread (MPI_THREAD_MULTIPLE): nothing of what was broadcast
// may be gone by then. WHERE: rank 0 broadcasts in a second thread, too ("thread"), or in its only
// one ("main"); or the others' threads call MPI for the first time when it has ("late").
#include <pthread.h>
#include <stdlib.h>

#include "program.h"

enum { kReductions = 400, kReduced = 4096 };

static int count = 100, bytes = 32768;
static MPI_Comm reduced, broadcast;

static unsigned char byte_of(int i, int at) { return (unsigned char)(i * 7 + at * 13 + (at >> 8)); }

static volatile int may_begin, has_greeted;

// Checks are counted by the main thread alone: the count has no lock.
static void in_thread(const char* call, int code) {
  if (code != MPI_SUCCESS) check_fail(call, "success", "an error");
}

static void* broadcasts(void* greets) {
  if (greets != NULL) in_thread("MPI_Barrier", MPI_Barrier(broadcast));
  has_greeted = 1;
  while (!may_begin) pause_us(100);
  unsigned char* block = malloc((size_t)bytes);
  if (block == NULL) check_fail("memory", "some", "none");
  for (int i = 0; i < count; ++i) {
    for (int at = 0; at < bytes; ++at) block[at] = check_state.rank == 0 ? byte_of(i, at) : 0;
    in_thread("MPI_Bcast", MPI_Bcast(block, bytes, MPI_BYTE, 0, broadcast));
    for (int at = 0; at < bytes; ++at) {
      check_context("byte %d of broadcast %d", at, i);
      if (block[at] != byte_of(i, at)) check_i64("byte", byte_of(i, at), block[at]);
    }
  }
  free(block);
  return NULL;
}

static void reductions(void) {
  static double in[kReduced], out[kReduced];
  for (int i = 0; i < kReductions; ++i) {
    for (int at = 0; at < kReduced; ++at) in[at] = i + at;
    OK(MPI_Allreduce(in, out, kReduced, MPI_DOUBLE, MPI_SUM, reduced));
    for (int at = 0; at < kReduced; ++at) {
      if (out[at] != (double)check_state.size * (i + at)) check_fail("sum", "another", "wrong");
    }
  }
}

int main(int argc, char** argv) {
  int level = 0;
  OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
  check_attach();
  if (argc < 2) check_fail("WHERE", "one", "none");
  const int in_main = strcmp(argv[1], "thread") != 0, late = strcmp(argv[1], "late") == 0;
  if (in_main) count = 8;  // so few that the root does not wait
  if (argc > 2) count = atoi(argv[2]);
  if (argc > 3) bytes = atoi(argv[3]);
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &reduced));
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &broadcast));
  const int first = check_state.rank == 0;
  pthread_t thread;
  const int has_thread = !first || !in_main;
  if (has_thread) {
    check_i64("thread", 0, pthread_create(&thread, NULL, broadcasts, late ? NULL : &count));
    while (!has_greeted) pause_us(100);
  } else if (!late) {
    OK(MPI_Barrier(broadcast));
  }
  reductions();  // the journal is full
  if (first) may_begin = 1;
  if (!has_thread) broadcasts(NULL);
  reductions();
  reductions();
  may_begin = 1;
  if (has_thread) check_i64("join", 0, pthread_join(thread, NULL));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  return check_end();
}
