// System calls that are forbidden on this host, as seccomp profiles of containers forbid some of
// them (docs/containers.md), and what a job loses by that.
#pragma once

#include <string>
#include <vector>

#include "launcher/base/options.h"

namespace rejoin::launcher {

struct ForbiddenCalls {
  bool personality = false;  // that switches address randomisation off: for written images
  bool pidfd_getfd = false;  // by which ranks take the sockets of their relay
  bool ptrace = false;       // by which debuggers read the stacks of ranks
};

// Tries, each in a child process, the calls that a job with these options may need.
ForbiddenCalls find_forbidden_calls(const RunOptions& options);
// Tries all of them.
ForbiddenCalls find_forbidden_calls();

// The beginning of a sentence about this system: "a seccomp filter forbids", if there is one.
std::string what_forbids();
// Returns the rest of that sentence for each loss: "CALL, without which ...". `images`: what
// follows from images that cannot be written.
std::vector<std::string> losses(const ForbiddenCalls& forbidden, const std::string& images);

// Returns the line for the user at the start of a job; empty: nothing is lost.
std::string losses_text(const ForbiddenCalls& forbidden, const RunOptions& options);

// Why images cannot be restored here; empty: they can.
std::string why_not_restored(const ForbiddenCalls& forbidden);

}  // namespace rejoin::launcher
