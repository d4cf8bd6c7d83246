// The identity of the process, and the contents of its directories.
#define _GNU_SOURCE
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "scene.h"

static volatile sig_atomic_t signals;
static void count_signal(int number) {
  (void)number;
  ++signals;
}

// Calls with the process id apply to the rank's present process.
static void use(pid_t pid) {
  signals = 0;
  signal(SIGUSR1, count_signal);
  REQUIRE(kill(pid, 0) == 0 && kill(pid, SIGUSR1) == 0 && signals == 1);
  REQUIRE(tgkill(pid, gettid(), SIGUSR1) == 0 && signals == 2);
  REQUIRE(syscall(SYS_tgkill, pid, syscall(SYS_gettid), SIGUSR1) == 0 && signals == 3);
  REQUIRE(raise(SIGUSR1) == 0 && signals == 4);
  REQUIRE(getpgid(pid) == getpgid(0));
  cpu_set_t set;
  REQUIRE(sched_getaffinity(pid, sizeof set, &set) == 0);

  char path[64], by_id[256], by_self[256];
  snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
  const ssize_t bytes = readlink(path, by_id, sizeof by_id);
  REQUIRE(bytes > 0 && readlink("/proc/self/exe", by_self, sizeof by_self) == bytes);
  REQUIRE(memcmp(by_id, by_self, (size_t)bytes) == 0);
  struct stat s, self;
  REQUIRE(stat(path, &s) == 0 && stat("/proc/self/exe", &self) == 0 && s.st_ino == self.st_ino);
  snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
  FILE* f = fopen(path, "r");
  REQUIRE(f != NULL && fgetc(f) != EOF);
  fclose(f);
}

static void play_ids(void) {
  for (int i = 0; i < 3; ++i) {
    pid_t pid = getpid(), parent = getppid(), thread = gettid();
    SAME(pid);
    SAME(parent);
    SAME(thread);
    REQUIRE(pid == thread && syscall(SYS_getpid) == pid);
    use(pid);
    // A child checks that its parent exists, and sends it a signal.
    signals = 0;
    const pid_t child = fork();
    if (child == 0) {
      const int good = getppid() == pid && getpid() != pid && kill(getppid(), SIGUSR1) == 0;
      _exit(good ? 0 : 1);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    REQUIRE(signals == 1);
    // Programs often use the process id in names of files.
    char name[32];
    snprintf(name, sizeof name, "of.%d", (int)pid);
    FILE* f = fopen(name, "w");
    REQUIRE(f != NULL && fclose(f) == 0);
    step();
    REQUIRE(unlink(name) == 0);
  }
}

// Each incarnation has another host name, if the process may set one.
static void play_names(void) {
  char own[32];
  snprintf(own, sizeof own, "incarnation-%d", (int)count_incarnation());
  if (unshare(CLONE_NEWUTS) == 0) REQUIRE(sethostname(own, strlen(own)) == 0);
  for (int i = 0; i < 2; ++i) {
    char name[65] = "";
    REQUIRE(gethostname(name, sizeof name) == 0 && name[0] != '\0');
    SAME(name);
    char small[1];
    REQUIRE_ERRNO(gethostname(small, 0) == 0, ENAMETOOLONG);
    struct utsname u;
    REQUIRE(uname(&u) == 0 && strcmp(u.nodename, name) == 0);
    SAME(u);
    step();
  }
}

static void make(const char* path) {
  FILE* f = fopen(path, "w");
  REQUIRE(f != NULL && fclose(f) == 0);
}

static void look_into(DIR* d) {
  int entries = 0;
  for (const struct dirent* e; (e = readdir(d)) != NULL; ++entries) {
    same_bytes(__FILE__, __LINE__, e->d_name, strlen(e->d_name));
    SAME(e->d_ino);
  }
  SAME(entries);
}

/** The same with the function that older programs use. */
static void look_into_again(DIR* d) {
  int entries = 0;
  struct dirent entry, *e;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  for (; readdir_r(d, &entry, &e) == 0 && e != NULL; ++entries) {
#pragma GCC diagnostic pop
    REQUIRE(e == &entry);
    same_bytes(__FILE__, __LINE__, e->d_name, strlen(e->d_name));
  }
  REQUIRE(entries > 300);
  SAME(entries);
}

static int no_dots(const struct dirent* e) { return e->d_name[0] != '.'; }

// Files are made and removed while a directory is read, which does not exist in the end.
static void play_directory(void) {
  REQUIRE_ERRNO(opendir("d") != NULL, ENOENT);
  REQUIRE(mkdir("d", 0700) == 0);
  for (int i = 0; i < 300; ++i) {
    char path[32];
    snprintf(path, sizeof path, "d/file.%d", i * 7919 % 1000);
    make(path);
  }
  DIR* d = opendir("d");
  REQUIRE(d != NULL && dirfd(d) >= 0);
  for (int i = 0; i < 10; ++i) {
    const struct dirent* e = readdir(d);
    REQUIRE(e != NULL);
    same_bytes(__FILE__, __LINE__, e->d_name, strlen(e->d_name));
  }
  const long here = telldir(d);
  step();
  make("d/late");
  REQUIRE(unlink("d/file.0") == 0);
  look_into(d);
  seekdir(d, here);
  look_into(d);
  step();
  rewinddir(d);
  look_into(d);
  rewinddir(d);
  look_into_again(d);
  REQUIRE(closedir(d) == 0);
  struct dirent** found;
  const int count = scandir("d", &found, no_dots, alphasort);
  REQUIRE(count == 300 && strcmp(found[count - 1]->d_name, "late") == 0);
  for (int i = 0; i < count; ++i) {
    char path[300];
    snprintf(path, sizeof path, "d/%s", found[i]->d_name);
    REQUIRE(unlink(path) == 0);
    free(found[i]);
    if (i == 150) step();
  }
  free(found);
  d = fdopendir(open("d", O_RDONLY | O_DIRECTORY));
  REQUIRE(d != NULL);
  look_into(d);
  REQUIRE(closedir(d) == 0);
  REQUIRE(rmdir("d") == 0);
  step();
}

static const struct scene scenes[] = {{"ids", play_ids, 3},
                                      {"names", play_names, 2},
                                      {"directory", play_directory, 4},
                                      {NULL, NULL, 0}};

int main(int argc, char** argv) { return play_scene(argc, argv, scenes); }
