#include "launcher/agent/agent_core.h"

#include <signal.h>

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
      on_spawned(e);
      break;
    case AgentEvent::Kind::kWoken:
      on_woken(e);
      break;
    case AgentEvent::Kind::kImage:
      on_image(e);
      break;
    case AgentEvent::Kind::kNotFrozen:
      if (e.number == r.wanted) r.in_flight = false;
      break;
    case AgentEvent::Kind::kForked:
      if (r.state != State::kWaking || e.incarnation != r.incarnation) break;
      if (e.pid != 0) {
        adopt(e.rank, e.pid);
      } else {
        end_image(e.rank);
        r.why_lost = "its snapshot could not be cloned";
        start_again(e.rank);
      }
      break;
    case AgentEvent::Kind::kUseless:
      on_useless(e);
      break;
    case AgentEvent::Kind::kImageEnded:
      on_image_ended(e);
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
    case AgentEvent::Kind::kMoves:
      on_moves(e);
      break;
    case AgentEvent::Kind::kKeeperEnded:
      on_keeper_ended(e);
      break;
    case AgentEvent::Kind::kWrapperEnded:
      on_wrapper_ended(e);
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

void AgentCore::on_spawned(const AgentEvent& e) {
  Rank& r = ranks_[e.rank];
  const bool restoring = r.state == State::kRestoring;
  r = Rank{static_cast<const OfRank&>(r)};
  r.state = State::kRunning;
  r.child = e.pid;
  r.woken = r.restoring = restoring;
  r.wrapper_killed = {};
}

