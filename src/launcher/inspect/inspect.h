// Prints the journals of a kept job.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "journal/layout.h"
#include "launcher/base/result.h"
#include "launcher/cli/options.h"

namespace rejoin::launcher {

using DescribeSite = std::function<std::string(const engine::ModuleEntry&, std::uint64_t place)>;

// Writes the text of a kept segment piece by piece to `out`. Never trusts the file: a damaged one
// is an error that says where.
//
//     job 0123456789abcdef: 4 ranks, journals of 12 MiB
//     rank 0: 3 communicators, 1234 operations, 5 messages sent, 45 bytes of observations, 3 MiB
//     communicator 00000000000000ab of rank 0: member 0 of 4, 1200 operations
//     [0] allreduce (solver.c:12::iterate#8x1) finished version 0, seq 0, value 000000000000f03f
std::optional<Error> print_journal(std::string_view file, const InspectOptions& options,
                                   const DescribeSite& describe,
                                   const std::function<void(const std::string&)>& out);

// `ftrun inspect`: its exit code.
int run_inspect(const InspectOptions& options);

}  // namespace rejoin::launcher
