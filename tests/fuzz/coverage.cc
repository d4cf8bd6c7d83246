// The function that -fsanitize-coverage=trace-pc calls at each edge. This file is not instrumented.
#include "fuzz.h"

extern "C" const char __executable_start;

namespace rejoin::fuzz {
std::uint64_t places_reached;
}

static bool reached[1 << 16];  // indexed by a hash of the address

extern "C" void __sanitizer_cov_trace_pc() {
  // Addresses are relative to the start of the program, so a run is repeatable wherever it is
  // loaded.
  const auto place = static_cast<std::size_t>(
      static_cast<const char*>(__builtin_return_address(0)) - &__executable_start);
  bool& here = reached[(place ^ place >> 16) % sizeof reached];
  if (!here) ++rejoin::fuzz::places_reached;
  here = true;
}