void AgentCore::on_register(const AgentEvent& e) {
  Rank& r = ranks_[e.rank];
  if (r.state != State::kRunning || r.finalized) {
    act(Kind::kRefuse, e.rank, e.connection,
        "rank " + std::to_string(e.rank) + " has ended or called MPI_Finalize already");
    return;
  }
  if ((r.restoring || r.unrestored) && holds(RestoreRule::kOnlyRestored)) {
    // The restorer did not register it: the program in that process has started from main.
    act(Kind::kRefuse, e.rank, e.connection, "it is not the written image that it was started for");
    return not_restored(e.rank, "its process did not become its written image");
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
  r.connection = e.connection;
  r.registered_over = false;
  act(Kind::kWelcome, e.rank, e.connection);
}

// --- Images

void AgentCore::on_image(const AgentEvent& e) {
  Rank& r = ranks_[e.rank];
  const bool current = e.incarnation == r.incarnation || !holds(ImageRule::kOfThisIncarnation);
  const bool wanted = (e.number == r.wanted || !holds(ImageRule::kNumberWanted)) &&
                      (r.in_flight || !holds(ImageRule::kOnlyInFlight));
  // An image that registers while its rank's tree is being killed may be killed with it.
  if (stopping_ || r.state != State::kRunning || !current || !wanted) {
    act(Kind::kRefuse, e.rank, e.connection, "this image comes too late");
    return;
  }
  r.in_flight = false;
  const Image former = r.image;
  if (!holds(ImageRule::kKeepFirst)) end_image(e.rank);
  if (former.pid == 0 || holds(ImageRule::kWakeKept)) {
    r.image = Image{e.pid, e.number, e.connection};
  }
  keep(e.rank, e.number, e.pid, e.connection);
  if (former.pid == 0 || !holds(ImageRule::kKeepFirst)) return;
  act(Kind::kEndImage, e.rank, former.connection);
  actions_.back().pid = former.pid;
}

void AgentCore::keep(std::uint32_t rank, std::uint64_t number, std::int64_t pid, int connection) {
  ranks_[rank].kept = number;
  act(Kind::kKeep, rank, connection);
  actions_.back().number = number;
  actions_.back().pid = pid;
}

void AgentCore::end_image(std::uint32_t rank) {
  const Image image = std::exchange(ranks_[rank].image, Image{});
  if (image.pid == 0) return;
  act(Kind::kEndImage, rank, image.connection);
  actions_.back().pid = image.pid;
}

void AgentCore::on_image_ended(const AgentEvent& e) {
  Rank& r = ranks_[e.rank];
  const bool kept = r.image.pid == e.pid;
  const bool coming = r.in_flight && e.number == r.wanted && holds(ImageRule::kEndedUnregistered);
  if (!kept && !coming) return;
  if (coming) r.in_flight = false;
  if (!stopping_ && holds(ImageRule::kAskAgain)) act(Kind::kAskImages, e.rank);
  if (!kept) return;
  if (holds(ImageRule::kForgetEnded)) r.image = {};
  r.why_lost = "its snapshot was lost";
  if (r.state == State::kWaking && holds(ImageRule::kDecideAgain)) start_again(e.rank);
}

// Restarts the rank from its image, from its written image, or from main while no image has allowed
// the truncation of what main needs. Reports kLost if none is possible.
void AgentCore::start_again(std::uint32_t rank) {
  Rank& r = ranks_[rank];
  if (r.image.pid != 0) {
    r.state = State::kWaking;
    act(Kind::kWake, rank, r.image.connection);
    actions_.back().pid = r.image.pid;
    actions_.back().number = r.image.number;
  } else if (r.written != 0 && (r.kept == r.written || !holds(RestoreRule::kIfKept))) {
    r.state = State::kRestoring;
    act(Kind::kRestore, rank);
    actions_.back().number = r.written;
  } else if (r.kept == 0 || !holds(ImageRule::kMainWhileNoneKept)) {
    act(Kind::kSpawn, rank);
  } else {
    r.state = State::kEnded;
    act(Kind::kLost, rank, -1, r.why_lost);
  }
}

void AgentCore::adopt(std::uint32_t rank, std::int64_t pid) {
  Rank& r = ranks_[rank];
  r = Rank{static_cast<const OfRank&>(r)};
  r.state = State::kRunning;
  r.child = pid;
  r.woken = true;
  act(Kind::kAdopt, rank);
  actions_.back().pid = pid;
}

// Only the clone of the newest wake is admitted, and once. Its message may arrive before the
// image's report of it.
void AgentCore::on_woken(const AgentEvent& e) {
  Rank& r = ranks_[e.rank];
  const bool current = e.incarnation == r.incarnation || !holds(ImageRule::kNewestWake);
  const bool newest = current && !stopping_;
  if (newest && r.state == State::kWaking) adopt(e.rank, e.pid);
  const bool first = (r.child == e.pid && r.registered == 0) || !holds(ImageRule::kAdmitOnce);
  if (newest && r.state == State::kRunning && r.woken && first) {
    r.registered = e.pid;
    r.restoring = r.restoring && !holds(RestoreRule::kUntilWelcome);
    act(Kind::kWelcome, e.rank, e.connection);
  } else {
    act(Kind::kRefuse, e.rank, e.connection, "this rank has gone on without it");
  }
}

void AgentCore::on_useless(const AgentEvent& e) {
  Rank& r = ranks_[e.rank];
  const bool waking = r.state == State::kWaking;
  const bool running = r.state == State::kRunning && r.woken && r.child == e.pid;
  act(Kind::kRefuse, e.rank, e.connection, "it cannot go on");
  if (e.incarnation != r.incarnation || (!waking && !running)) return;
  if (r.restoring && holds(RestoreRule::kEndsIfUseless)) return not_restored(e.rank, e.text);
  end_image(e.rank);
  r.why_lost = e.text;
  act(Kind::kNotice, e.rank, -1, "its snapshot cannot go on: " + e.text);
  if (waking) return start_again(e.rank);
  r.state = State::kDying;
  r.cause = Cause{Cause::Kind::kSignal, 9};
  r.ended_at_ns = e.at_ns;
  act(Kind::kKillTree, e.rank);
}

// The written image itself is at fault, so another attempt would fail in the same way.
void AgentCore::not_restored(std::uint32_t rank, const std::string& why) {
  Rank& r = ranks_[rank];
  if (std::exchange(r.unrestored, true) && holds(RestoreRule::kSaidOnce)) return;
  r.restoring = false;
  if (holds(RestoreRule::kNeverAgain)) r.written = 0;
  act(Kind::kLost, rank, -1, why);
}

std::vector<AgentAction> AgentCore::want_snapshots(SnapshotRound round) {
  actions_.clear();
  for (std::uint32_t i = 0; i < ranks_.size() && !stopping_; ++i) {
    Rank& r = ranks_[i];
    const bool finalized = r.finalized && holds(ImageRule::kNoneOfFinalized);
    if (running(i) && r.initialized && !finalized) want(i, round);
    if (round != SnapshotRound::kAtCheckpoint) r.at_half = 0;
  }
  return std::move(actions_);
}

// REQUIRES that the rank can make one now.
void AgentCore::want(std::uint32_t rank, SnapshotRound round) {
  Rank& r = ranks_[rank];
  const bool at_checkpoint = round == SnapshotRound::kAtCheckpoint;
  const bool repeat =
      r.in_flight && r.marked && !at_checkpoint && holds(ImageRule::kRepeatUnmarked);
  if (r.in_flight && !repeat && holds(ImageRule::kOneInFlight)) return;
  const bool heeds_period = round == SnapshotRound::kPeriodEnds || !holds(ImageRule::kAgainAtOnce);
  if (heeds_period && made_at_checkpoint(r) && holds(ImageRule::kOnceAPeriod)) return;
  if (!repeat || !holds(ImageRule::kSameNumber)) ++r.wanted;
  r.in_flight = true;
  r.marked = at_checkpoint || (r.marked && !holds(ImageRule::kRepeatOnce));
  if (at_checkpoint) r.at_half = r.wanted;
  act(Kind::kWant, rank);
  actions_.back().number = r.wanted;
  actions_.back().at_checkpoint = at_checkpoint;
  if (!holds(ImageRule::kFormerUntilThen)) end_image(rank);
  if (!holds(ImageRule::kKeepRegistered)) keep(rank, r.wanted, 0, -1);
}

bool AgentCore::all_made_at_checkpoint() const {
  for (const Rank& r : ranks_) {
    if (!made_at_checkpoint(r) && !r.finalized) return false;
  }
  return true;
}

std::vector<AgentAction> AgentCore::end_images() {
  actions_.clear();
  for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
    ranks_[i].in_flight = false;
    end_image(i);
  }
  return std::move(actions_);
}

