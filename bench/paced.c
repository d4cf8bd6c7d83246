// Measures the cost of checkpoints for a program that makes one each millisecond:
// paced CHECKPOINTS KIB [US]
//
// An iteration computes for US microseconds (default 1000), then calls one Allreduce and makes a
// checkpoint of KIB KiB. Prints the seconds of all iterations at rank 0, from the processor's
// counter, because the clocks of a restarted rank repeat their recorded values.

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rejoin.h"
#include "ticks.h"

static double ticks_per_us;

static void compute(double us) {
  const unsigned long long begin = __rdtsc();
  while ((double)(__rdtsc() - begin) < us * ticks_per_us) __builtin_ia32_pause();
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: paced CHECKPOINTS KIB [US]\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int checkpoints = atoi(argv[1]);
  const size_t bytes = (size_t)atol(argv[2]) << 10;
  const double us = argc > 3 ? atof(argv[3]) : 1000;
  char* model = malloc(bytes + 1);
  memset(model, 1, bytes);
  ticks_per_us = measure_ticks_per_us();
  const void* saved;
  size_t saved_bytes;
  const int version = rejoin_load(&saved, &saved_bytes, NULL, NULL);
  if (version > 0) memcpy(model, saved, saved_bytes);
  double sum = 1;
  const unsigned long long begin = __rdtsc();
  for (int i = version; i < checkpoints; ++i) {
    if (us > 0) compute(us);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    model[i % (int)(bytes + 1)] = (char)i;
    if (rejoin_checkpoint(model, bytes, NULL, 0) < 0) {
      fprintf(stderr, "paced: %s\n", rejoin_error());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  const double took_s = (double)(__rdtsc() - begin) / ticks_per_us * 1e-6;
  if (rank == 0) printf("%.6f\n", took_s);
  MPI_Finalize();
  return 0;
}
