// Shared by the programs of this directory. A program is a list of scenes; its first argument
// chooses one. Rank 0 plays the scene; the others only take part in step(). Between two steps rank
// 0 uses files, clocks and the like, and passes values that must be the same in a replay to same().
// The driver (libc_test.py) kills rank 0 at every step in turn, and compares all files and the
// output with those of a run without deaths.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int steps = 0;

static inline void fail(const char* file, int line, const char* what) {
  printf("FAIL %s:%d: %s (errno %d, %s)\n", file, line, what, errno, strerror(errno));
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 7);
}
#define REQUIRE(condition)                                  \
  do {                                                      \
    if (!(condition)) fail(__FILE__, __LINE__, #condition); \
  } while (0)
#define REQUIRE_ERRNO(call, expected)                                   \
  do {                                                                  \
    errno = 0;                                                          \
    if ((call) || errno != (expected)) fail(__FILE__, __LINE__, #call); \
  } while (0)

// Makes a step. Steps of rank 0 are numbered from 1; the other ranks make as many.
static inline void step(void) {
  ++steps;
  MPI_Barrier(MPI_COMM_WORLD);
}

// Opens the test's own file by system calls, so that libc's recording does not observe it.
static inline int side_file(void) {
  static int fd = -1;
  if (fd < 0) fd = (int)syscall(SYS_openat, AT_FDCWD, ".side", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  return fd;
}
static inline uint64_t side_read(int cell) {
  uint64_t value = 0;
  if (syscall(SYS_pread64, side_file(), &value, sizeof value, (long)(cell * sizeof value)) < 0)
    abort();
  return value;
}
static inline void side_write(int cell, uint64_t value) {
  if (syscall(SYS_pwrite64, side_file(), &value, sizeof value, (long)(cell * sizeof value)) < 0)
    abort();
}

// Requires the bytes to be what they were in the first execution.
static inline void same_bytes(const char* file, int line, const void* data, size_t bytes) {
  static int cell = 0;
  uint64_t hash = bytes + 1;
  for (size_t i = 0; i < bytes; ++i)
    hash = (hash ^ ((const unsigned char*)data)[i]) * 1099511628211u;
  ++cell;
  const uint64_t before = side_read(cell);
  if (before == 0) {
    side_write(cell, hash);
  } else if (before != hash) {
    fail(file, line, "the replay sees something else than the first execution did");
  }
}
#define SAME(value) same_bytes(__FILE__, __LINE__, &(value), sizeof(value))

// Returns 1 in the first incarnation, 2 in the second, and so on. Must be called once.
static inline uint64_t count_incarnation(void) {
  side_write(0, side_read(0) + 1);
  return side_read(0);
}

struct scene {
  const char* name;
  void (*play)(void);
  int steps;  // the number of steps that play() makes
};

static inline int play_scene(int argc, char** argv, const struct scene* scenes) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const struct scene* s = scenes;
  while (s->name != NULL && (argc < 2 || strcmp(s->name, argv[1]) != 0)) ++s;
  REQUIRE(s->name != NULL);
  if (rank == 0) {
    s->play();
    REQUIRE(steps == s->steps);
    printf("steps %d\n", steps);
  } else {
    for (int i = 0; i < s->steps; ++i) step();
  }
  MPI_Finalize();
  return 0;
}
