// system_values: the ranks compute the maxima of values that the system reports: memory, load,
// processors, mounts, by files in /proc, streams and calls. Rank 0 prints only the number of
// values, because the values differ between runs.

#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

enum { kValues = 12, kMiB = 1 << 20 };

/** Returns seconds of processor time, by the clock of a process or a thread. */
static double seconds_of(clockid_t clock) {
  struct timespec t;
  check_i64("clock_gettime", 0, clock_gettime(clock, &t));
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/** Returns the value after `key` in a file of the system. */
static double number_in(const char* path, const char* key, int flags) {
  char text[16384];
  const int fd = open(path, flags, 0666);
  check_true(path, fd >= 0);
  ssize_t bytes = 0;
  for (ssize_t n; (n = read(fd, text + bytes, sizeof text - 1 - (size_t)bytes)) > 0;) bytes += n;
  close(fd);
  text[bytes] = '\0';
  const char* at = strstr(text, key);
  check_true(key, at != NULL);
  return at == NULL ? -1 : atof(at + strlen(key));
}

/** Returns the number of characters in a file, which is read twice through one stream. */
static double characters(const char* path) {
  FILE* file = fopen(path, "r");
  check_true(path, file != NULL);
  double count = 0;
  while (getc(file) != EOF) ++count;
  rewind(file);
  while (getc(file) != EOF) ++count;
  fclose(file);
  return count;
}

static void look(double* values) {
  struct sysinfo info;
  struct rusage usage;
  check_i64("sysinfo", 0, sysinfo(&info));
  check_i64("getrusage", 0, getrusage(RUSAGE_SELF, &usage));
  int i = 0;
  values[i++] = number_in("/proc/self/statm", " ", O_RDONLY);
  values[i++] = number_in("/proc/meminfo", "MemFree:", O_RDWR | O_CREAT);  // as in Fortran
  values[i++] = number_in("/proc/self/status", "VmRSS:", O_RDONLY);
  values[i++] = (double)info.freeram;
  values[i++] = (double)usage.ru_maxrss;
  values[i++] = (double)sysconf(_SC_AVPHYS_PAGES);
  values[i++] = sched_getcpu();
  values[i++] = characters("/etc/mtab");
  check_i64("getloadavg", 1, getloadavg(&values[i++], 1));
  clockid_t of_process, of_thread;
  check_i64("clock_getcpuclockid", 0, clock_getcpuclockid(getpid(), &of_process));
  check_i64("pthread_getcpuclockid", 0, pthread_getcpuclockid(pthread_self(), &of_thread));
  values[i++] = seconds_of(of_process);
  values[i++] = seconds_of(of_thread);
  values[i++] = (double)mallinfo2().uordblks;
  check_i64("values", kValues, i);
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const int steps = (int)argument_number(argc, argv, "steps", 12);
  int given = 0;
  for (int step = 0; step < steps; ++step) {
    double mine[kValues];
    double most[kValues];
    look(mine);
    char* grown = malloc(kMiB);
    memset(grown, step, kMiB);
    check_true("grown", grown[step] == step);
    OK(MPI_Allreduce(mine, most, kValues, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    pause_us(500);
    for (int i = 0; i < kValues; ++i) given += most[i] >= mine[i];
    if (step % 3 != 0) free(grown);
  }
  if (check_state.rank == 0) printf("%d values\n", given);
  return check_end();
}
