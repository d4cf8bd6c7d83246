// What this machine, and the control group that the job runs in, allow.
#pragma once

#include <sched.h>

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/cli/options.h"

namespace rejoin::launcher {

// Processors that this process may use, by affinity and by the control group's quota; at least 1.
std::uint32_t usable_processors();

// For a journal in memory (`directory` is empty): half of the smaller of the memory that is free
// and the control group's limit. For one in a directory: half of what is free there.
std::uint64_t default_journal_limit_bytes(const std::string& directory);

// How many processes of this control group (of the machine, where the group does not tell) the
// OOM killer has killed so far.
std::uint64_t out_of_memory_kills();

// Assigns counts[i] processors to rank i, in order, from those that this process may use. Returns
// an empty list if there are too few.
std::vector<cpu_set_t> processors_each(const std::vector<std::uint32_t>& counts);
// For ranks that fill more than half of the processors that this process may use, but not more than
// all: a processor each. The kernel would now and then put two of them on one, where they can only
// wait for each other. Else empty: another job may want to share the machine, or ranks must.
std::vector<cpu_set_t> processor_each(std::uint32_t ranks);

// Processors for each rank, by hwloc, which is loaded here. Errors: hwloc cannot be loaded, or does
// not know this machine.
Result<std::vector<cpu_set_t>> bind_ranks(const std::string& library_directory, Binding binding,
                                          std::uint32_t ranks);

}  // namespace rejoin::launcher
