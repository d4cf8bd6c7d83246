// Measures what the first touch of shared memory costs, in memory as ftrun creates it for a job:
//   first_touches [MIB]    (64)
// Prints for small and for large pages the microseconds a MiB: of the first touch, and of the
// first one of another mapping, as another process has it. Large pages are small ones where the
// system has none.
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "engine/transport/shm/memory.h"

namespace {

double us_per_mib(std::byte* memory, std::size_t bytes) {
  const auto begin = std::chrono::steady_clock::now();
  if (madvise(memory, bytes, rejoin::engine::kPopulateWrite) != 0) {
    std::perror("madvise");
    std::exit(1);
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  return took.count() / static_cast<double>(bytes >> 20);
}

std::byte* map(int file, std::size_t bytes, bool large) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    std::exit(1);
  }
  if (large) madvise(memory, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t mib = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 64;
  if (mib == 0 || mib > 4096) {
    std::fprintf(stderr, "usage: first_touches [MIB]\n");
    return 2;
  }
  const std::size_t bytes = mib << 20;
  std::printf("%10s %12s %12s\n", "pages", "first, us", "again, us");
  for (const bool large : {false, true}) {
    const int file = rejoin::engine::make_segment_memory(bytes);
    if (file < 0) {
      std::perror("make_segment_memory");
      return 1;
    }
    const double first = us_per_mib(map(file, bytes, large), bytes);
    const double again = us_per_mib(map(file, bytes, large), bytes);
    std::printf("%10s %12.1f %12.1f\n", large ? "large" : "small", first, again);
    close(file);
  }
}
