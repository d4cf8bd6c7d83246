// Requests images of the ranks when SnapshotPolicy says so, and reports what prevents them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "launcher/agent/agent_core.h"
#include "launcher/agent/host_plan.h"
#include "launcher/agent/job_segment.h"
#include "launcher/agent/processes.h"
#include "launcher/agent/reporter.h"
#include "launcher/agent/snapshot_policy.h"
#include "launcher/base/loop.h"
#include "wire/messages.h"

namespace rejoin::launcher {

class SnapshotDriver {
 public:
  // All of them outlive it. `driver`: carries out what `core` answers to a request.
  SnapshotDriver(Loop& loop, const HostPlan& plan, const JobSegment& segment, AgentCore& core,
                 AgentDriver& driver, const Processes& processes, Reporter& reporter)
      : loop_(loop),
        plan_(plan),
        segment_(segment),
        core_(core),
        driver_(driver),
        processes_(processes),
        reporter_(reporter),
        policy_(plan.options.snapshots),
        timer_(loop, [this] { look(); }),
        reported_rank_(plan.ranks, false) {}

  // The ranks have begun to run.
  void start();
  // Requests no more images.
  void stop();
  // Actions of the core: announces a set to all ranks; passes a request to the rank; makes its
  // image the one that is kept; makes the next round come soon.
  void want_set(const AgentAction::WantSet& action);
  void want(std::uint32_t rank, const AgentAction::Want& action);
  void keep(std::uint32_t rank, const AgentAction::Keep& action);
  void ask();
  // A round begins that another host has asked for.
  void begins();
  // The newest set of all hosts is committed.
  void kept_set() { policy_.kept_set(); }
  // A rank's journal has grown. waits: the rank waits for its image.
  void journal_grown(bool waits);
  // The OOM killer has killed an image of the rank.
  void image_killed(std::uint32_t rank);
  // The rank reports why no image of it can be made.
  void not_frozen(std::uint32_t rank, const wire::Message& message);
  // To be called periodically. Measures the memory of all images, and bounds it.
  void look_at_memory();
  // The newest measurement, and the largest: pages that ranks have copied because of their images.
  std::uint64_t image_bytes() const { return image_bytes_; }
  std::uint64_t image_peak_bytes() const { return image_peak_bytes_; }
  // Returns the cost of all snapshots so far, of the rank with the highest cost.
  std::uint64_t highest_cost_ns() const;

 private:
  void set_timer();
  void look();
  void report_cost();
  std::uint64_t newest_cost_ns(std::uint32_t rank) const;
  std::uint64_t growth_cost_ns() const;
  std::uint64_t pages_copied(std::uint32_t rank, const MemoryUse& use) const;

  Loop& loop_;
  const HostPlan& plan_;
  const JobSegment& segment_;
  AgentCore& core_;
  AgentDriver& driver_;
  const Processes& processes_;
  Reporter& reporter_;
  SnapshotPolicy policy_;
  Loop::Timer timer_;
  bool stopping_ = false;
  std::uint64_t started_ns_ = 0;
  std::uint64_t image_bytes_ = 0;
  std::uint64_t image_peak_bytes_ = 0;
  // What was reported, once.
  bool reported_cost_ = false;
  bool reported_kill_ = false;
  bool reported_memory_ = false;
  std::vector<bool> reported_rank_;         // by rank: that it cannot be frozen
  std::set<std::string> reported_reasons_;  // why
};

}  // namespace rejoin::launcher
