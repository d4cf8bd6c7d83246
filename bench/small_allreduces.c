// Executes OPERATIONS 8-byte Allreduces, each with the result of the one before, with RESIDENT_MB
// of touched memory in every rank, one every INTERVAL_US (0: without pauses). bench/recovery kills
// ranks of this program.
//
// Deadlines are computed from one reading of the clock. A restarted rank gets the same reading
// again, finds that all deadlines have passed, and catches up without waiting.

#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void wait_until(const struct timespec* start, long offset_us) {
  struct timespec deadline = *start;
  deadline.tv_sec += offset_us / 1000000;
  deadline.tv_nsec += offset_us % 1000000 * 1000;
  if (deadline.tv_nsec >= 1000000000) {
    deadline.tv_nsec -= 1000000000;
    ++deadline.tv_sec;
  }
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL) != 0) {
  }
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fputs("usage: small_allreduces OPERATIONS RESIDENT_MB INTERVAL_US\n", stderr);
    return 2;
  }
  const long operations = atol(argv[1]);
  const size_t resident_bytes = ((size_t)atol(argv[2]) << 20) + 1;
  const long interval_us = atol(argv[3]);
  volatile char* resident = malloc(resident_bytes);
  if (!resident) {
    fputs("small_allreduces: out of memory\n", stderr);
    return 1;
  }
  memset((char*)resident, 1, resident_bytes);
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  struct timespec start;
  clock_gettime(CLOCK_MONOTONIC, &start);
  double value = rank;
  for (long i = 0; i < operations; ++i) {
    if (interval_us) wait_until(&start, i * interval_us);
    double sum;
    MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    value = sum / ranks + rank;
  }
  if (rank == 0) printf("%.17g\n", value);
  MPI_Finalize();
  return resident[resident_bytes - 1] - 1;
}
