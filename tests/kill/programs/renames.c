// renames HOW steps=N pause_us=U: each rank renames files of its own in the steps that all ranks
// make together. At the end it checks that every file is in its place.
//   HOW: rotate   a log that is appended to, and renamed when it is full
//        replace  a file whose new contents are written beside it and renamed over it
//        queue    files that are read and removed
//        tree     directories and links that are made and removed again

#include <sys/stat.h>
#include <unistd.h>

#include "program.h"

static char name[4][64];

static void require_ok(const char* what, int result) {
  if (result != 0) check_fail(what, "success", strerror(errno));
}

static void write_number(const char* path, const char* mode, long long number) {
  FILE* file = fopen(path, mode);
  if (file == NULL) check_fail(path, "to be opened", strerror(errno));
  fprintf(file, "%lld\n", number);
  require_ok(path, fclose(file));
}

static void require_number(const char* path, long long number) {
  long long got = -1;
  FILE* file = fopen(path, "r");
  if (file == NULL) check_fail(path, "to be opened", strerror(errno));
  if (fscanf(file, "%lld", &got) != 1) got = -2;
  fclose(file);
  check_i64(path, number, got);
}

// Returns a path of this rank, from a word and a step. `i`: the buffer that contains it.
static const char* path(int i, const char* word, long long step) {
  snprintf(name[i], sizeof name[i], "%s.%d.%lld", word, check_state.rank, step);
  return name[i];
}

static void rotate(long long step) {
  enum { kLines = 7 };
  write_number(path(0, "log", 0), "a", step);
  if (step % kLines == kLines - 1) {
    require_ok("rename", rename(path(0, "log", 0), path(1, "log", 1 + step / kLines)));
  }
}

static void replace(long long step) {
  write_number(path(0, "new", 0), "w", step);
  require_ok("rename", rename(path(0, "new", 0), path(1, "state", 0)));
  require_number(path(1, "state", 0), step);
}

static void take(long long step) {
  require_number(path(0, "job", step), step * 3);
  require_ok("unlink", unlink(path(0, "job", step)));
}

static void tree(long long step) {
  char inside[128], other[128];
  require_ok("mkdir", mkdir(path(0, "directory", step), 0755));
  snprintf(inside, sizeof inside, "%s/file", path(0, "directory", step));
  snprintf(other, sizeof other, "%s/other", path(0, "directory", step));
  write_number(inside, "w", step);
  require_ok("link", link(inside, other));
  require_ok("symlink", symlink(inside, path(1, "newest", step)));
  require_number(path(1, "newest", step), step);
  if (step < 3) return;
  require_ok("unlink", unlink(path(1, "newest", step - 3)));
  snprintf(inside, sizeof inside, "%s/file", path(0, "directory", step - 3));
  snprintf(other, sizeof other, "%s/other", path(0, "directory", step - 3));
  require_number(other, step - 3);
  require_ok("unlink", unlink(inside));
  require_ok("unlink", unlink(other));
  require_ok("rmdir", rmdir(path(0, "directory", step - 3)));
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const char* how = argc > 1 ? argv[1] : "rotate";
  const long long steps = argument_number(argc, argv, "steps", 50);
  const long long pause = argument_number(argc, argv, "pause_us", 0);
  for (long long step = 0; strcmp(how, "queue") == 0 && step < steps; ++step) {
    write_number(path(0, "job", step), "w", step * 3);
  }
  for (long long step = 0; step < steps; ++step) {
    if (strcmp(how, "rotate") == 0) rotate(step);
    if (strcmp(how, "replace") == 0) replace(step);
    if (strcmp(how, "queue") == 0) take(step);
    if (strcmp(how, "tree") == 0) tree(step);
    long long sum = 0;
    OK(MPI_Allreduce(&step, &sum, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    check_i64("sum", step * check_state.size, sum);
    pause_us(pause);
  }
  note("everything is where it belongs");
  OK(MPI_Finalize());
  return 0;
}
