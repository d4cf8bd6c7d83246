#include "launcher/supervisor/supervisor_core.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <utility>

#include "launcher/base/grammar.h"
#include "launcher/base/invariant.h"
#include "launcher/base/result.h"
#include "launcher/program/elf.h"

namespace rejoin::launcher {
namespace {

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
         " of ranks, at most " + duration_text(totals.snapshot_cost_ns) + " of a rank's time and " +
         size_text(totals.images_peak_bytes) + " in all; the newest image of a rank was at most " +
         duration_text(totals.exposed_ns) + " old; journal at most " +
         size_text(totals.journal_peak_bytes);
}

// The exit code of a job that ends because a rank has ended like this.
int failure_code_of(const Cause& cause) {
  const int code = exit_code_of(cause);
  return code == 0 ? kExitFailure : code;
}

std::string signal_text(int signal) {
  const char* name = sigdescr_np(signal);
  return "signal " + std::to_string(signal) + (name ? std::string(" (") + name + ")" : "");
}

std::string times(std::uint32_t n) {
  return n == 1 ? "once" : n == 2 ? "twice" : std::to_string(n) + " times";
}

}  // namespace

SupervisorCore::SupervisorCore(const RunOptions& options, const Beginning& beginning,
                               std::uint32_t hosts)
    : options_(options),
      beginning_(beginning),
      ranks_(options.ranks()),
      sets_(hosts, options.survive_host, beginning.set),
      written_(beginning.set),
      tried_(beginning.set),
      places_(options.hosts),
      spares_(options.spare_hosts),
      host_over_(hosts, false),
      catching_up_(options.ranks()),
      losses_(options.ranks()) {
  places_.resize(hosts);
  for (Rank& r : ranks_) r.incarnation = beginning.incarnation;
  // A later incarnation than the first has gone on from a written set, which is still there.
  has_written_ = beginning.incarnation > 0;
  if (beginning.losses) losses_ = *beginning.losses;
}

std::vector<Action> SupervisorCore::step(const Event& e) {
  actions_.clear();
  now_ns_ = e.at_ns;
  host_ = e.host;
  rank_ = e.rank;
  epoch_ = std::max(epoch_, e.epoch);
  if (is_void(e)) return {};
  std::visit([this](const auto& what) { on(what); }, e.what);
  return std::move(actions_);
}

bool SupervisorCore::is_void(const Event& e) const {
  if (!goes_back_ || stopping_) return false;
  return std::holds_alternative<Event::Started>(e.what) ||
         std::holds_alternative<Event::Registered>(e.what) ||
         std::holds_alternative<Event::Initialized>(e.what) ||
         std::holds_alternative<Event::Live>(e.what) ||
         std::holds_alternative<Event::Finalized>(e.what) ||
         std::holds_alternative<Event::Ended>(e.what) ||
         std::holds_alternative<Event::Diverged>(e.what) ||
         std::holds_alternative<Event::Deadlock>(e.what) ||
         std::holds_alternative<Event::JournalFull>(e.what) ||
         std::holds_alternative<Event::CatchingUp>(e.what);
}

bool SupervisorCore::may_enter(State to) const {
  const auto is_one_of = [from = ranks_[rank_].state](auto... states) {
    return ((from == states) || ...);
  };
  switch (to) {
    case State::kStarting:
      return is_one_of(State::kOver);
    case State::kRegistered:
      return is_one_of(State::kStarting, State::kRegistered, State::kRunning);
    case State::kRunning:
      return is_one_of(State::kRegistered);
    case State::kFinalized:
      return is_one_of(State::kRunning);
    case State::kOver:
      return true;
  }
  return false;
}

void SupervisorCore::enter(State to) {
  invariant(may_enter(to),
            "an agent has reported something of a rank that cannot follow its "
            "former report");
  ranks_[rank_].state = to;
}

bool SupervisorCore::enter_as_sent(State to, const char* what) {
  if (may_enter(to)) {
    enter(to);
    return true;
  }
  if (!stopping_) {
    stop(kExitFailure, rank_text(rank_) + " has reported the end of " + what +
                           " at a point where that is impossible, so its memory may be damaged; "
                           "the job ends");
  }
  return false;
}

void SupervisorCore::on(const Event::Started& e) {
  Rank& r = ranks_[rank_];
  r.pid = e.pid;
  record_rank(r.incarnation == beginning_.incarnation ? "start" : "respawn").pid = e.pid;
}

