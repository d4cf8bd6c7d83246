// The core's part for ranks that were started by a script that waits for them (their wrapper).
#include <utility>

#include "launcher/agent/agent_core.h"

namespace rejoin::launcher {

using Do = AgentAction;

void AgentCore::on(std::uint32_t rank, const AgentEvent::Moves& e) {
  using Rule = WrapperRule;
  Rank& r = ranks_.at(rank);
  const bool is_it = e.from == r.registered && !r.registered_over;
  const bool behind = r.registered != r.child && !r.child_over;
  const bool good =
      (is_it || !holds(Rule::kOnlyRegistered)) && (behind || !holds(Rule::kOnlyBehind)) &&
      (e.incarnation == r.incarnation || !holds(Rule::kOfIncarnation)) &&
      (!r.finalized || !holds(Rule::kNotFinalized)) && (!stopping_ || !holds(Rule::kNotStopping));
  if (!good || r.state != State::kRunning) {
    act(rank, Do::Refuse{e.connection, "this rank does not move"});
    return;
  }
  r.wrapper = Wrapper{r.child, r.connection};
  r.child = r.registered = e.pid;
  r.connection = e.connection;
  if (!holds(Rule::kKeepFirst)) act(rank, Do::Welcome{e.connection});
  act(rank, Do::Move{e.pid, r.wrapper.keeper});
  if (holds(Rule::kKeepFirst)) act(rank, Do::Welcome{e.connection});
}

// The wrapper of a released rank has ended, or the wrapper was killed or did not wait.
void AgentCore::on(std::uint32_t rank, const AgentEvent::WrapperEnded& e) {
  Rank& r = ranks_.at(rank);
  if (r.wrapper.pid != e.pid) return;
  const Wrapper wrapper = std::exchange(r.wrapper, Wrapper{});
  if (r.state == State::kReleased) {
    ended(rank, holds(WrapperRule::kCauseOfWrapper) ? e.cause : Cause(r.cause));
  } else if (holds(WrapperRule::kGoesOnWithout)) {
    r.wrapper_killed = e.cause;
    act(rank, Do::EndKeeper{wrapper.keeper});
  } else {
    r.wrapper = wrapper;
    kill_wrapper(rank);
  }
}

// The wrapper mistakes the keeper's end for the program's end, so the rank's images are of no use:
// it can only restart from main, where that is possible, with a new wrapper.
void AgentCore::on(std::uint32_t rank, const AgentEvent::KeeperEnded& e) {
  Rank& r = ranks_.at(rank);
  if (r.wrapper.pid == 0 || r.state == State::kReleased) return;
  if (!holds(WrapperRule::kNeedsKeeper)) return;
  if (holds(WrapperRule::kNoImageWithout)) end_image(rank);
  r.why_lost = "the process that its wrapper script waits for was killed";
  if (r.state == State::kRunning) return ended(rank, e.cause);
  kill_wrapper(rank);
  if (r.state == State::kWaking) start_again(rank);
}

// Returns how the script that started the rank ended, if it ended before the rank did. A signal
// means that the rest of the script was not run; an exit was the script's own decision.
Cause AgentCore::script_killed(const Rank& r) const {
  if (stopping_) return {};
  const bool behind = r.registered != 0 && r.registered != r.child && r.child_over;
  return behind ? r.child_cause : r.wrapper_killed;
}

void AgentCore::kill_wrapper(std::uint32_t rank) {
  if (std::exchange(ranks_.at(rank).wrapper, Wrapper{}).pid != 0) act(rank, Do::KillWrapper{});
}

// If the rank runs, nothing is done here: the rank's own end decides.
void AgentCore::stop_wrapper(std::uint32_t rank) {
  const State state = ranks_.at(rank).state;
  if (state == State::kReleased) {
    if (holds(WrapperRule::kTerminateReleased)) act(rank, Do::Terminate{});
  } else if (state != State::kRunning && holds(WrapperRule::kEndWithJob)) {
    kill_wrapper(rank);
  }
}

}  // namespace rejoin::launcher
