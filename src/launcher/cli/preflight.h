// ftrun check: finds problems of a program before it runs.
#pragma once

#include <string>
#include <vector>

#include "launcher/base/options.h"
#include "launcher/base/result.h"

namespace rejoin::launcher {

// Returns a line if the program at `path` is certain to fail, because the library cannot be
// preloaded into it; else an empty string.
std::string certain_trouble(const std::string& name, const std::string& path);

// Prints findings about the program. Returns 0 if it found nothing that would fail, 1 if it did, or
// the exit code of an error.
int run_check(const CheckOptions& options);

}  // namespace rejoin::launcher
