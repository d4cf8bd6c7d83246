// Prints the journals of a kept job.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "launcher/base/options.h"
#include "launcher/base/result.h"
#include "launcher/inspect/journal_file.h"

namespace rejoin::launcher {

// Writes a kept segment, the contents of the file at `path`, piece by piece to `out`: as text or,
// with --json, as one object a line. Never trusts the file: a damaged one is an error that says
// where.
//
//     job 0123456789abcdef: 4 ranks, 1 death, journals of 12 MiB, started 2026-11-24 03:15:00
//     rank 0: 1 incarnation, 2 communicators, 1234 operations, 5 messages sent, 45 bytes of ...
//     version 3 of rank 0: made 2026-11-24 03:16:10, behind operation 1200, global model 1.2 KiB
//     MPI_COMM_WORLD of rank 0: member 0 of 4 (0 1 2 3), 1200 operations
//     [0] allreduce (solver.c:12::iterate#8x1) finished, seq 0, sum 3.5
std::optional<Error> print_journal(const std::string& path, std::string_view file,
                                   const InspectOptions& options, const DescribeSite& describe,
                                   const std::function<void(const std::string&)>& out);

// Runs `ftrun inspect`. Returns its exit code.
int run_inspect(const InspectOptions& options);

}  // namespace rejoin::launcher
