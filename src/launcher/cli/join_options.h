// The options of agents that join: --listen of ftrun, and `ftrun agent --join`.
#pragma once

#include <optional>

#include "launcher/base/options.h"
#include "launcher/base/result.h"
#include "launcher/cli/options.h"
#include "launcher/cli/raw_options.h"

namespace rejoin::launcher {

// Checks --listen, and what goes together with it.
std::optional<Error> finish_joining(const Raw& raw, RunOptions& options);

// `ftrun agent --join HOST:PORT`
Result<Command> parse_agent(int argc, const char* const* argv);

}  // namespace rejoin::launcher
