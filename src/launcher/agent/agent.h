// The driver for one host: carries out what the AgentCore decides and the supervisor orders, and
// feeds the core with what happens to the host's processes. Each subject is a class of its own; the
// agent owns them and passes on to each what concerns it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "launcher/agent/agent_core.h"
#include "launcher/agent/checkpoint_offers.h"
#include "launcher/agent/connections.h"
#include "launcher/agent/end_reports.h"
#include "launcher/agent/guardian.h"
#include "launcher/agent/host_plan.h"
#include "launcher/agent/job_segment.h"
#include "launcher/agent/part_store.h"
#include "launcher/agent/position_reports.h"
#include "launcher/agent/processes.h"
#include "launcher/agent/protection_reports.h"
#include "launcher/agent/rank_messages.h"
#include "launcher/agent/rank_starts.h"
#include "launcher/agent/relay_process.h"
#include "launcher/agent/reporter.h"
#include "launcher/agent/snapshot_driver.h"
#include "launcher/agent/standstill_driver.h"
#include "launcher/agent/written_set_driver.h"
#include "launcher/base/loop.h"
#include "launcher/orders/orders.h"
#include "launcher/output/rank_input.h"
#include "launcher/output/rank_outputs.h"

namespace rejoin::launcher {

class Agent : private AgentDriver {
 public:
  // The caller makes `guardian` and `listener`, because both must exist early.
  Agent(Loop& loop, HostPlan plan, SpawnSettings settings, JobSegment segment, Descriptor listener,
        std::unique_ptr<Guardian> guardian, SendReport report);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  void order(const Order& order);
  // To be called before the first order, if the job has an agent for each node. Errors: why its
  // relay cannot be reached.
  std::optional<Error> open_relay();
  // Prepares the images from which its ranks are restored, if they are (RankStarts::open_images).
  std::optional<Error> open_images() {
    return plan_.resumed ? starts_.open_images(*plan_.resumed) : std::nullopt;
  }
  std::uint32_t relay_port() const { return relay_->port(); }
  std::uint32_t part_port() const { return parts_ ? parts_->port() : 0; }
  // To be called when the supervisor knows these ports. Reports that the ranks of a lost host,
  // whose place this one takes, can go on.
  void report_restored();
  // This process is killed at that time if it does nothing any more (Guardian::kill_at()).
  void kill_at(std::uint64_t monotonic_ns) { guardian_->kill_at(monotonic_ns); }
  // Stops reading what ranks print, because the connection to the supervisor is slow, or continues.
  void hold_output(bool hold) { outputs_.hold_all(hold); }
  // To be called whenever nothing is queued in the loop.
  void idle();
  // Those of --kill that have not fired yet.
  std::vector<KillOrder> unfired_kills() const;

 private:
  // --- Orders.
  void order_of_set(const Order& order);
  void start();
  void start_ranks_from(std::size_t i);
  void stop();
  void connect_relay(const Order::Relays& relays);
  void watch_relay(pid_t pid);
  void on_helper_ended(pid_t pid);
  void roll_back(const Order::RollBack& order);
  void wake();
  void want_images(const Order::WantImages& order);
  void look_at_marks();
  void part_written(std::uint64_t set, const std::string& path, const std::string& fault);
  void on_part_stored();
  void tell_of_part(std::uint64_t set, const std::string& fault);
  void tell_not_stored(const std::string& why);
  void keep_set(std::uint64_t set);
  void put_files_back(std::uint64_t set);
  void finish();
  void keep_journal(Report::Finished& finished);

