// Files: the rules of docs/libc-recording.md.
#define _GNU_SOURCE
#include <sys/stat.h>

#include "scene.h"

static void write_file(const char* path, const char* mode, const char* text) {
  FILE* f = fopen(path, mode);
  REQUIRE(f != NULL);
  REQUIRE(fputs(text, f) >= 0);
  REQUIRE(fclose(f) == 0);
}

static void require_contents(const char* path, const char* expected) {
  char text[256];
  FILE* f = fopen(path, "r");
  REQUIRE(f != NULL);
  text[fread(text, 1, sizeof text - 1, f)] = '\0';
  REQUIRE(strcmp(text, expected) == 0);
  REQUIRE(fclose(f) == 0);
}

// Ends if the output exists already, and creates it otherwise, as ExaML does.
static void play_missing(void) {
  struct stat s;
  struct statx x;
  REQUIRE_ERRNO(fopen("out", "r") != NULL, ENOENT);
  REQUIRE_ERRNO(open("out", O_RDONLY) >= 0, ENOENT);
  REQUIRE_ERRNO(access("out", F_OK) == 0, ENOENT);
  REQUIRE_ERRNO(stat("out", &s) == 0, ENOENT);
  REQUIRE_ERRNO(lstat("out", &s) == 0, ENOENT);
  REQUIRE_ERRNO(statx(AT_FDCWD, "out", 0, STATX_ALL, &x) == 0, ENOENT);
  REQUIRE_ERRNO(faccessat(AT_FDCWD, "out", R_OK, 0) == 0, ENOENT);
  REQUIRE_ERRNO(freopen("out", "r", tmpfile()) != NULL, ENOENT);
  step();
  write_file("out", "w", "made\n");
  REQUIRE(access("out", R_OK | W_OK) == 0);
  REQUIRE(stat("out", &s) == 0 && s.st_size == 5);
  SAME(s);
  step();
  write_file("out", "w", "made longer\n");
  REQUIRE(lstat("out", &s) == 0 && s.st_size == 12);
  SAME(s);
  REQUIRE(statx(AT_FDCWD, "out", 0, STATX_BASIC_STATS, &x) == 0 && x.stx_size == 12);
  SAME(x);
  step();
  REQUIRE(unlink("out") == 0);
  REQUIRE_ERRNO(access("out", F_OK) == 0, ENOENT);
  step();
  write_file("out", "w", "made again\n");
  step();
}

static void play_exclusive(void) {
  const int fd = open("lock", O_CREAT | O_EXCL | O_WRONLY, 0644);
  REQUIRE(fd >= 0);
  REQUIRE(write(fd, "mine\n", 5) == 5);
  step();
  REQUIRE(close(fd) == 0);
  REQUIRE_ERRNO(open("lock", O_CREAT | O_EXCL | O_WRONLY, 0644) >= 0, EEXIST);
  write_file("stream", "wx", "only once\n");
  REQUIRE_ERRNO(fopen("stream", "wx") != NULL, EEXIST);
  step();
  REQUIRE(unlink("lock") == 0);
  step();
  REQUIRE(close(open("lock", O_CREAT | O_EXCL | O_RDONLY, 0644)) == 0);
  step();
  REQUIRE(remove("lock") == 0);
  REQUIRE_ERRNO(remove("lock") == 0, ENOENT);
  step();
}

// Appends to "log", which exists before the program starts.
static void play_append(void) {
  FILE* kept = fopen("log", "a");
  REQUIRE(kept != NULL);
  SAME((int){(int)ftell(kept)});
  fprintf(kept, "kept 1\n");
  step();
  fflush(kept);
  for (int i = 0; i < 5; ++i) {
    char line[32];
    snprintf(line, sizeof line, "line %d\n", i);
    write_file("log", "ab", line);
    if (i % 2 == 0) step();
  }
  fprintf(kept, "kept 2, not flushed before the death\n");
  step();
  fclose(kept);

  // Programs often write a header if the file is empty, and otherwise read what is there.
  FILE* csv = fopen("table.csv", "a+");
  REQUIRE(csv != NULL);
  fseek(csv, 0, SEEK_END);
  if (ftell(csv) == 0) fprintf(csv, "a,b\n");
  fprintf(csv, "1,2\n");
  step();
  rewind(csv);
  char text[100];
  text[fread(text, 1, sizeof text - 1, csv)] = '\0';
  REQUIRE(strcmp(text, "a,b\n1,2\n") == 0);
  fclose(csv);
  step();
  const int fd = open("table.csv", O_WRONLY | O_APPEND);
  REQUIRE(fd >= 0 && lseek(fd, 0, SEEK_END) == 8);
  REQUIRE(write(fd, "3,4\n", 4) == 4);
  step();
  REQUIRE(write(fd, "5,6\n", 4) == 4);
  REQUIRE(system("echo 7,8 >> table.csv") == 0);
  REQUIRE(write(fd, "9,0\n", 4) == 4);
  REQUIRE(close(fd) == 0);
  step();
}

