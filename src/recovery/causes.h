// Finds likely causes for a replay that differs from the first execution.
#pragma once

#include <cstddef>

namespace rejoin::recovery {

// A library that computes with several threads.
struct Threading {
  const char* prefix;   // prefix of its file name
  const char* setting;  // environment setting that limits it to one thread
};
// Returns the first such library that is loaded, or null.
const Threading* loaded_threading();

// Returns the number of threads of this process, or 0 if /proc cannot be read.
int thread_count();

// Writes a clause that names the likely cause and a remedy. Looks at the threads and libraries of
// the process; allocates nothing.
void put_likely_cause(char* text, std::size_t bytes);

}  // namespace rejoin::recovery