void AgentCore::on_child_ended(const AgentEvent& e) {
  Rank& r = ranks_[e.rank];
  r.child_over = true;
  r.child_cause = e.cause;
  if (r.state != State::kRunning) return;
  const bool somebody_else = r.registered != 0 && r.registered != r.child;
  // A shell has left its program in the background: the program is the rank from now on.
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
  // If it ended well, its parent continues, and the parent's exit code will be the rank's.
  if (!clean || r.child_over) ended(end);
}

void AgentCore::ended(const AgentEvent& e) {
  Rank& r = ranks_[e.rank];
  // If it was killed from outside, it is restored again.
  const bool killed = e.cause.same_as({Cause::Kind::kSignal, SIGKILL});
  const bool forgiven = (killed && holds(RestoreRule::kNotIfKilled)) ||
                        (stopping_ && holds(RestoreRule::kNotIfStopping));
  if (r.restoring && !forgiven && holds(RestoreRule::kEndsIfEnded)) {
    not_restored(e.rank, "its written image could not be restored (" + to_text(e.cause) + ")");
  }
  r.cause = e.cause;
  r.ended_at_ns = e.at_ns;
  // Uses the exit code by which a shell reports a command that was killed.
  const Cause killed_script = script_killed(r);
  if (e.cause.same_as({Cause::Kind::kExit, 0}) && killed_script.kind == Cause::Kind::kSignal) {
    r.cause.value = 128 + killed_script.value;
    act(Kind::kNotice, e.rank, -1,
        "the script that started it died (" + to_text(killed_script) +
            "); what it had to do behind the program was not done");
  }
  const bool exited = e.cause.kind == Cause::Kind::kExit;
  const bool well = exited && (r.finalized || (e.cause.value == 0 && !r.initialized));
  if (well && !stopping_ && r.wrapper.pid != 0 && holds(WrapperRule::kRelease)) {
    r.state = State::kReleased;
    end_image(e.rank);
    act(Kind::kRelease, e.rank, r.wrapper.keeper);
    actions_.back().cause = e.cause;
  } else if (well && !stopping_) {
    r.state = State::kLingering;
    act(Kind::kAwaitOutput, e.rank);
  } else {
    r.state = State::kDying;
    act(Kind::kKillTree, e.rank);
    const bool spared = r.image.pid != 0 && !stopping_ && holds(WrapperRule::kSpareWithImage);
    if (!spared && holds(WrapperRule::kKillWithout)) kill_wrapper(e.rank);
  }
}

