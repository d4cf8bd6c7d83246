// Reports where all ranks of this host are, for a user with a hanging job (standing.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "launcher/agent/agent_core.h"
#include "launcher/agent/host_plan.h"
#include "launcher/agent/job_segment.h"
#include "launcher/agent/processes.h"
#include "launcher/agent/protection_reports.h"
#include "launcher/agent/reporter.h"
#include "launcher/base/loop.h"
#include "launcher/symbolizer/symbolizer.h"

namespace rejoin::launcher {

class PositionReports {
 public:
  // All of them outlive it.
  PositionReports(Loop& loop, const HostPlan& plan, const SpawnSettings& settings,
                  const JobSegment& segment, const AgentCore& core,
                  const ProtectionReports& protection, Processes& processes,
                  const Reporter& reporter)
      : loop_(loop),
        plan_(plan),
        settings_(settings),
        segment_(segment),
        core_(core),
        protection_(protection),
        processes_(processes),
        reporter_(reporter),
        symbolizer_(plan.lib_directory) {}

  // Begins a report, which is sent when it is complete; awaited: returns only then.
  void report(bool awaited);
  // Completes all reports that were begun.
  void finish() {
    while (!reports_.empty()) read_report(reports_.begin()->first);
  }

 private:
  // "in Allreduce #12 at solver.c:3::main, seq 11 of MPI_COMM_WORLD".
  std::string where(std::uint32_t rank);
  StoodOnHost find_ranks(bool awaited);
  bool read_report(int fd);

  Loop& loop_;
  const HostPlan& plan_;
  const SpawnSettings& settings_;
  const JobSegment& segment_;
  const AgentCore& core_;
  const ProtectionReports& protection_;
  Processes& processes_;
  const Reporter& reporter_;
  Symbolizer symbolizer_;
  // Reports that are being made, by the pipe that they come from.
  struct Incomplete {
    Descriptor pipe;
    bool awaited;
    std::string bytes;  // as far as it has come
    Loop::Watch watch;
  };
  std::map<int, Incomplete> reports_;
};

}  // namespace rejoin::launcher
