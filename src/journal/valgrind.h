// What a rank asks valgrind, if it runs under it. Elsewhere a request does nothing.
//
// Valgrind's stable interface: a request is six words in memory, shown by a sequence of
// instructions that changes nothing on a processor; a tool's own begin at its two letters.
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

// Memcheck's leak check reads all memory that can be addressed; of a journal that would be
// hundreds of GiB to which nothing was ever written. Makes it pass over the range, and memcheck
// not report accesses there.
inline void hide_from_memcheck(const void* base, std::size_t bytes) {
  constexpr std::uint64_t kMakeNoAccess = kMemcheck, kDisableReports = kMemcheck + 14;
  valgrind_request(kDisableReports, reinterpret_cast<std::uintptr_t>(base), bytes);
  valgrind_request(kMakeNoAccess, reinterpret_cast<std::uintptr_t>(base), bytes);
}

// Memcheck reports accesses there again; its leak check still passes over the range.
inline void report_to_memcheck(const void* base, std::size_t bytes) {
  constexpr std::uint64_t kEnableReports = kMemcheck + 13;
  valgrind_request(kEnableReports, reinterpret_cast<std::uintptr_t>(base), bytes);
}

// The leak check looks there for pointers.
inline void show_to_memcheck(const void* base, std::size_t bytes) {
  constexpr std::uint64_t kMakeDefined = kMemcheck + 2;
  valgrind_request(kMakeDefined, reinterpret_cast<std::uintptr_t>(base), bytes);
}

}  // namespace rejoin::journal
