#include "launcher/agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "launcher/agent/machine.h"
#include "launcher/agent/standing.h"

namespace rejoin::launcher {
namespace {

constexpr std::uint64_t kGraceNs = 1'000'000'000;  // from SIGTERM to SIGKILL
constexpr std::uint64_t kLookEveryNs = 200'000'000;

// Returns whether the user has asked ftrun to end, which also stops copying a journal. The signals
// are blocked, so they stay pending.
bool interrupted() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1;
}

}  // namespace

Agent::Agent(Loop& loop, HostPlan plan, SpawnSettings settings, JobSegment segment,
             Descriptor listener, std::unique_ptr<Guardian> guardian, SendReport report)
    : loop_(loop),
      plan_(std::move(plan)),
      settings_(std::move(settings)),
      segment_(std::move(segment)),
      reporter_(segment_, plan_.host, std::move(report)),
      guardian_(std::move(guardian)),
      core_(plan_.local),
      incarnations_(plan_.ranks, plan_.first_incarnation),
      processes_(loop, plan_, settings_, process_calls()),
      outputs_(loop, plan_.ranks, plan_.options.output, output_calls()),
      input_(loop,
             [this] {
               Report wanted;
               wanted.set_input_wanted(true);
               reporter_.send(std::move(wanted));
             }),
      messages_(loop, segment_, outputs_, message_calls()),
      connections_(loop, std::move(listener), plan_.local, plan_.secret, connection_calls()),
      symbolizer_(plan_.lib_directory),
      oom_kills_seen_(out_of_memory_kills()),
      kill_timer_(loop, [this] { carry_out(core_.kill_all()); }),
      look_timer_(loop, [this] { look_around(); }),
      snapshots_(plan_.options.snapshots),
      snapshot_timer_(loop, [this] { take_snapshots(); }),
      heartbeat_timer_(loop,
                       [this] {
                         happened(0, Event::Heartbeat{protection()});
                         heartbeat_timer_.set(loop_.now_ns() + plan_.options.heartbeat_ns);
                       }),
      told_not_frozen_(plan_.ranks, false),
      newest_snapshot_(plan_.ranks),
      faults_(plan_.ranks),
      cut_timer_(loop, [this] { cut(); }) {
  if (guardian_->pid() > 0) processes_.add_helper(guardian_->pid());
  if (plan_.options.checkpoint_directory.empty()) return;
  checkpoints_ = std::make_unique<CheckpointWriter>(segment_, plan_.options.checkpoint_directory,
                                                    owner_of(plan_.options, plan_.programs));
  checkpoints_watch_ = Loop::Watch(loop_, checkpoints_->descriptor(), EPOLLIN,
                                   [this](std::uint32_t) { tell_checkpoint_news(); });
  if (!plan_.writes_sets) return;
  sets_ = std::make_unique<ImageSetWriter>(plan_.options.checkpoint_directory, plan_.lib_directory);
  sets_watch_ =
      Loop::Watch(loop_, sets_->descriptor(), EPOLLIN, [this](std::uint32_t) { on_set_outcome(); });
}

// --- Orders

void Agent::order(const Order& order) {
  if (order.host() != plan_.host) return;
  switch (order.what_case()) {
    case Order::kStart:
      if (plan_.resumed) {
        resume_from(*plan_.resumed);
      } else {
        spawn_from(0);
      }
      set_cut_timer();
      look_timer_.set(loop_.now_ns() + kLookEveryNs);
      ranks_began_ns_ = loop_.now_ns();
      snapshots_.began(ranks_began_ns_);
      set_snapshot_timer();
      if (!plan_.options.events_path.empty())
        heartbeat_timer_.set(loop_.now_ns() + plan_.options.heartbeat_ns);
      break;
    case Order::kRespawn: {
      const std::uint32_t rank = order.respawn().rank();
      incarnations_[rank] = order.respawn().incarnation();
      outputs_.forget_late(rank);
      carry_out(core_.respawn(rank, incarnations_[rank]));
      break;
    }
    case Order::kLetRecycle:
      segment_.let_recycle();
      break;
    case Order::kStop:
      stop();
      break;
    case Order::kKill:
      carry_out(core_.kill_all());
      break;
    case Order::kSignal:
      processes_.signal_all(static_cast<int>(order.signal()));
      break;
    case Order::kWhere:
      report_where_all_stand(order.where());
      break;
    case Order::kInput:
      input_.append(order.input().bytes(), order.input().end());
      break;
    case Order::kHold:
      outputs_.hold(static_cast<int>(order.hold().stream()), order.hold().hold());
      break;
    case Order::kFinish:
      finish();
      break;
    case Order::WHAT_NOT_SET:
      break;
  }
}

