// Sorts integers that are distributed over the ranks: the counts of 1024 buckets are added by
// MPI_Allreduce and decide which rank gets which bucket, MPI_Alltoall tells how many keys come and
// MPI_Alltoallv carries them; each rank then sorts its own.
//
//     mpirun -n RANKS sort [KEYS] [SECONDS] [WARM-UP]
//
// KEYS (default 4194304): of a rank. Prints the microseconds that sorting new keys takes, and those
// that it has in the three calls, where it also waits for the others: at rank 0, the means over
// SECONDS (default 1) after WARM-UP seconds (default 1). A program that got a wrong result ends
// with 1.

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBuckets = 1024, kShift = 22, kDigit = 11, kValues = 1 << kDigit };

static int ranks, rank, keys;
static double communicating;

static void* allocate(size_t bytes) {
  void* const found = malloc(bytes);
  if (found == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  return found;
}

// Sorts by digits of 11 bits; needs as much memory again. Returns which of both has the result.
static uint32_t* sort_own(uint32_t* from, uint32_t* to, int count) {
  for (int shift = 0; shift < 32; shift += kDigit) {
    int begin[kValues] = {0};
    for (int i = 0; i < count; ++i) ++begin[from[i] >> shift & (kValues - 1)];
    for (int v = 0, sum = 0; v < kValues; ++v) {
      const int here = begin[v];
      begin[v] = sum;
      sum += here;
    }
    for (int i = 0; i < count; ++i) to[begin[from[i] >> shift & (kValues - 1)]++] = from[i];
    uint32_t* const kept = from;
    from = to;
    to = kept;
  }
  return from;
}

// The first bucket of each rank, so that all have about as many keys.
static void divide(const int* total, int* first) {
  const int64_t all = (int64_t)keys * ranks;
  int64_t sum = 0;
  int r = 0;
  for (int b = 0; b < kBuckets; ++b) {
    while (r < ranks && sum >= all * r / ranks) first[r++] = b;
    sum += total[b];
  }
  while (r <= ranks) first[r++] = kBuckets;
}

// Whether the ranks' keys are sorted, and all there: by their number and sum.
static int is_sorted(const uint32_t* sorted, int count, uint64_t sum_before) {
  uint64_t mine[2] = {(uint64_t)count, 0}, all[2], before = 0;
  int good = 1, all_good = 0;
  for (int i = 0; i < count; ++i) {
    mine[1] += sorted[i];
    good = good && (i == 0 || sorted[i - 1] <= sorted[i]);
  }
  MPI_Allreduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(&sum_before, &before, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  good = good && all[0] == (uint64_t)keys * (uint64_t)ranks && all[1] == before;
  const uint32_t greatest = count > 0 ? sorted[count - 1] : 0;
  uint32_t of_others = 0;
  MPI_Exscan(&greatest, &of_others, 1, MPI_UINT32_T, MPI_MAX, MPI_COMM_WORLD);
  if (rank > 0 && count > 0) good = good && of_others <= sorted[0];
  MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all_good;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  keys = argc > 1 ? atoi(argv[1]) : 1 << 22;
  const double seconds = argc > 2 ? atof(argv[2]) : 1, warm_up = argc > 3 ? atof(argv[3]) : 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // The keys are evenly distributed, but a bucket is not divided.
  const size_t room =
      (size_t)keys + (size_t)keys / 4 + (size_t)keys * (size_t)ranks / kBuckets * 2 + 4096;
  uint32_t* const given = allocate((size_t)keys * sizeof *given);
  uint32_t* const packed = allocate((size_t)keys * sizeof *packed);
  uint32_t* const arrived = allocate(room * sizeof *arrived);
  uint32_t* const spare = allocate(room * sizeof *spare);
  int* const first = allocate((size_t)(ranks + 1) * sizeof *first);
  int* const table = allocate(4 * (size_t)ranks * sizeof *table);
  int *const sends = table, *const send_at = sends + ranks, *const comes = send_at + ranks,
             *const come_at = comes + ranks;

  uint64_t random = 0x9e3779b97f4a7c15u * (uint64_t)(rank + 1);
  double spent[2] = {0, 0};
  int steps = 0, good = 1;
  const double begin = MPI_Wtime();
  for (int go_on = 1; go_on && good;) {
    uint64_t sum = 0;
    for (int i = 0; i < keys; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      given[i] = (uint32_t)(random >> 32);
      sum += given[i];
    }
    MPI_Barrier(MPI_COMM_WORLD);
    communicating = 0;
    const double sort_begin = MPI_Wtime();

    int count[kBuckets] = {0}, total[kBuckets], at[kBuckets];
    for (int i = 0; i < keys; ++i) ++count[given[i] >> kShift];
    double call = MPI_Wtime();
    MPI_Allreduce(count, total, kBuckets, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    communicating += MPI_Wtime() - call;
    divide(total, first);
    for (int b = 0, here = 0; b < kBuckets; here += count[b++]) at[b] = here;
    for (int r = 0, here = 0; r < ranks; here += sends[r++]) {
      send_at[r] = here;
      sends[r] = 0;
      for (int b = first[r]; b < first[r + 1]; ++b) sends[r] += count[b];
    }
    for (int i = 0; i < keys; ++i) packed[at[given[i] >> kShift]++] = given[i];
    call = MPI_Wtime();
    MPI_Alltoall(sends, 1, MPI_INT, comes, 1, MPI_INT, MPI_COMM_WORLD);
    communicating += MPI_Wtime() - call;
    int mine = 0;
    for (int r = 0; r < ranks; mine += comes[r++]) come_at[r] = mine;
    if ((size_t)mine > room) MPI_Abort(MPI_COMM_WORLD, 1);
    call = MPI_Wtime();
    MPI_Alltoallv(packed, sends, send_at, MPI_UINT32_T, arrived, comes, come_at, MPI_UINT32_T,
                  MPI_COMM_WORLD);
    communicating += MPI_Wtime() - call;
    const uint32_t* const sorted = sort_own(arrived, spare, mine);

    const double step = MPI_Wtime() - sort_begin;
    if (sort_begin - begin >= warm_up) {
      ++steps;
      spent[0] += step;
      spent[1] += communicating;
    }
    good = is_sorted(sorted, mine, sum);
    go_on = steps < 1 || MPI_Wtime() - begin < warm_up + seconds;
    MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  const double each = 1e6 / steps;
  if (rank == 0 && good) printf("sort %d %.2f %.2f\n", keys, spent[0] * each, spent[1] * each);
  if (rank == 0 && !good) fprintf(stderr, "sort: the keys are not sorted\n");
  MPI_Finalize();
  return good ? 0 : 1;
}
