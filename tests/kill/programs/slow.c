// slow: a library to be preloaded into an agent, for which some things take four seconds.
//
// REJOIN_TEST_SLOW says which:
//
//   lowest    a thread of the lowest priority gets no processor, each time that it has locked a
//             mutex
//   removal   the file system takes so long for the last step of removing a part that another host
//             has given; twice in each process

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { kLowest = 19, kTakesS = 4, kMostRemovals = 2 };

static int (*real_lock)(pthread_mutex_t*);
static int (*real_remove)(const char*);
static int slow_lowest, slow_removal;
static atomic_int removals;

__attribute__((constructor)) static void begin(void) {
  real_lock = (int (*)(pthread_mutex_t*))dlsym(RTLD_NEXT, "pthread_mutex_lock");
  real_remove = (int (*)(const char*))dlsym(RTLD_NEXT, "remove");
  const char* what = getenv("REJOIN_TEST_SLOW");
  slow_lowest = what != NULL && strcmp(what, "lowest") == 0;
  slow_removal = what != NULL && strcmp(what, "removal") == 0;
}

static void take_long(void) {
  struct timespec left = {kTakesS, 0};
  while (nanosleep(&left, &left) != 0) {
  }
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  const int result = real_lock(mutex);
  if (slow_lowest && getpriority(PRIO_PROCESS, (id_t)gettid()) == kLowest) take_long();
  return result;
}

int remove(const char* path) {
  const int is_part = strstr(path, "/parts/") != NULL;
  if (slow_removal && is_part && atomic_fetch_add(&removals, 1) < kMostRemovals) take_long();
  return real_remove(path);
}
