// A random program that makes, writes, renames and removes files: random_files all SEED. After any
// deaths it must leave the same files. It does not do what docs/libc-recording.md excludes: read
// older contents, write into them in place, or rename open files and directories.
#define _GNU_SOURCE
#include <sys/stat.h>
#include <time.h>

#include "scene.h"

#define OPERATIONS 120
#define NAMES 7
#define DIRECTORIES 2
#define KEPT 3

static uint64_t state;
static unsigned draw(unsigned below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(state >> 33) % below;
}

static int line_number;
static void write_lines(FILE* f) {
  for (unsigned n = draw(4); n > 0; --n)
    fprintf(f, "line %d %0*d\n", ++line_number, (int)draw(60) + 1, 7);
}

static FILE* kept[KEPT];
static uint64_t digest = 1;
static void note(long result) {
  const int error = result < 0 ? errno : 0;
  digest = (digest ^ (uint64_t)(result < 0 ? -error : 1)) * 1099511628211u;
  SAME(digest);
}

// Chooses a name of a plain file. Some names are in a directory that may not exist.
static const char* name(char* text) {
  const unsigned k = draw(NAMES + DIRECTORIES);
  if (k < NAMES) {
    sprintf(text, "file.%u", k);
  } else {
    sprintf(text, "directory.%u/file", k - NAMES);
  }
  return text;
}

static void write_some(const char* path, const char* mode) {
  FILE* f = fopen(path, mode);
  note(f == NULL ? -1 : 0);
  if (f == NULL) return;
  write_lines(f);
  fclose(f);
}

// Writes to streams that stay open, whose files no other function uses.
static void write_kept(void) {
  const unsigned k = draw(KEPT);
  char path[32];
  sprintf(path, "kept.%u", k);
  if (kept[k] == NULL) {
    kept[k] = fopen(path, draw(3) == 0 ? "w" : "a");
    REQUIRE(kept[k] != NULL);
    note(ftell(kept[k]));
  }
  write_lines(kept[k]);
  if (draw(2) == 0) fflush(kept[k]);
  if (draw(3) == 0) {
    fclose(kept[k]);
    kept[k] = NULL;
  }
}

static void one_operation(void) {
  char a[64], b[64];
  struct stat s;
  switch (draw(14)) {
    case 0:
    case 1:
      write_some(name(a), "w");
      break;
    case 2:
    case 3:
      write_some(name(a), "a");
      break;
    case 4:
      write_some(name(a), "wx");
      break;
    case 5:
      write_kept();
      break;
    case 6:
      note(unlink(name(a)));
      break;
    case 7:
    case 8:
      name(a), name(b), note(rename(a, b));
      break;
    case 9:
      sprintf(a, "directory.%u", draw(DIRECTORIES)), note(mkdir(a, 0755));
      break;
    case 10:
      sprintf(a, "directory.%u", draw(DIRECTORIES)), note(rmdir(a));
      break;
    case 11:
      note(access(name(a), F_OK));
      break;
    case 12:
      note(stat(name(a), &s) == 0 ? s.st_size : -1);
      break;
    case 13:
      sprintf(a, "link.%u", draw(2));
      if (draw(2) == 0) {
        note(unlink(a));
      } else {
        note(symlink(name(b), a));
      }
      break;
  }
}

static void play_all(void) {
  for (int i = 0; i < OPERATIONS; ++i) {
    one_operation();
    if (i % 4 == 3) step();
  }
  for (int k = 0; k < KEPT; ++k) {
    if (kept[k] != NULL) fclose(kept[k]);
  }
  printf("digest %llx\n", (unsigned long long)digest);
}

static const struct scene scenes[] = {{"all", play_all, OPERATIONS / 4}, {NULL, NULL, 0}};

int main(int argc, char** argv) {
  state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  return play_scene(argc, argv, scenes);
}