void SupervisorCore::on(const Event::SpawnFailed& e) {
  enter(State::kOver);
  stop(e.code, e.why);
}

void SupervisorCore::on(const Event::Live& e) {
  ranks_[rank_].starts_back = false;
  on_back("live", e.from, e.replay_ns, e.replayed);
  let_recycle_if_full();
}

void SupervisorCore::on(const Event::Finalized& e) {
  if (!enter_as_sent(State::kFinalized, "MPI_Finalize")) return;
  on_back("finalize", e.from, e.replay_ns, e.position.replayed);
  let_recycle_if_full();
}

void SupervisorCore::on(const Event::Notice& e) {
  const bool of_job = e.of_job != 0;
  if (of_job && !told_of_job_.insert(e.of_job).second) return;
  (of_job ? record_job("notice") : record_rank("notice")).text = e.text;
  tell(of_job ? e.text : rank_text(rank_) + ": " + e.text);
}

void SupervisorCore::on(const Event::ForeignMpi& e) {
  stop(kExitFailure, foreign_mpi_text("the program of " + rank_text(rank_), e.soname));
}

void SupervisorCore::on(const Event::OutputLost& e) { stop(e.code, e.why); }

void SupervisorCore::on(const Event::Timeout&) {
  if (stopping_ || is_over()) return;
  act(Action::ReportPositions{});
  stop(kExitTimeout, "the time limit of --timeout has expired");
}

void SupervisorCore::on(const Event::Deadlock& e) {
  if (stopping_) return;
  if (!e.diverged.empty()) return on(Event::Diverged{e.diverged});
  act(Action::ReportPositions{});
  record_job("deadlock");
  stop(kExitFailure,
       "deadlock: every rank waits in the operation shown above, and no process is left that could "
       "wake one of them");
}

void SupervisorCore::on(const Event::Registered& e) {
  Rank& r = ranks_[rank_];
  enter(State::kRegistered);
  r.pid = e.pid;
  r.started_at_ns = now_ns_;
  record_rank("register").pid = e.pid;
}

void SupervisorCore::on(const Event::Initialized& e) {
  if (!enter_as_sent(State::kRunning, "MPI_Init")) return;
  ranks_[rank_].has_initialized = true;
  ranks_[rank_].threads_may_call |= e.threads_may_call;
  somebody_initialized_ = true;
  record_rank("init");
  check_everybody_initializes();
}

void SupervisorCore::on(const Event::Ended& e) {
  Rank& r = ranks_[rank_];
  const State state = r.state;
  enter(State::kOver);
  const bool exited = e.cause.kind == Cause::Kind::kExit;
  const bool well = exited && e.cause.value == 0;
  const bool final_code = exited && state == State::kFinalized;
  const bool before_init = state == State::kStarting || state == State::kRegistered;
  const bool never_a_rank = exited && before_init && (well || r.incarnation == 0);
  // It has entered no MPI operation, so it ends because of its arguments or its environment.
  const bool refuses = exited && !well && !before_init && !final_code && r.incarnation == 0 &&
                       e.position.ordinal == 0;
  if (!stopping_ && !final_code && !never_a_rank && !refuses) return on_death(e);
  Record& line = record_rank("exit");
  line.cause = e.cause;
  line.position = e.position;
  line.pid = r.pid;
  catching_up_.is_back(rank_);
  losses_.is_back(rank_, now_ns_);
  if (stopping_) return;
  let_recycle_if_full();
  if (final_code) {
    if (well) return;
    if (exit_code_ == 0) {
      exit_code_ = e.cause.value;
      tell(rank_text(rank_) + " ended with " + to_text(e.cause));
    }
  } else if (well) {
    left_early_ = rank_;
    check_everybody_initializes();
  } else {
    stop(exit_code_of(e.cause),
         rank_text(rank_) + " ended with " + to_text(e.cause) +
             (refuses ? " " + to_text(e.position) : ", without calling MPI_Init"),
         true);
  }
}

