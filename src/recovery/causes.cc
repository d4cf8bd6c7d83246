#include "recovery/causes.h"

#include <link.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>

namespace rejoin::recovery {
namespace {

constexpr Threading kThreading[] = {
    {"libgomp", "OMP_NUM_THREADS=1"},  {"libomp", "OMP_NUM_THREADS=1"},
    {"libiomp5", "OMP_NUM_THREADS=1"}, {"libopenblas", "OPENBLAS_NUM_THREADS=1"},
    {"libmkl_", "MKL_NUM_THREADS=1"},
};

int find_threading(dl_phdr_info* info, std::size_t, void* found) {
  const char* slash = std::strrchr(info->dlpi_name, '/');
  const char* name = slash != nullptr ? slash + 1 : info->dlpi_name;
  for (const Threading& t : kThreading) {
    if (std::strncmp(name, t.prefix, std::strlen(t.prefix)) != 0) continue;
    *static_cast<const Threading**>(found) = &t;
    return 1;
  }
  return 0;
}

}  // namespace

int thread_count() {
  struct stat tasks;  // a directory has 2 links, and one for each subdirectory
  return stat("/proc/self/task", &tasks) == 0 ? static_cast<int>(tasks.st_nlink) - 2 : 0;
}

const Threading* loaded_threading() {
  const Threading* found = nullptr;
  dl_iterate_phdr(find_threading, &found);
  return found;
}

void put_likely_cause(char* text, std::size_t bytes) {
  const Threading* threading = loaded_threading();
  const int threads = thread_count();
  if (threads < 2) {
    std::snprintf(text, bytes,
                  "likely causes: uninitialised memory, or the processor's cycle counter (rdtsc)");
  } else if (threading != nullptr) {
    std::snprintf(text, bytes,
                  "a likely cause: the rank has %d threads (%s), which may add in another order "
                  "each time; set %s",
                  threads, threading->prefix, threading->setting);
  } else {
    std::snprintf(text, bytes,
                  "a likely cause: the rank has %d threads, which may work in another order each "
                  "time; run it with one thread",
                  threads);
  }
}

}  // namespace rejoin::recovery
