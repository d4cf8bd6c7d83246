// The driver for one host: carries out what the AgentCore decides and the supervisor orders, and
// reports what happens.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/agent/agent_core.h"
#include "launcher/agent/checkpoint_files.h"
#include "launcher/agent/connections.h"
#include "launcher/agent/guardian.h"
#include "launcher/agent/host_plan.h"
#include "launcher/agent/image_sets.h"
#include "launcher/agent/job_segment.h"
#include "launcher/agent/processes.h"
#include "launcher/agent/rank_messages.h"
#include "launcher/agent/reporter.h"
#include "launcher/agent/set_progress.h"
#include "launcher/agent/snapshot_policy.h"
#include "launcher/agent/standstill.h"
#include "launcher/base/loop.h"
#include "launcher/orders/orders.h"
#include "launcher/output/rank_input.h"
#include "launcher/output/rank_outputs.h"
#include "launcher/symbolizer/symbolizer.h"

namespace rejoin::launcher {

class Agent : private AgentDriver {
 public:
  // The caller makes `guardian` and `listener`, because both must exist early.
  Agent(Loop& loop, HostPlan plan, SpawnSettings settings, JobSegment segment, Descriptor listener,
        std::unique_ptr<Guardian> guardian, SendReport report);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  void order(const Order& order);
  // To be called whenever nothing is queued in the loop.
  void idle();

 private:
  // agent.cc: orders, and the core's actions.
  void spawn_from(std::size_t i);
  void spawn(std::uint32_t rank);
  void tell_spawn_failed(std::uint32_t rank, const Spawned& spawned);
  void stop();
  void finish();
  void keep_journal(Report::Finished& finished);
  void feed(const AgentEvent& event);
  void feed(std::uint32_t rank, decltype(AgentEvent::what) what);
  void act(std::uint32_t rank, const AgentAction::Spawn&) override { spawn(rank); }
  void act(std::uint32_t rank, const AgentAction::Refuse& action) override;
  void act(std::uint32_t rank, const AgentAction::Terminate&) override;
  void act(std::uint32_t rank, const AgentAction::KillTree&) override;
  void act(std::uint32_t rank, const AgentAction::AwaitOutput&) override;
  void act(std::uint32_t rank, const AgentAction::Drain&) override;
  void act(std::uint32_t rank, const AgentAction::PublishDeath&) override;
  void act(std::uint32_t rank, const AgentAction::RingAll&) override;
  void act(std::uint32_t rank, const AgentAction::Admit&) override;
  void act(std::uint32_t rank, const AgentAction::ReportEnded& action) override;
  bool would_replay_threads(std::uint32_t rank) const;
  bool take_oom_kill(std::uint64_t others);
  // "in Allreduce #12 at solver.c:3::main, seq 11 of MPI_COMM_WORLD".
  std::string where(std::uint32_t rank);
  bool refuses_program(std::uint32_t rank);
  void report_where_all_stand(bool wait_for_it);
  bool read_standing(int fd);

  // agent_events.cc: passes events on this host to the core and the supervisor.
  RankOutputs::Calls output_calls();
  Processes::Calls process_calls();
  Connections::Calls connection_calls();
  RankMessages::Calls message_calls();
  void on_registered_ended(std::uint32_t rank);
  void on_keeper_ended(std::uint32_t rank);
  void act(std::uint32_t rank, const AgentAction::Welcome& action) override;
  void on_registration(std::uint32_t rank, pid_t pid, int connection, const wire::Message& first);
  void on_stranger_ended(pid_t pid);
  void on_image_message(std::uint32_t rank, const wire::Message& message);

  // agent_images.cc: snapshots.
  void act(std::uint32_t rank, const AgentAction::Want& action) override;
  void act(std::uint32_t rank, const AgentAction::Keep& action) override;
  void act(std::uint32_t rank, const AgentAction::AskImages&) override;
  void act(std::uint32_t rank, const AgentAction::Wake& action) override;
  void act(std::uint32_t rank, const AgentAction::Adopt& action) override;
  void act(std::uint32_t rank, const AgentAction::Move& action) override;
  void act(std::uint32_t rank, const AgentAction::Release& action) override;
  void act(std::uint32_t rank, const AgentAction::KillWrapper&) override;
  void act(std::uint32_t rank, const AgentAction::EndKeeper& action) override;
  void act(std::uint32_t rank, const AgentAction::Notice& action) override;
  void act(std::uint32_t rank, const AgentAction::Read&) override;
  void act(std::uint32_t rank, const AgentAction::Lost& action) override;
  MadePipes pipes_again(std::uint32_t rank);
  std::uint64_t snapshot_cost_ns(std::uint32_t rank) const;
  void look_for_checkpoints();
  void take_snapshots();
  void set_snapshot_timer();
  void tell(std::uint32_t rank, std::string text);
  void tell_price();
  void journal_grown(bool waits);
  void look_at_wakes();
  Protection protection() const;
  void count_exposed(std::uint32_t rank);
  void tell_snapshot();
  void rank_is_over(std::uint32_t rank);
  void on_image_killed(std::optional<std::uint32_t> rank);
  void not_frozen(std::uint32_t rank, const wire::Message& message);

