#include "launcher/supervisor/supervisor_core.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <utility>

#include "launcher/base/grammar.h"
#include "launcher/base/result.h"
#include "launcher/program/elf.h"

namespace rejoin::launcher {
namespace {

// Generations are 16 bits wide in an attempt's tag.
constexpr std::uint32_t kMaxEpochs = 65535;

std::string rank_text(std::uint32_t rank) { return "rank " + std::to_string(rank); }

std::string at_site(const Position& position) {
  return position.site.empty() ? "" : " at " + position.site;
}

// Example: ", at crash.c:12::step: address 0x10 is not mapped". Returns an empty string if there
// was no report.
std::string fault_text(const Fault& fault) {
  if (fault.site.empty()) return {};
  return ", at " + fault.site + (fault.text.empty() ? "" : ": " + fault.text);
}

std::string memory_text(const Cause& cause) {
  return !cause.oom || cause.peak_bytes == 0
             ? ""
             : " (it had " + size_text(cause.peak_bytes) + " resident)";
}

// Returns whether a part is at least 1 % of the whole, and therefore reported.
bool is_notable(std::uint64_t part_ns, std::uint64_t whole_ns) { return part_ns * 100 >= whole_ns; }

std::string protection_text(const Totals& totals) {
  if (totals.snapshots == 0) return "no images of ranks were made";
  return count_text(totals.snapshots) + (totals.snapshots == 1 ? " image" : " images") +
         " of ranks, at most " + duration_text(totals.snapshot_cost_ns) +
         " of a rank's time; a rank went at most " + duration_text(totals.exposed_ns) +
         " without a newer one";
}

std::string times(std::uint32_t n) {
  return n == 1 ? "once" : n == 2 ? "twice" : std::to_string(n) + " times";
}

}  // namespace

SupervisorCore::SupervisorCore(const RunOptions& options, const Beginning& beginning)
    : options_(options),
      beginning_(beginning),
      ranks_(options.ranks()),
      epoch_(beginning.epoch),
      catching_up_(options.ranks()),
      losses_(options.ranks()) {
  for (Rank& r : ranks_) r.incarnation = beginning.incarnation;
}

std::vector<Action> SupervisorCore::step(const Event& e) {
  actions_.clear();
  using Kind = Event::Kind;
  switch (e.kind) {
    case Kind::kStarted:
      on_started(e);
      break;
    case Kind::kSpawnFailed:
      on_spawn_failed(e);
      break;
    case Kind::kRegistered:
      on_registered(e);
      break;
    case Kind::kInitialized:
      on_initialized(e);
      break;
    case Kind::kLive:
      on_back("live", e, e.value);
      break;
    case Kind::kFinalized:
      on_finalized(e);
      break;
    case Kind::kEnded:
      on_ended(e);
      break;
    case Kind::kAbort:
      on_abort(e);
      break;
    case Kind::kDiverged:
      on_diverged(e);
      break;
    case Kind::kLost:
      on_lost(e);
      break;
    case Kind::kLimit:
      on_limit(e);
      break;
    case Kind::kUnfired:
      on_unfired(e);
      break;
    case Kind::kNotice:
      on_notice(e);
      break;
    case Kind::kForeignAbi:
      stop(e, kExitFailure, foreign_mpi_text("the program of " + rank_text(e.rank), e.text));
      break;
    case Kind::kDeadlock:
      on_deadlock(e);
      break;
    case Kind::kTimeout:
      on_timeout(e);
      break;
    case Kind::kSignal:
      on_signal(e);
      break;
    case Kind::kOutputLost:
      stop(e, e.code, e.text);
      break;
    case Kind::kAllOver:
      on_all_over(e);
      break;
    case Kind::kSnapshot:
    case Kind::kHeartbeat:
    case Kind::kImagesWritten:
    case Kind::kCommitted:
    case Kind::kCatchingUp:
      on_progress(e);
      break;
  }
  return std::move(actions_);
}

void SupervisorCore::on_started(const Event& e) {
  Rank& r = ranks_[e.rank];
  r.pid = e.pid;
  record(restarts(r) == 0 ? "start" : "respawn", e).pid = e.pid;
}

void SupervisorCore::on_spawn_failed(const Event& e) {
  ranks_[e.rank].state = State::kOver;
  stop(e, e.code, e.text);
}

void SupervisorCore::on_finalized(const Event& e) {
  ranks_[e.rank].state = State::kFinalized;
  on_back("finalize", e, e.position.replayed);
}

void SupervisorCore::on_notice(const Event& e) {
  const bool of_job = e.value != 0;
  if (of_job && !told_of_job_.insert(e.value).second) return;
  record("notice", e, !of_job).text = e.text;
  act(Action::Kind::kTell, e.rank, of_job ? e.text : rank_text(e.rank) + ": " + e.text);
}

void SupervisorCore::on_timeout(const Event& e) {
  if (stopping_) return;
  act(Action::Kind::kReport);
  stop(e, kExitTimeout, "the time limit of --timeout is over");
}

void SupervisorCore::on_deadlock(const Event& e) {
  if (stopping_) return;
  act(Action::Kind::kReport);
  if (!e.text.empty()) return on_diverged(e);
  record("deadlock", e, false);
  stop(e, kExitFailure,
       "deadlock: every rank waits in the operation named above, and none is left that could wake "
       "another");
}

void SupervisorCore::on_registered(const Event& e) {
  Rank& r = ranks_[e.rank];
  r.state = State::kRegistered;
  r.pid = e.pid;
  r.started_at_ns = e.at_ns;
  record("register", e).pid = e.pid;
}

void SupervisorCore::on_initialized(const Event& e) {
  Rank& r = ranks_[e.rank];
  r.state = State::kRunning;
  somebody_initialized_ = true;
  record("init", e);
  check_everybody_initializes(e);
}

void SupervisorCore::on_ended(const Event& e) {
  Rank& r = ranks_[e.rank];
  const State state = std::exchange(r.state, State::kOver);
  const bool exited = e.cause.kind == Cause::Kind::kExit;
  const bool well = exited && e.cause.value == 0;
  const bool final_code = exited && state == State::kFinalized;
  const bool before_init = state == State::kStarting || state == State::kRegistered;
  const bool never_a_rank = exited && before_init && (well || r.incarnation == 0);
  // It has entered no MPI operation, so it ends because of its arguments or its environment.
  const bool refuses = exited && !well && !before_init && !final_code && r.incarnation == 0 &&
                       e.position.ordinal == 0;
  if (!stopping_ && !final_code && !never_a_rank && !refuses) {
    on_death(e);
    return;
  }
  Record& line = record("exit", e);
  line.cause = e.cause;
  line.position = e.position;
  line.pid = r.pid;
  catching_up_.is_back(e.rank);
  losses_.is_back(e.rank, e.at_ns);
  if (stopping_) return;
  if (final_code) {
    if (well) return;
    if (exit_code_ == 0) {
      exit_code_ = e.cause.value;
      act(Action::Kind::kTell, e.rank, rank_text(e.rank) + " ended with " + to_text(e.cause));
    }
  } else if (well) {
    left_early_ = e.rank;
    check_everybody_initializes(e);
  } else {
    stop(e, exit_code_of(e.cause),
         rank_text(e.rank) + " ended with " + to_text(e.cause) +
             (refuses ? " " + to_text(e.position) : ", without calling MPI_Init"),
         true);
  }
}

void SupervisorCore::on_death(const Event& e) {
  Rank& r = ranks_[e.rank];
  const std::string why = objection(r, e);
  losses_.died(e.rank, e.at_ns, e.cause, e.position, e.fault, why.empty());
  if (why.empty()) {
    r.state = State::kStarting;
    act(Action::Kind::kRespawn, e.rank);
  }
  const std::int64_t pid = r.pid;
  if (why.empty()) ++epoch_;
  Record& line = record("death", e);
  line.pid = pid;
  line.cause = e.cause;
  line.fault = e.fault;
  line.position = e.position;
  line.replayed_operations = e.position.replayed;
  const bool catching_up = r.incarnation > 0 && !e.position.live;
  const std::string what = rank_text(e.rank) + " died (" + to_text(e.cause) + ") " +
                           to_text(e.position) + (catching_up ? " while catching up" : "");
  if (!why.empty()) {
    const int code = exit_code_of(e.cause);
    stop(e, code == 0 ? kExitFailure : code,
         what + (e.fault.site.empty() ? at_site(e.position) : fault_text(e.fault)) + "; " + why);
    tell_stack(r, e, Action::Kind::kTell);
    return;
  }
  ++r.incarnation;
  if (e.cause.oom) ++r.oom_deaths;
  if (e.cause.is_fault()) {
    r.faulted = true;
    r.fault = e.cause;
    r.fault_at = e.position;
  }
  r.coming_back = true;
  r.died_at_ns = r.started_at_ns = e.at_ns;
  catching_up_.died(e.rank, e.at_ns, e.position);
  act(Action::Kind::kNews, e.rank,
      what + memory_text(e.cause) + fault_text(e.fault) + "; starting it again (" +
          std::to_string(restarts(r)) + " of " + std::to_string(options_.max_restarts) + ")");
  tell_stack(r, e, Action::Kind::kNews);
}

// Shows the stack of the fault, unless the same stack was shown for this rank before.
void SupervisorCore::tell_stack(Rank& r, const Event& e, Action::Kind how) {
  if (r.told_stack == e.fault.stack) return;
  r.told_stack = e.fault.stack;
  for (const std::string& frame : e.fault.stack) act(how, e.rank, "  " + frame);
}

std::string SupervisorCore::objection(const Rank& r, const Event& e) const {
  if (!options_.restart) return "--no-restart ends the job";
  if (!e.text.empty()) return e.text;
  if (journal_full_) {
    return "the journal was full (" + size_text(options_.journal_limit_bytes) +
           "), so its past cannot be repeated and the job ends (--journal-limit makes it larger)";
  }
  if (e.cause.is_fault() && r.faulted && r.fault.same_as(e.cause) &&
      r.fault_at.same_as(e.position)) {
    if (e.cause.kind == Cause::Kind::kExit && e.cause.value == 0) {
      return "it ended there before, so the job ends; a program has to call MPI_Finalize before it "
             "exits";
    }
    return "it died there by the same cause before, so a restart cannot help and the job ends";
  }
  if (e.cause.oom && r.oom_deaths > 0) {
    return "it is the second time that there is not enough memory for it, so the job ends; "
           "use fewer ranks or more memory" +
           memory_text(e.cause);
  }
  if (restarts(r) >= options_.max_restarts) {
    return "it was started again " + times(restarts(r)) +
           " already, so the job ends (--max-restarts)";
  }
  if (epoch_ >= kMaxEpochs) return "the job has had all the deaths that it can count";
  return {};
}

// A replacement has caught up when it does something new, or has nothing left to do.
void SupervisorCore::on_back(const char* name, const Event& e, std::uint64_t replayed) {
  Rank& r = ranks_[e.rank];
  Record& line = record(name, e);
  if (r.incarnation > 0) line.replayed_operations = replayed;
  if (!std::exchange(r.coming_back, false)) return;
  catching_up_.is_back(e.rank);
  losses_.is_back(e.rank, e.at_ns, e.from.kind);
  const std::uint64_t away_ns = e.at_ns - r.died_at_ns;
  Recovery parts;
  parts.start_ns = r.started_at_ns - r.died_at_ns;
  parts.replay_ns = std::min(e.replay_ns, away_ns - parts.start_ns);
  parts.computing_ns = away_ns - parts.start_ns - parts.replay_ns;
  line.took_ms = static_cast<double>(away_ns) / 1e6;
  line.recovery = parts;
  line.from = e.from;
  std::string text = rank_text(e.rank) + " is back after " + duration_text(away_ns);
  const std::string from = to_text(e.from);
  if (!from.empty()) text += ", from " + from;
  const char* separator = ": ";
  const auto add = [&](const std::string& part) { text += std::exchange(separator, ", ") + part; };
  if (is_notable(parts.start_ns, away_ns)) add(duration_text(parts.start_ns) + " to start it");
  if (is_notable(parts.computing_ns, away_ns)) {
    add(duration_text(parts.computing_ns) + " of its own computing");
  }
  if (replayed > 0) {
    add(duration_text(parts.replay_ns) + " replay of " + count_text(replayed) +
        (replayed == 1 ? " operation" : " operations"));
  }
  act(Action::Kind::kNews, e.rank, text);
}

void SupervisorCore::on_catching_up(const Event& e) {
  if (stopping_) return;
  const auto told = catching_up_.looked(e.rank, e.at_ns, e.position.ordinal);
  if (!told) return;
  Record& line = record("catching_up", e);
  line.position = e.position;
  line.replayed_operations = e.position.replayed;
  line.known_operations = told->known;
  line.left_ns = told->left_ns;
  act(Action::Kind::kNews, e.rank, told->text);
}

void SupervisorCore::on_progress(const Event& e) {
  using Kind = Event::Kind;
  if (e.kind == Kind::kCatchingUp) return on_catching_up(e);
  if (e.kind == Kind::kSnapshot || e.kind == Kind::kHeartbeat) return on_protected(e);
  on_saved(e);
}

void SupervisorCore::on_saved(const Event& e) {
  if (e.kind == Event::Kind::kCommitted) {
    record("checkpoint", e, false).checkpoint = e.value;
    return;
  }
  Record& line = record("images", e, false);
  line.text = e.text;
  line.written_ns = e.took_ns;
  line.bytes = e.value;
  line.stopped_ns = e.replay_ns;
}

void SupervisorCore::on_protected(const Event& e) {
  const bool is_snapshot = e.kind == Event::Kind::kSnapshot;
  record(is_snapshot ? "snapshot" : "heartbeat", e, false).protection = {
      e.value, e.took_ns, static_cast<std::uint32_t>(e.code)};
  if (!is_snapshot || std::exchange(told_protected_, true)) return;
  act(Action::Kind::kDetail, 0,
      "every rank has an image of its process, " + duration_text(e.at_ns) +
          " after the start: from now on one that dies goes on from its newest image");
}

void SupervisorCore::on_all_over(const Event& e) {
  if (losses_.any()) {
    const Summary sum = losses_.at_end(e.at_ns, e.totals);
    record("summary", e, false).summary = sum;
    // A job that was stopped shows no summary: its last line is to be the reason for the stop.
    const auto lines = stopping_ ? std::vector<std::string>() : lines_of(sum);
    for (const std::string& line : lines) act(Action::Kind::kNews, 0, line);
  }
  act(Action::Kind::kDetail, 0, protection_text(e.totals));
  act(Action::Kind::kFinish);
  actions_.back().code = exit_code_;
}

void SupervisorCore::on_abort(const Event& e) {
  Record& line = record("abort", e);
  line.code = e.code;
  line.text = e.text;
  const std::string called =
      rank_text(e.rank) + " called MPI_Abort(" + std::to_string(e.code) + ")";
  stop(e, e.code & 0xff, e.text.empty() ? called : rank_text(e.rank) + ": " + e.text);
}

void SupervisorCore::on_signal(const Event& e) {
  if (std::exchange(interrupted_, true)) {
    act(Action::Kind::kKillNow);
    return;
  }
  const char* name = sigdescr_np(e.code);
  stop(e, kExitSignal + e.code,
       "signal " + std::to_string(e.code) + (name ? std::string(" (") + name + ")" : "") +
           ": ending all ranks");
}

void SupervisorCore::on_diverged(const Event& e) {
  record("diverged", e).text = e.text;
  stop(e, kExitFailure, e.text);
}

void SupervisorCore::on_lost(const Event& e) {
  ranks_[e.rank].state = State::kOver;
  stop(e, kExitFailure,
       rank_text(e.rank) +
           " cannot be started again: " + (e.text.empty() ? "its snapshot died with it" : e.text) +
           ", and the journal does not reach back to the start of the program any more");
}

void SupervisorCore::on_limit(const Event& e) {
  if (std::exchange(journal_full_, true)) return;
  record("limit", e);
  act(Action::Kind::kTell, e.rank,
      "the journal is full (" + size_text(options_.journal_limit_bytes) +
          "): the job goes on, but from now on the death of a rank ends it; "
          "--journal-limit makes it larger");
}

void SupervisorCore::on_unfired(const Event& e) {
  record("kill_unfired", e).text = e.text;
  if (exit_code_ == 0) exit_code_ = kExitFailure;
  act(Action::Kind::kTell, e.rank,
      "--kill " + e.text + " did not fire: the rank ended " + to_text(e.position) +
          " in incarnation " + std::to_string(ranks_[e.rank].incarnation));
}

// MPI's rule: if one process calls MPI_Init, all must; the others would wait for ever.
void SupervisorCore::check_everybody_initializes(const Event& e) {
  if (!left_early_ || !somebody_initialized_) return;
  stop(e, kExitFailure,
       rank_text(*left_early_) +
           " exited with code 0 without calling MPI_Init, but others called it");
}

void SupervisorCore::stop(const Event& e, int code, const std::string& why, bool patient) {
  if (stopping_) return;
  stopping_ = true;
  if (exit_code_ == 0) exit_code_ = code;
  act(Action::Kind::kStop);
  actions_.back().patient = patient;
  act(Action::Kind::kTell, e.rank, why);
  Record& line = record("stop", e, false);
  line.code = exit_code_;
  line.text = why;
}

void SupervisorCore::act(Action::Kind kind, std::uint32_t rank, std::string text) {
  actions_.push_back({kind, rank, 0, std::move(text), {}});
}

Record& SupervisorCore::record(const char* name, const Event& e, bool about_rank) {
  act(Action::Kind::kRecord, e.rank);
  Record& line = actions_.back().record;
  line.event = name;
  line.at_ns = e.at_ns;
  line.epoch = epoch_;
  if (about_rank) {
    line.rank = e.rank;
    line.incarnation = ranks_[e.rank].incarnation;
  }
  return line;
}

}  // namespace rejoin::launcher
