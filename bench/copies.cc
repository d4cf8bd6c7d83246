// Measures copies by size and by the distance from source to destination modulo the page size.
// Prints the nanoseconds of the C library's memcpy and of copy_payload. Each figure is the fastest
// of many runs with both buffers in the cache.
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "copy/copy.h"
#include "ticks.h"

namespace {

constexpr std::size_t kMost = 1 << 20, kPage = 4096;

// Volatile, so that the compiler neither inlines the copy nor removes it.
void* (*volatile library_copy)(void*, const void*, std::size_t) = std::memcpy;

template <class Copy>
double fastest_ns(Copy&& copy, std::size_t bytes, double ticks_per_us) {
  const std::size_t calls = std::max<std::size_t>(3, (1 << 18) / bytes);
  unsigned long long least = ~0ull;
  for (int i = 0; i < 25; ++i) {
    const unsigned long long begin = __rdtsc();
    for (std::size_t k = 0; k < calls; ++k) copy();
    least = std::min(least, __rdtsc() - begin);
  }
  return static_cast<double>(least) / static_cast<double>(calls) / ticks_per_us * 1e3;
}

}  // namespace

int main() {
  void* memory = mmap(nullptr, 2 * kMost + 4 * kPage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    return 1;
  }
  std::memset(memory, 1, 2 * kMost + 4 * kPage);
  const auto* from = static_cast<std::byte*>(memory) + kPage;
  auto* page = static_cast<std::byte*>(memory) + kMost + 2 * kPage;
  const double ticks_per_us = measure_ticks_per_us();
  std::printf("%8s %8s %12s %12s %6s\n", "bytes", "distance", "memcpy, ns", "ours, ns", "ratio");
  for (std::size_t bytes = 1024; bytes <= kMost; bytes *= 4) {
    for (const int distance : {0, 8, 16, 32, 48, 64, 128, 1024, -64, -16}) {
      std::byte* to = page + distance;
      const double library =
          fastest_ns([&] { library_copy(to, from, bytes); }, bytes, ticks_per_us);
      const double ours = fastest_ns(
          [&] {
            rejoin::copy_payload(to, from, bytes);
            asm volatile("" ::"r"(to) : "memory");
          },
          bytes, ticks_per_us);
      std::printf("%8zu %8d %12.0f %12.0f %6.2f\n", bytes, distance, library, ours, ours / library);
    }
  }
}
