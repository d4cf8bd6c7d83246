// The policy of a job: decides what is done when something happens to a rank, and says why.
//
// A pure step function: no clock, no I/O. The driver passes events, which contain the time; the
// agent and the driver carry out the actions in the given order.
//
//   state of a rank    leaves it by
//   kStarting          registered
//   kRegistered        initialized                 (a linked program registers when it is loaded)
//   kRunning           finalized
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
//     used up --max-restarts; the job used up its epochs
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/supervisor/catching_up.h"
#include "launcher/supervisor/losses.h"
#include "launcher/supervisor/record.h"

namespace rejoin::launcher {

struct Policy {
  std::uint32_t ranks = 1;
  std::uint32_t max_restarts = 4;  // of one rank
  bool restart = true;
  std::uint64_t journal_limit_bytes = 0;
  std::uint32_t first_incarnation = 0;  // of each rank; not 0 in a job that resumes from images
  std::uint32_t first_epoch = 0;
};

struct Event {
  enum class Kind {
    kStarted,      // pid
    kSpawnFailed,  // text; code = exit code for the job
    kRegistered,   // pid
    kInitialized,
    kLive,       // value = operations replayed; from, replay_ns
    kFinalized,  // position, replay_ns
    kEnded,     // cause, position, fault; the whole process tree is dead and its output read. text:
                // why it cannot be replayed, if so
    kAbort,     // code; text: what is wrong and where; empty: not known
    kLost,      // text: the reason, if known. The rank died, and nothing is left to start it from
    kDiverged,  // text: a replay differs from the first execution; the rank does not continue
    kLimit,
    kNotice,         // text; value = 0: about the rank; else: about the job, shown once a value
    kImagesWritten,  // text = where; value = bytes; took_ns; replay_ns = how long ranks were
                     // stopped
    // value = images so far; took_ns = age of the oldest among the ranks' newest images; code =
    // ranks without one
    kSnapshot,    // every rank has completed an image since the last kSnapshot
    kHeartbeat,   // periodic, see --heartbeat
    kCommitted,   // value = a checkpoint that all ranks have made
    kCatchingUp,  // position: a look at a rank that was started again and is not live yet
    kForeignAbi,  // text = soname
    kUnfired,     // text = the --kill; after the last rank ended
    // Every rank waits, and none is left that could wake another. text: empty, or names a replay
    // that blocks because it differs from the first execution.
    kDeadlock,
    kTimeout,
    kSignal,      // code = a signal that ends the job
    kOutputLost,  // text = why the job's output cannot be written any more; code = exit code
    kAllOver,     // every rank has ended and none is being started; totals
  };
  Kind kind;
  std::uint64_t at_ns = 0;  // since the job's start. kEnded: when the end was seen
  std::uint32_t rank = 0;
  std::int64_t pid = 0;
  int code = 0;
  std::uint64_t value = 0;
  std::string text = {};
  Cause cause = {};
  Position position = {};
  Fault fault = {};
  RecoveryPoint from = {};      // what the rank restarted from
  std::uint64_t replay_ns = 0;  // of the time since it was initialized, in calls of MPI
  Totals totals = {};           // kAllOver
  std::uint64_t took_ns = 0;
};

struct Action {
  enum class Kind {
    kRespawn,  // rank: publish its death, ring all ranks, admit and start the next incarnation
    kStop,     // end all processes, by SIGTERM first; patient: only after a moment
    kKillNow,  // end all processes at once
    kReport,   // print the position of every rank
    kNews,     // text for the user; silenced by --quiet
    kTell,     // text for the user
    kDetail,   // text for the user, with -v
    kRecord,   // record for the event log
    kFinish,   // ftrun exits with `code`
  };
  Kind kind;
  std::uint32_t rank = 0;
  int code = 0;
  std::string text = {};
  Record record = {};
  bool patient = false;
};

class SupervisorCore {
 public:
  explicit SupervisorCore(const Policy& policy);

  std::vector<Action> step(const Event& event);

  std::uint32_t incarnation(std::uint32_t rank) const { return ranks_[rank].incarnation; }
  // Deaths that were answered by a restart; the segment's epoch.
  std::uint32_t epoch() const { return epoch_; }
  bool stopping() const { return stopping_; }

 private:
  enum class State { kStarting, kRegistered, kRunning, kFinalized, kOver };
  struct Rank {
    State state = State::kStarting;
    std::uint32_t incarnation = 0;
    std::uint32_t oom_deaths = 0;
    bool coming_back = false;  // died and not live again yet
    std::uint64_t died_at_ns = 0;
    std::uint64_t started_at_ns = 0;  // registered
    bool faulted = false;
    Cause fault = {};  // of its newest death by a fault
    Position fault_at = {};
    std::vector<std::string> told_stack = {};
    std::int64_t pid = 0;
  };

  void on_started(const Event& event);
  void on_spawn_failed(const Event& event);
  void on_finalized(const Event& event);
  void on_notice(const Event& event);
  void on_timeout(const Event& event);
  void on_deadlock(const Event& event);
  void on_registered(const Event& event);
  void on_initialized(const Event& event);
  void on_ended(const Event& event);
  void on_death(const Event& event);
  void tell_stack(Rank& rank, const Event& event, Action::Kind how);
  void on_back(const char* record_name, const Event& event, std::uint64_t replayed);
  void on_abort(const Event& event);
  void on_signal(const Event& event);
  void on_limit(const Event& event);
  void on_lost(const Event& event);
  void on_diverged(const Event& event);
  void on_unfired(const Event& event);
  void on_catching_up(const Event& event);
  void on_progress(const Event& event);
  void on_saved(const Event& event);
  void on_protected(const Event& event);
  void on_all_over(const Event& event);
  void check_everybody_initializes(const Event& event);
  std::uint32_t restarts(const Rank& r) const { return r.incarnation - policy_.first_incarnation; }
  // Why a death cannot be answered by a restart; empty if it can.
  std::string objection(const Rank& rank, const Event& event) const;

  // patient: the other ranks are about to end for the same reason, and get a moment to do so.
  void stop(const Event& event, int code, const std::string& why, bool patient = false);
  void act(Action::Kind kind, std::uint32_t rank = 0, std::string text = {});
  // A record of `event` about its rank (or about the job), to be completed by the caller.
  Record& record(const char* name, const Event& event, bool about_rank = true);

  Policy policy_;
  std::vector<Rank> ranks_;
  std::vector<Action> actions_;
  std::uint32_t epoch_ = 0;
  bool stopping_ = false;
  bool interrupted_ = false;
  bool journal_full_ = false;
  bool told_protected_ = false;
  bool somebody_initialized_ = false;
  std::set<std::uint64_t> told_of_job_;      // values of kNotice
  std::optional<std::uint32_t> left_early_;  // a rank that ended well without MPI_Init
  int exit_code_ = 0;
  CatchingUp catching_up_;
  Losses losses_;
};

}  // namespace rejoin::launcher