// Starts ranks one by one, so that no rank is started after the first failure.
void Agent::spawn_from(std::size_t i) {
  if (i == plan_.local.size() || stopping_) return;
  carry_out(core_.spawn(plan_.local[i]));
  loop_.post([this, i] { spawn_from(i + 1); });
}

// Returns whether the program's file was replaced since the job began: a journal can be replayed
// only by the program that wrote it.
bool Agent::refuses_program(std::uint32_t rank) {
  const ProgramFile& program = plan_.program_of(rank);
  if (is_same(program.identity, identity_of(program.path))) return false;
  const std::string what = plan_.options.program_of(rank).command[0] +
                           " has been replaced since the job began, and rank " +
                           std::to_string(rank) + " would have to run the new file from main";
  if (!plan_.options.stop_on_divergence) {
    reporter_.tell(what + ": its replay may differ from the first execution");
    return false;
  }
  core_.give_up(rank);
  happened(rank,
           Event::SpawnFailed{
               kExitFailure,
               what + ", so the job ends; install a new build beside the old one while jobs run"});
  return true;
}

void Agent::spawn(std::uint32_t rank) {
  if (refuses_program(rank)) return;
  newest_snapshot_[rank].woken = {};
  Spawned spawned;
  RankPipes pipes = processes_.spawn(rank, spawned);
  if (spawned.pid < 0) {
    tell_spawn_failed(rank, spawned);
    return;
  }
  outputs_.open(rank, std::move(pipes.output[0]), std::move(pipes.output[1]));
  core_.step({rank, loop_.now_ns(), AgentEvent::Spawned{spawned.pid}});
  if (rank == 0) input_.open(std::move(pipes.input));
  happened(rank, Event::Started{spawned.pid});
}

void Agent::tell_spawn_failed(std::uint32_t rank, const Spawned& spawned) {
  core_.give_up(rank);
  std::string hint;
  if (spawned.error == ENOEXEC) hint = "; a script must begin with #! and its interpreter";
  if (spawned.error == EMFILE) hint = "; use fewer ranks, or raise ulimit -n";
  happened(rank,
           Event::SpawnFailed{spawned.error == ENOEXEC ? kExitNotExecutable : kExitFailure,
                              "cannot start rank " + std::to_string(rank) + ", " +
                                  plan_.options.program_of(rank).command[0] + " (" +
                                  spawned.failed_step + "): " + error_text(spawned.error) + hint});
}

void Agent::stop() {
  stopping_ = true;
  kill_timer_.set(loop_.now_ns() + kGraceNs);
  look_timer_.clear();
  snapshot_timer_.clear();
  heartbeat_timer_.clear();
  cut_timer_.clear();
  carry_out(core_.stop());
}

void Agent::idle() {
  processes_.sweep();
  offer_when_shown();
  if (all_over_ || !core_.all_over()) return;
  all_over_ = true;
  outputs_.finish(!stopping_);
  heartbeat_timer_.clear();
  report_unfired();
  for (const std::uint32_t r : plan_.local) count_exposed(r);
  Totals totals = totals_;
  totals.journal_peak_bytes = std::max(totals.journal_peak_bytes, segment_.backed_bytes());
  for (const std::uint32_t r : plan_.local) {
    const auto* control = engine::control_of(segment_.base(), r);
    totals.snapshot_cost_ns = std::max(totals.snapshot_cost_ns,
                                       control->snapshots_cost_ns.load(std::memory_order_relaxed));
  }
  happened(0, Event::AllOver{plan_.host, totals});
}

