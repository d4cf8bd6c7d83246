// Files that several ranks write. A replay reports that, and cannot always restore such a file. It
// must not lose what another rank has written, and files that programs usually share must be right.
#define _GNU_SOURCE
#include <sys/stat.h>

#include "scene.h"

static int rank;

static void write_file(const char* path, const char* mode, const char* text) {
  FILE* f = fopen(path, mode);
  REQUIRE(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

// All ranks open the output, and rank 0 alone writes.
static void play_all_open(void) {
  FILE* f = fopen("out", "w");
  REQUIRE(f != NULL);
  step();
  if (rank == 0) fputs("first\n", f), fflush(f);
  step();
  if (rank == 0) fputs("second\n", f);
  step();
  fclose(f);
  step();
}

// Rank 0 makes a file, and rank 1 appends to it.
static void play_header(void) {
  if (rank == 0) write_file("out", "w", "header\n");
  step();
  if (rank == 1) write_file("out", "a", "of rank 1\n");
  step();
  step();
}

// Every rank writes its own part of a file.
static void play_parts(void) {
  const int fd = open("out", O_CREAT | O_WRONLY, 0644);
  REQUIRE(fd >= 0);
  step();
  for (int i = 0; i < 3; ++i) {
    char part[9];
    snprintf(part, sizeof part, "r%d part%d", rank, i);
    REQUIRE(pwrite(fd, part, 8, (i * 2 + rank) * 8) == 8);
    step();
  }
  REQUIRE(close(fd) == 0);
  step();
}

// Rank 0 makes a file and removes it, and rank 1 makes another one with its name.
static void play_taken_over(void) {
  if (rank == 0) {
    write_file("out", "w", "of rank 0\n");
    REQUIRE(unlink("out") == 0);
  }
  step();
  if (rank == 1) write_file("out", "w", "of rank 1\n");
  step();
  step();
}

// All ranks append to a file. Lines of a rank that died may be there twice.
static void play_append(void) {
  for (int i = 0; i < 3; ++i) {
    char line[32];
    snprintf(line, sizeof line, "line %d of rank %d\n", i, rank);
    for (int turn = 0; turn < 2; ++turn) {
      if (rank == turn) write_file("out", "a", line);
      step();
    }
  }
}

static const struct {
  const char* name;
  void (*play)(void);
} scenes[] = {{"all_open", play_all_open}, {"header", play_header},         {"parts", play_parts},
              {"append", play_append},     {"taken_over", play_taken_over}, {NULL, NULL}};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int i = 0;
  while (scenes[i].name != NULL && (argc < 2 || strcmp(scenes[i].name, argv[1]) != 0)) ++i;
  REQUIRE(scenes[i].name != NULL);
  scenes[i].play();
  if (rank == 0) printf("steps %d\n", steps);
  MPI_Finalize();
  return 0;
}
