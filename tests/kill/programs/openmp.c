// openmp [steps=N]: a hybrid program. In each step the threads of OpenMP compute by all kinds of
// work sharing; the main thread contributes the result to an Allreduce and prints it. Sums are of
// integers, so their order does not matter.

#include <omp.h>

#include "program.h"

enum { kCells = 3000 };

static uint64_t cell[kCells];

static uint64_t tree(int depth, uint64_t seed) {
  uint64_t left = 0, right = 0;
  if (depth == 0) return hash_step(seed, 1);
#pragma omp task shared(left)
  left = tree(depth - 1, hash_step(seed, 2));
  right = tree(depth - 1, hash_step(seed, 3));
#pragma omp taskwait
  return left + 3 * right;
}

static uint64_t compute(int step) {
  uint64_t sum = 0, listed = 0, atomic = 0;
#pragma omp parallel
  {
#pragma omp for reduction(+ : sum) schedule(dynamic, 100)
    for (int i = 0; i < kCells; ++i) {
      cell[i] = element(check_state.rank, step, i);
      sum += cell[i];
    }
#pragma omp for schedule(guided)
    for (int i = 0; i < kCells; ++i) {
#pragma omp atomic
      atomic += cell[i] >> 7;
    }
#pragma omp critical
    listed += hash_step(salt, 5);
#pragma omp barrier
#pragma omp single
    sum += tree(6, salt + (uint64_t)step);
  }
  return sum + atomic + listed;
}

int main(int argc, char** argv) {
  int provided;
  OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
  check_attach();
  const int steps = (int)argument_number(argc, argv, "steps", 400);
  for (int step = 1; step <= steps; ++step) {
    uint64_t mine = compute(step), all = 0;
    OK(MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
    received_by_all(all);
    if (step % 10 == 0) {
      printf("rank %d, step %d: %016llx\n", check_state.rank, step, (unsigned long long)salt);
    }
  }
  printf("rank %d had %d threads\n", check_state.rank, omp_get_max_threads());
  OK(MPI_Finalize());
  return 0;
}
