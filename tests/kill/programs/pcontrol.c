// pcontrol DIRECTORY|model [versions=V] [pause_us=U]
//
// A program that marks its checkpoints by MPI_Pcontrol and uses nothing else of Rejoin, so it
// prints the same under any MPI. It stores its state in its own files in DIRECTORY, alternately in
// one of two for each rank, or passes it to MPI_Pcontrol.

#include "program.h"

enum { kLoad = 0x524a01, kCheckpoint = 0x524a02, kBootstrap = 0x524a03 };

typedef struct {
  uint64_t salt;
  uint64_t version;
} State;

static State state;

static void path_of(char* path, size_t size, const char* directory, int version) {
  snprintf(path, size, "%s/state.%d.%d", directory, check_state.rank, version % 2);
}

/** Writes a file atomically. A rank that dies after it has written a version and before the others
 * have writes it once more, and may die again while the others complete that version. */
static void write_file(const char* directory, int version) {
  char path[512], aside[520];
  path_of(path, sizeof path, directory, version);
  snprintf(aside, sizeof aside, "%s.part", path);
  FILE* file = fopen(aside, "wb");
  if (file == NULL || fwrite(&state, sizeof state, 1, file) != 1 || fclose(file) != 0 ||
      rename(aside, path) != 0) {
    check_fail(path, "to be written", strerror(errno));
  }
}

static void read_file(const char* directory, int version) {
  char path[512];
  path_of(path, sizeof path, directory, version);
  FILE* file = fopen(path, "rb");
  if (file == NULL || fread(&state, sizeof state, 1, file) != 1 || fclose(file) != 0) {
    check_fail(path, "to be read", strerror(errno));
  }
}

/** An operation of the bootstrap phase, which every incarnation calls. */
static void bootstrap(void) {
  int columns = 3 * (check_state.rank + 1), most = 0;
  MPI_Pcontrol(kBootstrap, "columns");
  OK(MPI_Allreduce(&columns, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
  check_i64("columns", 3 * check_state.size, most);
}

static void iterate(int version) {
  const int n = check_state.size;
  uint64_t mine = element(check_state.rank, version, 0), sum = 0, expected = 0;
  OK(MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
  for (int r = 0; r < n; ++r) expected += element(r, version, 0);
  check_u64("sum", expected, sum);
  received_by_all(sum);
  uint64_t word = element(check_state.rank, version, 1);
  OK(MPI_Bcast(&word, 1, MPI_UINT64_T, version % n, MPI_COMM_WORLD));
  check_u64("broadcast", element(version % n, version, 1), word);
  received_by_all(word);
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const int versions = (int)argument_number(argc, argv, "versions", 5);
  const long long pause = argument_number(argc, argv, "pause_us", 0);
  const char* directory = argc > 1 ? argv[1] : "model";
  const int gives_model = strcmp(directory, "model") == 0;
  int version = 0;
  if (gives_model) {
    MPI_Pcontrol(kLoad, &version, &state, sizeof state);
  } else {
    MPI_Pcontrol(kLoad, &version, NULL, (size_t)0);
    if (version > 0) read_file(directory, version);
  }
  bootstrap();
  if (version > 0) {
    check_context("state of version %d", version);
    check_i64("version", version, (long long)state.version);
    salt = state.salt;
  }
  while (version < versions) {
    check_context("version %d", version);
    pause_us(pause);
    iterate(version);
    ++version;
    printf("rank %d, version %d: %016llx\n", check_state.rank, version, (unsigned long long)salt);
    fflush(stdout);
    state.salt = salt;
    state.version = (uint64_t)version;
    if (gives_model) {
      MPI_Pcontrol(kCheckpoint, &state, sizeof state);
    } else {
      write_file(directory, version);
      MPI_Pcontrol(kCheckpoint, NULL, (size_t)0);
    }
  }
  check_state.checks = 0;
  check_state.digest = salt;
  return check_end();
}