  // --- The core's actions.
  using Do = AgentAction;
  void act(std::uint32_t rank, const Do::Spawn&) override { starts_.spawn(rank); }
  void act(std::uint32_t rank, const Do::Welcome& a) override;
  void act(std::uint32_t rank, const Do::Refuse& a) override {
    connections_.refuse(a.connection, rank, a.why);
  }
  void act(std::uint32_t rank, const Do::Terminate&) override { processes_.terminate(rank); }
  void act(std::uint32_t rank, const Do::KillTree&) override { processes_.kill_tree(rank); }
  void act(std::uint32_t rank, const Do::AwaitOutput&) override { outputs_.await_end(rank); }
  void act(std::uint32_t rank, const Do::Drain&) override;
  void act(std::uint32_t rank, const Do::Read&) override;
  void act(std::uint32_t rank, const Do::PublishDeath&) override {
    journal::publish_death(segment_.base(), rank);
  }
  void act(std::uint32_t, const Do::RingAll&) override { segment_.ring_all(); }
  void act(std::uint32_t rank, const Do::Admit&) override {
    journal::admit(segment_.base(), rank, core_.incarnation(rank));
  }
  void act(std::uint32_t, const Do::WantSet& a) override { snapshots_.want_set(a); }
  void act(std::uint32_t rank, const Do::Want& a) override { snapshots_.want(rank, a); }
  void act(std::uint32_t, const Do::TellOfSet& a) override;
  void act(std::uint32_t rank, const Do::PutBack& a) override;
  void act(std::uint32_t rank, const Do::ReportBack& a) override;
  void act(std::uint32_t rank, const Do::Keep& a) override;
  void act(std::uint32_t rank, const Do::Spare& a) override {
    processes_.add_image(rank, static_cast<pid_t>(a.pid));
  }
  void act(std::uint32_t, const Do::EndImage& a) override { written_sets_.end_image(a); }
  void act(std::uint32_t, const Do::AskImages&) override { snapshots_.ask(); }
  void act(std::uint32_t rank, const Do::Wake& a) override {
    starts_.wake(rank, a, protection_.image_age_ns(rank));
  }
  void act(std::uint32_t rank, const Do::Restore& a) override {
    starts_.restore(rank, a, written_sets_.newest());
  }
  void act(std::uint32_t rank, const Do::Adopt& a) override;
  void act(std::uint32_t rank, const Do::Move& a) override;
  void act(std::uint32_t rank, const Do::Release& a) override;
  void act(std::uint32_t rank, const Do::KillWrapper&) override { processes_.kill_wrapper(rank); }
  void act(std::uint32_t rank, const Do::EndKeeper& a) override;
  void act(std::uint32_t rank, const Do::Notice& a) override { reporter_.notice(rank, a.text); }
  void act(std::uint32_t rank, const Do::Lost& a) override {
    reporter_.happened(rank, Event::Lost{a.why});
  }
  void act(std::uint32_t rank, const Do::ReportEnded& a) override {
    ++unseen_ends_;
    ends_.report(rank, a);
  }

  // --- Events on this host.
  void feed(const AgentEvent& event);
  void feed(std::uint32_t rank, decltype(AgentEvent::what) what);
  RankOutputs::Calls output_calls();
  Processes::Calls process_calls();
  Connections::Calls connection_calls();
  RankMessages::Calls message_calls();
  void on_registration(std::uint32_t rank, pid_t pid, int connection, const wire::Message& first);
  void on_registered_ended(std::uint32_t rank);
  void on_stranger_ended(pid_t pid);
  void on_image_message(std::uint32_t rank, const wire::Message& message);
  void look_around();
  void report_unfired();

  Loop& loop_;
  const HostPlan plan_;
  const SpawnSettings settings_;
  JobSegment segment_;
  Reporter reporter_;
  std::unique_ptr<Guardian> guardian_;
  AgentCore core_;
  Processes processes_;
  RankOutputs outputs_;
  RankInput input_;
  RankMessages messages_;
  Connections connections_;
  CheckpointOffers checkpoints_;
  WrittenSetDriver written_sets_;
  ProtectionReports protection_;
  SnapshotDriver snapshots_;
  RankStarts starts_;
  EndReports ends_;
  PositionReports positions_;
  StandstillDriver standstill_;
  std::optional<RelayProcess> relay_;
  std::optional<PartStore> parts_;  // --survive host
  Loop::Watch parts_watch_;
  std::vector<PartStore::Holder> holders_;  // by host
  std::uint32_t partner_ = 0;               // host that is given the part of the next set
  bool started_ = false;
  std::string not_stored_;  // why, if that was told
  Loop::Timer kill_timer_;  // end of the grace after SIGTERM
  Loop::Timer look_timer_;
  std::uint64_t journal_peak_bytes_ = 0;  // as of the latest look
  Loop::Timer marks_timer_;               // the next look for the marks of other hosts' images
  std::uint64_t look_for_marks_ns_ = 0;   // the pause before that look
  std::uint64_t awaits_marks_of_ = 0;     // number of a set that is made here; 0: of none
  std::uint64_t put_back_age_ns_ = 0;     // age of the set that all ranks have gone back to last
  bool stopping_ = false;
  bool all_over_ = false;
  bool finished_ = false;
  // Ends of ranks that were reported, and of which the supervisor has not decided what follows.
  std::uint32_t unseen_ends_ = 0;
};

}  // namespace rejoin::launcher
