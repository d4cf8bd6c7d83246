// Looks at the ranks for a deadlock (standstill.h), and reports one.
#pragma once

#include "launcher/agent/agent_core.h"
#include "launcher/agent/host_plan.h"
#include "launcher/agent/job_segment.h"
#include "launcher/agent/processes.h"
#include "launcher/agent/reporter.h"
#include "launcher/agent/standstill.h"
#include "launcher/base/loop.h"

namespace rejoin::launcher {

class StandstillDriver {
 public:
  // All of them outlive it.
  StandstillDriver(const Loop& loop, const HostPlan& plan, const JobSegment& segment,
                   const AgentCore& core, const Processes& processes, Reporter& reporter)
      : loop_(loop),
        plan_(plan),
        segment_(segment),
        core_(core),
        processes_(processes),
        reporter_(reporter) {}

  // To be called periodically, when the messages and the ends of ranks so far have been handled.
  // Returns whether a deadlock was found and reported.
  bool look();

 private:
  Look look_at_ranks() const;

  const Loop& loop_;
  const HostPlan& plan_;
  const JobSegment& segment_;
  const AgentCore& core_;
  const Processes& processes_;
  Reporter& reporter_;
  Standstill standstill_;
};

}  // namespace rejoin::launcher
