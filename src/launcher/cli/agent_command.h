// `ftrun agent`: the process that runs the ranks of one host of several. ftrun starts it, there or
// through a remote shell (hosts/agents.h); users do not.
#pragma once

namespace rejoin::launcher {

// Reads orders from standard input and writes reports to standard output until the job ends.
// Returns the exit code. If standard input ends, so do all processes of the ranks.
int run_agent();

}  // namespace rejoin::launcher
