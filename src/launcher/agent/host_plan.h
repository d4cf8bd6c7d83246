// The decisions made about a job before its first process starts that the agent of a host needs.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launcher/base/options.h"
#include "launcher/program/build.h"

namespace rejoin::launcher {

struct ImageSet;

// Settings that ftrun changed for itself, as they were before. Ranks start with these.
struct Inherited {
  sigset_t signals = {};
  rlimit descriptors = {};
};

// The file of one of the programs in RunOptions::programs.
struct ProgramFile {
  std::string path;
  ProgramIdentity identity;
  std::string build;  // build_of(path); empty without a checkpoint directory
};

struct HostPlan {
  RunOptions options;       // complete()
  std::uint32_t ranks = 1;  // options.ranks()
  std::uint64_t job = 0;
  std::vector<ProgramFile> programs;                   // by number of the program
  std::vector<std::vector<std::string>> environments;  // by rank
  std::vector<cpu_set_t> bindings;                     // by rank; empty: none
  std::string socket;
  std::string secret;
  std::string lib_directory;
  std::string lifeline;                     // Lifeline::path()
  bool writes_sets = false;                 // writes sets of images until there is a version
  std::shared_ptr<const ImageSet> resumed;  // the set that the job resumes from; nullptr: none
  std::uint32_t first_incarnation = 0;      // of each rank
  Inherited inherited;

  const ProgramFile& program_of(std::uint32_t rank) const {
    return programs[options.number_of_program(rank)];
  }
};

}  // namespace rejoin::launcher