void SupervisorCore::on_death(const Event::Ended& e) {
  Rank& r = ranks_[rank_];
  const bool goes_back = !e.not_alone.empty();
  const std::string why = objection(r, e);
  losses_.died(rank_, now_ns_, e.cause, e.position, e.fault, why.empty());
  if (why.empty() && !goes_back) {
    enter(State::kStarting);
    act(Action::Respawn{rank_, r.incarnation + 1});
  }
  const std::int64_t pid = r.pid;
  Record& line = record_rank("death");
  line.pid = pid;
  line.cause = e.cause;
  line.fault = e.fault;
  line.position = e.position;
  line.replayed_operations = e.position.replayed;
  const bool catching_up = r.incarnation > 0 && !e.position.live;
  const std::string what = rank_text(rank_) + " died (" + to_text(e.cause) + ") " +
                           to_text(e.position) + (catching_up ? " while catching up" : "");
  if (!why.empty()) {
    const std::string told =
        what + (e.fault.site.empty() ? at_site(e.position) : fault_text(e.fault)) + "; " + why;
    const bool past_is_gone =
        recycles_ && options_.restart && e.why_final.empty() && e.not_alone.empty();
    if (past_is_gone) {
      begin_again_or_stop(failure_code_of(e.cause), told);
    } else {
      stop(failure_code_of(e.cause), told);
    }
    tell_stack(r, e.fault, &SupervisorCore::tell);
    return;
  }
  if (!goes_back) ++r.incarnation;
  ++r.restarts;
  r.went_back = false;
  r.repeated = false;
  if (e.cause.oom) ++r.oom_deaths;
  if (e.cause.is_fault()) {
    r.faulted = true;
    r.fault = e.cause;
    r.fault_at = e.position;
  }
  r.coming_back = true;
  r.died_at_ns = r.started_at_ns = now_ns_;
  catching_up_.died(rank_, now_ns_, e.position);
  if (goes_back) {
    const std::string told = what + memory_text(e.cause) + fault_text(e.fault) + "; " + e.not_alone;
    return go_back({rank_, told,
                    told + ", and there is no set of snapshots to which all ranks could go back, "
                           "so the job ends (docs/fault-model.md)",
                    failure_code_of(e.cause), e.fault});
  }
  news(what + memory_text(e.cause) + fault_text(e.fault) + "; starting it again (" +
       std::to_string(r.restarts) + " of " + std::to_string(options_.max_restarts) + ")");
  tell_stack(r, e.fault, &SupervisorCore::news);
}

// Shows the stack of the fault, unless the same stack was shown for this rank before.
void SupervisorCore::tell_stack(Rank& r, const Fault& fault,
                                void (SupervisorCore::*say)(std::string)) {
  if (r.told_stack == fault.stack) return;
  r.told_stack = fault.stack;
  for (const std::string& frame : fault.stack) (this->*say)("  " + frame);
}

