// Everything that is decided about a job before its first process starts, as far as the agent of
// a host needs it.
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

namespace rejoin::launcher {

struct ImageSet;

// What ftrun changed for itself, as it was: ranks start with it.
struct Inherited {
  sigset_t signals = {};
  rlimit descriptors = {};
};

struct HostPlan {
  std::uint32_t ranks = 1;
  std::uint64_t job = 0;
  std::string path;  // of the program
  std::vector<std::string> command;
  std::string working_directory;
  std::vector<std::vector<std::string>> environments;  // by rank
  std::vector<cpu_set_t> bindings;                     // by rank; empty: none
  bool core_dumps = false;
  bool tag_output = false;
  std::string socket;
  std::string secret;
  std::string lib_directory;
  std::string lifeline;                     // Lifeline::path()
  std::string journal_directory;            // empty: memory
  bool keep = false;                        // the journal, as a file
  std::string checkpoint_directory;         // empty: none
  std::string build;                        // build_of(path); empty without a checkpoint directory
  std::uint64_t image_period_ns = 0;        // of written images
  std::shared_ptr<const ImageSet> resumed;  // that the job goes on from; nullptr: none
  std::uint32_t first_incarnation = 0;      // of each rank
  SnapshotOptions snapshots;
  std::vector<KillOrder> faults;
  Inherited inherited;
};

}  // namespace rejoin::launcher
