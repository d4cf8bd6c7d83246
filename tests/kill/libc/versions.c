// A program that makes a checkpoint after every round of observations of clocks and files. The
// journal may overwrite observations before the kept checkpoints; a replay gets those after them.
#define _GNU_SOURCE
#include <time.h>

#include "scene.h"

enum { kLoad = 0x524a01, kCheckpoint = 0x524a02 };

#define VERSIONS 24
#define LOOKS 60

static void same_in(int version, int look, uint64_t value) {
  const int cell = 1 + version * LOOKS + look;
  const uint64_t before = side_read(cell);
  if (before == 0) side_write(cell, value);
  REQUIRE(before == 0 || before == value);
}

static void look_around(int version) {
  for (int i = 0; i < LOOKS; ++i) {
    char path[32];
    snprintf(path, sizeof path, "nothing.%d", (version * LOOKS + i) % 37);
    struct timespec now;
    REQUIRE_ERRNO(access(path, F_OK) == 0, ENOENT);
    REQUIRE(clock_gettime(CLOCK_REALTIME, &now) == 0);
    same_in(version, i, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
  }
}

int main(int argc, char** argv) {
  int version = 0, rank;
  struct {
    int64_t version;
  } state = {0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Pcontrol(kLoad, &version, &state, sizeof state);
  REQUIRE(state.version == version);
  while (version < VERSIONS) {
    if (rank == 0) look_around(version);
    step();
    state.version = ++version;
    MPI_Pcontrol(kCheckpoint, &state, sizeof state);
  }
  if (rank == 0) printf("steps %d\n", VERSIONS);
  MPI_Finalize();
  return 0;
}
