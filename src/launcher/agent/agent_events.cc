// What happens on this host, told to the core and to the supervisor.
#include <cstring>

#include "launcher/agent/agent.h"

namespace rejoin::launcher {
namespace {

using wire::Message;
using wire::MessageType;

constexpr std::uint64_t kLookEveryNs = 200'000'000;
const char* const kStreamNames[] = {"standard output", "standard error"};

}  // namespace

RankOutputs::Calls Agent::output_calls() {
  RankOutputs::Calls calls;
  calls.show = [this](int stream, std::string bytes) {
    Report shown;
    shown.mutable_output()->set_stream(static_cast<std::uint32_t>(stream));
    shown.mutable_output()->set_bytes(std::move(bytes));
    send_(std::move(shown));
  };
  // A shell learns of its program's death when we do, and may say something before it is killed.
  calls.is_late = [this](std::uint32_t rank) {
    if (processes_.killed(rank)) return true;
    const auto* control = engine::control_of(segment_.base(), rank);
    const bool orderly = control->initialized.load(std::memory_order_relaxed) == 2;
    return !orderly && processes_.program_is_dead(rank);
  };
  calls.ended = [this](std::uint32_t rank) {
    feed({AgentEvent::Kind::kOutputEnded, rank, loop_.now_ns()});
  };
  calls.differs = [this](std::uint32_t rank, int stream) {
    Event notice = event(Event::Kind::kNotice, rank);
    notice.text = std::string("its replay did not print the same to ") + kStreamNames[stream] +
                  " as the first time; what was printed first stands";
    report(notice);
  };
  return calls;
}

Processes::Calls Agent::process_calls() {
  Processes::Calls calls;
  calls.feed = [this](const AgentEvent& event) { feed(event); };
  calls.before_end = [this](std::uint32_t rank) { connections_.read_all(rank); };
  calls.registered_ended = [this](std::uint32_t rank) { on_registered_ended(rank); };
  return calls;
}

Connections::Calls Agent::connection_calls() {
  Connections::Calls calls;
  calls.asks = [this](std::uint32_t rank, pid_t pid, int connection) {
    // What its predecessor said, and its end, came before.
    on_registered_ended(rank);
    feed({AgentEvent::Kind::kRegister, rank, loop_.now_ns(), pid, connection, {}});
  };
  calls.foreign = [this](std::uint32_t rank, const std::string& soname) {
    Event foreign = event(Event::Kind::kForeignAbi, rank);
    foreign.text = soname;
    report(foreign);
  };
  calls.says = [this](std::uint32_t rank, const Message& message) { on_message(rank, message); };
  return calls;
}

void Agent::on_registered_ended(std::uint32_t rank) {
  if (!processes_.program_is_dead(rank)) return;
  connections_.read_all(rank);
  const pid_t pid = processes_.pid_of(rank);
  const std::optional<Cause> cause = processes_.take_registered_end(rank);
  if (!cause) return;
  feed({AgentEvent::Kind::kRegisteredEnded, rank, loop_.now_ns(), pid, -1, *cause});
  // If that was no death, its parent goes on and what it prints is wanted.
  loop_.post([this, rank] {
    if (!processes_.killed(rank)) outputs_.show_late(rank);
  });
}

void Agent::welcome(const AgentAction& action) {
  auto process = connections_.welcome(action.connection, action.rank, incarnations_[action.rank],
                                      segment_.descriptor());
  if (!process) return;
  processes_.registered(action.rank, process->pid, std::move(process->process));
  Event registered = event(Event::Kind::kRegistered, action.rank);
  registered.pid = process->pid;
  report(registered);
}

void Agent::on_message(std::uint32_t rank, const Message& message) {
  Event said = event(Event::Kind::kNotice, rank);
  said.code = message.code;
  said.value = message.value;
  said.text = text_of(message);
  switch (message.type) {
    case MessageType::kInitialized:
      said.kind = Event::Kind::kInitialized;
      feed({AgentEvent::Kind::kInitialized, rank, said.at_ns});
      break;
    case MessageType::kFinalized:
      said.kind = Event::Kind::kFinalized;
      said.position = segment_.position(rank);
      feed({AgentEvent::Kind::kFinalized, rank, said.at_ns});
      break;
    case MessageType::kLive:
      said.kind = Event::Kind::kLive;
      break;
    case MessageType::kMark:
      outputs_.mark(rank, message.value);
      segment_.set_output_mark(rank, message.value);
      return;
    case MessageType::kCommitted:
      if (checkpoints_) checkpoints_->offer(message.value);
      return;
    case MessageType::kLog: {
      report_modules(said.text);
      Report line;
      line.set_log_line(said.text);
      send_(std::move(line));
      return;
    }
    case MessageType::kAbort:
      said.kind = Event::Kind::kAbort;
      break;
    case MessageType::kDiverged:
      said.kind = Event::Kind::kDiverged;
      break;
    case MessageType::kLimit:
      said.kind = Event::Kind::kLimit;
      break;
    case MessageType::kNotice:
      break;
    default:
      return;  // not for a rank to say
  }
  report(said);
}

void Agent::tell_checkpoint_news() {
  const std::string news = checkpoints_->news();
  if (news.empty()) return;
  Report told;
  told.set_tell("no checkpoint: " + news);
  send_(std::move(told));
}

void Agent::report_unfired() {
  const engine::SegmentHeader* header = segment_.header();
  for (std::uint32_t i = 0; i < header->faults && !stopping_; ++i) {
    if (header->fault[i].fired.load() != 0) continue;
    Event unfired = event(Event::Kind::kUnfired, header->fault[i].rank);
    unfired.text = to_text(plan_.faults[i]);
    unfired.position = segment_.position(unfired.rank);
    report(unfired);
  }
}

// --- Standstill

Look Agent::look() const {
  using Presence = RankLook::Presence;
  constexpr auto kAcquire = std::memory_order_acquire;
  Look look(plan_.ranks);
  bool everybody = true;
  for (std::uint32_t r = 0; r < plan_.ranks; ++r) {
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
  // Asked of the kernel only when it matters.
  for (std::uint32_t r = 0; r < plan_.ranks && everybody; ++r) {
    if (look[r].presence != Presence::kPresent) continue;
    look[r].process_state = state_letter(processes_.pid_of(r));
  }
  return look;
}

// What ranks have said and what has happened to them is dealt with by now.
void Agent::look_for_standstill() {
  look_timer_.set(loop_.now_ns() + kLookEveryNs);
  if (!standstill_.judge(look(), loop_.now_ns()).empty()) return;
  look_timer_.clear();
  report(event(Event::Kind::kDeadlock, 0));
}

// --- Reports

Event Agent::event(Event::Kind kind, std::uint32_t rank) const {
  return Event{kind, loop_.now_ns(), rank};
}

void Agent::report(const Event& event) {
  report_modules(event.text);
  report_modules(event.position.site);
  send_(to_report(event));
}

void Agent::report_modules(const std::string& text) {
  expand_sites(text, [this](std::uint32_t rank, std::uint32_t index, std::uint64_t) {
    const engine::ModuleEntry* module = segment_.module(rank, index);
    if (module == nullptr || !reported_modules_.insert({rank, index}).second) return std::string();
    Report report;
    report.mutable_module()->set_rank(rank);
    report.mutable_module()->set_index(index);
    report.mutable_module()->set_entry(module, sizeof *module);
    send_(std::move(report));
    return std::string();
  });
}

}  // namespace rejoin::launcher
