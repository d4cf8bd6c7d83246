// Runs a job in this process: supervisor and agent, over one loop.
#pragma once

#include "launcher/cli/options.h"

namespace rejoin::launcher {

// Runs a job to its end. Returns ftrun's exit code; all messages have been shown.
int run_job(const RunOptions& options);

}  // namespace rejoin::launcher
