// Why a replay of this process may differ from its first execution, as far as the process shows it.
#pragma once

#include <cstddef>

namespace rejoin::recovery {

// A library that starts threads to compute.
struct Threading {
  const char* library;  // its name begins so
  const char* setting;  // which lets it use one thread
};
// The first one that is loaded, or null.
const Threading* loaded_threading();

// Puts a clause for the end of a sentence at `text`: the likely cause, and what helps. Looks at the
// process's threads and libraries; allocates nothing.
void put_likely_cause(char* text, std::size_t bytes);

}  // namespace rejoin::recovery
