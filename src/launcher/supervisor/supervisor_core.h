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

#include "launcher/base/options.h"
#include "launcher/base/record.h"
#include "launcher/orders/event.h"
#include "launcher/supervisor/catching_up.h"
#include "launcher/supervisor/losses.h"

namespace rejoin::launcher {

// Where a job begins: not at 0 if it resumes from images.
struct Beginning {
  std::uint32_t incarnation = 0;  // of each rank
  std::uint32_t epoch = 0;
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
  // REQUIRES complete() options.
  explicit SupervisorCore(const RunOptions& options, const Beginning& beginning = {});

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
  std::uint32_t restarts(const Rank& r) const { return r.incarnation - beginning_.incarnation; }
  // Why a death cannot be answered by a restart; empty if it can.
  std::string objection(const Rank& rank, const Event& event) const;

  // patient: the other ranks are about to end for the same reason, and get a moment to do so.
  void stop(const Event& event, int code, const std::string& why, bool patient = false);
  void act(Action::Kind kind, std::uint32_t rank = 0, std::string text = {});
  // A record of `event` about its rank (or about the job), to be completed by the caller.
  Record& record(const char* name, const Event& event, bool about_rank = true);

  RunOptions options_;
  Beginning beginning_;
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
