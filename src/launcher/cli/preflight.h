// ftrun check: what can be said about a program before it runs.
#pragma once

#include <string>
#include <vector>

#include "launcher/base/result.h"
#include "launcher/cli/options.h"

namespace rejoin::launcher {

// A line for what is certain to go wrong with the program at `path`, or nothing: the library cannot
// be preloaded into it.
std::string certain_trouble(const std::string& name, const std::string& path);

// Prints what there is to say about the program. 0: nothing that would fail was found; 1: something
// was; else the error's exit code.
int run_check(const CheckOptions& options);

}  // namespace rejoin::launcher
