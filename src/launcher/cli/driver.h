// Runs a job in this process: supervisor and agent, over one loop.
#pragma once

#include "launcher/base/options.h"

namespace rejoin::launcher {

// Runs a job to its end. Returns ftrun's exit code; all messages have been shown.
int run_job(RunOptions options);

}  // namespace rejoin::launcher
