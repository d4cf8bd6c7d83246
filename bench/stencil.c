// A stencil that rewrites all of its memory in each sweep, to measure the cost of snapshots for a
// program of which every page is copied after each snapshot.
//
//     mpirun -n N stencil [MIB A RANK] [SECONDS]
//
// Prints the seconds that a sweep takes.

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRow = 4096 };  // doubles

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const long mib = argc > 1 ? atol(argv[1]) : 500;
  const double seconds = argc > 2 ? atof(argv[2]) : 10;
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const long rows = mib * (1 << 20) / (long)(kRow * sizeof(double));
  double(*grid)[kRow] = malloc((size_t)(rows + 2) * sizeof *grid);
  if (grid == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  for (long r = 0; r < rows + 2; ++r) {
    for (int i = 0; i < kRow; ++i) grid[r][i] = (double)((r * 31 + i * 7 + rank) % 1000);
  }
  const int up = rank > 0 ? rank - 1 : MPI_PROC_NULL,
            down = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
  long sweeps = 0;
  double begin = MPI_Wtime(), sum = 0, all = 0;
  for (int go_on = 1; go_on; ++sweeps) {
    MPI_Sendrecv(grid[1], kRow, MPI_DOUBLE, up, 0, grid[rows + 1], kRow, MPI_DOUBLE, down, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(grid[rows], kRow, MPI_DOUBLE, down, 1, grid[0], kRow, MPI_DOUBLE, up, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    sum = 0;
    for (long r = 1; r <= rows; ++r) {
      for (int i = 0; i < kRow; ++i) {
        grid[r][i] = 0.5 * grid[r][i] + 0.25 * (grid[r - 1][i] + grid[r + 1][i]);
        sum += grid[r][i];
      }
    }
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    go_on = MPI_Wtime() - begin < seconds;
    MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  const double each = (MPI_Wtime() - begin) / (double)sweeps;
  if (rank == 0) printf("stencil %ld %.6f %.17g\n", sweeps, each, all);
  free(grid);
  MPI_Finalize();
  return 0;
}
