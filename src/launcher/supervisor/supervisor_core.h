// The policy of a job: decides what is done when something happens to a rank, and says why.
//
// A pure step function: no clock, no I/O. The driver passes events, which contain the time; the
// agent and the driver carry out the actions in the given order.
//
//   state of a rank    leaves it by
//   kStarting          registered
//   kRegistered        initialized                 (a linked program registers when it is loaded)
//   kRunning           finalized, or registered    (a rank that moves registers once more)
//   kFinalized         ended
//   any                ended -> kStarting (respawned) or kOver
//
// What the end of a process means:
//   exit after Finalize   its exit code is final; the others continue
//   exit before Init   in the first incarnation, and with code 0 in any: final. It is no MPI
//                      program, or rejects its arguments
//   anything else      a death, whether it registered or not: it was started as a rank. It is
//     started again, unless --no-restart; the journal was full; it died again at the same place by
//     the same fault (any exit before Finalize is one); the OOM killer killed it a second time; it
//     used up --max-restarts; or its agent says that it is final
//
// If the replay of a rank differs from its first execution, all ranks go back to the newest set of
// images. Until their agent says that they have, whatever is reported of ranks is void. A rank that
// has gone back repeats nothing: if it reports a difference without having died since, going back
// does not help, and the job ends.
//
// Where the ranks cannot go back, or a rank that died cannot be started again because its past is
// gone, the job begins again if it has written a set of images, or --begin-again permits the start
// of the program: all processes are ended, and the driver makes another core. That counts for
// --max-restarts.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/base/options.h"
#include "launcher/base/record.h"
#include "launcher/orders/event.h"
#include "launcher/supervisor/catching_up.h"
#include "launcher/supervisor/losses.h"

namespace rejoin::launcher {

// Where a job begins.
struct Beginning {
  std::uint32_t incarnation = 0;  // of each rank; not 0 if it goes on from written images
  // What there was before, if the job has begun again.
  std::optional<Losses> losses = {};
  Totals totals = {};
};

// What the supervisor's driver is to do.
struct Action {
  // Publish the rank's death, ring all ranks, admit and start its next incarnation.
  struct Respawn {
    std::uint32_t rank;
    std::uint32_t incarnation;  // the next one
  };
  // Take all ranks back to a set of images, as this incarnation.
  struct RollBack {
    std::uint32_t incarnation;
  };
  struct LetRecycle {};  // the journal is full: let ranks keep less than replays need
  // End all processes, by SIGTERM first.
  struct Stop {
    bool patient;  // only after a moment
  };
  struct KillNow {};          // end all processes at once
  struct ReportPositions {};  // print the position of every rank
  struct News {               // for the user; silenced by --quiet
    std::string text;
  };
  struct Tell {  // for the user
    std::string text;
  };
  struct Detail {  // for the user, with -v
    std::string text;
  };
  struct Log {  // a line of the event log
    Record record;
  };
  // No process of any rank is left: make another job of the same ranks, with a core that begins so.
  struct BeginAgain {
    Beginning beginning;
  };
  struct Finish {
    int code;  // exit code of ftrun
    Totals totals;
  };

  std::variant<Respawn, RollBack, LetRecycle, Stop, KillNow, ReportPositions, News, Tell, Detail,
               Log, BeginAgain, Finish>
      what;
};

class SupervisorCore {
 public:
  // REQUIRES complete() options.
  explicit SupervisorCore(const RunOptions& options, const Beginning& beginning = {},
                          std::uint32_t hosts = 1);

  std::vector<Action> step(const Event& event);

  std::uint32_t incarnation(std::uint32_t rank) const { return ranks_[rank].incarnation; }
  bool stopping() const { return stopping_; }

 private:
  enum class State { kStarting, kRegistered, kRunning, kFinalized, kOver };
  struct Rank {
    State state = State::kStarting;
    std::uint32_t incarnation = 0;
    std::uint32_t restarts = 0;  // after deaths of its own
    bool went_back = false;      // with all others, and has not died since
    std::uint32_t oom_deaths = 0;
    bool coming_back = false;  // died and not live again yet
    bool repeated = false;     // has found the journal full, and needs nothing of it itself
    std::uint64_t died_at_ns = 0;
    std::uint64_t started_at_ns = 0;  // registered
    bool faulted = false;
    Cause fault = {};  // of its newest death by a fault
    Position fault_at = {};
    std::vector<std::string> told_stack = {};
    std::int64_t pid = 0;
  };
  // Why all ranks are going back to their newest set of images.
  struct GoesBack {
    std::uint32_t rank;   // that is the reason
    std::string why;      // told when they have gone back
    std::string or_ends;  // told if there is no set; the job then ends with this code
    int exit_code;
    Fault fault;  // by which the rank died
  };

