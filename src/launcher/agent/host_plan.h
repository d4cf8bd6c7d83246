// The decisions made about a job before its first process starts that the agent of a host needs.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agent/snapshot_policy.h"
#include "launcher/base/grammar.h"
#include "launcher/output/output_options.h"
#include "launcher/program/build.h"

namespace rejoin::launcher {

struct ImageSet;

// Settings that ftrun changed for itself, as they were before. Ranks start with these.
struct Inherited {
  sigset_t signals = {};
  rlimit descriptors = {};
};

struct Program {
  std::uint32_t ranks = 1;
  std::string path;
  std::vector<std::string> command;
  std::string working_directory;
  ProgramIdentity identity;
  std::string build;  // build_of(path); empty without a checkpoint directory
};

struct HostPlan {
  std::uint32_t ranks = 1;
  std::uint64_t job = 0;
  std::vector<Program> programs;                       // ranks are numbered in their order
  std::vector<std::vector<std::string>> environments;  // by rank
  std::vector<cpu_set_t> bindings;                     // by rank; empty: none
  bool core_dumps = false;
  OutputOptions output;
  std::string socket;
  std::string secret;
  std::string lib_directory;
  std::string lifeline;                     // Lifeline::path()
  std::string journal_directory;            // empty: memory
  bool keep = false;                        // the journal, as a file
  std::string checkpoint_directory;         // empty: none
  bool writes_sets = false;                 // writes sets of images until there is a version
  std::uint64_t image_period_ns = 0;        // of written images
  std::shared_ptr<const ImageSet> resumed;  // the set that the job resumes from; nullptr: none
  std::uint32_t first_incarnation = 0;      // of each rank
  SnapshotOptions snapshots;
  std::uint64_t heartbeat_ns = 0;  // interval of heartbeat events; 0: no events
  std::vector<KillOrder> faults;
  Inherited inherited;

  // REQUIRES rank < ranks.
  std::size_t number_of_program(std::uint32_t rank) const {
    std::size_t number = 0;
    for (; rank >= programs[number].ranks; ++number) rank -= programs[number].ranks;
    return number;
  }
  const Program& program_of(std::uint32_t rank) const { return programs[number_of_program(rank)]; }
};

}  // namespace rejoin::launcher