// --- The core

void Agent::feed(const AgentEvent& event) {
  loop_.post([this, event] { carry_out(core_.step(event)); });
}

void Agent::feed(std::uint32_t rank, decltype(AgentEvent::what) what) {
  feed({rank, loop_.now_ns(), std::move(what)});
}

void Agent::act(std::uint32_t rank, const AgentAction::Refuse& a) {
  connections_.refuse(a.connection, rank, a.why);
}

void Agent::act(std::uint32_t rank, const AgentAction::Terminate&) { processes_.terminate(rank); }

void Agent::act(std::uint32_t rank, const AgentAction::KillTree&) { processes_.kill_tree(rank); }

void Agent::act(std::uint32_t rank, const AgentAction::AwaitOutput&) { outputs_.await_end(rank); }

void Agent::act(std::uint32_t rank, const AgentAction::Drain&) {
  outputs_.drain(rank);
  if (rank == 0) input_.close();
  connections_.close_all(rank);
  processes_.clear(rank);
}

void Agent::act(std::uint32_t rank, const AgentAction::PublishDeath&) {
  engine::publish_death(segment_.base(), rank);
}

void Agent::act(std::uint32_t, const AgentAction::RingAll&) { segment_.ring_all(); }

void Agent::act(std::uint32_t rank, const AgentAction::Admit&) {
  engine::admit(segment_.base(), rank, incarnations_[rank]);
}

// Returns whether a replay of the rank, from its newest image or from main, would include MPI calls
// of several threads. The order of such calls is not recorded.
bool Agent::would_replay_threads(std::uint32_t rank) const {
  const engine::RankControl* control = engine::control_of(segment_.base(), rank);
  return control->kept_image.load() < control->several_threads_before.load();
}

void Agent::act(std::uint32_t rank, const AgentAction::ReportEnded& a) {
  Event::Ended ended = {a.cause, segment_.position(rank), {}, {}};
  ended.cause.peak_bytes = processes_.peak_bytes(rank);
  if (a.cause.kind == Cause::Kind::kSignal && a.cause.value == SIGKILL) {
    ended.cause.oom = take_oom_kill(processes_.images_being_killed());
  }
  FaultReport fault = std::exchange(faults_[rank], {});
  if (a.cause.same_as({Cause::Kind::kSignal, fault.signal})) {
    reporter_.fault_modules(rank, fault);
    ended.fault = std::move(fault.fault);
  }
  // Deaths that were reported before, and are not published yet, have none of their own so far.
  if (!journal::has_epochs(segment_.base())) {
    ended.why_final =
        "the job has reached the largest number of deaths that Rejoin supports, so it ends";
  }
  if (would_replay_threads(rank)) {
    ended.why_final =
        "several of its threads had called MPI (MPI_THREAD_MULTIPLE), in an order that is not "
        "recorded, so the job ends (docs/fault-model.md)";
  }
  reporter_.happened({a.at_ns, rank, std::move(ended)});
}

// Returns whether the OOM killer killed a process, according to the kernel's count of its kills. It
// kills images first; `others`: kills of processes that this function was not yet called for.
bool Agent::take_oom_kill(std::uint64_t others) {
  const bool taken = out_of_memory_kills() > oom_kills_seen_ + others;
  if (taken) ++oom_kills_seen_;
  return taken;
}

// --- At the end, and where

void Agent::finish() {
  Report finished;
  if (checkpoints_) {
    checkpoints_->finish();
    tell_checkpoint_news();
  }
  if (sets_) {
    if (checkpoints_->has_written()) sets_->remove_all();  // no rank is restored any more
    sets_->finish();
  }
  if (plan_.options.keep) keep_journal(*finished.mutable_finished());
  while (!standing_.empty()) read_standing(standing_.begin()->first);
  processes_.await_helpers(guardian_->pid());  // a report that has begun is finished
  processes_.kill_leftovers(guardian_->pid());
  finished.mutable_finished();
  reporter_.send(std::move(finished));
}

