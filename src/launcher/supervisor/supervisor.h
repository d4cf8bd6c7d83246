// The driver of a job: passes agents' reports to the SupervisorCore and carries out its actions.
// Handles all that the user sees: signals, standard input and output, messages, the event log.
#pragma once

#include <signal.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/base/file.h"
#include "launcher/base/loop.h"
#include "launcher/orders/orders.h"
#include "launcher/output/terminal.h"
#include "launcher/supervisor/event_log.h"
#include "launcher/supervisor/supervisor_core.h"
#include "launcher/symbolizer/call_sites.h"

namespace rejoin::launcher {

struct JobPlan {
  RunOptions options;  // complete()
  Beginning beginning;
  std::vector<LocalRanks> hosts;  // by number of the host: its ranks
  std::string lib_directory;
  std::string version;  // of Rejoin
  std::string host;     // this one
  // Starts the agent of a host that was lost, elsewhere. `printed`: what each of its ranks has
  // printed since the set, to both of its streams.
  std::function<void(const Action::Replace&, const std::vector<std::string>& printed)> replace =
      nullptr;
};

class Supervisor {
 public:
  // `events`: the event log; not open: none.
  Supervisor(Loop& loop, JobPlan plan, EventLog::Target events, SendOrder order);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Orders the start of all ranks. The loop stops when none is left.
  void start();
  void report(const Report& report);
  // To be called whenever nothing is queued in the loop.
  void idle() { terminal_.write(); }
  // To be called after the loop. Shows all pending output. Returns the job's exit code; if the job
  // begins again(), that has no meaning.
  int finish();
  const std::optional<Beginning>& begins_again() const { return begins_again_; }
  // Whether bytes of standard input have been read.
  bool has_read_input() const { return has_read_input_; }
  // Where events are written. To be called after finish(); no more events are written.
  EventLog::Target take_events() { return events_.take_target(); }

 private:
  void step(const Event& event);
  void step(decltype(Event::what) what);
  void act(const Action::Respawn& action);
  void act(const Action::RollBack& action);
  void act(const Action::Wake&);
  void act(const Action::Replace& action);
  void act(const Action::StoreParts& action);
  void act(const Action::WantImages& action);
  void act(const Action::KeepSet& action);
  void act(const Action::SetStored& action);
  void act(const Action::GiveUpSet& action);
  void act(const Action::LetRecycle& action);
  void act(const Action::Stop& action);
  void act(const Action::KillNow& action);
  void act(const Action::WriteNow&);
  void act(const Action::ReportPositions&);
  void act(const Action::News& action);
  void act(const Action::Tell& action);
  void act(const Action::Detail& action);
  void act(const Action::Log& action);
  void act(const Action::BeginAgain& action);
  void act(const Action::Finish& action);
  void send(std::uint32_t host, Order order);
  // Sends an order that `write` writes to all hosts.
  void send_all(const std::function<void(Order&)>& write);
  void note_output(const Report::Output& output);
  void note_printed(std::uint32_t host, const Event::OfSet& stored);
  void on_agent_lost(std::uint32_t host, const std::string& why);
  void on_finished(std::uint32_t host, const Report::Finished& finished);
  void end();
  void on_standing(std::uint32_t host, const Report::Standing& standing);
  void on_signals();
  void stop_and_continue();
  void signal_ranks(int signal);
  void read_input();
  void tell(const std::string& text);
  void log(const Record& record);
  void show_events();
  void tell_lost_events();

  Loop& loop_;
  const JobPlan plan_;
  const SendOrder order_;
  std::vector<std::uint32_t> host_of_;  // each rank
  SupervisorCore core_;
  CallSites sites_;
  EventLog events_;
  Descriptor signals_;
  Loop::Watch signals_watch_;
  Loop::Watch input_watch_;
  Loop::Watch events_watch_;  // for event log lines on standard output
  Loop::Timer input_retry_;
  Loop::Timer timeout_;
  Loop::Timer tick_;        // while a notice is being carried out
  Loop::Timer stop_timer_;  // gives the other ranks a moment to end by themselves
  Terminal terminal_;
  int exit_code_ = 0;
  bool finishing_ = false;  // no process of any rank is left
  std::optional<Beginning> begins_again_;
  bool has_read_input_ = false;
  bool held_[2] = {};                   // streams that no process reads at the moment
  Totals totals_;                       // set at the job's end
  std::set<std::uint32_t> unfinished_;  // hosts whose agent has not finished
  // Hosts that have not said where their ranks stand, after Action::ReportPositions. Until all
  // have, lines for the user are held: they refer to what is printed then.
  std::set<std::uint32_t> unreported_;
  std::string held_lines_;
  std::uint32_t epoch_ = 0;  // of the newest event

  // With --survive host, by rank and stream: what was printed since the newest set, and how many
  // bytes were printed before that, as the rank's agent counts; and the same count at the image of
  // the set that is being made.
  struct Printed {
    std::string since;
    std::uint64_t before = 0;
    std::uint64_t at_image = 0;
  };
  std::vector<Printed> printed_;
};

}  // namespace rejoin::launcher
