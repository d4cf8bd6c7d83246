#include "agent.h"

#include <algorithm>
#include <utility>

#include "journal/contexts.h"

namespace rejoin::sim {

using engine::Mutant;
using launcher::AgentAction;
using launcher::AgentEvent;
using launcher::Cause;
using launcher::Event;
using wire::MessageType;
using CoreAction = launcher::Action;

void Agent::begin(engine::Simulation& simulation) {
  simulation_ = &simulation;
  supervisor_ = launcher::SupervisorCore(options_);
  core_ = launcher::AgentCore(launcher::all_local(options_.ranks()));
  core_.leave_out(left_out_);
  processes_.clear();
  connections_.clear();
  images_.clear();
  next_snapshot_ = snapshot_every_turns_;
  progress_then_ = 0;
  ranks_.assign(options_.ranks(), Rank());
  coming_.clear();
  first_coming_ = kNever;
  queue_.clear();
  actions_.clear();
  not_before_ = 0;
  rung_ = 0;
  ringing_ = false;
  put_off_.clear();
  why_.clear();
  pending_set_ = late_set_ = 0;
  is_late_ = false;
  back_as_ = 0;
  times_back_ = 0;
  all_over_said_ = lost_ = asked_ = false;
  for (std::uint32_t r = 0; r < options_.ranks(); ++r) queue_.push_back(Spawn{r});
}

std::uint64_t Agent::due() const {
  if (!actions_.empty() || !queue_.empty()) return not_before_;
  if (asked_) return not_before_;
  const std::uint64_t snapshot = snapshot_due() ? next_snapshot_ : kNever;
  const std::uint64_t next = std::min(first_coming_, snapshot);
  return next == kNever ? kNever : std::max(next, not_before_);
}

// Handles at most one occurrence, after all pending actions. Then carries out actions until one of
// them is visible to other processes.
void Agent::turn() {
  bool took = false;
  for (bool seen = false; !seen;) {
    if (!actions_.empty()) {
      const auto carry = [this](auto& action) { return carry_out_next(action); };
      seen = std::visit(carry, actions_.front());
    } else if (!queue_.empty()) {
      decide();
    } else if (core_.all_over() && !std::exchange(all_over_said_, true)) {
      happened(0, Event::AllOver{0, {}});
      push_front(core_.end_images());
    } else if (std::exchange(asked_, false)) {
      push_front(core_.want_snapshots(launcher::SnapshotRound::kTogether));
      if (actions_.empty()) break;
    } else if (snapshot_due() && next_snapshot_ <= simulation_->time()) {
      next_snapshot_ = simulation_->time() + snapshot_every_turns_;
      progress_then_ = progress();
      const bool truncates = checkpoints_ && simulation_->random().one_in(2);
      push_front(core_.want_snapshots(truncates ? launcher::SnapshotRound::kToTruncate
                                                : launcher::SnapshotRound::kTogether));
      if (actions_.empty()) break;
    } else if (!took && !coming_.empty()) {
      take_coming();
      took = true;
      seen = simulation_->random().one_in(4);  // before the core decides what to do
    } else {
      break;
    }
  }
  // There are no delays between rings, which would only make large jobs slow.
  not_before_ = !ringing_ && simulation_->random().one_in(2) ? some_time() : 0;
  constexpr std::uint64_t kLateTurns = 400;
  if (std::exchange(is_late_, false)) {
    not_before_ = simulation_->time() + simulation_->random().below(kLateTurns);
  }
}

std::uint64_t Agent::some_time() {
  return simulation_->time() +
         simulation_->random().below(simulation_->options().agent_delay_turns + 1);
}

// --- What has happened

void Agent::expect(Coming coming) {
  coming.due = some_time();
  first_coming_ = std::min(first_coming_, coming.due);
  coming_.push_back(std::move(coming));
}

void Agent::on_message(std::uint32_t process, const engine::SimMessage& message) {
  Process& p = processes_[process];
  if (p.over) return;
  if (message.type == MessageType::kFinalized) p.finalized = true;
  expect({Coming::Kind::kMessage, process, 0, message});
}

void Agent::on_end(std::uint32_t process, const engine::SimEnd& end) {
  Process& p = processes_[process];
  if (std::exchange(p.over, true)) return;
  if (p.woken && !p.registered && end.signal == 0)
    return;  // this process was refused, so it was never the child
  p.cause = end.signal != 0 ? Cause{Cause::Kind::kSignal, end.signal}
                            : Cause{Cause::Kind::kExit, end.code};
  if (p.registered && simulation_->options().behind_shell && !p.woken) {
    expect({Coming::Kind::kRegisteredEnded, process, 0});
  }
  expect({Coming::Kind::kChildEnded, process, 0});
}

// Chooses any occurrence that is due, or the next one if none is; of messages of one process the
// first.
std::size_t Agent::next_coming() {
  const std::uint64_t now = std::max(simulation_->time(), first_coming_);
  std::size_t chosen = 0;
  std::uint32_t seen = 0;
  for (std::size_t i = 0; i < coming_.size(); ++i) {
    if (coming_[i].due <= now && simulation_->random().one_in(++seen)) chosen = i;
  }
  if (coming_[chosen].kind != Coming::Kind::kMessage) return chosen;
  for (std::size_t i = 0; i < chosen; ++i) {
    const bool before = coming_[i].kind == Coming::Kind::kMessage &&
                        coming_[i].process == coming_[chosen].process &&
                        coming_[i].second == coming_[chosen].second;
    if (before) return i;
  }
  return chosen;
}

void Agent::set_first_coming() {
  first_coming_ = kNever;
  for (const Coming& c : coming_) first_coming_ = std::min(first_coming_, c.due);
}

void Agent::take_coming() {
  const std::size_t i = next_coming();
  const Coming coming = std::move(coming_[i]);
  coming_.erase(coming_.begin() + static_cast<std::ptrdiff_t>(i));
  const std::uint64_t now = simulation_->time();
  set_first_coming();
  if (coming.kind >= Coming::Kind::kImage) return take_image_coming(coming);
  const Process& p = processes_[coming.process];
  switch (coming.kind) {
    case Coming::Kind::kMessage:
      read(coming);
      break;
    case Coming::Kind::kRegisteredEnded:
      read_all(coming.process);
      queue_.push_back(AgentEvent{p.rank, now, AgentEvent::RegisteredEnded{Cause()}});
      break;
    case Coming::Kind::kChildEnded: {
      read_all(coming.process);
      // The image has not reported this clone yet.
      if (p.woken && core_.waking(p.rank)) {
        expect(coming);
        return;
      }
      // The image never will, and the process is unknown to the core.
      if (p.woken && core_.child(p.rank) != pid(coming.process)) return;
      const Cause cause = cause_of_child(p);
      ranks_[p.rank].child_over = true;
      queue_.push_back(AgentEvent{p.rank, now, AgentEvent::ChildEnded{cause}});
      if (ranks_[p.rank].dying) expect({Coming::Kind::kTreeGone, coming.process, 0});
      break;
    }
    case Coming::Kind::kTreeGone:
      ranks_[p.rank].dying = false;
      queue_.push_back(AgentEvent{p.rank, now, AgentEvent::TreeGone{}});
      break;
    case Coming::Kind::kOutputEnded:
      queue_.push_back(AgentEvent{p.rank, now, AgentEvent::OutputEnded{}});
      break;
    default:
      break;
  }
  set_first_coming();
}

// A shell reports its program's death as an exit code. If the program is unknown or has called
// MPI_Finalize, that code could not be distinguished from an exit code of the program itself; in
// these cases the shell dies, too.
Cause Agent::cause_of_child(const Process& p) const {
  const bool shell = simulation_->options().behind_shell && !p.woken;
  const bool exits = shell && p.registered && !p.finalized;
  if (!exits || p.cause.kind != Cause::Kind::kSignal) return p.cause;
  return {Cause::Kind::kExit, 128 + p.cause.value};
}

// Reads the messages that the process sent before it ended. A registration may be read later,
// because its connection belongs to no rank yet.
void Agent::read_all(std::uint32_t process) {
  constexpr std::uint32_t kLaterTurns = 100;
  for (std::size_t i = 0; i < coming_.size();) {
    Coming& c = coming_[i];
    if (c.kind != Coming::Kind::kMessage || c.process != process) {
      ++i;
    } else if (c.message.type == MessageType::kRegister && simulation_->random().one_in(2)) {
      c.due = simulation_->time() + simulation_->random().below(kLaterTurns);
      ++i;
    } else {
      const Coming coming = std::move(c);
      coming_.erase(coming_.begin() + static_cast<std::ptrdiff_t>(i));
      read(coming);
    }
  }
}

// Does the same as on_message() of the real driver.
void Agent::read(const Coming& coming) {
  const Process& p = processes_[coming.process];
  const engine::SimMessage& m = coming.message;
  if (m.type == MessageType::kRegister || m.type == MessageType::kWoken) {
    return read_registration(coming);
  }
  if (p.incarnation != core_.incarnation(p.rank)) return;
  if (m.type == MessageType::kJournalStep) {
    journal::header_of(base_)->notices.add(journal::kAgentStores, journal::Step::kNotice, 1);
    return;
  }
  if (m.type == MessageType::kSnapshotDue) {
    asked_ = options_.journal_limit_bytes != 0;
    return;
  }
  if (m.type == MessageType::kNotFrozen) {
    queue_.push_back(
        AgentEvent{p.rank, simulation_->time(), AgentEvent::NotFrozen{m.value, m.text.empty()}});
    return;
  }
  const std::uint64_t now = simulation_->time();
  switch (m.type) {
    case MessageType::kInitialized:
      queue_.push_back(AgentEvent{p.rank, now, AgentEvent::Initialized{}});
      return happened(p.rank, Event::Initialized{});
    case MessageType::kFinalized:
      queue_.push_back(AgentEvent{p.rank, now, AgentEvent::Finalized{}});
      return happened(p.rank, Event::Finalized{position(p.rank), {}, 0});
    case MessageType::kLive:
      queue_.push_back(AgentEvent{p.rank, now, AgentEvent::Live{}});
      return happened(p.rank, Event::Live{m.value, {}, 0});
    case MessageType::kLimit:
      return happened(p.rank, Event::JournalFull{});
    case MessageType::kDiverged:
      if (p.incarnation != 0 && p.incarnation == ranks_[p.rank].back_as) {
        simulation_->fail("L7: a rank that went back, and has not died since, diverges");
      }
      return happened(p.rank, Event::Diverged{m.text});
    default:
      return happened(p.rank, Event::Notice{m.text, m.value});
  }
}

void Agent::read_registration(const Coming& coming) {
  const Process& p = processes_[coming.process];
  if (p.over) {
    if (ranks_[p.rank].process != coming.process) probes_.hit(Probe::kRegisteredLate);
    // The registration is void, whether it came from a former incarnation or not: a process that
    // has ended cannot become the rank.
    if (!breaks(Mutant::kHearsTheDead)) return;
  }
  const auto connection = static_cast<int>(connections_.size());
  connections_.push_back({coming.process, coming.second, false});
  const std::int64_t by = pid(coming.process) + (coming.second ? 1'000'000 : 0);
  AgentEvent asks{p.rank, simulation_->time(), AgentEvent::Registers{by, connection}};
  if (coming.message.type == MessageType::kWoken) {
    asks.what = AgentEvent::Woken{by, connection, p.incarnation};
  }
  queue_.push_back(asks);
}

// --- What is done about it

void Agent::decide() {
  const Occurrence next = std::move(queue_.front());
  queue_.pop_front();
  if (const auto* agent_event = std::get_if<AgentEvent>(&next)) {
    push_front(core_.step(*agent_event));
  } else if (const auto* event = std::get_if<Event>(&next)) {
    Event e = *event;
    auto* ended = std::get_if<Event::Ended>(&e.what);
    const bool well = ended != nullptr && ended->cause.same_as({Cause::Kind::kExit, 0});
    if (breaks(Mutant::kRestartsFinalized) && well) ended->cause = {Cause::Kind::kSignal, 9};
    for (CoreAction& action : supervisor_.step(e)) {
      actions_.emplace_back(std::in_place_type<CoreAction>, std::move(action));
    }
  } else if (!supervisor_.stopping()) {
    push_front(core_.spawn(std::get<Spawn>(next).rank));
  }
}

void Agent::push_front(std::vector<AgentAction> actions) {
  actions_.insert(actions_.begin(), std::make_move_iterator(actions.begin()),
                  std::make_move_iterator(actions.end()));
}

bool Agent::carry_out_next(AgentAction& a) {
  // These two actions take several turns.
  if (std::holds_alternative<AgentAction::PublishDeath>(a.what) && !publish(a.rank)) return true;
  if (std::holds_alternative<AgentAction::RingAll>(a.what) && !ring_next()) return true;
  // Another host hears of the set only now.
  const auto* want = std::get_if<AgentAction::Want>(&a.what);
  if (want != nullptr && has_not_heard(a.rank, want->number) && want->number != late_set_) {
    late_set_ = want->number;
    is_late_ = true;
    return true;
  }
  const AgentAction action = std::move(a);
  actions_.pop_front();
  seen_ = true;
  carry_out(action);
  return seen_;
}

void Agent::act(std::uint32_t rank, const AgentAction::Terminate&) { kill_tree(rank); }

void Agent::act(std::uint32_t rank, const AgentAction::KillTree&) { kill_tree(rank); }

void Agent::act(std::uint32_t rank, const AgentAction::AwaitOutput&) {
  expect({Coming::Kind::kOutputEnded, ranks_[rank].process, 0});
  seen_ = false;
}

void Agent::act(std::uint32_t rank, const AgentAction::Admit&) {
  if (breaks(Mutant::kJournalLost)) simulation_->lose_journal(rank);
  journal::admit(base_, rank, core_.incarnation(rank));
}

bool Agent::carry_out_next(CoreAction& a) {
  const CoreAction action = std::move(a);
  actions_.pop_front();
  if (const auto* respawn = std::get_if<CoreAction::Respawn>(&action.what)) {
    push_front(mutated(core_.respawn(respawn->rank, respawn->incarnation)));
  } else if (const auto* back = std::get_if<CoreAction::RollBack>(&action.what)) {
    back_as_ = back->incarnation;
    if (core_.has_set()) {
      push_front(core_.roll_back(back->incarnation));
    } else {
      happened(0, Event::NoSet{});
    }
  } else if (std::holds_alternative<CoreAction::Wake>(action.what)) {
    push_front(core_.wake());
  } else if (std::holds_alternative<CoreAction::LetRecycle>(action.what)) {
    journal::let_recycle(base_, journal::Recycles::kAll);
  } else if (std::holds_alternative<CoreAction::Stop>(action.what)) {
    why_.clear();  // the next text is the reason
    push_front(core_.stop());
  } else if (std::holds_alternative<CoreAction::KillNow>(action.what)) {
    push_front(core_.kill_all());
  } else if (const auto* tell = std::get_if<CoreAction::Tell>(&action.what)) {
    if (why_.empty() || !supervisor_.stopping()) why_ = tell->text;
  } else if (const auto* finish = std::get_if<CoreAction::Finish>(&action.what)) {
    simulation_->finish(finish->code, why_);
    return true;
  }
  return false;
}

void Agent::happened(std::uint32_t rank, decltype(Event::what) what) {
  queue_.push_back(Event{simulation_->time(), rank, std::move(what)});
}

// The actions of a respawn are: publish the death, ring all ranks, admit, spawn.
std::vector<AgentAction> Agent::mutated(std::vector<AgentAction> actions) {
  const auto publishes = [](const AgentAction& a) {
    return std::holds_alternative<AgentAction::PublishDeath>(a.what);
  };
  const auto rings = [](const AgentAction& a) {
    return std::holds_alternative<AgentAction::RingAll>(a.what);
  };
  if (breaks(Mutant::kRespawnBeforeBreak)) {
    std::copy_if(actions.begin(), actions.end(), std::back_inserter(put_off_), publishes);
    std::copy_if(actions.begin(), actions.end(), std::back_inserter(put_off_), rings);
    std::erase_if(actions, publishes);
    std::erase_if(actions, rings);
  }
  if (breaks(Mutant::kSilentDeath)) std::erase_if(actions, rings);
  if (breaks(Mutant::kNoEpoch)) std::erase_if(actions, publishes);
  return actions;
}

// Returns false if only the first half is done.
bool Agent::publish(std::uint32_t rank) {
  bool& half = ranks_[rank].half_broken;
  if (simulation_->options().split_death && !half) {
    // This is the first half of publish_death(). The whole function follows later.
    half = true;
    const std::uint32_t epoch = journal::header_of(base_)->epoch.load() + 1;
    journal::control_of(base_, rank)
        ->death_epoch.store(journal::kAgentStores, journal::Step::kDeath, epoch);
    return false;
  }
  half = false;
  journal::publish_death(base_, rank);
  simulation_->note_agent(rank, "death is published");
  return true;
}

// Returns whether this was the last rank.
bool Agent::ring_next() {
  simulation_->wake(rung_++);
  ringing_ = rung_ < options_.ranks();
  if (!ringing_) rung_ = 0;
  return !ringing_;
}

void Agent::spawn(std::uint32_t rank) {
  Rank& r = ranks_[rank];
  const std::uint32_t incarnation = core_.incarnation(rank);
  if (r.kept != kNone) simulation_->fail("S1: main is started, but it was truncated behind images");
  r.process = simulation_->start(rank, incarnation);
  r.dying = r.child_over = r.lost_unregistered = false;
  processes_.push_back({rank, incarnation});
  core_.step({rank, simulation_->time(), AgentEvent::Spawned{child(r.process)}});
  happened(rank, Event::Started{child(r.process)});
}

std::int64_t Agent::child(std::uint32_t process) const {
  const bool shell = simulation_->options().behind_shell && !processes_[process].woken;
  return pid(process) + (shell ? 1 : 0);
}

void Agent::act(std::uint32_t rank, const AgentAction::Welcome& action) {
  answer(rank, connections_[static_cast<std::size_t>(action.connection)], true);
}

void Agent::act(std::uint32_t rank, const AgentAction::Refuse& action) {
  const Connection& connection = connections_[static_cast<std::size_t>(action.connection)];
  if (!connection.image) return answer(rank, connection, false);
  simulation_->note_agent(rank, "is refused");
  simulation_->end_image(connection.process);
}

void Agent::answer(std::uint32_t rank, const Connection& connection, bool welcome) {
  Process& p = processes_[connection.process];
  simulation_->note_agent(rank, welcome ? "is welcomed" : "is refused");
  if (connection.second) {
    if (!welcome) probes_.hit(Probe::kSecondRefused);
    welcome = welcome || breaks(Mutant::kWelcomesTwo);
    if (welcome && !p.over) simulation_->fail("I6: a second process is welcomed as a living rank");
  } else if (!welcome) {
    simulation_->refuse(connection.process);
  } else {
    p.registered = true;
    if (p.over) {
      probes_.hit(Probe::kDiedRegistering);
      if (simulation_->options().behind_shell && !p.woken) {
        expect({Coming::Kind::kRegisteredEnded, connection.process, 0});
      }
    }
    simulation_->welcome(connection.process);
    push_front(std::exchange(put_off_, {}));
    if (!p.over && simulation_->options().second_process && simulation_->random().one_in(2)) {
      expect({Coming::Kind::kMessage, connection.process, 0, {MessageType::kRegister}, true});
    }
  }
  if (!welcome) return;
  happened(rank, Event::Registered{pid(connection.process)});
}

void Agent::kill_tree(std::uint32_t rank) {
  Rank& r = ranks_[rank];
  simulation_->note_agent(rank, "its tree is killed");
  r.dying = true;
  simulation_->kill(r.process);
  if (r.child_over) expect({Coming::Kind::kTreeGone, r.process, 0});
}

// Closes the registered connections; unread messages in them are lost.
void Agent::act(std::uint32_t rank, const AgentAction::Drain&) {
  seen_ = false;
  std::erase_if(coming_, [&](const Coming& c) {
    if (c.kind >= Coming::Kind::kImage) return false;
    const Process& p = processes_[c.process];
    if (p.rank != rank || !p.registered) return false;
    return c.kind == Coming::Kind::kRegisteredEnded ||
           (c.kind == Coming::Kind::kMessage && c.message.type != MessageType::kRegister);
  });
  set_first_coming();
}

void Agent::act(std::uint32_t rank, const AgentAction::ReportEnded& action) {
  seen_ = false;
  queue_.push_back(
      Event{action.at_ns, rank, Event::Ended{action.cause, position(rank), {}, {}, {}}});
}

launcher::Position Agent::position(std::uint32_t rank) const {
  const journal::RankControl* c = journal::control_of(base_, rank);
  launcher::Position p;
  p.ordinal = c->ordinal.load();
  p.live = c->live_since.load() != 0;
  p.replayed = c->replayed.load();
  if (p.ordinal == 0) return p;
  p.context = c->context.load();
  p.sequence = c->sequence.load();
  p.inside = c->phase.load() == journal::Phase::kInside;
  return p;
}

}  // namespace rejoin::sim
