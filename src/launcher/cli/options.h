// Parses ftrun's command line.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "launcher/base/options.h"
#include "launcher/base/result.h"

namespace rejoin::launcher {

// Text that the user asked for (help, version): goes to standard output, with exit code 0.
struct Answer {
  std::string text;
};

using Command = std::variant<RunOptions, InspectOptions, CheckOptions, AgentOptions, Answer>;

// "0.1.0, revision 0123456789".
std::string version_text();

// Parses everything up to the program's name; the rest are the program's arguments. Errors are one
// line, with exit code kExitUsage. mpirun's long options with a single dash are accepted.
// kKnown: the numbers of ranks and the hosts are known, and the options that give them are not
// read. kJoin: they are read, and the hosts join (--listen).
enum class HostOptions : std::uint8_t { kRead, kKnown, kJoin };
Result<Command> parse_command_line(int argc, const char* const* argv,
                                   HostOptions hosts = HostOptions::kRead);

// Fills in the options that depend on this machine: the number of ranks (SLURM_NTASKS, else
// `processors`), the journal's limit, and the journal's growth after which snapshots are made.
// Errors: SLURM_NTASKS is no number of ranks.
std::optional<Error> complete(RunOptions& options, std::uint32_t processors);

}  // namespace rejoin::launcher
