// Runs a job: the supervisor, and on one host the agent, in this process, over one loop.
#pragma once

#include <string>
#include <vector>

#include "launcher/base/options.h"

namespace rejoin::launcher {

// Runs a job to its end. `arguments`: the command line that the options were read from. Returns
// ftrun's exit code; all messages have been shown.
int run_job(RunOptions options, const std::vector<std::string>& arguments);

}  // namespace rejoin::launcher
