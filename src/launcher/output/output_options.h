// How the output of ranks is shown.
#pragma once

#include <string>

namespace rejoin::launcher {

struct OutputOptions {
  bool tagged = false;    // "[RANK]<stdout>: " before each line
  bool timed = false;     // the local time before each line
  bool merged = false;    // standard error of ranks goes to ftrun's standard output
  bool shown = true;      // false: only written to files
  std::string directory;  // where each rank has a file for each stream; empty: none
};

}  // namespace rejoin::launcher
