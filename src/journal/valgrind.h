// Client requests to valgrind. They have no effect in a process that does not run under valgrind.
//
// A request is valgrind's stable ABI: six words in memory, announced by an instruction sequence
// that is a no-op on the processor. Numbers of a tool's own requests begin at its two letters.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rejoin::journal {

// Returns 0 without valgrind.
inline std::uint64_t valgrind_request(std::uint64_t request, std::uint64_t a = 0,
                                      std::uint64_t b = 0) {
  std::uint64_t result = 0;
#if defined(__x86_64__)
  const std::uint64_t words[6] = {request, a, b};
  asm volatile(
      "rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
      : "+d"(result)
      : "a"(words)
      : "cc", "memory");
#endif
  return result;
}

inline bool runs_under_valgrind() { return valgrind_request(0x1001) != 0; }

inline constexpr std::uint64_t kMemcheck = std::uint64_t{'M'} << 24 | std::uint64_t{'C'} << 16;

// Excludes the range from memcheck's leak check, which would read hundreds of GiB of an untouched
// journal, and from its reports of invalid accesses.
inline void hide_from_memcheck(const void* base, std::size_t bytes) {
  constexpr std::uint64_t kMakeNoAccess = kMemcheck, kDisableReports = kMemcheck + 14;
  valgrind_request(kDisableReports, reinterpret_cast<std::uintptr_t>(base), bytes);
  valgrind_request(kMakeNoAccess, reinterpret_cast<std::uintptr_t>(base), bytes);
}

// Enables reports of invalid accesses again. The leak check still skips the range.
inline void report_to_memcheck(const void* base, std::size_t bytes) {
  constexpr std::uint64_t kEnableReports = kMemcheck + 13;
  valgrind_request(kEnableReports, reinterpret_cast<std::uintptr_t>(base), bytes);
}

// Makes the leak check treat the range as a root: blocks to which it points are not reported as
// lost.
inline void show_to_memcheck(const void* base, std::size_t bytes) {
  constexpr std::uint64_t kMakeDefined = kMemcheck + 2;
  valgrind_request(kMakeDefined, reinterpret_cast<std::uintptr_t>(base), bytes);
}

}  // namespace rejoin::journal