  // agent_written.cc: written images.
  void set_cut_timer(std::uint64_t parts = 1);  // after 1/parts of the period
  void cut();
  bool stop_ranks();
  void continue_ranks();
  std::string file_log_of(std::uint32_t rank) const;
  void ask_to_write(const std::vector<Descriptor>& files,
                    const std::vector<std::uint64_t>& file_log_bytes);
  void on_writing(std::uint32_t rank, const wire::Message& message);
  void on_not_written(std::uint32_t rank, const wire::Message& message);
  void act(std::uint32_t rank, const AgentAction::EndImage& action) override;
  void act(std::uint32_t rank, const AgentAction::Restore& action) override;
  void end_awaited_images();
  void look_at_set();
  void on_set_outcome();
  void remove_superseded_sets();
  void give_up_set();
  void tell_no_set(const std::string& why);
  void resume_from(const ImageSet& set);
  void restore_from(std::size_t i);

  void offer(std::uint64_t version);
  void offer_when_shown();
  void tell_checkpoint_news();
  void report_unfired();
  Look look() const;
  void look_around();
  void look_for_standstill();
  void look_at_recoveries();
  void happened(std::uint32_t rank, decltype(Event::what) what);

  Loop& loop_;
  const HostPlan plan_;
  const SpawnSettings settings_;
  JobSegment segment_;
  Reporter reporter_;
  std::unique_ptr<Guardian> guardian_;
  AgentCore core_;
  std::vector<std::uint32_t> incarnations_;
  Processes processes_;
  RankOutputs outputs_;
  RankInput input_;
  RankMessages messages_;
  Connections connections_;
  std::unique_ptr<CheckpointWriter> checkpoints_;  // --checkpoint-dir
  Loop::Watch checkpoints_watch_;
  std::uint64_t to_offer_ = 0;  // version to offer once all output before it has been written
  Symbolizer symbolizer_;
  std::uint64_t oom_kills_seen_;
  Loop::Timer kill_timer_;  // end of the grace after SIGTERM
  Loop::Timer look_timer_;
  SnapshotPolicy snapshots_;
  Loop::Timer snapshot_timer_;
  Loop::Timer heartbeat_timer_;
  bool makes_checkpoints_ = false;  // whether the program makes checkpoints
  std::uint64_t ranks_began_ns_ = 0;
  bool told_price_ = false;  // whether the cost of the user's --snapshots period was reported
  std::vector<bool> told_not_frozen_;   // by rank: whether the reason was reported
  std::set<std::string> told_reasons_;  // reasons already reported for any rank
  bool told_image_taken_ = false;
  Standstill standstill_;
  struct Snapshot {
    std::uint64_t at_ns = 0;       // completion time of the newest one; 0: none
    bool fresh = false;            // completed since the last Snapshot event
    bool over = false;             // the rank has finalized
    RecoveryPoint woken = {};      // the image that this incarnation is from, if it is from one
    std::uint64_t tell_at_ns = 0;  // when to report that it still sleeps; 0: reported
  };
  std::vector<Snapshot> newest_snapshot_;  // by rank
  std::vector<FaultReport> faults_;        // by rank: what the current incarnation reported
  // Reports of where ranks stand that are being made, by the pipe that they come from.
  struct Standing {
    Descriptor pipe;
    std::string report;  // as far as it has come
    Loop::Watch watch;
  };
  std::map<int, Standing> standing_;

  // Written images, with --checkpoint-dir, until a version is in the directory.
  std::unique_ptr<ImageSetWriter> sets_;
  bool sets_removed_ = false;
  Loop::Watch sets_watch_;
  Loop::Timer cut_timer_;
  SetProgress progress_;
  ImageSet set_;                // the set that is being written
  std::uint64_t pause_ns_ = 0;  // how long the ranks were stopped for it
  std::vector<pid_t> stopped_;
  // Images to end, once they have cloned themselves.
  std::vector<AgentAction> awaited_;
  std::string told_no_set_;
  ImageSet restored_from_;  // the newest: resumed from, or written

  Totals totals_;  // as of the latest look
  bool stopping_ = false;
  bool all_over_ = false;
};

}  // namespace rejoin::launcher
