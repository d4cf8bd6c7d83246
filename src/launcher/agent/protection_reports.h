// Reports how far the job is protected by images: Event::Snapshot and Event::Heartbeat.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/agent/agent_core.h"
#include "launcher/agent/host_plan.h"
#include "launcher/agent/reporter.h"
#include "launcher/base/loop.h"

namespace rejoin::launcher {

class ProtectionReports {
 public:
  // All of them outlive it.
  ProtectionReports(Loop& loop, const HostPlan& plan, const AgentCore& core, Reporter& reporter)
      : loop_(loop),
        plan_(plan),
        core_(core),
        reporter_(reporter),
        heartbeat_timer_(loop,
                         [this] {
                           reporter_.happened(0, Event::Heartbeat{protection()});
                           start();
                         }),
        ranks_(plan.ranks) {}

  // The first heartbeat comes a period after start(), the last one before stop(). Without --events
  // there are none.
  void start();
  void stop() { heartbeat_timer_.clear(); }
  void image_kept(std::uint32_t rank);
  void finalized(std::uint32_t rank);
  bool has_finalized(std::uint32_t rank) const { return ranks_[rank].finalized; }
  // Since the rank's newest image; without one, since the job's start.
  std::uint64_t image_age_ns(std::uint32_t rank) const {
    return loop_.now_ns() - ranks_[rank].at_ns;
  }
  // What images and journal take, as it was measured last.
  void measured(std::uint64_t image_bytes, std::uint64_t journal_bytes) {
    image_bytes_ = image_bytes;
    journal_bytes_ = journal_bytes;
  }
  // Returns `snapshots` and `exposed_ns` of the Totals until now.
  Totals totals();

 private:
  struct Rank {
    std::uint64_t at_ns = 0;  // completion time of its newest image; 0: none
    bool fresh = false;       // that was completed since the last Snapshot event
    bool finalized = false;
  };
  void count_exposed(std::uint32_t rank);
  void report_snapshot();
  Protection protection() const;

  Loop& loop_;
  const HostPlan& plan_;
  const AgentCore& core_;
  Reporter& reporter_;
  Loop::Timer heartbeat_timer_;
  std::vector<Rank> ranks_;
  std::uint64_t image_bytes_ = 0;
  std::uint64_t journal_bytes_ = 0;
  Totals totals_;
};

}  // namespace rejoin::launcher