std::string SupervisorCore::objection(const Rank& r, const Event::Ended& e) const {
  if (!options_.restart) return "--no-restart ends the job";
  if (!e.why_final.empty()) return e.why_final;
  if (!e.not_alone.empty() && options_.on_divergence != OnDivergence::kRollBack) {
    return e.not_alone + ", so the job ends (docs/fault-model.md)";
  }
  if (recycles_) {
    return "the journal was full (" + size_text(options_.journal_limit_bytes) +
           ") and its past cannot be replayed, so the job ends (--journal-limit makes it larger)";
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
  if (r.restarts >= options_.max_restarts) {
    return "it was started again " + times(r.restarts) +
           " already, so the job ends (--max-restarts)";
  }
  return {};
}

// A replacement has caught up when it does something new, or has nothing left to do.
void SupervisorCore::on_back(const char* name, const RecoveryPoint& from, std::uint64_t replay_ns,
                             std::uint64_t replayed) {
  Rank& r = ranks_[rank_];
  Record& line = record_rank(name);
  if (r.incarnation > 0) line.replayed_operations = replayed;
  if (!std::exchange(r.coming_back, false)) return;
  catching_up_.is_back(rank_);
  losses_.is_back(rank_, now_ns_, from.kind);
  const std::uint64_t away_ns = now_ns_ - r.died_at_ns;
  Recovery parts;
  parts.start_ns = r.started_at_ns - r.died_at_ns;
  parts.replay_ns = std::min(replay_ns, away_ns - parts.start_ns);
  parts.computing_ns = away_ns - parts.start_ns - parts.replay_ns;
  line.took_ms = static_cast<double>(away_ns) / 1e6;
  line.recovery = parts;
  line.from = from;
  std::string text = rank_text(rank_) + " is back after " + duration_text(away_ns);
  const std::string from_text = to_text(from);
  if (!from_text.empty()) text += ", from " + from_text;
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
  news(text);
}

void SupervisorCore::on(const Event::CatchingUp& e) {
  if (stopping_) return;
  const auto told = catching_up_.looked(rank_, now_ns_, e.position.ordinal);
  if (!told) return;
  Record& line = record_rank("catching_up");
  line.position = e.position;
  line.replayed_operations = e.position.replayed;
  line.known_operations = told->known;
  line.left_ns = told->left_ns;
  news(told->text);
}

void SupervisorCore::on(const Event::Committed& e) {
  record_job("checkpoint").checkpoint = e.checkpoint;
}

void SupervisorCore::on(const Event::ImagesWritten& e) {
  if (options_.has_agents()) {
    parts_.bytes += e.bytes;
    parts_.took_ns = std::max(parts_.took_ns, e.took_ns);
    parts_.stopped_ns = std::max(parts_.stopped_ns, e.stopped_ns);
    return;
  }
  has_written_ = true;
  note_written(e);
  if (noticed_ && now_ns_ - e.took_ns >= noticed_at_ns_)
    end_by_notice("the job's state was written to");
}

void SupervisorCore::note_written(const Event::ImagesWritten& e) {
  Record& line = record_job("images");
  line.text = e.directory;
  line.written_ns = e.took_ns;
  line.bytes = e.bytes;
  line.stopped_ns = e.stopped_ns;
}

void SupervisorCore::on(const Event::Heartbeat& e) {
  record_job("heartbeat").protection = e.protection;
}

void SupervisorCore::on(const Event::Snapshot& e) {
  record_job("snapshot").protection = e.protection;
  protected_hosts_.insert(host_);
  if (protected_hosts_.size() < host_over_.size() || std::exchange(told_protected_, true)) return;
  detail("every rank has an image of its process, " + duration_text(now_ns_) +
         " after the start: from now on a rank that dies goes on from its newest image");
}

void SupervisorCore::on(const Event::AllOver& e) {
  totals_.journal_peak_bytes += e.totals.journal_peak_bytes;
  totals_.snapshots += e.totals.snapshots;
  totals_.snapshot_cost_ns = std::max(totals_.snapshot_cost_ns, e.totals.snapshot_cost_ns);
  totals_.exposed_ns = std::max(totals_.exposed_ns, e.totals.exposed_ns);
  totals_.images_peak_bytes += e.totals.images_peak_bytes;
  host_is_over(e.host);
}

void SupervisorCore::host_is_over(std::uint32_t host) {
  if (host_over_[host]) return;
  host_over_[host] = true;
  if (++hosts_over_ < host_over_.size()) return;
  const Totals& before = beginning_.totals;
  totals_.journal_peak_bytes = std::max(totals_.journal_peak_bytes, before.journal_peak_bytes);
  totals_.snapshots += before.snapshots;
  totals_.snapshot_cost_ns = std::max(totals_.snapshot_cost_ns, before.snapshot_cost_ns);
  totals_.exposed_ns = std::max(totals_.exposed_ns, before.exposed_ns);
  totals_.images_peak_bytes = std::max(totals_.images_peak_bytes, before.images_peak_bytes);
  if (begins_again_) return act(Action::BeginAgain{next_beginning()});
  finish();
}

void SupervisorCore::finish() {
  if (losses_.any()) {
    const Summary sum = losses_.at_end(now_ns_, totals_);
    record_job("summary").summary = sum;
    // A job that was stopped shows no summary: its last line is to be the reason for the stop.
    const auto lines = stopping_ ? std::vector<std::string>() : lines_of(sum);
    for (const std::string& line : lines) news(line);
  }
  detail(protection_text(totals_));
  act(Action::Finish{exit_code_, totals_});
}

void SupervisorCore::on(const Event::Aborted& e) {
  Record& line = record_rank("abort");
  line.code = e.code;
  line.text = e.what;
  const std::string called = " called MPI_Abort(" + std::to_string(e.code) + ")";
  stop(e.code & 0xff, rank_text(rank_) + (e.what.empty() ? called : ": " + e.what));
}

void SupervisorCore::on(const Event::Interrupted& e) {
  if (e.signal == SIGTERM && options_.grace_ns && !stopping_ && !is_over()) {
    if (!noticed_) return take_notice("signal 15 (Terminated)");
    if (std::exchange(noticed_by_host_, false)) return;
  }
  if (std::exchange(begins_again_, false)) return end_instead(e.signal);
  if (std::exchange(interrupted_, true) || is_over()) {
    act(Action::KillNow{true});
    return;
  }
  stop(kExitSignal + e.signal, signal_text(e.signal) + ": ending all ranks");
}

// The job was to begin again.
void SupervisorCore::end_instead(int signal) {
  stopping_ = false;
  interrupted_ = true;
  exit_code_ = 0;  // of ranks that would have run again
  if (signal == SIGTERM && options_.grace_ns && has_state()) {
    end_by_notice("the job was to begin again; an earlier state is in");
  } else {
    stop(kExitSignal + signal, signal_text(signal) + ": the job does not begin again");
  }
  if (is_over()) finish();
}

// Whether there is a state from which --resume would go on.
bool SupervisorCore::has_state() const { return has_written_ || written_ != 0 || options_.resume; }

std::uint32_t SupervisorCore::newest_incarnation() const {
  std::uint32_t newest = 0;
  for (const Rank& r : ranks_) newest = std::max(newest, r.incarnation);
  return newest;
}

void SupervisorCore::on(const Event::Diverged& e) {
  record_rank("diverged").text = e.how;
  if (stopping_) return;
  // As long as no rank has been restarted nothing is repeated, and it would happen again.
  const bool repeats = newest_incarnation() > 0;
  if (!may_go_back() || !repeats || ranks_[rank_].went_back) return stop(kExitFailure, e.how);
  go_back({rank_, e.how, e.how, kExitFailure, {}});
}

bool SupervisorCore::may_go_back() const {
  return options_.on_divergence == OnDivergence::kRollBack && options_.restart && !recycles_;
}

void SupervisorCore::go_back(GoesBack why) {
  const bool is_alone = host_over_.size() == 1;
  if (!is_alone && sets_.newest() == 0) {
    begin_again_or_stop(why.exit_code, why.or_ends);
    return tell_stack(ranks_[why.rank], why.fault, &SupervisorCore::tell);
  }
  goes_back_ = std::move(why);
  back_.clear();
  back_by_ns_ = 0;
  writing_ = 0;
  sets_.goes_back();
  back_as_ = std::max(back_as_, newest_incarnation()) + 1;
  act(Action::RollBack{back_as_, is_alone ? 0 : sets_.newest()});
}

void SupervisorCore::on(const Event::NoSet&) {
  if (!goes_back_) return;
  const GoesBack why = *std::exchange(goes_back_, {});
  begin_again_or_stop(why.exit_code, why.or_ends);
  tell_stack(ranks_[why.rank], why.fault, &SupervisorCore::tell);
}

void SupervisorCore::on(const Event::RolledBack& e) {
  if (!goes_back_) {
    // Another host could not, so the job ends or begins again.
    return invariant(stopping_, "an agent has put back its ranks without an order");
  }
  if (stopping_) return;
  if (e.back_as != back_as_) return;  // a host was lost since that was ordered
  back_.insert(host_);
  back_by_ns_ = std::max(back_by_ns_, e.age_ns);
  if (back_.size() == host_over_.size()) went_back(e.set);
}

void SupervisorCore::went_back(std::uint64_t set) {
  const GoesBack back = *std::exchange(goes_back_, {});
  const std::string& why = back.why;
  replaced_.clear();
  for (Rank& r : ranks_) {
    r.state = State::kStarting;
    r.incarnation = back_as_;
    r.coming_back = r.repeated = false;
    r.starts_back = r.went_back = true;
  }
  for (std::uint32_t i = 0; i < ranks_.size(); ++i) catching_up_.is_back(i);
  losses_.rolled_back(now_ns_, back_by_ns_);
  journal_full_ = false;
  exit_code_ = 0;  // of ranks that had ended
  Record& line = record_job("rollback");
  line.text = why;
  line.set = set;
  line.age_ns = back_by_ns_;
  // What follows the first sentence is advice for a job that ends by it.
  news(why.substr(0, why.find(". The program is not deterministic")) + "; all " +
       count_text(ranks_.size()) + " ranks go back " + duration_text(back_by_ns_) +
       ", to their newest snapshots");
  tell_stack(ranks_[back.rank], back.fault, &SupervisorCore::news);
  act(Action::Wake{});
}

// Agents that have joined end with the job, and nothing starts them again.
bool SupervisorCore::may_begin_again() const {
  return options_.restart && (has_written_ || options_.begin_again) &&
         losses_.beginnings() < options_.max_restarts;
}

void SupervisorCore::begin_again_or_stop(int code, const std::string& why) {
  // Its end, and advice, are for a job that ends by it.
  std::string what = why.substr(0, why.find(". The program is not deterministic"));
  what.resize(std::min(what.size(), what.find(", so the job ends")));
  if (noticed_ && !stopping_ && has_state()) {
    exit_code_ = 0;
    return end_by_notice(what + "; an earlier state is in");
  }
  if (stopping_ || noticed_ || !may_begin_again()) return stop(code, why);
  stopping_ = begins_again_ = true;
  act(Action::Stop{false});
  act(Action::KillNow{});
  record_job("begin_again").text = why;
  news(what + "; the job begins again");
}

void SupervisorCore::on(const Event::Lost& e) {
  enter(State::kOver);
  begin_again_or_stop(
      kExitFailure,
      rank_text(rank_) +
          " cannot be started again: " + (e.why.empty() ? "its snapshot died with it" : e.why) +
          ", and the journal does not reach back to the start of the program any more");
}

void SupervisorCore::on(const Event::JournalFull&) {
  ranks_[rank_].repeated = journal_full_ = true;
  let_recycle_if_full();
}

// A replacement needs the journals of all ranks until it has repeated its past.
void SupervisorCore::let_recycle_if_full() {
  if (!journal_full_ || recycles_ || stopping_) return;
  for (const Rank& r : ranks_) {
    const bool is_over = r.state == State::kFinalized || r.state == State::kOver;
    // The journal of its own host may have room, so that it does not report that.
    const bool has_repeated = r.repeated || (host_over_.size() > 1 && !r.coming_back);
    if (r.incarnation > 0 && !has_repeated && !is_over) return;
  }
  recycles_ = true;
  // A rank sees which others call from several threads, but not those of other hosts.
  const bool is_known = host_over_.size() == 1 || std::ranges::all_of(ranks_, [](const Rank& r) {
                          return r.has_initialized && !r.threads_may_call;
                        });
  act(Action::LetRecycle{is_known});
  record_rank("limit");
  tell("the journal is full (" + size_text(options_.journal_limit_bytes) +
       "): the job goes on, but from now on the death of a rank ends it; "
       "--journal-limit makes it larger");
}

void SupervisorCore::on(const Event::Unfired& e) {
  record_rank("kill_unfired").text = e.kill;
  if (exit_code_ == 0) exit_code_ = kExitFailure;
  tell("--kill " + e.kill + " did not fire: the rank ended " + to_text(e.position) +
       " in incarnation " + std::to_string(ranks_[rank_].incarnation));
}

// MPI's rule: if one process calls MPI_Init, all must; the others would wait for ever.
void SupervisorCore::check_everybody_initializes() {
  if (!left_early_ || !somebody_initialized_) return;
  stop(kExitFailure, rank_text(*left_early_) +
                         " exited with code 0 without calling MPI_Init, but others called it");
}

void SupervisorCore::stop(int code, const std::string& why, bool patient) {
  if (stopping_) return;
  stopping_ = true;
  if (exit_code_ == 0) exit_code_ = code;
  act(Action::Stop{patient});
  tell(why);
  Record& line = record_job("stop");
  line.code = exit_code_;
  line.text = why;
}

void SupervisorCore::act(decltype(Action::what) what) {
  actions_.emplace_back().what = std::move(what);
}

Record& SupervisorCore::record_job(const char* name) {
  act(Action::Log{});
  Record& line = std::get<Action::Log>(actions_.back().what).record;
  line.event = name;
  line.at_ns = now_ns_;
  line.epoch = epoch_;
  return line;
}

Record& SupervisorCore::record_rank(const char* name) {
  Record& line = record_job(name);
  line.rank = rank_;
  line.incarnation = ranks_[rank_].incarnation;
  return line;
}

}  // namespace rejoin::launcher
