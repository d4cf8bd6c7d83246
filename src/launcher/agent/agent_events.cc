// Passes events on this host to the core and to the supervisor.
#include <signal.h>

#include <algorithm>
#include <utility>

#include "launcher/agent/agent.h"

namespace rejoin::launcher {
namespace {

using wire::Message;

constexpr std::uint64_t kLookEveryNs = 200'000'000;
const char* const kStreamNames[] = {"standard output", "standard error"};

}  // namespace

RankOutputs::Calls Agent::output_calls() {
  RankOutputs::Calls calls;
  calls.show = [this](int stream, std::string bytes) {
    Report shown;
    shown.mutable_output()->set_stream(static_cast<std::uint32_t>(stream));
    shown.mutable_output()->set_bytes(std::move(bytes));
    reporter_.send(std::move(shown));
  };
  // A shell may print about its program's death before ftrun kills the shell.
  calls.is_late = [this](std::uint32_t rank) {
    if (processes_.killed(rank) || processes_.keeper_is_dead(rank)) return true;
    const auto* control = engine::control_of(segment_.base(), rank);
    const bool orderly = control->initialized.load(std::memory_order_relaxed) == 2;
    return !orderly && processes_.program_is_dead(rank);
  };
  calls.ended = [this](std::uint32_t rank) { feed(rank, AgentEvent::OutputEnded{}); };
  calls.differs = [this](std::uint32_t rank, int stream) {
    tell(rank, std::string("its replay wrote other bytes to ") + kStreamNames[stream] +
                   " than the first execution; they are discarded");
  };
  calls.lost = [this](std::uint32_t rank, int error) {
    tell(rank, "--output-filename: the output of ranks is no longer written: " + error_text(error));
  };
  return calls;
}

Processes::Calls Agent::process_calls() {
  Processes::Calls calls;
  calls.feed = [this](const AgentEvent& event) {
    if (const auto* image = std::get_if<AgentEvent::ImageEnded>(&event.what)) {
      progress_.ended(image->pid, image->cause);
      look_at_set();
    }
    feed(event);
  };
  calls.writer_ended = [this](pid_t pid, const Cause& cause) {
    if (cause.kind == Cause::Kind::kSignal && cause.value == SIGKILL) take_oom_kill(0);
    // The writer's message about the reason is read before its end is handled.
    if (const auto rank = progress_.writer_of(pid)) connections_.read_all(*rank);
    progress_.ended(pid, cause);
    look_at_set();
  };
  calls.before_end = [this](std::uint32_t rank) { connections_.read_all(rank); };
  calls.registered_ended = [this](std::uint32_t rank) { on_registered_ended(rank); };
  calls.stranger_ended = [this](pid_t pid) { on_stranger_ended(pid); };
  calls.helper_ended = [this](pid_t pid) {
    if (pid != guardian_->pid()) return;
    guardian_->lost();
    reporter_.tell("the guardian of this job (process " + std::to_string(pid) +
                   ") has ended; the job goes on, but if ftrun is killed now, processes that left "
                   "their rank's process group are not killed");
  };
  calls.keeper_ended = [this](std::uint32_t rank) { on_keeper_ended(rank); };
  calls.image_killed = [this](std::optional<std::uint32_t> rank) { on_image_killed(rank); };
  return calls;
}

Connections::Calls Agent::connection_calls() {
  Connections::Calls calls;
  calls.asks = [this](std::uint32_t rank, pid_t pid, int connection, const Message& first) {
    on_registration(rank, pid, connection, first);
  };
  calls.image_says = [this](std::uint32_t rank, const Message& message) {
    on_image_message(rank, message);
  };
  calls.foreign = [this](std::uint32_t rank, const std::string& soname) {
    happened(rank, Event::ForeignMpi{soname});
  };
  calls.says = [this](std::uint32_t rank, const Message& message) {
    messages_.read(rank, message);
  };
  return calls;
}

RankMessages::Calls Agent::message_calls() {
  RankMessages::Calls calls;
  calls.feed = [this](const AgentEvent& event) { feed(event); };
  calls.report = [this](Event said) {
    // The process knows only which checkpoint it has loaded.
    const auto complete = [&](RecoveryPoint& from) {
      if (from.kind == RecoveryPoint::Kind::kMain) from = newest_snapshot_[said.rank].woken;
    };
    if (auto* live = std::get_if<Event::Live>(&said.what)) complete(live->from);
    if (auto* finalized = std::get_if<Event::Finalized>(&said.what)) {
      rank_is_over(said.rank);
      complete(finalized->from);
    }
    reporter_.happened(said);
  };
  calls.log = [this](const std::string& line) { reporter_.log_line(line); };
  calls.snapshot_due = [this](bool waits) { journal_grown(waits); };
  calls.not_frozen = [this](std::uint32_t rank, const Message& message) {
    not_frozen(rank, message);
  };
  calls.fault = [this](std::uint32_t rank, const Message& message) {
    faults_[rank] = fault_report(rank, message);
  };
  calls.input_mark = [this](std::uint64_t mark, int in_pipe) { input_.mark(mark, in_pipe); };
  calls.committed = [this](std::uint64_t version, bool kept) {
    if (checkpoints_ && kept) offer(version);
    happened(0, Event::Committed{version});
  };
  return calls;
}

void Agent::on_registered_ended(std::uint32_t rank) {
  if (!processes_.program_is_dead(rank)) return;
  connections_.read_all(rank);
  const std::optional<Cause> cause = processes_.take_registered_end(rank);
  if (!cause) return;
  feed(rank, AgentEvent::RegisteredEnded{*cause});
  // If that was no death, the parent process continues, and its output is shown.
  loop_.post([this, rank] {
    if (!processes_.killed(rank)) outputs_.show_late(rank);
  });
}

void Agent::on_keeper_ended(std::uint32_t rank) {
  const std::optional<Cause> cause = processes_.take_keeper_end(rank);
  if (cause) feed(rank, AgentEvent::KeeperEnded{*cause});
}

void Agent::act(std::uint32_t rank, const AgentAction::Welcome& action) {
  auto process = connections_.welcome(action.connection, rank, incarnations_[rank],
                                      segment_.descriptor(), processes_.standard(rank));
  if (!process) return;
  processes_.registered(rank, process->pid, std::move(process->process));
  happened(rank, Event::Registered{process->pid});
}

// A job that resumes from a version does not print again what was printed before it. Therefore that
// output is shown before the version can be in the directory.
void Agent::offer(std::uint64_t version) {
  for (const std::uint32_t r : plan_.local) outputs_.read_all(r);
  to_offer_ = std::max(to_offer_, version);
}

// The supervisor's idle() writes the output that was read before; it runs before the action that is
// posted here.
void Agent::offer_when_shown() {
  if (to_offer_ == 0) return;
  loop_.post([this, version = std::exchange(to_offer_, 0)] { checkpoints_->offer(version); });
}

void Agent::tell_checkpoint_news() {
  for (const std::string& line : checkpoints_->news()) reporter_.tell(line);
  remove_superseded_sets();
}

void Agent::report_unfired() {
  const engine::SegmentHeader* header = segment_.header();
  for (std::uint32_t i = 0; i < header->faults && !stopping_; ++i) {
    if (header->fault[i].fired.load() != 0) continue;
    const std::uint32_t rank = header->fault[i].rank;
    happened(rank, Event::Unfired{to_text(plan_.options.kills[i]), segment_.position(rank)});
  }
}

// --- Periodic looks

void Agent::look_around() {
  look_timer_.set(loop_.now_ns() + kLookEveryNs);
  totals_.journal_peak_bytes = std::max(totals_.journal_peak_bytes, segment_.backed_bytes());
  look_at_wakes();
  look_for_checkpoints();
  look_at_recoveries();
  look_for_standstill();
}

void Agent::look_at_recoveries() {
  for (const std::uint32_t r : plan_.local) {
    const engine::RankControl* c = engine::control_of(segment_.base(), r);
    if (incarnations_[r] == 0 || c->incarnation.load() != incarnations_[r]) continue;
    if (core_.dying(r) || c->initialized.load() == 2) continue;
    const Position position = segment_.position(r);
    if (!position.live) happened(r, Event::CatchingUp{position});
  }
}

Look Agent::look() const {
  using Presence = RankLook::Presence;
  constexpr auto kAcquire = std::memory_order_acquire;
  Look look(plan_.ranks);
  bool everybody = true;
  for (const std::uint32_t r : plan_.local) {
    const engine::RankControl* c = engine::control_of(segment_.base(), r);
    const std::uint32_t initialized = c->initialized.load(kAcquire);
    look[r].incarnation = c->incarnation.load(kAcquire);
    look[r].ordinal = c->ordinal.load(kAcquire);
    look[r].context = c->context.load(kAcquire);
    look[r].sequence = c->sequence.load(kAcquire);
    look[r].asleep = segment_.header()->asleep[r].load(kAcquire) != 0;
    look[r].bell = c->bell.load(kAcquire) != 0;
    if (initialized == 2 && !core_.dying(r)) look[r].presence = Presence::kLeft;
    if (initialized == 1 && core_.running(r)) look[r].presence = Presence::kPresent;
    everybody = everybody && (look[r].asleep || look[r].presence == Presence::kLeft);
  }
  // The kernel is asked only if every rank seems to sleep.
  for (const std::uint32_t r : plan_.local) {
    if (!everybody) break;
    if (look[r].presence != Presence::kPresent) continue;
    const pid_t pid = processes_.pid_of(r);
    look[r].process_state = state_letter(pid);
    const auto& may_call = engine::control_of(segment_.base(), r)->threads_may_call;
    look[r].threads_may_call = may_call.load(kAcquire) != 0 && threads_of(pid) > 1;
  }
  return look;
}

// Called when the messages and the ends of ranks so far have been handled.
void Agent::look_for_standstill() {
  if (!standstill_.judge(look(), loop_.now_ns()).empty()) return;
  look_timer_.clear();
  // A replay that blocks before it has repeated everything has diverged: a rank that repeats its
  // first execution never waits there.
  for (const std::uint32_t r : plan_.local) {
    const auto& repeating = engine::control_of(segment_.base(), r)->repeating;
    if (repeating.load(std::memory_order_acquire) == 0) continue;
    return happened(
        r, Event::Deadlock{
               "the replay of rank " + std::to_string(r) +
               " waits for an event that did not occur in the first execution. The program is not "
               "deterministic, given what it receives; see docs/fault-model.md"});
  }
  happened(0, Event::Deadlock{});
}

// --- Reports

void Agent::happened(std::uint32_t rank, decltype(Event::what) what) {
  reporter_.happened({loop_.now_ns(), rank, std::move(what)});
}

}  // namespace rejoin::launcher
