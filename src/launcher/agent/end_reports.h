// Reports the ends of incarnations to the supervisor, with what is known about their causes.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/agent/core_messages.h"
#include "launcher/agent/fault_report.h"
#include "launcher/agent/job_segment.h"
#include "launcher/agent/processes.h"
#include "launcher/agent/reporter.h"

namespace rejoin::launcher {

class EndReports {
 public:
  // All of them outlive it. `ranks`: of the job.
  EndReports(std::uint32_t ranks, const JobSegment& segment, const Processes& processes,
             Reporter& reporter);

  // A process of the rank reports the signal that is about to end it.
  void signalled(std::uint32_t rank, const wire::Message& message) {
    faults_[rank] = fault_report(rank, message);
  }
  void report(std::uint32_t rank, const AgentAction::ReportEnded& ended);
  // To be called once for each process that SIGKILL has ended. Returns whether the OOM killer has
  // killed a process, according to the kernel's count of its kills. It kills images first;
  // `others`: kills of processes that this function was not yet called for.
  bool take_oom_kill(std::uint64_t others = 0);

 private:
  const JobSegment& segment_;
  const Processes& processes_;
  Reporter& reporter_;
  std::vector<FaultReport> faults_;  // by rank: what the current incarnation reported
  std::uint64_t oom_kills_seen_;
};

}  // namespace rejoin::launcher
