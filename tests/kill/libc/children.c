// Child processes that append to a file, started by every function that starts processes. A replay
// starts them again, and reports that in a line.
#define _GNU_SOURCE
#include <spawn.h>
#include <sys/wait.h>

#include "scene.h"

#define COMMAND "echo x >> children"

static void append_by_system(void) { REQUIRE(system(COMMAND) == 0); }

static void append_by_popen(void) {
  FILE* p = popen(COMMAND, "r");
  REQUIRE(p != NULL && pclose(p) == 0);
}

static char* arguments[] = {"sh", "-c", COMMAND, NULL};

static void await(pid_t child) {
  int status = -1;
  REQUIRE(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void append_by_fork(void) {
  const pid_t child = fork();
  if (child == 0) {
    execv("/bin/sh", arguments);
    _exit(127);
  }
  await(child);
}

static void append_by_vfork(void) {
  const pid_t child = vfork();
  if (child == 0) {
    execv("/bin/sh", arguments);
    _exit(127);
  }
  await(child);
}

static void append_by_posix_spawn(void) {
  pid_t child = 0;
  REQUIRE(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
  await(child);
}

static void play(void (*append)(void)) {
  for (int i = 0; i < 2; ++i) {
    step();
    append();
    step();
  }
}
static void play_system(void) { play(append_by_system); }
static void play_popen(void) { play(append_by_popen); }
static void play_fork(void) { play(append_by_fork); }
static void play_vfork(void) { play(append_by_vfork); }
static void play_posix_spawn(void) { play(append_by_posix_spawn); }

static const struct scene scenes[] = {{"system", play_system, 4},
                                      {"popen", play_popen, 4},
                                      {"fork", play_fork, 4},
                                      {"vfork", play_vfork, 4},
                                      {"posix_spawn", play_posix_spawn, 4},
                                      {NULL, NULL, 0}};

int main(int argc, char** argv) { return play_scene(argc, argv, scenes); }
