// The decisions made about a job before its first process starts that the agent of a host needs:
// plain data, which may come from another host.
#pragma once

#include <sched.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/forbidden_calls.h"
#include "launcher/agent/host_sets.h"
#include "launcher/agent/image_sets.h"
#include "launcher/base/options.h"
#include "launcher/program/build.h"

namespace rejoin::launcher {

struct HostPlan {
  RunOptions options;       // complete()
  std::uint32_t ranks = 1;  // of the job: options.ranks()
  std::uint32_t host = 0;   // number of the agent's host
  LocalRanks local;         // the ranks of this host
  std::uint64_t job = 0;
  std::vector<ProgramFile> programs;                   // by number of the program
  std::vector<std::vector<std::string>> environments;  // by rank
  std::vector<cpu_set_t> bindings;                     // by rank; empty: none
  std::string socket;
  std::string secret;
  std::string lib_directory;
  ForbiddenCalls forbidden;
  bool writes_sets = false;             // writes sets of images until there is a version
  std::string directory;                // gives_parts(): of this job's files; else empty
  std::vector<std::string> printed;     // of each local rank, by both streams, since `resumed`
  std::string file_logs;                // wire/file_log.h; empty: nothing is logged
  std::optional<ImageSet> resumed;      // the set that the job resumes from
  bool takes_over = false;              // ... of an agent that was lost, and the others wait
  std::uint32_t first_incarnation = 0;  // of each rank

  // Where written images lie; empty: nowhere.
  std::string sets_directory() const {
    if (!writes_sets) return directory.empty() ? directory : directory + "/sets";
    const std::string& all = options.checkpoint_directory;
    return is_whole_job() ? all : directory_of_host(all, host);
  }
  // The agent decides what the supervisor decides for jobs on several hosts, or on another one.
  bool is_whole_job() const { return !options.has_agents(); }
  // This host's part of each set goes to another host.
  bool gives_parts() const { return options.survive_host && options.checkpoint_directory.empty(); }
  const ProgramFile& program_of(std::uint32_t rank) const {
    return programs[options.number_of_program(rank)];
  }
};

}  // namespace rejoin::launcher
