/* Time by the processor's counter, because the clocks of a restarted rank repeat their recorded
 * values. For C and C++ on x86-64. */
#pragma once

#include <time.h>
#include <x86intrin.h>

/* Returns the counter's ticks per microsecond. Sleeps 20 ms to compare the counter with the clock.
 */
static double measure_ticks_per_us(void) {
  const struct timespec pause = {0, 20000000};
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC_RAW, &begin);
  const unsigned long long first = __rdtsc();
  nanosleep(&pause, NULL);
  const unsigned long long last = __rdtsc();
  clock_gettime(CLOCK_MONOTONIC_RAW, &end);
  return (double)(last - first) /
         ((double)(end.tv_sec - begin.tv_sec) * 1e6 + (double)(end.tv_nsec - begin.tv_nsec) * 1e-3);
}
