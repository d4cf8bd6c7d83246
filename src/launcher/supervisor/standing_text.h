// Says where ranks stand, so that users find the rank that is elsewhere.
#pragma once

#include <string>
#include <vector>

#include "launcher/base/record.h"

namespace rejoin::launcher {

// Describes ranks with the same position, state and stack together, the smallest groups first.
// Names at most a few process ids.
//
//     rejoin: rank 2 (process 17, sleeping) is after Allreduce #5
//         #0 sleep (libc.so.6)
//     rejoin: ranks 0, 1, 3-9 (processes 15, 16, 18, 19, ..., sleeping) are in Barrier #6
std::string standing_text(const std::vector<Stood>& ranks);

// Example: "rejoin: newest images: rank 0 600.0 ms old, rank 1 none". Names at most a few ranks.
std::string ages_text(const std::vector<Stood>& ranks);

}  // namespace rejoin::launcher