  // Whether the table above allows this state for the event's rank now.
  bool may_enter(State to) const;
  // Changes its state. An invariant is that it may be entered.
  void enter(State to);
  // The same for what a rank's process has sent: if it cannot be true, the job ends. Returns
  // whether it is true.
  bool enter_as_sent(State to, const char* what);
  void on(const Event::Started& event);
  void on(const Event::SpawnFailed& event);
  void on(const Event::Registered& event);
  void on(const Event::Initialized& event);
  void on(const Event::Live& event);
  void on(const Event::Finalized& event);
  void on(const Event::Ended& event);
  void on(const Event::Aborted& event);
  void on(const Event::Lost& event);
  void on(const Event::Diverged& event);
  void on(const Event::RolledBack& event);
  void on(const Event::NoSet& event);
  void on(const Event::JournalFull& event);
  void on(const Event::Notice& event);
  void on(const Event::CatchingUp& event);
  void on(const Event::ForeignMpi& event);
  void on(const Event::Unfired& event);
  void on(const Event::ImagesWritten& event);
  void on(const Event::Snapshot& event);
  void on(const Event::Heartbeat& event);
  void on(const Event::Committed& event);
  void on(const Event::Deadlock& event);
  void on(const Event::Timeout& event);
  void on(const Event::Interrupted& event);
  void on(const Event::OutputLost& event);
  void on(const Event::AllOver& event);
  void on(const Event::AgentLost& event);
  void host_is_over(std::uint32_t host);
  std::string host_text(std::uint32_t host) const;
  void on_death(const Event::Ended& event);
  bool may_go_back() const;
  void go_back(GoesBack why);
  bool may_begin_again() const;
  // Lets the job begin again if that is possible, else ends it with this code and line.
  void begin_again_or_stop(int code, const std::string& why);
  void tell_stack(Rank& rank, const Fault& fault, void (SupervisorCore::*say)(std::string));
  void on_back(const char* record_name, const RecoveryPoint& from, std::uint64_t replay_ns,
               std::uint64_t replayed);
  void check_everybody_initializes();
  void let_recycle_if_full();
  // Whether the event is about an incarnation that all ranks are about to leave behind.
  std::uint32_t newest_incarnation() const;
  bool is_void(const Event& event) const;
  // Why a death cannot be answered by a restart; empty if it can.
  std::string objection(const Rank& rank, const Event::Ended& event) const;

  // patient: the other ranks are about to end for the same reason, and get a moment to do so.
  void stop(int code, const std::string& why, bool patient = false);
  void act(decltype(Action::what) what);
  void news(std::string text) { act(Action::News{std::move(text)}); }
  void tell(std::string text) { act(Action::Tell{std::move(text)}); }
  void detail(std::string text) { act(Action::Detail{std::move(text)}); }
  // A record of the event, to be completed by the caller before the next action: about its rank, or
  // about the job.
  Record& record_rank(const char* name);
  Record& record_job(const char* name);

  RunOptions options_;
  Beginning beginning_;
  std::vector<Rank> ranks_;
  std::vector<Action> actions_;
  // Time and rank of the event that is being handled.
  std::uint64_t now_ns_ = 0;
  std::uint32_t rank_ = 0;
  std::uint32_t host_ = 0;   // of the agent that reports it
  std::uint32_t epoch_ = 0;  // the newest that an agent has reported
  bool stopping_ = false;
  bool interrupted_ = false;
  bool has_written_ = false;                 // a set of images, from which the job can go on
  bool begins_again_ = false;                // when no process is left
  bool journal_full_ = false;                // a rank has found it full
  bool recycles_ = false;                    // ranks may keep less than replays need
  std::set<std::uint32_t> protected_hosts_;  // of which every rank has an image
  bool told_protected_ = false;
  std::optional<GoesBack> goes_back_;  // while all ranks are going back
  bool somebody_initialized_ = false;
  std::set<std::uint64_t> told_of_job_;      // values of Notice::of_job
  std::optional<std::uint32_t> left_early_;  // a rank that ended well without MPI_Init
  int exit_code_ = 0;
  std::vector<bool> host_over_;  // by host: all of its ranks have ended, or it is lost
  Totals totals_;                // of all hosts
  CatchingUp catching_up_;
  Losses losses_;
};

}  // namespace rejoin::launcher