static void play_truncate(void) {
  write_file("result", "w", "a long first version of it\n");
  step();
  write_file("result", "w", "short\n");
  step();
  FILE* f = fopen("result", "w+");
  REQUIRE(f != NULL);
  fprintf(f, "both ways\n");
  step();
  rewind(f);
  char text[64];
  REQUIRE(fgets(text, sizeof text, f) != NULL && strcmp(text, "both ways\n") == 0);
  fclose(f);
  const int fd = creat("made", 0600);
  REQUIRE(fd >= 0 && write(fd, "x", 1) == 1);
  step();
  REQUIRE(write(fd, "y\n", 2) == 2);
  close(fd);
  require_contents("made", "xy\n");
  REQUIRE(freopen("errors", "w", stderr) != NULL);
  fprintf(stderr, "an error\n");
  step();
}

// Writes a new version beside the old one and renames it over that; retains older versions.
static void play_rename(void) {
  for (int version = 0; version < 4; ++version) {
    char text[32];
    snprintf(text, sizeof text, "version %d\n", version);
    write_file("model.tmp", "w", text);
    if (version % 2 == 0) step();
    if (rename("model.1", "model.2") != 0) REQUIRE(errno == ENOENT && version < 2);
    if (rename("model", "model.1") != 0) REQUIRE(errno == ENOENT && version < 1);
    if (version == 1) step();
    REQUIRE(rename("model.tmp", "model") == 0);
    unlink("latest");
    REQUIRE(symlink("model", "latest") == 0);
    if (version == 0) REQUIRE(link("model", "first") == 0);
    step();
  }
  require_contents("latest", "version 3\n");
  REQUIRE_ERRNO(rename("model.tmp", "model") == 0, ENOENT);
  step();
}

static void play_rotate(void) {
  write_file("log", "a", "one\n");
  step();
  REQUIRE(rename("log", "log.1") == 0);
  write_file("log", "a", "two\n");
  step();
  write_file("log", "a", "three\n");
  REQUIRE(renameat(AT_FDCWD, "log.1", AT_FDCWD, "log.2") == 0);
  step();
  REQUIRE(renameat2(AT_FDCWD, "log", AT_FDCWD, "log.1", 0) == 0);
  write_file("log", "a", "four\n");
  step();
}

// The stream is opened again while its buffer has not been written.
static void play_reopened(void) {
  FILE* f = fopen("log", "a");
  REQUIRE(f != NULL && fputs("one\n", f) >= 0);
  f = freopen("log", "a", f);
  REQUIRE(f != NULL && fputs("two\n", f) >= 0);
  step();
  REQUIRE(fclose(f) == 0);
  step();
  require_contents("log", "first line\none\ntwo\n");
}

// What a replay would read is gone: the file was written anew since.
static void append_and_read(void) {
  write_file("log", "a", "one\n");
  char text[64];
  FILE* f = fopen("log", "r");
  REQUIRE(f != NULL);
  const size_t bytes = fread(text, 1, sizeof text, f);
  same_bytes(__FILE__, __LINE__, text, bytes);
  REQUIRE(fclose(f) == 0);
}
static void play_compacted(void) {
  append_and_read();
  write_file("log", "w", "short\n");
  step();
}
static void play_directories(void) {
  REQUIRE(mkdir("results", 0755) == 0);
  REQUIRE_ERRNO(mkdir("results", 0755) == 0, EEXIST);
  step();
  REQUIRE(mkdir("scratch//", 0700) == 0);
  const int unnamed = open("scratch", O_TMPFILE | O_RDWR, 0600);
  REQUIRE(unnamed >= 0 && write(unnamed, "x", 1) == 1 && close(unnamed) == 0);
  write_file("scratch/part", "w", "part\n");
  step();
  require_contents("scratch/part", "part\n");
  REQUIRE_ERRNO(rmdir("scratch") == 0, ENOTEMPTY);
  REQUIRE(unlinkat(AT_FDCWD, "scratch/part", 0) == 0);
  step();
  REQUIRE(rmdir("scratch") == 0);
  REQUIRE(mkdirat(AT_FDCWD, "results/deep", 0755) == 0);
  write_file("results/deep/file", "w", "deep\n");
  step();
}

