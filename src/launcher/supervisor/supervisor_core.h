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
#include <map>
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
#include "launcher/supervisor/sets.h"

namespace rejoin::launcher {

// Where a job begins.
struct Beginning {
  std::uint32_t incarnation = 0;  // of each rank; not 0 if it goes on from written images
  std::uint64_t set = 0;          // several hosts: the set from which it goes on
  // What there was before, if the job has begun again.
  std::optional<Losses> losses = {};
  Totals totals = {};
  // Several hosts: where each of them is, and the spare ones that are left, as in RunOptions. If
  // agents join, a host that is gone has no name.
  std::vector<std::string> hosts = {}, spare_hosts = {};
};

// What the supervisor's driver is to do.
struct Action {
  // Publish the rank's death, ring all ranks, admit and start its next incarnation.
  struct Respawn {
    std::uint32_t rank;
    std::uint32_t incarnation;  // the next one
  };
  // Take all ranks back to a set of images, as this incarnation. They begin to run at Wake. set: of
  // several hosts; 0: there is one, which knows its newest set.
  struct RollBack {
    std::uint32_t incarnation;
    std::uint64_t set;
  };
  struct Wake {};
  // Start an agent for the ranks of a host that was lost, on the host `where` (as in
  // RunOptions::hosts). Its ranks go on from their part of the set, which `holder` has, as this
  // incarnation.
  struct Replace {
    std::uint32_t host;
    std::string where;
    std::uint64_t set;
    std::uint32_t holder;
    std::uint32_t incarnation;
  };
  // For several hosts: ask for images by this number; all of them are a set, or only those of one
  // host are wanted.
  struct WantImages {
    std::optional<std::uint32_t> host;
    std::uint64_t number;
  };
  struct KeepSet {
    std::uint64_t number;
  };
  // partners: by host, to which host it gives its part; without meaning if there is
  // --checkpoint-dir.
  struct StoreParts {
    std::uint64_t set;
    std::vector<std::uint32_t> partners;
  };
  // The parts of all hosts are in --checkpoint-dir.
  struct SetStored {
    std::uint64_t number;
  };
  struct GiveUpSet {
    std::uint64_t number;
    bool one_by_one;  // its images are kept, but are no set
  };
  struct LetRecycle {  // the journal is full: let ranks keep less than replays need
    bool results;      // also of results
  };
  // End all processes, by SIGTERM first.
  struct Stop {
    bool patient;  // only after a moment
  };
  struct KillNow {         // end all processes at once
    bool hurried = false;  // the user has asked twice
  };
  struct WriteNow {};         // one host: write a set of images that is newer than this
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

  std::variant<Respawn, RollBack, Wake, Replace, WantImages, StoreParts, SetStored, KeepSet,
               GiveUpSet, LetRecycle, Stop, KillNow, WriteNow, ReportPositions, News, Tell, Detail,
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
  // Bytes of standard input were sent to the host of rank 0.
  void note_input() { has_input_ = true; }
  // A notice has been given: the driver makes a Tick several times a second.
  bool awaits_ticks() const { return !stopping_ && !is_over() && (noticed_ || !leaving_.empty()); }
  // Whether another agent takes the place of this host's, which was lost.
  bool is_replaced(std::uint32_t host) const { return replaced_.contains(host); }

