// Dispatches the messages of admitted ranks to the agent's core, to other parts of the agent, and
// to the supervisor.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "launcher/agent/agent_core.h"
#include "launcher/agent/job_segment.h"
#include "launcher/base/loop.h"
#include "launcher/orders/event.h"
#include "launcher/output/rank_outputs.h"
#include "wire/messages.h"

namespace rejoin::launcher {

class RankMessages {
 public:
  struct Calls {
    std::function<void(const AgentEvent&)> feed;       // the core
    std::function<void(const Event&)> report;          // to the supervisor
    std::function<void(const std::string& line)> log;  // of --log-ops
    // A checkpoint was committed; kept: its models are in the ranks' slots.
    std::function<void(std::uint64_t version, bool kept)> committed;
    std::function<void(bool waits)> snapshot_due;
    std::function<void(std::uint32_t rank, const wire::Message&)> not_frozen;
    std::function<void(std::uint32_t rank, const wire::Message&)> fault;
    std::function<void(std::uint64_t mark, int in_pipe)> input_mark;  // of rank 0
  };

  // All of them outlive it.
  RankMessages(const Loop& loop, const JobSegment& segment, RankOutputs& outputs, Calls calls);

  // REQUIRES a message received from the rank's admitted process. Its contents are not trusted.
  void read(std::uint32_t rank, const wire::Message& message);

 private:
  const Loop& loop_;
  const JobSegment& segment_;
  RankOutputs& outputs_;
  const Calls calls_;
};

}  // namespace rejoin::launcher