void Agent::keep_journal(Report::Finished& finished) {
  char name[64];
  snprintf(name, sizeof name, "rejoin-%016llx.journal", static_cast<unsigned long long>(plan_.job));
  const std::string& directory = plan_.options.journal_directory;
  const std::string path = (directory.empty() ? "." : directory) + "/" + name;
  guardian_->unlink_on_death(path);
  const auto kept = segment_.keep(path, interrupted);
  guardian_->unlink_on_death("");
  finished.set_failed(!kept.ok());
  finished.add_lines(kept.ok() ? "the journal was written to " + path + " (" +
                                     size_text(kept.value()) + "); ftrun inspect prints it"
                               : kept.error().text);
}

std::string Agent::where(std::uint32_t rank) {
  const Position p = segment_.position(rank);
  std::string text = to_text(p);
  const auto describe = [this](std::uint32_t r, std::uint32_t index, std::uint64_t place) {
    const engine::ModuleEntry* module = segment_.module(r, index);
    return module == nullptr ? std::string("an unknown place")
                             : symbolizer_.describe(*module, place);
  };
  if (!p.site.empty()) text += " at " + expand_sites(p.site, describe);
  const bool between_two = p.ordinal > 0 && p.context == 0;  // in no operation of a communicator
  const std::string what = between_two && p.inside ? segment_.waits_for(rank) : "";
  if (!what.empty()) text += ", waits for " + what;
  if (p.ordinal > 0 && !between_two) {
    text += ", seq " + std::to_string(p.sequence) + " of " + communicator_text(p.context, rank);
  }
  if (incarnations_[rank] > 0) {
    text += ", incarnation " + std::to_string(incarnations_[rank]);
    text += p.live ? "" : ", catching up";
  }
  return text;
}

// A child finds out, because it takes seconds, and sends the report as bytes.
void Agent::report_where_all_stand(bool wait_for_it) {
  StoodOnHost found;
  found.images = plan_.options.snapshots.on();
  for (const std::uint32_t r : plan_.local) {
    Stood& s = found.ranks.emplace_back();
    s.rank = r;
    s.pid = processes_.pid_of(r);
    s.where = where(r);
    s.over = newest_snapshot_[r].over;
    if (core_.has_image(r)) s.image_age_ns = loop_.now_ns() - newest_snapshot_[r].at_ns;
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return reporter_.send(to_report(found));
  Descriptor ours(ends[0]), theirs(ends[1]);
  pid_t child;
  {
    const Symbolizer::Turn turn;
    child = fork();
  }
  if (child < 0) return reporter_.send(to_report(found));
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &settings_.signals, nullptr);
    find_stacks(found, [this](std::uint32_t rank) { return where(rank); });
    const std::string bytes = to_report(found).SerializeAsString();
    write_all(theirs.get(), bytes.data(), bytes.size());
    _exit(0);
  }
  processes_.add_helper(child);
  const int fd = ours.get();
  standing_[fd].pipe = std::move(ours);
  theirs.reset();
  if (wait_for_it) {
    while (read_standing(fd)) {
    }
    return;
  }
  standing_[fd].watch =
      Loop::Watch(loop_, fd, EPOLLIN, [this, fd](std::uint32_t) { read_standing(fd); });
}

// Returns whether more may come.
bool Agent::read_standing(int fd) {
  Standing& standing = standing_.at(fd);
  char buffer[16 * 1024];
  const ssize_t n = read(fd, buffer, sizeof buffer);
  if (n < 0 && errno == EINTR) return true;
  if (n > 0) {
    standing.report.append(buffer, static_cast<std::size_t>(n));
    return true;
  }
  Report report;
  const bool whole = report.ParseFromString(standing.report) && report.has_standing();
  if (!whole) report.mutable_standing();  // the child was killed
  standing_.erase(fd);
  reporter_.send(std::move(report));
  return false;
}

}  // namespace rejoin::launcher
