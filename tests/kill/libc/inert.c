// Calls that are not observed must not disturb the recording: those of children and other threads.
// Memory must have the same addresses in a replay.
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "scene.h"

static void look_around(void) {
  struct timespec t;
  struct stat s;
  clock_gettime(CLOCK_REALTIME, &t);
  access("nothing", F_OK);
  stat(".", &s);
  FILE* f = fopen("child", "a");
  if (f != NULL) fclose(f);
  time(NULL);
}

static void play_fork(void) {
  for (int i = 0; i < 3; ++i) {
    time_t before = time(NULL);
    SAME(before);
    const pid_t child = fork();
    if (child == 0) {
      look_around();
      _exit(access("log", F_OK) == 0 ? 3 : 4);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
    REQUIRE(system("test -e log && date > date.$$ && rm date.$$") == 0);
    FILE* p = popen("cat older", "r");
    char text[32];
    REQUIRE(p != NULL && fgets(text, sizeof text, p) != NULL && strcmp(text, "older text\n") == 0);
    REQUIRE(pclose(p) == 0);
    time_t after = time(NULL);
    SAME(after);
    step();
  }
}

static volatile int stop;
static void* look_on(void* unused) {
  while (!stop) look_around();
  return unused;
}

static void play_threads(void) {
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, look_on, NULL) == 0);
  for (int i = 0; i < 4; ++i) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    SAME(t);
    REQUIRE_ERRNO(access("nothing", F_OK) == 0, ENOENT);
    usleep(2000);
    step();
  }
  stop = 1;
  REQUIRE(pthread_join(thread, NULL) == 0);
}

// Opening a stream allocates memory from the heap, and later allocations must have the same
// addresses in a replay: for streams that were opened, for those that could not be, and for random
// bytes.
static void play_heap(void) {
  FILE* streams[20];
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) {
      char path[32];
      snprintf(path, sizeof path, "heap.%d.%d", round, i);
      void* block = malloc(500);
      SAME(block);
      REQUIRE_ERRNO(fopen(path, "r") != NULL, ENOENT);
      streams[i] = i % 5 == 0 ? fopen("/dev/urandom", "r") : fopen(path, i % 2 == 0 ? "wx" : "a+");
      REQUIRE(streams[i] != NULL);
      SAME(streams[i]);
      if (i % 5 == 0) fgetc(streams[i]);
    }
    step();
    for (int i = 0; i < 20; i += 2) fclose(streams[i]);
    void* block = malloc(100000);
    SAME(block);
    step();
  }
}

static const struct scene scenes[] = {
    {"fork", play_fork, 3}, {"threads", play_threads, 4}, {"heap", play_heap, 6}, {NULL, NULL, 0}};

int main(int argc, char** argv) { return play_scene(argc, argv, scenes); }
