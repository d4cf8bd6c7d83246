// What is decided about the ranks of a host before its first process starts, and how a process
// becomes one that runs ranks: the same for ftrun itself and for an agent on another host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/agent/guardian.h"
#include "launcher/agent/host_plan.h"
#include "launcher/base/process.h"
#include "launcher/base/result.h"

namespace rejoin::launcher {

// REQUIRES bytes <= 16. Other users cannot guess the result, and so cannot join the job.
std::string random_hex(std::size_t bytes);

// Which job it is, and which of its hosts.
struct HostIdentity {
  std::string job;     // 16 hexadecimal digits
  std::string secret;  // 32
  std::uint32_t host = 0;
  LocalRanks local;
  // The first one of its ranks. Another agent may have been this host before, and still be there.
  std::uint32_t incarnation = 0;
  bool is_agent = false;  // ftrun has told the user what it has found out about the programs
};

// Errors: a program is not there or cannot run; there are not enough processors. REQUIRES
// complete() options.
Result<HostPlan> make_host_plan(const RunOptions& options, const HostIdentity& identity);

// Carries out --cpu-set for this process. Errors: processors are not available.
std::optional<Error> restrict_processors(const RunOptions& options);
// Prints the processors of the host's ranks.
void report_bindings(const HostPlan& plan);

// Blocks signals, which are read from a descriptor from here on, and makes this process the parent
// of the ranks' orphans.
SpawnSettings prepare_process(std::uint32_t ranks);

// Checks the limit on descriptors before any process is started: above the limit, ftrun could not
// accept a rank's connection, nor report that.
std::optional<Error> check_descriptors(std::uint32_t ranks);

// Restores the files of this host's ranks to their state when the set was cut that the plan resumes
// from. Returns the number of changes that were undone. Errors: why that cannot be.
std::optional<Error> put_files_back(const HostPlan& plan, JobSegment& segment, std::size_t* undone);
// A directory of this job on this machine, in memory if possible. `suffix`: of its name.
std::string directory_of_job(const HostPlan& plan, const std::string& suffix);
// Chooses where ranks log what they do to files: with the sets of images, or in memory, for the
// return of all ranks alone.
void place_file_logs(HostPlan& plan, const Guardian& guardian);

}  // namespace rejoin::launcher
