#include "launcher/agent/agent_core.h"

#include <utility>

namespace rejoin::launcher {

using Kind = AgentAction::Kind;

namespace {

Cause from_shell(Cause cause) {
  if (cause.kind == Cause::Kind::kExit && cause.value > 128) {
    return {Cause::Kind::kSignal, cause.value - 128};
  }
  return cause;
}

}  // namespace

AgentCore::AgentCore(std::uint32_t ranks) : ranks_(ranks) {}

std::vector<AgentAction> AgentCore::step(const AgentEvent& e) {
  actions_.clear();
  Rank& r = ranks_[e.rank];
  switch (e.kind) {
    case AgentEvent::Kind::kSpawned:
      r = Rank{};
      r.state = State::kRunning;
      r.child = e.pid;
      break;
    case AgentEvent::Kind::kRegister:
      on_register(e);
      break;
    case AgentEvent::Kind::kInitialized:
      r.initialized = true;
      break;
    case AgentEvent::Kind::kFinalized:
      r.finalized = true;
      break;
    case AgentEvent::Kind::kChildEnded:
      on_child_ended(e);
      break;
    case AgentEvent::Kind::kRegisteredEnded:
      on_registered_ended(e);
      break;
    case AgentEvent::Kind::kTreeGone:
      if (r.state == State::kDying) report(e.rank);
      break;
    case AgentEvent::Kind::kOutputEnded:
      if (r.state == State::kLingering) report(e.rank);
      break;
  }
  return std::move(actions_);
}

void AgentCore::on_register(const AgentEvent& e) {
  Rank& r = ranks_[e.rank];
  if (r.state != State::kRunning || r.finalized) {
    act(Kind::kRefuse, e.rank, e.connection,
        "rank " + std::to_string(e.rank) + " has ended or called MPI_Finalize already");
    return;
  }
  // The same process may come again: it was loaded, then replaced itself by exec.
  const bool taken = r.registered != 0 && !r.registered_over;
  if (taken && (r.registered != e.pid || r.initialized)) {
    act(Kind::kRefuse, e.rank, e.connection,
        "process " + std::to_string(r.registered) + " is rank " + std::to_string(e.rank) +
            " already; only one process of a rank can call MPI_Init");
    return;
  }
  r.registered = e.pid;
  r.registered_over = false;
  act(Kind::kWelcome, e.rank, e.connection);
}

void AgentCore::on_child_ended(const AgentEvent& e) {
  Rank& r = ranks_[e.rank];
  r.child_over = true;
  r.child_cause = e.cause;
  if (r.state != State::kRunning) return;
  const bool somebody_else = r.registered != 0 && r.registered != r.child;
  // A shell that left its program in the background: the program is the rank from now on.
  if (somebody_else && !r.registered_over && !stopping_) return;
  ended(e);
}

void AgentCore::on_registered_ended(const AgentEvent& e) {
  Rank& r = ranks_[e.rank];
  r.registered_over = true;
  if (r.state != State::kRunning) return;
  AgentEvent end = e;
  // A shell exits with its program's exit code, or with 128 + the signal.
  if (end.cause.kind == Cause::Kind::kUnknown && r.child_over)
    end.cause = from_shell(r.child_cause);
  const bool exited = end.cause.kind == Cause::Kind::kExit;
  const bool clean = r.finalized ? exited || end.cause.kind == Cause::Kind::kUnknown
                                 : exited && end.cause.value == 0 && !r.initialized;
  // If it went well its parent goes on, and the parent's exit code will be the rank's.
  if (!clean || r.child_over) ended(end);
}

void AgentCore::ended(const AgentEvent& e) {
  Rank& r = ranks_[e.rank];
  r.cause = e.cause;
  r.ended_at_ns = e.at_ns;
  const bool exited = e.cause.kind == Cause::Kind::kExit;
  const bool well = exited && (r.finalized || (e.cause.value == 0 && !r.initialized));
  if (well && !stopping_) {
    r.state = State::kLingering;
    act(Kind::kAwaitOutput, e.rank);
  } else {
    r.state = State::kDying;
    act(Kind::kKillTree, e.rank);
  }
}

void AgentCore::report(std::uint32_t rank) {
  Rank& r = ranks_[rank];
  r.state = State::kEnded;
  act(Kind::kDrain, rank);
  act(Kind::kReportEnded, rank);
  actions_.back().cause = r.cause;
  actions_.back().at_ns = r.ended_at_ns;
}

std::vector<AgentAction> AgentCore::spawn(std::uint32_t rank) {
  actions_.clear();
  act(Kind::kAdmit, rank);
  act(Kind::kSpawn, rank);
  return std::move(actions_);
}

std::vector<AgentAction> AgentCore::respawn(std::uint32_t rank) {
  actions_.clear();
  act(Kind::kPublishDeath, rank);
  act(Kind::kRingAll, rank);
  act(Kind::kAdmit, rank);
  act(Kind::kSpawn, rank);
  return std::move(actions_);
}

std::vector<AgentAction> AgentCore::stop() {
  actions_.clear();
  stopping_ = true;
  for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
    Rank& r = ranks_[i];
    if (r.state == State::kIdle) r.state = State::kEnded;
    if (r.state != State::kRunning && r.state != State::kLingering) continue;
    if (!r.child_over) {
      act(Kind::kTerminate, i);
    } else {
      // Only its child's end would have been noticed.
      r.state = State::kDying;
      act(Kind::kKillTree, i);
    }
  }
  return std::move(actions_);
}

std::vector<AgentAction> AgentCore::kill_all() {
  actions_.clear();
  for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
    Rank& r = ranks_[i];
    if (r.state != State::kRunning && r.state != State::kLingering) continue;
    r.state = State::kDying;
    r.cause = Cause{Cause::Kind::kSignal, 9};
    act(Kind::kKillTree, i);
  }
  return std::move(actions_);
}

void AgentCore::give_up(std::uint32_t rank) { ranks_[rank].state = State::kEnded; }

bool AgentCore::all_over() const {
  for (const Rank& r : ranks_) {
    if (r.state != State::kEnded) return false;
  }
  return true;
}

void AgentCore::act(AgentAction::Kind kind, std::uint32_t rank, int connection, std::string text) {
  actions_.push_back({kind, rank, connection, std::move(text), 0, {}});
}

}  // namespace rejoin::launcher