 private:
  enum class State { kStarting, kRegistered, kRunning, kFinalized, kOver };
  struct Rank {
    State state = State::kStarting;
    std::uint32_t incarnation = 0;
    std::uint32_t restarts = 0;  // after deaths of its own
    bool has_initialized = false;
    bool threads_may_call = false;
    bool went_back = false;  // with all others, and has not died since
    std::uint32_t oom_deaths = 0;
    bool coming_back = false;  // died and not live again yet
    bool starts_back = false;  // has gone back with all others, and is not live again yet
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
    std::uint32_t rank;   // that is the reason, or the first one of the host that is
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
  void on(const Event::ImagesDue& event);
  void on(const Event::OfSet& event);
  void on(const Event::JournalFull& event);
  void on(const Event::Notice& event);
  void on(const Event::CatchingUp& event);
  void on(const Event::ForeignMpi& event);
  void on(const Event::Unfired& event);
  void on(const Event::ImagesWritten& event);
  void on(const Event::HasVersions& event);
  void on(const Event::HostNotice& event);
  void on(const Event::Tick& event);
  void on(const Event::Snapshot& event);
  void on(const Event::Heartbeat& event);
  void on(const Event::Committed& event);
  void on(const Event::Deadlock& event);
  void on(const Event::Timeout& event);
  void on(const Event::Interrupted& event);
  void on(const Event::OutputLost& event);
  void on(const Event::AllOver& event);
  void on(const Event::AgentLost& event);
  void on(const Event::Spare& event);
  void host_is_over(std::uint32_t host);
  // Whether no process of the job is left.
  bool is_over() const { return hosts_over_ == host_over_.size(); }
  void finish();
  void end_instead(int signal);
  bool has_state() const;
  std::string why_not_survived(std::uint32_t host) const;
  void replace(std::uint32_t host, const std::string& why);
  std::vector<std::uint32_t> partners() const;
  std::string host_text(std::uint32_t host) const;
  bool has_another_place(std::uint32_t host) const;
  std::optional<std::uint32_t> find_beside(std::uint32_t host, std::uint32_t from) const;
  bool move(std::uint32_t host, std::uint32_t holder);
  Beginning next_beginning();
  void on_death(const Event::Ended& event);
  bool may_go_back() const;
  bool may_make_set();
  bool is_time_for_parts(const Event::ImagesDue& e) const;
  void act_on_set(SetDecision decision);
  std::uint64_t since_set_was_wanted_ns() const;
  bool writes_parts() const;
  void write_if_due();
  void part_is_written(bool is);
  void set_is_written(std::uint64_t set);
  void note_written(const Event::ImagesWritten& set);
  void take_notice(const std::string& what);
  void end_by_notice(const std::string& what);
  void want_newer_set();
  void leave_hosts();
  void went_back(std::uint64_t set);
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
  std::set<std::uint32_t> back_;       // hosts of which all ranks have gone back
  std::uint64_t back_by_ns_ = 0;       // age of their oldest image
  std::uint32_t back_as_ = 0;          // the newest incarnation that all ranks have gone back as
  Sets sets_;                          // of several hosts
  // --checkpoint-dir: the set whose parts are being written, the hosts that have not written
  // theirs, and what they have reported.
  std::uint64_t writing_ = 0;
  std::set<std::uint32_t> writes_;
  Event::ImagesWritten parts_ = {};
  std::uint64_t written_ = 0;            // the newest
  std::uint64_t tried_ = 0;              // the newest that was begun
  std::uint64_t write_again_at_ns_ = 0;  // not before
  // SIGTERM was a notice: the job ends when its state is written.
  bool noticed_ = false;
  bool noticed_by_host_ = false;  // and its own SIGTERM may follow
  std::uint64_t noticed_at_ns_ = 0;
  std::set<std::uint32_t> leaving_;               // hosts that are about to go
  std::uint64_t set_before_ = 0;                  // the newest number of a set when the notice came
  std::uint64_t wanted_at_ns_ = 0;                // the newest set
  std::uint64_t stored_at_ns_ = 0, cost_ns_ = 0;  // of the newest stored set; its cost to the job
  std::uint64_t costs_ns_ = 0;                    // processor time, of the set that is being stored
  std::uint64_t lost_cost_ns_ = 0;                // of sets abandoned since the newest stored one
  // With --survive host. By host: where it is now, and which one holds its part of the newest set.
  std::vector<std::string> places_;
  std::vector<std::string> spares_;
  bool has_input_ = false;
  std::vector<std::uint32_t> holders_;
  // The hosts that were lost since the newest set was stored, with where they were. The parts that
  // they held for other hosts are gone.
  std::map<std::uint32_t, std::string> lost_;
  // For which another agent is being started; places where that was in vain.
  std::map<std::uint32_t, std::set<std::string>> replaced_;
  // Lost since the job is to begin again: without another place, and with one.
  std::set<std::uint32_t> gone_, moved_;
  bool somebody_initialized_ = false;
  std::set<std::uint64_t> told_of_job_;      // values of Notice::of_job
  std::optional<std::uint32_t> left_early_;  // a rank that ended well without MPI_Init
  int exit_code_ = 0;
  std::vector<bool> host_over_;  // by host: all of its ranks have ended, or it is lost
  std::size_t hosts_over_ = 0;
  std::size_t unready_ = 0;  // the rank for which may_make_set() was false last
  Totals totals_;            // of all hosts
  CatchingUp catching_up_;
  Losses losses_;
};

}  // namespace rejoin::launcher
