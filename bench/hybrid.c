// Executes OPERATIONS 8-byte Allreduces, one every INTERVAL_US, of sums that OpenMP's threads have
// added, and prints the result and the microseconds that each took. With "drift" each contribution
// also contains the processor's cycle counter, so that no replay is like the first execution.
// bench/recovery kills ranks of this program.

#define _GNU_SOURCE
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

enum { kTerms = 20000 };

int main(int argc, char** argv) {
  if (argc != 3 && (argc != 4 || strcmp(argv[3], "drift") != 0)) {
    fputs("usage: hybrid OPERATIONS INTERVAL_US [drift]\n", stderr);
    return 2;
  }
  const long operations = atol(argv[1]);
  const struct timespec pause = {0, atol(argv[2]) * 1000};
  int provided, rank;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  long long value = rank;
  const double begin_s = MPI_Wtime();
  for (long i = 0; i < operations; ++i) {
    long long sum = 0, all = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int k = 0; k < kTerms; ++k) sum += (value + k) % 1009;
    if (argc == 4) sum += (long long)(__rdtsc() % 1009);
    MPI_Allreduce(&sum, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    value = all % 1000003;
    if (pause.tv_nsec != 0) nanosleep(&pause, NULL);
  }
  const double took_us = 1e6 * (MPI_Wtime() - begin_s);
  if (rank == 0) printf("%lld %.6f\n", value, took_us / (double)operations);
  MPI_Finalize();
  return 0;
}
