// Offers committed checkpoints to the writer of --checkpoint-dir, and reports what becomes of them.
// Without that option nothing is done.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "launcher/agent/checkpoint_files.h"
#include "launcher/agent/host_plan.h"
#include "launcher/agent/reporter.h"
#include "launcher/base/loop.h"
#include "launcher/output/rank_outputs.h"

namespace rejoin::launcher {

class CheckpointOffers {
 public:
  // All of them outlive it. `news`: called when has_written() may have changed.
  CheckpointOffers(Loop& loop, const HostPlan& plan, const JobSegment& segment,
                   RankOutputs& outputs, const Reporter& reporter, std::function<void()> news);

  // This version is committed, and every rank has kept its models.
  void offer(std::uint64_t version);
  // To be called whenever nothing is queued in the loop.
  void idle();
  // Ends the writing.
  void finish();
  // A version of this job is in the directory.
  bool has_written() const { return writer_ && writer_->has_written(); }

 private:
  void report_news();

  Loop& loop_;
  const HostPlan& plan_;
  RankOutputs& outputs_;
  const Reporter& reporter_;
  const std::function<void()> news_;
  std::optional<CheckpointWriter> writer_;
  Loop::Watch watch_;
  std::uint64_t waiting_ = 0;  // version to offer once all output before it has been written
};

}  // namespace rejoin::launcher
