// The number of ranks of a program, and the hosts that they run on: -n, --npernode, --host and
// --hostfile.
#pragma once

#include <optional>
#include <string>

#include "launcher/base/options.h"
#include "launcher/base/result.h"
#include "launcher/cli/raw_options.h"

namespace rejoin::launcher {

// A number of ranks. `option`: that gives it, for the error.
Result<std::uint64_t> parse_ranks(const std::string& option, const std::string& text);

// Sets the program's number of ranks, if an option gives it, and its hosts, if one of them is not
// this machine. `join`: agents join on all of them (--listen), and --nodes may stand for a list:
// then the names are empty. Errors: a list or file of hosts is wrong, or has too few slots.
std::optional<Error> read_hosts(const RawProgram& raw, bool join, ProgramOptions& program);

// Fills the hosts of the programs in their order, as far as their slots go: sets the layout and the
// hosts of the job. Does nothing if all ranks run on this machine.
std::optional<Error> fill_hosts(RunOptions& options);

// Errors: what --survive host needs, and the job does not have. REQUIRES that fill_hosts() was
// called.
std::optional<Error> check_survival(const RunOptions& options);

}  // namespace rejoin::launcher
