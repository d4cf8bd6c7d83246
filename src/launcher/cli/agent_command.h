// `ftrun agent`: the process that runs the ranks of one host of several. ftrun starts it, there or
// through a remote shell (hosts/agents.h); or the user does, with --join.
#pragma once

#include "launcher/base/options.h"

namespace rejoin::launcher {

// Reads orders from standard input and writes reports to standard output until the job ends.
// Returns the exit code. If standard input ends, so do all processes of the ranks.
int run_agent();

// Connects to ftrun, and does the same over that connection. If the job needs no more hosts than it
// has, the agent waits to be a spare. If the job begins again, it joins once more. All that is done
// by a child of this process.
int run_joined_agent(const AgentOptions& options);

}  // namespace rejoin::launcher
