// The decisions made about a job before its first process starts that the agent of a host needs:
// plain data, which may come from another host.
#pragma once

#include <sched.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
  bool writes_sets = false;             // writes sets of images until there is a version
  std::string file_logs;                // wire/file_log.h; empty: nothing is logged
  std::optional<ImageSet> resumed;      // the set that the job resumes from
  std::uint32_t first_incarnation = 0;  // of each rank

  const ProgramFile& program_of(std::uint32_t rank) const {
    return programs[options.number_of_program(rank)];
  }
};

}  // namespace rejoin::launcher