static void play_temporary(void) {
  char file[] = "file.XXXXXX", suffixed[] = "file.XXXXXX.txt", directory[] = "directory.XXXXXX";
  const int fd = mkstemp(file);
  REQUIRE(fd >= 0 && write(fd, "temporary\n", 10) == 10);
  SAME(file);
  step();
  REQUIRE(close(fd) == 0);
  require_contents(file, "temporary\n");
  const int other = mkostemps(suffixed, 4, O_CLOEXEC);
  REQUIRE(other >= 0 && close(other) == 0);
  SAME(suffixed);
  REQUIRE(mkdtemp(directory) == directory);
  SAME(directory);
  step();
  REQUIRE(rename(file, "final") == 0);
  REQUIRE(unlink(suffixed) == 0);
  step();
  REQUIRE(rmdir(directory) == 0);
  char bad[] = "no template";
  REQUIRE_ERRNO(mkstemp(bad) >= 0, EINVAL);
  step();
}

// Writes records at the end of a file by a descriptor that was not opened for appending.
static void play_records(void) {
  const int fd = open("records", O_RDWR | O_CREAT, 0644);
  const int older = open("older", O_WRONLY);
  REQUIRE(fd >= 0 && older >= 0);
  for (int i = 0; i < 3; ++i) {
    char record[16];
    const int bytes = snprintf(record, sizeof record, "record %d\n", i);
    REQUIRE(lseek(fd, 0, SEEK_END) == i * bytes);
    REQUIRE(write(fd, record, (size_t)bytes) == bytes);
    REQUIRE(lseek(older, 0, SEEK_END) == 11 + i * bytes);
    REQUIRE(write(older, record, (size_t)bytes) == bytes);
    step();
  }
  FILE* f = fopen("records", "r+");
  REQUIRE(f != NULL && fseek(f, 0, SEEK_END) == 0 && ftell(f) == 27);
  fprintf(f, "last\n");
  REQUIRE(fclose(f) == 0);
  step();
  REQUIRE(close(fd) == 0 && close(older) == 0);
  require_contents("records", "record 0\nrecord 1\nrecord 2\nlast\n");
  step();
}

// Replaces a file by renaming a new version, which is then read.
static void play_read_back(void) {
  for (int version = 0; version < 3; ++version) {
    char text[32];
    snprintf(text, sizeof text, "version %d\n", version);
    write_file("model.tmp", "w", text);
    REQUIRE(rename("model.tmp", "model") == 0);
    require_contents("model", text);
    step();
  }
}

// Increments a counter in a file that exists before the program starts.
static void play_counter(void) {
  for (int i = 0; i < 3; ++i) {
    char text[16] = "";
    const int fd = open("older", O_RDWR);
    REQUIRE(fd >= 0 && read(fd, text, sizeof text - 1) == 11);
    ++text[0];
    REQUIRE(pwrite(fd, text, 1, 0) == 1 && close(fd) == 0);
    printf("%s", text);
    step();
  }
}

// "older" exists before the program starts. Its former contents are not restored, which a line
// reports.
static void play_in_place(void) {
  FILE* f = fopen("older", "r+");
  REQUIRE(f != NULL);
  fputs("NEW", f);
  fclose(f);
  step();
  write_file("own", "w", "own contents\n");
  f = fopen("own", "r+");
  REQUIRE(f != NULL);
  fputs("OWN", f);
  fclose(f);
  step();
}

// Reads a file that is replaced afterwards. Its contents are not restored, which a line reports.
static void play_read(void) {
  char text[32];
  FILE* f = fopen("older", "r");
  REQUIRE(f != NULL && fgets(text, sizeof text, f) != NULL);
  fclose(f);
  step();
  REQUIRE(unlink("older") == 0);
  write_file("older", "w", "another text\n");
  step();
  require_contents("older", "another text\n");
  step();
}

// Writes a file directly, then replaces it by renaming, then appends to it.
static void play_replace(void) {
  write_file("final", "w", "old\n");
  step();
  write_file("temporary", "w", "new\n");
  step();
  REQUIRE(rename("temporary", "final") == 0);
  step();
  write_file("final", "a", "more\n");
  write_file("temporary", "w", "half");
  step();
  write_file("temporary", "w", "newest\n");
  REQUIRE(rename("temporary", "final") == 0);
  step();
  write_file("final", "a", "last\n");
  require_contents("final", "newest\nlast\n");
  step();
}

static const struct scene scenes[] = {
    {"missing", play_missing, 5},
    {"exclusive", play_exclusive, 5},
    {"append", play_append, 9},
    {"truncate", play_truncate, 5},
    {"rename", play_rename, 8},
    {"rotate", play_rotate, 4},
    {"directories", play_directories, 4},
    {"temporary", play_temporary, 4},
    {"in_place", play_in_place, 2},
    {"read", play_read, 3},
    {"replace", play_replace, 6},
    {"records", play_records, 5},
    {"read_back", play_read_back, 3},
    {"counter", play_counter, 3},
    {"reopened", play_reopened, 2},
    {"compacted", play_compacted, 1},
    {NULL, NULL, 0},
};

int main(int argc, char** argv) { return play_scene(argc, argv, scenes); }
