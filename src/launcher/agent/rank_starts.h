// Starts the incarnations of a host's ranks: from main, from an image or from a written image.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "launcher/agent/agent_core.h"
#include "launcher/agent/compressed_files.h"
#include "launcher/agent/connections.h"
#include "launcher/agent/host_plan.h"
#include "launcher/agent/job_segment.h"
#include "launcher/agent/processes.h"
#include "launcher/agent/reporter.h"
#include "launcher/base/loop.h"
#include "launcher/output/rank_input.h"
#include "launcher/output/rank_outputs.h"

namespace rejoin::launcher {

class RankStarts {
 public:
  // All of them outlive it.
  RankStarts(const Loop& loop, const HostPlan& plan, const JobSegment& segment, AgentCore& core,
             Processes& processes, RankOutputs& outputs, RankInput& input, Connections& connections,
             Reporter& reporter)
      : loop_(loop),
        plan_(plan),
        segment_(segment),
        core_(core),
        processes_(processes),
        outputs_(outputs),
        input_(input),
        connections_(connections),
        reporter_(reporter),
        from_(plan.ranks),
        restored_from_(plan.ranks),
        wake_is_slow_at_ns_(plan.ranks) {}

  // Actions of the core. A start that fails ends the job.
  void spawn(std::uint32_t rank);
  // `age_ns`: of the image.
  void wake(std::uint32_t rank, const AgentAction::Wake& action, std::uint64_t age_ns);
  // `set`: contains the image.
  void restore(std::uint32_t rank, const AgentAction::Restore& action, const ImageSet& set);
  // Makes plain copies of the images of `set` that are compressed. That may take minutes, and is
  // best done before a lease begins. Errors: one is damaged, or there is no space.
  std::optional<Error> open_images(const ImageSet& set);
  // Prepares the ranks' input and output for a job in which all ranks are restored from `set`.
  void resume(const ImageSet& set);
  // The rank's process has registered.
  void registered(std::uint32_t rank) { restored_from_[rank].reset(); }
  // What the rank's incarnation was started from. The rank knows more if that is a checkpoint.
  const RecoveryPoint& from(std::uint32_t rank) const { return from_[rank]; }

  // To be called periodically. Report starts that are slow.
  void look_at_wakes();
  void look_at_replays();

 private:
  std::optional<Error> open_image(std::uint32_t rank, const ImageSet& set);
  bool refuses_program(std::uint32_t rank);
  MadePipes pipes_again(std::uint32_t rank);
  void open(std::uint32_t rank, RankPipes pipes, std::uint64_t mark);
  void start(std::uint32_t rank, const Processes::Restoration* restoration, std::uint64_t mark);
  void failed(std::uint32_t rank, const Spawned& spawned);

  const Loop& loop_;
  const HostPlan& plan_;
  const JobSegment& segment_;
  AgentCore& core_;
  Processes& processes_;
  RankOutputs& outputs_;
  RankInput& input_;
  Connections& connections_;
  Reporter& reporter_;
  std::vector<RecoveryPoint> from_;  // by rank
  // The written image of each rank that is being restored. Its process reads it until it registers.
  std::vector<std::optional<PlainFile>> restored_from_;
  std::vector<std::uint64_t> wake_is_slow_at_ns_;  // by rank; 0: its slow wake was reported
};

}  // namespace rejoin::launcher
