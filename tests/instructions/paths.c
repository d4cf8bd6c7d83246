// paths NAME N FILE0 FILE1: rank 0 makes N calls of MPI, and then rank 1 the other halves of them,
// so that no call waits for anything, nor wakes a rank: each waits outside of MPI for the other
// one's file. measured() makes the calls that are to be counted.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static double value;

static void send_some(int n) {
  for (int i = 0; i < n; ++i) MPI_Send(&value, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
}
static void receive_some(int n) {
  for (int i = 0; i < n; ++i) {
    MPI_Recv(&value, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

enum { kWindow = 64 };

static void isend_some(int n) {
  MPI_Request requests[kWindow];
  for (int i = 0; i < n; ++i) {
    MPI_Isend(&value, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, &requests[i % kWindow]);
    if (i % kWindow == kWindow - 1) MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
  }
}
static void irecv_some(int n) {
  MPI_Request requests[kWindow];
  for (int i = 0; i < n; ++i) {
    MPI_Irecv(&value, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, &requests[i % kWindow]);
    if (i % kWindow == kWindow - 1) MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
  }
}

static void broadcast_some(int n) {
  for (int i = 0; i < n; ++i) MPI_Bcast(&value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}
static void gather_some(int n) {
  double all[2];
  for (int i = 0; i < n; ++i) {
    MPI_Gather(&value, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
  }
}
static void scatter_some(int n) {
  double all[2] = {1, 2};
  for (int i = 0; i < n; ++i) {
    MPI_Scatter(all, 1, MPI_DOUBLE, &value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  }
}
static void rank_some(int n) {
  int rank;
  for (int i = 0; i < n; ++i) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
}

static const struct Path {
  const char* name;
  void (*first)(int n);   // of rank 0
  void (*second)(int n);  // of rank 1
} kPaths[] = {
    {"send", send_some, receive_some},         {"isend", isend_some, irecv_some},
    {"bcast", broadcast_some, broadcast_some}, {"gather", gather_some, gather_some},
    {"scatter", scatter_some, scatter_some},   {"rank", rank_some, rank_some},
};

__attribute__((noinline)) static void measured(void (*half)(int), int n) {
  half(n);
  __asm__ volatile("");  // no tail call
}

static void create(const char* file) {
  FILE* f = fopen(file, "w");
  if (f == NULL || fclose(f) != 0) exit(1);
}
static void await(const char* file) {
  while (access(file, F_OK) != 0) usleep(1000);
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (size_t i = 0; i < sizeof kPaths / sizeof *kPaths; ++i) {
    if (strcmp(argv[1], kPaths[i].name) != 0) continue;
    const int n = atoi(argv[2]);
    if (rank == 1) await(argv[3]);
    measured(rank == 0 ? kPaths[i].first : kPaths[i].second, n);
    create(argv[3 + rank]);
    if (rank == 0) await(argv[4]);
  }
  MPI_Finalize();
  return 0;
}
