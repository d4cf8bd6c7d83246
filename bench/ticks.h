/* Time by the processor's counter, because the clocks of a restarted rank repeat their recorded
 * values. For C and C++ on x86-64. */
#pragma once

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

/* Asks the kernel for the time, because ftrun records what clock_gettime() answers. */
static double clock_us(void) {
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC_RAW, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* Returns the counter's ticks per microsecond. Sleeps 20 ms to compare the counter with the clock.
 */
static double measure_ticks_per_us(void) {
  const struct timespec pause = {0, 20000000};
  const double begin_us = clock_us();
  const unsigned long long first = __rdtsc();
  nanosleep(&pause, NULL);
  const unsigned long long last = __rdtsc();
  return (double)(last - first) / (clock_us() - begin_us);
}
