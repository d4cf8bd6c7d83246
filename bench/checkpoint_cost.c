// Measures the cost of checkpoints: checkpoint_cost KIB CHECKPOINTS eager|lazy
//
// Each iteration has one small Allreduce, a memcpy of the model by rank 0 for comparison, and a
// checkpoint. Times are those of rank 0, from the processor's counter, because the clocks of a
// restarted rank repeat their recorded values. Prints "checkpoint KIB memcpy_ms median_ms mean_ms".
// A rank that was started again prints on standard error "load KIB memcpy_ms load_ms", where load
// is rejoin_load() and a copy of its result, and "bootstrap OPERATIONS us", the time for the
// bootstrap replay of each operation.

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rejoin.h"
#include "ticks.h"

typedef struct {
  char* data;
  size_t bytes;
} Model;

static double ticks_per_ms;

static double ms_since(unsigned long long begin) {
  return (double)(__rdtsc() - begin) / ticks_per_ms;
}

static void serialize(void* model, rejoin_stream* to) {
  const Model* m = model;
  rejoin_write(to, m->data, m->bytes);
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

static double copy_ms(char* to, const char* from, size_t bytes) {
  const unsigned long long begin = __rdtsc();
  memcpy(to, from, bytes);
  return ms_since(begin);
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: checkpoint_cost KIB CHECKPOINTS eager|lazy\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Model model = {NULL, (size_t)atol(argv[1]) << 10};
  const int checkpoints = atoi(argv[2]);
  const int lazy = strcmp(argv[3], "lazy") == 0;
  model.data = malloc(model.bytes);
  char* copy = malloc(model.bytes);
  double* copied_ms = calloc((size_t)checkpoints, sizeof(double));
  double* taken_ms = calloc((size_t)checkpoints, sizeof(double));
  memset(model.data, 1, model.bytes);
  memset(copy, 2, model.bytes);
  ticks_per_ms = 1e3 * measure_ticks_per_us();

  const void* saved;
  size_t saved_bytes;
  const unsigned long long begin_load = __rdtsc();
  const int version = rejoin_load(&saved, &saved_bytes, NULL, NULL);
  if (version > 0) {
    memcpy(model.data, saved, saved_bytes);
    const double load_ms = ms_since(begin_load);
    fprintf(stderr, "load %zu %.4f %.4f\n", model.bytes >> 10,
            copy_ms(copy, model.data, model.bytes), load_ms);
  }
  enum { kBootstrap = 100 };
  double sum = 0, shared[8] = {0};
  const unsigned long long begin_bootstrap = __rdtsc();
  for (int i = 0; i < kBootstrap; ++i) {
    MPI_Allreduce(MPI_IN_PLACE, shared, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  if (version > 0) {
    const double us = ms_since(begin_bootstrap) * 1e3;
    fprintf(stderr, "bootstrap %d %.4f\n", kBootstrap, us / kBootstrap);
  }
  for (int i = version; i < checkpoints; ++i) {
    memset(model.data, i, model.bytes);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) copied_ms[i] = copy_ms(copy, model.data, model.bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    const unsigned long long begin = __rdtsc();
    const int made = lazy ? rejoin_checkpoint_lazy(serialize, &model)
                          : rejoin_checkpoint(model.data, model.bytes, NULL, 0);
    taken_ms[i] = ms_since(begin);
    if (made < 0) {
      fprintf(stderr, "checkpoint_cost: %s\n", rejoin_error());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  if (rank == 0 && version == 0) {
    double total_ms = 0;
    for (int i = 0; i < checkpoints; ++i) total_ms += taken_ms[i];
    qsort(copied_ms, (size_t)checkpoints, sizeof(double), compare);
    qsort(taken_ms, (size_t)checkpoints, sizeof(double), compare);
    printf("checkpoint %zu %.4f %.4f %.4f\n", model.bytes >> 10, copied_ms[checkpoints / 2],
           taken_ms[checkpoints / 2], total_ms / checkpoints);
  }
  MPI_Finalize();
  return 0;
}
