// appnum NAME [steps=N]
//
// A program of a job with several programs. N times (default 200), all ranks contribute the number
// of their program and a value to an Allgather and check those of the others; then they send
// messages along a ring. At the end each rank prints "NAME R of S is program P, digest D".

#include "program.h"

enum { kMostRanks = 16 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0, found = 0;
  int* program = NULL;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &program, &found));
  check_i64("found", 1, found);
  uint64_t digest = 1;
  for (int step = 0; step < argument_number(argc, argv, "steps", 200); ++step) {
    uint64_t mine[2] = {(uint64_t)*program, hash_step(digest, (uint64_t)(rank + step))};
    uint64_t all[2 * kMostRanks];
    OK(MPI_Allgather(mine, 2, MPI_UINT64_T, all, 2, MPI_UINT64_T, MPI_COMM_WORLD));
    for (int r = 0; r < size; ++r) {
      check_u64("value", hash_step(digest, (uint64_t)(r + step)), all[2 * r + 1]);
      if (r > 0 && all[2 * r] < all[2 * r - 2]) check_fail("programs", "in order", "not");
    }
    uint64_t from_left = 0;
    OK(MPI_Sendrecv(&mine[1], 1, MPI_UINT64_T, (rank + 1) % size, 3, &from_left, 1, MPI_UINT64_T,
                    (rank + size - 1) % size, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    check_u64("from the left", all[2 * ((rank + size - 1) % size) + 1], from_left);
    digest = hash_step(digest, all[1]);
  }
  printf("%s %d of %d is program %d, digest %016llx\n", argv[1], rank, size, *program,
         (unsigned long long)digest);
  MPI_Finalize();
  return 0;
}