void AgentCore::report(std::uint32_t rank) {
  Rank& r = ranks_[rank];
  const bool well = r.state == State::kLingering;
  r.state = State::kEnded;
  if (holds(ImageRule::kOfThisIncarnation)) r.in_flight = false;
  const bool wrapped = r.wrapper.pid != 0 && holds(WrapperRule::kReadOn);
  act(wrapped ? Kind::kRead : Kind::kDrain, rank);
  act(Kind::kReportEnded, rank);
  actions_.back().cause = r.cause;
  actions_.back().at_ns = r.ended_at_ns;
  if (well && holds(ImageRule::kEndWithRank)) end_image(rank);
}

std::vector<AgentAction> AgentCore::spawn(std::uint32_t rank) {
  actions_.clear();
  act(Kind::kAdmit, rank);
  act(Kind::kSpawn, rank);
  return std::move(actions_);
}

std::vector<AgentAction> AgentCore::respawn(std::uint32_t rank, std::uint32_t incarnation) {
  actions_.clear();
  ranks_[rank].incarnation = incarnation;
  act(Kind::kPublishDeath, rank);
  act(Kind::kRingAll, rank);
  act(Kind::kAdmit, rank);
  start_again(rank);
  return std::move(actions_);
}

std::vector<AgentAction> AgentCore::resume(const std::vector<std::uint64_t>& numbers,
                                           const std::vector<std::uint32_t>& incarnations) {
  actions_.clear();
  for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
    Rank& r = ranks_[i];
    r.incarnation = incarnations[i];
    r.kept = r.wanted = r.written = numbers[i];
    r.why_lost = "its snapshot was lost";
    act(Kind::kPublishDeath, i);
    act(Kind::kAdmit, i);
  }
  return std::move(actions_);
}

std::vector<AgentAction> AgentCore::restore(std::uint32_t rank) {
  actions_.clear();
  start_again(rank);
  return std::move(actions_);
}

void AgentCore::written(const std::vector<std::uint64_t>& numbers) {
  for (std::uint32_t i = 0; i < ranks_.size(); ++i) ranks_[i].written = numbers[i];
}

std::vector<AgentAction> AgentCore::stop() {
  actions_.clear();
  stopping_ = true;
  for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
    Rank& r = ranks_[i];
    if (holds(ImageRule::kEndWithJob)) end_image(i);
    const bool restoring = r.state == State::kRestoring && holds(RestoreRule::kOverIfStopped);
    if (r.state == State::kIdle || r.state == State::kWaking || restoring) r.state = State::kEnded;
    stop_wrapper(i);
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
    const bool released = r.state == State::kReleased && holds(WrapperRule::kKillReleased);
    if (r.state != State::kRunning && r.state != State::kLingering && !released) continue;
    r.state = State::kDying;
    r.cause = Cause{Cause::Kind::kSignal, 9};
    act(Kind::kKillTree, i);
    kill_wrapper(i);
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
  actions_.push_back({kind, rank, connection, std::move(text), 0, {}, 0, 0, false});
}

}  // namespace rejoin::launcher
