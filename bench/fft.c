// A two-dimensional Fourier transform, forth and back, of a square matrix of complex numbers whose
// rows are distributed: between the transforms of rows and columns the matrix is transposed by
// MPI_Alltoall.
//
//     mpirun -n RANKS fft [SIDE] [SECONDS] [WARM-UP]
//
// SIDE (a power of two, divisible by RANKS; default 1024): rows and columns. Prints the
// microseconds of a step, which is both transforms, and those that it has in MPI_Alltoall, where it
// also waits for the others: at rank 0, the means over SECONDS (default 1) after WARM-UP seconds
// (default 1). A program that got a wrong result ends with 1.

#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef double complex number;

static int side, ranks, rank, rows;
static number* root;  // root[k] = exp(-2 pi i k / side)
static number *matrix, *packed, *arrived;
static double communicating;

static void* allocate(size_t bytes) {
  void* const found = malloc(bytes);
  if (found == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  return found;
}

// Transforms `row` in place; back: the inverse without the factor 1 / side.
static void transform(number* row, int back) {
  for (int i = 1, j = 0; i < side; ++i) {
    int bit = side >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      const number kept = row[i];
      row[i] = row[j];
      row[j] = kept;
    }
  }
  for (int half = 1; half < side; half *= 2) {
    const int step = side / (2 * half);
    for (int begin = 0; begin < side; begin += 2 * half) {
      for (int k = 0; k < half; ++k) {
        const number factor = back ? conj(root[k * step]) : root[k * step];
        const number other = factor * row[begin + half + k];
        row[begin + half + k] = row[begin + k] - other;
        row[begin + k] += other;
      }
    }
  }
}

static void transpose(void) {
  const size_t block = (size_t)rows * (size_t)rows;
  for (int to = 0; to < ranks; ++to) {
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < rows; ++c)
        packed[(size_t)to * block + (size_t)(c * rows + r)] = matrix[r * side + to * rows + c];
    }
  }
  const double begin = MPI_Wtime();
  MPI_Alltoall(packed, (int)block, MPI_C_DOUBLE_COMPLEX, arrived, (int)block, MPI_C_DOUBLE_COMPLEX,
               MPI_COMM_WORLD);
  communicating += MPI_Wtime() - begin;
  for (int from = 0; from < ranks; ++from) {
    for (int r = 0; r < rows; ++r)
      memcpy(&matrix[r * side + from * rows], &arrived[(size_t)from * block + (size_t)(r * rows)],
             (size_t)rows * sizeof *matrix);
  }
}

static void transform_all(int back) {
  for (int twice = 0; twice < 2; ++twice) {
    for (int r = 0; r < rows; ++r) transform(matrix + r * side, back);
    transpose();
  }
}

static number original(int row, int column) {
  return (row * 37 + column * 11) % 101 + I * ((row * 13 + column * 29) % 89);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  side = argc > 1 ? atoi(argv[1]) : 1024;
  const double seconds = argc > 2 ? atof(argv[2]) : 1, warm_up = argc > 3 ? atof(argv[3]) : 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (side < 2 || (side & (side - 1)) != 0 || side % ranks != 0) {
    if (rank == 0) fprintf(stderr, "fft: SIDE is a power of two that the ranks divide\n");
    MPI_Finalize();
    return 2;
  }
  rows = side / ranks;
  const size_t bytes = (size_t)rows * (size_t)side * sizeof(number);
  matrix = allocate(bytes);
  packed = allocate(bytes);
  arrived = allocate(bytes);
  root = allocate((size_t)side * sizeof *root);
  for (int k = 0; k < side; ++k) root[k] = cexp(-2 * acos(-1) * I * k / side);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < side; ++c) matrix[r * side + c] = original(rank * rows + r, c);
  }

  double sum[2] = {0, 0};
  int steps = 0;
  const double begin = MPI_Wtime();
  for (int go_on = 1; go_on;) {
    MPI_Barrier(MPI_COMM_WORLD);
    communicating = 0;
    const double step_begin = MPI_Wtime();
    transform_all(0);
    transform_all(1);
    const double step = MPI_Wtime() - step_begin;
    for (size_t i = 0; i < (size_t)rows * (size_t)side; ++i) matrix[i] /= (double)side * side;
    if (step_begin - begin >= warm_up) {
      ++steps;
      sum[0] += step;
      sum[1] += communicating;
    }
    go_on = steps < 1 || MPI_Wtime() - begin < warm_up + seconds;
    MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }

  double error = 0, worst = 0;
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < side; ++c) {
      const double here = cabs(matrix[r * side + c] - original(rank * rows + r, c));
      if (!(here <= error)) error = isnan(here) ? INFINITY : here;
    }
  }
  MPI_Allreduce(&error, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  const int is_right = worst < 1e-6;
  const double each = 1e6 / steps;
  if (rank == 0 && is_right) printf("fft %d %.2f %.2f\n", side, sum[0] * each, sum[1] * each);
  if (rank == 0 && !is_right) fprintf(stderr, "fft: the result differs by %g\n", worst);
  MPI_Finalize();
  return is_right ? 0 : 1;
}
