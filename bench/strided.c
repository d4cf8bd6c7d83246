// Measures how much more a strided message costs: a ping-pong between ranks 0 and 1 of contiguous
// doubles, and of every other double of an array (a vector). The same source is built for every
// MPI.
//
//     mpirun -n 2 strided [SECONDS FOR EACH LINE]

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kMost = 1 << 19, kRounds = 7 };

static double data[2][2 * kMost];

static void exchange(int rank, int count, MPI_Datatype type) {
  if (rank == 0) {
    MPI_Send(data[0], count, type, 1, 1, MPI_COMM_WORLD);
    MPI_Recv(data[1], count, type, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(data[1], count, type, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(data[0], count, type, 0, 1, MPI_COMM_WORLD);
  }
}

static double value(int rank, int i) { return rank * 1e7 + i; }

/** Ends the program if the received data differs from what was sent. */
static void verify(int rank, int doubles, int stride, int count, MPI_Datatype type) {
  for (int i = 0; i < 2 * doubles; ++i) {
    data[0][i] = value(rank, i);
    data[1][i] = -1;
  }
  exchange(rank, count, type);
  for (int i = 0; i < doubles * stride; ++i) {
    const double expected = i % stride == 0 ? value(1 - rank, i) : -1;
    if (data[1][i] == expected) continue;
    printf("wrong value at %d of %d\n", i, doubles);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

/** Returns the microseconds there and back, the least of several rounds. */
static double measure(int rank, int doubles, int stride, double seconds) {
  MPI_Datatype type = MPI_DOUBLE;
  int count = doubles;
  if (stride > 1) {
    MPI_Type_vector(doubles, 1, stride, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    count = 1;
  }
  verify(rank, doubles, stride, count, type);
  double best = 1e9;
  long calls = 10;
  for (int round = 0; round < kRounds; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (long i = 0; i < calls; ++i) exchange(rank, count, type);
    const double each = (MPI_Wtime() - begin) / (double)calls;
    if (round > 0 && each < best) best = each;
    if (round == 0) calls = (long)(seconds / kRounds / each) + 1;
    MPI_Bcast(&calls, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  }
  if (stride > 1) MPI_Type_free(&type);
  return best * 1e6;
}

int main(int argc, char** argv) {
  int rank = 0;
  int size = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2) {
    if (rank == 0) fprintf(stderr, "strided: needs 2 ranks, has %d\n", size);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const double seconds = argc > 1 ? atof(argv[1]) : 0.5;
  if (rank == 0) printf("%10s %14s %14s %7s\n", "bytes", "contiguous us", "strided us", "ratio");
  for (int doubles = 1; doubles <= kMost; doubles *= 8) {
    const double contiguous = measure(rank, doubles, 1, seconds);
    const double strided = measure(rank, doubles, 2, seconds);
    if (rank == 0) {
      printf("%10d %14.2f %14.2f %7.2f\n", doubles * 8, contiguous, strided, strided / contiguous);
    }
  }
  MPI_Finalize();
  return 0;
}
