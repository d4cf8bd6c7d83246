// The function that -fsanitize-coverage=trace-pc calls at each edge. Not instrumented itself.
#include "fuzz.h"

extern "C" const char __executable_start;

namespace rejoin::fuzz {
std::uint64_t places_reached;
}

static bool reached[1 << 16];  // by a hash of the place

extern "C" void __sanitizer_cov_trace_pc() {
  // From the image's begin, so that a run is repeated wherever it is loaded.
  const auto place = static_cast<std::size_t>(
      static_cast<const char*>(__builtin_return_address(0)) - &__executable_start);
  bool& here = reached[(place ^ place >> 16) % sizeof reached];
  if (!here) ++rejoin::fuzz::places_reached;
  here = true;
}
