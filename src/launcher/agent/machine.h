// Resources that this machine and the job's control group allow.
#pragma once

#include <sched.h>

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/base/options.h"

namespace rejoin::launcher {

// Processors that this process may use, by affinity and by the control group's quota; at least 1.
std::uint32_t usable_processors();

// Whether memory is equally near to all processors.
bool is_memory_uniform();

// Returns half of the free space in `directory`, or, if that is empty (the journal is in memory),
// half of the free memory or of the control group's limit, whichever is less.
std::uint64_t default_journal_limit_bytes(const std::string& directory);

// Returns how many processes of this control group the OOM killer has killed so far; of the whole
// machine, where the group has no count.
std::uint64_t out_of_memory_kills();

// Assigns counts[i] processors to rank i, in order, from those that this process may use. Returns
// an empty list if there are too few.
std::vector<cpu_set_t> processors_each(const std::vector<std::uint32_t>& counts);
// Returns how many of `processors` each rank is bound to, if rank i computes with threads[i]
// threads: that many, or, if there are too few for all, a fair share of them. Without, the kernel
// would sometimes put two ranks on one processor, where they wait for each other. Empty (no rank is
// bound) if half of the processors are enough, because other jobs may use them, or if ranks must
// share processors.
std::vector<std::uint32_t> processors_for_threads(const std::vector<std::uint32_t>& threads,
                                                  std::uint32_t processors);
// Returns these processors, of those that this process may use.
std::vector<cpu_set_t> processors_for_threads(const std::vector<std::uint32_t>& threads);

// Returns the processors of each rank, from hwloc, which is loaded here. Errors: hwloc cannot be
// loaded, or does not know this machine.
Result<std::vector<cpu_set_t>> bind_ranks(const std::string& library_directory, Binding binding,
                                          std::uint32_t ranks);

}  // namespace rejoin::launcher
