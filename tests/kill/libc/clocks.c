// Clocks and counters. A replay reads the times of the first execution, and the clocks continue
// from there when the rank is live.
#define _GNU_SOURCE
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>

#include "scene.h"

static void not_before(double* last, double now) {
  REQUIRE(now >= *last);
  *last = now;
}

static void read_all(void) {
  static double last[20];
  struct timeval v;
  struct timespec s;
  struct tms t;
  struct rusage u;
  time_t seconds = time(NULL);
  SAME(seconds);
  not_before(&last[0], (double)seconds);
  REQUIRE(gettimeofday(&v, NULL) == 0);
  SAME(v);
  not_before(&last[1], (double)v.tv_sec + 1e-6 * (double)v.tv_usec);
  for (int id = CLOCK_REALTIME; id <= CLOCK_BOOTTIME; ++id) {
    REQUIRE(clock_gettime(id, &s) == 0);
    SAME(s);
    not_before(&last[2 + id], (double)s.tv_sec + 1e-9 * (double)s.tv_nsec);
  }
  REQUIRE(timespec_get(&s, TIME_UTC) == TIME_UTC);
  SAME(s);
  const clock_t processor = clock();
  SAME(processor);
  not_before(&last[10], (double)processor);
  const clock_t elapsed = times(&t);
  SAME(elapsed);
  SAME(t);
  not_before(&last[11], (double)(t.tms_utime + t.tms_stime));
  REQUIRE(getrusage(RUSAGE_SELF, &u) == 0);
  SAME(u);
  not_before(&last[12], (double)u.ru_utime.tv_sec + 1e-6 * (double)u.ru_utime.tv_usec);
  not_before(&last[13], (double)u.ru_maxrss);
  REQUIRE(getrusage(RUSAGE_CHILDREN, &u) == 0 && getrusage(RUSAGE_THREAD, &u) == 0);
  const double w = MPI_Wtime();
  SAME(w);
  not_before(&last[14], w);
}

static double compute(double seconds) {
  volatile double x = 0;
  struct timespec begin, now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
  do {
    for (int i = 0; i < 10000; ++i) x = x + i;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  } while ((double)(now.tv_sec - begin.tv_sec) + 1e-9 * (double)(now.tv_nsec - begin.tv_nsec) <
           seconds);
  return x;
}

static void play_all(void) {
  for (int i = 0; i < 4; ++i) {
    read_all();
    compute(0.02);
    step();
  }
  read_all();
}

// A replay repeats decisions that depend on the time: SAME compares the number of iterations.
static void play_poll(void) {
  for (int i = 0; i < 3; ++i) {
    long turns = 0;
    const double begin = MPI_Wtime();
    while (MPI_Wtime() - begin < 0.02) ++turns;
    SAME(turns);
    struct timeval v, first;
    gettimeofday(&first, NULL);
    do {
      gettimeofday(&v, NULL);
      ++turns;
    } while ((v.tv_sec - first.tv_sec) * 1000000 + v.tv_usec - first.tv_usec < 20000);
    SAME(turns);
    step();
  }
}

// A constructor reads a clock, before MPI_Init.
static struct timespec at_load;
__attribute__((constructor)) static void read_at_load(void) {
  clock_gettime(CLOCK_REALTIME, &at_load);
}

static void play_before_init(void) {
  SAME(at_load);
  step();
  SAME(at_load);
  step();
}

static const struct scene scenes[] = {{"all", play_all, 4},
                                      {"poll", play_poll, 3},
                                      {"before_init", play_before_init, 2},
                                      {NULL, NULL, 0}};

int main(int argc, char** argv) { return play_scene(argc, argv, scenes); }
