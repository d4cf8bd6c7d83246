#include "launcher/agent/agent_core.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "launcher/base/invariant.h"

namespace rejoin::launcher {

using Do = AgentAction;

namespace {

Cause from_shell(Cause cause) {
  if (cause.kind == Cause::Kind::kExit && cause.value > 128) {
    return {Cause::Kind::kSignal, cause.value - 128};
  }
  return cause;
}

}  // namespace

bool AgentCore::may_follow(State from, State to) {
  const auto is_one_of = [from](auto... states) { return ((from == states) || ...); };
  switch (to) {
    case State::kIdle:
      return false;
    case State::kRunning:
      return is_one_of(State::kIdle, State::kEnded, State::kWaking, State::kRestoring);
    case State::kWaking:
      return is_one_of(State::kEnded, State::kWaking);
    case State::kRestoring:
      return is_one_of(State::kIdle, State::kEnded, State::kWaking);
    case State::kReleased:
      return is_one_of(State::kRunning);
    case State::kLingering:
      return is_one_of(State::kRunning, State::kReleased);
    case State::kDying:
      return is_one_of(State::kRunning, State::kLingering, State::kReleased);
    case State::kEnded:
      return !is_one_of(State::kRunning, State::kReleased);
  }
  return false;
}

void AgentCore::enter(Rank& rank, State to) {
  invariant(may_follow(rank.state, to),
            "a rank's processes went from one state to another that "
            "cannot follow it");
  rank.state = to;
}

void AgentCore::enter_incarnation(Rank& rank) {
  enter(rank, State::kRunning);
  rank = Rank{static_cast<const OfRank&>(rank)};
  rank.state = State::kRunning;
}

AgentCore::AgentCore(const LocalRanks& local, bool is_whole_job)
    : local_(local), is_whole_job_(is_whole_job) {
  for (const std::uint32_t rank : local) ranks_[rank];
}

std::vector<AgentAction> AgentCore::step(const AgentEvent& e) {
  actions_.clear();
  now_ns_ = e.at_ns;
  std::visit([&](const auto& what) { on(e.rank, what); }, e.what);
  return std::move(actions_);
}

void AgentCore::on(std::uint32_t rank, const AgentEvent::Initialized&) {
  ranks_.at(rank).initialized = true;
}

// Until the next set all ranks would go back to the present one.
void AgentCore::on(std::uint32_t rank, const AgentEvent::Live&) {
  ranks_.at(rank).live = true;
  ranks_.at(rank).files_go_back = false;
  for (const auto& [i, r] : ranks_) {
    if (is_away(i)) return;
  }
  if (has_set()) act(rank, Do::AskImages{});
}

void AgentCore::on(std::uint32_t rank, const AgentEvent::Finalized&) {
  Rank& r = ranks_.at(rank);
  r.finalized = true;
  // It makes no image any more.
  if (r.in_flight && is_pending_set(r.wanted)) one_is_missing();
}

void AgentCore::on(std::uint32_t rank, const AgentEvent::TreeGone&) {
  if (ranks_.at(rank).state == State::kDying) report(rank);
}

void AgentCore::on(std::uint32_t rank, const AgentEvent::OutputEnded&) {
  if (ranks_.at(rank).state == State::kLingering) report(rank);
}

void AgentCore::on(std::uint32_t rank, const AgentEvent::Spawned& e) {
  Rank& r = ranks_[rank];
  const bool restoring = r.state == State::kRestoring;
  enter_incarnation(r);
  r.child = e.pid;
  r.woken = r.restoring = restoring;
  r.wrapper_killed = {};
}

void AgentCore::on(std::uint32_t rank, const AgentEvent::NotFrozen& e) {
  if (!is_whole_job_ && e.number > newest_wanted_) begin_set(e.number);
  if (!is_whole_job_ && e.number > ranks_.at(rank).wanted) ranks_.at(rank).in_flight = false;
  if (e.number == ranks_.at(rank).wanted) ranks_.at(rank).in_flight = false;
  if (!is_pending_set(e.number)) return;
  // A rank for which it is never the moment must not hold back the images of the others for ever.
  constexpr std::uint32_t kMostMissed = 4;
  if (e.only_this && std::exchange(newest_missed_, e.number) != e.number) ++missed_;
  if (e.only_this && missed_ < kMostMissed) return one_is_missing();
  is_whole_job_ ? keep_one_by_one() : tell_of_set(e.number, SetNews::kCannot);
}

void AgentCore::on(std::uint32_t rank, const AgentEvent::Forked& e) {
  Rank& r = ranks_[rank];
  if (r.state != State::kWaking || e.incarnation != r.incarnation) return;
  if (e.pid != 0) return adopt(rank, e.pid);
  end_image(rank);
  r.why_lost = "its snapshot could not be cloned";
  start_again(rank);
}

void AgentCore::on(std::uint32_t rank, const AgentEvent::Registers& e) {
  Rank& r = ranks_[rank];
  if (r.state != State::kRunning || r.finalized) {
    act(rank, Do::Refuse{e.connection, "rank " + std::to_string(rank) +
                                           " has ended or called MPI_Finalize already"});
    return;
  }
  if ((r.restoring || r.unrestored) && holds(RestoreRule::kOnlyRestored)) {
    // The restorer did not register it: the program in that process has started from main.
    act(rank, Do::Refuse{e.connection, "it did not restore its written image"});
    return not_restored(rank, "its process did not restore its written image");
  }
  // The same process may come again: it was loaded, then replaced itself by exec.
  const bool taken = r.registered != 0 && !r.registered_over;
  if (taken && (r.registered != e.pid || r.initialized)) {
    act(rank,
        Do::Refuse{e.connection, "process " + std::to_string(r.registered) + " is rank " +
                                     std::to_string(rank) +
                                     " already; only one process of a rank can call MPI_Init"});
    return;
  }
  r.registered = e.pid;
  r.connection = e.connection;
  r.registered_over = false;
  act(rank, Do::Welcome{e.connection});
}

// --- Images

void AgentCore::on(std::uint32_t rank, const AgentEvent::ImageRegisters& e) {
  Rank& r = ranks_[rank];
  // The number came with what a rank of another host has shown, before the order.
  if (!is_whole_job_ && e.number > newest_wanted_) begin_set(e.number);
  if (!is_whole_job_ && e.number > r.wanted) r.in_flight = false;  // it makes no earlier one now
  const bool current = e.incarnation == r.incarnation || !holds(ImageRule::kOfThisIncarnation);
  const bool wanted = (e.number == r.wanted || !holds(ImageRule::kNumberWanted)) &&
                      (r.in_flight || !holds(ImageRule::kOnlyInFlight));
  // An image that registers while its rank's tree is being killed may be killed with it.
  if (stopping_ || r.state != State::kRunning || !current || !wanted) {
    act(rank, Do::Refuse{e.connection, "this image comes too late"});
    return;
  }
  r.in_flight = false;
  const Image image = {e.pid, e.number, e.connection};
  if (!is_pending_set(e.number) || !holds(ImageRule::kKeepTogether)) {
    replace(rank, image);
    if (is_pending_set(e.number)) set_ = e.number;
    return;
  }
  r.pending = image;
  if (!is_whole_job_) act(rank, Do::Spare{e.pid});
  keep_set_if_complete();
}

// The image takes the place of the one that the rank kept before.
void AgentCore::replace(std::uint32_t rank, const Image& image) {
  Rank& r = ranks_.at(rank);
  const Image former = r.image;
  if (!holds(ImageRule::kKeepFirst)) end_image(rank);
  if (former.pid == 0 || holds(ImageRule::kWakeKept)) r.image = image;
  keep(rank, image);
  if (former.pid == 0 || !holds(ImageRule::kKeepFirst)) return;
  act(rank, Do::EndImage{former.pid, former.connection});
}

void AgentCore::keep(std::uint32_t rank, const Image& image) {
  ranks_.at(rank).kept = image.number;
  act(rank, Do::Keep{image.number, image.pid, image.connection});
}

// --- Sets

void AgentCore::keep_set_if_complete() {
  for (const auto& [i, r] : ranks_) {
    if (r.pending.pid == 0) return;
  }
  if (!is_whole_job_) return tell_of_set(pending_set_, SetNews::kMade);
  set_ = std::exchange(pending_set_, 0);
  missed_ = 0;
  for (auto& [i, r] : ranks_) replace(i, std::exchange(r.pending, Image{}));
}

// --- Sets of several hosts

void AgentCore::tell_of_set(std::uint64_t number, SetNews news) {
  act(local_.front(), Do::TellOfSet{number, news});
}

std::vector<AgentAction> AgentCore::want_set(std::uint64_t number) {
  actions_.clear();
  if (number > newest_wanted_) begin_set(number);
  return std::move(actions_);
}

void AgentCore::begin_set(std::uint64_t number) {
  newest_wanted_ = number;
  for (const auto& [i, r] : ranks_) {
    if (running(i) && r.initialized && !r.finalized && !stopping_) continue;
    return tell_of_set(number, r.finalized ? SetNews::kMissing : SetNews::kDied);
  }
  // A rank that has not made an earlier image, one that is no part of a set, makes this one
  // instead.
  pending_set_ = number;
  act(local_.front(), Do::WantSet{number});
  for (const auto& [i, r] : ranks_) want(i, number);
}

std::vector<AgentAction> AgentCore::want_each(std::uint64_t number) {
  actions_.clear();
  newest_wanted_ = std::max(newest_wanted_, number);
  for (const auto& [i, r] : ranks_) {
    if (is_to_be_asked(i) && !stopping_) want(i, number);
  }
  return std::move(actions_);
}

std::vector<AgentAction> AgentCore::keep_set(std::uint64_t number) {
  actions_.clear();
  if (is_pending_set(number)) {
    set_ = std::exchange(pending_set_, 0);
    missed_ = 0;
    // One of them may have ended since it was made. Its rank keeps the former one.
    for (auto& [i, r] : ranks_) {
      const Image image = std::exchange(r.pending, Image{});
      if (image.pid != 0) replace(i, image);
    }
  }
  tell_of_set(number, SetNews::kSettled);
  return std::move(actions_);
}

std::vector<AgentAction> AgentCore::give_up_set(std::uint64_t number, bool one_by_one) {
  actions_.clear();
  if (is_pending_set(number)) one_by_one ? keep_one_by_one() : drop_set();
  tell_of_set(number, SetNews::kSettled);
  return std::move(actions_);
}

// The set will not be complete: its images are of no use, because together they would be no state
// of the job.
void AgentCore::drop_set() {
  const std::uint64_t number = std::exchange(pending_set_, 0);
  for (auto& [i, r] : ranks_) {
    if (r.wanted == number) r.in_flight = false;
    const Image image = std::exchange(r.pending, Image{});
    if (image.pid != 0) act(i, Do::EndImage{image.pid, image.connection});
  }
}

// An image of the pending set will not come, but nothing stands in the way of the next one.
void AgentCore::one_is_missing() {
  if (!is_whole_job_) return tell_of_set(pending_set_, SetNews::kMissing);
  has_set() ? drop_set() : keep_one_by_one();
}

// A rank has no image of this set, but the others are protected by theirs. Those that have not
// registered yet are kept when they do.
void AgentCore::keep_one_by_one() {
  pending_set_ = 0;
  for (auto& [i, r] : ranks_) {
    const Image image = std::exchange(r.pending, Image{});
    if (image.pid != 0) replace(i, image);
  }
}

bool AgentCore::has_set() const {
  for (const auto& [i, r] : ranks_) {
    const bool image = r.image.pid != 0 && r.image.number == set_;
    const bool written = !is_whole_job_ && needs_written(i) && r.written == set_;
    if (set_ == 0 || (!image && !written)) return false;
  }
  return !stopping_;
}

std::vector<AgentAction> AgentCore::roll_back(std::uint32_t incarnation) {
  actions_.clear();
  back_as_ = incarnation;
  drop_set();
  for (auto& [i, r] : ranks_) {
    r.in_flight = false;
    if (r.state == State::kWaking || r.state == State::kIdle) {
      enter(r, State::kEnded);  // a clone that comes now is of a former incarnation
    } else if (r.state == State::kRunning || r.state == State::kLingering) {
      enter(r, State::kDying);
      r.cause = Cause{Cause::Kind::kSignal, SIGKILL};
      act(i, Do::KillTree{});
    }
  }
  put_back_if_all_ended();
  return std::move(actions_);
}

// Whatever a process of a rank still wrote after the segment was put back would stay.
void AgentCore::put_back_if_all_ended() {
  for (const auto& [i, r] : ranks_) {
    if (r.state != State::kEnded && holds(ImageRule::kKillAllFirst)) return;
  }
  is_back_ = true;
  act(local_.front(), Do::PutBack{set_});
  act(local_.front(), Do::RingAll{});
  act(local_.front(), Do::ReportBack{set_, back_as_});
}

std::vector<AgentAction> AgentCore::wake() {
  actions_.clear();
  if (!std::exchange(is_back_, false)) return {};
  const std::uint32_t incarnation = std::exchange(back_as_, 0);
  for (auto& [i, r] : ranks_) {
    r.incarnation = incarnation;
    r.files_go_back = true;
    r.wanted = std::max(r.wanted, set_);
    act(i, Do::Admit{});
  }
  for (auto& [i, r] : ranks_) start_again(i);
  return std::move(actions_);
}

void AgentCore::end_image(std::uint32_t rank) {
  const Image image = std::exchange(ranks_.at(rank).image, Image{});
  if (image.pid == 0) return;
  act(rank, Do::EndImage{image.pid, image.connection});
}

void AgentCore::on(std::uint32_t rank, const AgentEvent::ImageEnded& e) {
  Rank& r = ranks_[rank];
  const bool kept = r.image.pid == e.pid;
  const bool pending = r.pending.pid != 0 && r.pending.pid == e.pid;
  const bool coming = r.in_flight && e.number == r.wanted && holds(ImageRule::kEndedUnregistered);
  if (!kept && !coming && !pending) return;
  if (pending) r.pending = {};
  // Perhaps its rank dies, too, which is seen later: then the set that is there is needed.
  if (pending || (coming && is_pending_set(e.number))) one_is_missing();
  if (coming) r.in_flight = false;
  if (!stopping_ && holds(ImageRule::kAskAgain)) act(rank, Do::AskImages{});
  if (!kept) return;
  if (holds(ImageRule::kForgetEnded)) r.image = {};
  r.why_lost = "its snapshot was lost";
  if (r.state == State::kWaking && holds(ImageRule::kDecideAgain)) start_again(rank);
}

// Restarts the rank from its image, from its written image, or from main while no image has allowed
// the truncation of what main needs. Asks for Lost if none is possible.
void AgentCore::start_again(std::uint32_t rank) {
  Rank& r = ranks_[rank];
  if (r.image.pid != 0) {
    enter(r, State::kWaking);
    act(rank, Do::Wake{r.image.number, r.image.pid, r.image.connection, r.files_go_back});
  } else if (r.written != 0 && (r.kept == r.written || !holds(RestoreRule::kIfKept))) {
    enter(r, State::kRestoring);
    act(rank, Do::Restore{r.written});
  } else if (r.kept == 0 || !holds(ImageRule::kMainWhileNoneKept)) {
    act(rank, Do::Spawn{});
  } else {
    enter(r, State::kEnded);
    act(rank, Do::Lost{r.why_lost});
  }
}

void AgentCore::adopt(std::uint32_t rank, std::int64_t pid) {
  Rank& r = ranks_[rank];
  enter_incarnation(r);
  r.child = pid;
  r.woken = true;
  act(rank, Do::Adopt{pid});
}

// Only the clone of the newest wake is admitted, and once. Its message may arrive before the
// image's report of it.
void AgentCore::on(std::uint32_t rank, const AgentEvent::Woken& e) {
  Rank& r = ranks_[rank];
  const bool current = e.incarnation == r.incarnation || !holds(ImageRule::kNewestWake);
  const bool newest = current && !stopping_;
  if (newest && r.state == State::kWaking) adopt(rank, e.pid);
  const bool first = (r.child == e.pid && r.registered == 0) || !holds(ImageRule::kAdmitOnce);
  if (newest && r.state == State::kRunning && r.woken && first) {
    r.registered = e.pid;
    r.restoring = r.restoring && !holds(RestoreRule::kUntilWelcome);
    act(rank, Do::Welcome{e.connection});
  } else {
    act(rank, Do::Refuse{e.connection, "this rank has gone on without it"});
  }
}

void AgentCore::on(std::uint32_t rank, const AgentEvent::Useless& e) {
  Rank& r = ranks_[rank];
  const bool waking = r.state == State::kWaking;
  const bool running = r.state == State::kRunning && r.woken && r.child == e.pid;
  act(rank, Do::Refuse{e.connection, "it cannot go on"});
  if (e.incarnation != r.incarnation || (!waking && !running)) return;
  if (r.restoring && holds(RestoreRule::kEndsIfUseless)) return not_restored(rank, e.why);
  end_image(rank);
  r.why_lost = e.why;
  act(rank, Do::Notice{"its snapshot cannot go on: " + e.why});
  if (waking) return start_again(rank);
  enter(r, State::kDying);
  r.cause = Cause{Cause::Kind::kSignal, 9};
  r.ended_at_ns = now_ns_;
  act(rank, Do::KillTree{});
}

// The written image itself is at fault, so another attempt would fail in the same way.
void AgentCore::not_restored(std::uint32_t rank, const std::string& why) {
  Rank& r = ranks_[rank];
  if (std::exchange(r.unrestored, true) && holds(RestoreRule::kSaidOnce)) return;
  r.restoring = false;
  if (holds(RestoreRule::kNeverAgain)) r.written = 0;
  act(rank, Do::Lost{why});
}

std::vector<AgentAction> AgentCore::want_snapshots(SnapshotRound round) {
  actions_.clear();
  if (stopping_) return {};
  const bool truncates = round == SnapshotRound::kToTruncate;
  if (truncates) keep_one_by_one();
  if (pending_set_ != 0) return {};
  const bool waits = !truncates && has_set() && holds(ImageRule::kSetStays);
  for (const auto& [i, r] : ranks_) {
    if (waits && (is_away(i) || r.finalized)) return {};
  }
  std::uint64_t number = 0;
  bool all = !truncates;
  for (const auto& [i, r] : ranks_) {
    number = std::max(number, r.wanted + 1);
    all &= is_to_be_asked(i);
  }
  if (all) {
    pending_set_ = number;
    act(local_.front(), Do::WantSet{number});
  }
  for (auto& [i, r] : ranks_) {
    if (is_to_be_asked(i)) want(i, number);
  }
  return std::move(actions_);
}

bool AgentCore::is_away(std::uint32_t rank) const {
  const Rank& r = ranks_.at(rank);
  const bool repeats = r.woken && !r.live;
  return !r.finalized && (!running(rank) || !r.initialized || repeats);
}

bool AgentCore::is_to_be_asked(std::uint32_t rank) const {
  const Rank& r = ranks_.at(rank);
  const bool finalized = r.finalized && holds(ImageRule::kNoneOfFinalized);
  if (!running(rank) || !r.initialized || finalized) return false;
  return !r.in_flight || !holds(ImageRule::kOneInFlight);
}

// REQUIRES is_to_be_asked(). `number`: of the image.
void AgentCore::want(std::uint32_t rank, std::uint64_t number) {
  Rank& r = ranks_.at(rank);
  r.wanted = number;
  r.in_flight = true;
  act(rank, Do::Want{number});
  if (!holds(ImageRule::kFormerUntilThen)) end_image(rank);
  if (!holds(ImageRule::kKeepRegistered)) keep(rank, Image{0, number, -1});
}

std::vector<AgentAction> AgentCore::end_images() {
  actions_.clear();
  if (!is_whole_job_ && pending_set_ != 0) tell_of_set(pending_set_, SetNews::kCannot);
  drop_set();
  for (auto& [i, r] : ranks_) {
    r.in_flight = false;
    end_image(i);
  }
  return std::move(actions_);
}

void AgentCore::on(std::uint32_t rank, const AgentEvent::ChildEnded& e) {
  Rank& r = ranks_[rank];
  r.child_over = true;
  r.child_cause = e.cause;
  if (r.state != State::kRunning) return;
  const bool somebody_else = r.registered != 0 && r.registered != r.child;
  // A shell has left its program in the background: the program is the rank from now on.
  if (somebody_else && !r.registered_over && !stopping_) return;
  ended(rank, e.cause);
}

void AgentCore::on(std::uint32_t rank, const AgentEvent::RegisteredEnded& e) {
  Rank& r = ranks_[rank];
  r.registered_over = true;
  if (r.state != State::kRunning) return;
  // A shell exits with its program's exit code, or with 128 + the signal.
  const bool from_child = e.cause.kind == Cause::Kind::kUnknown && r.child_over;
  const Cause cause = from_child ? from_shell(r.child_cause) : e.cause;
  const bool exited = cause.kind == Cause::Kind::kExit;
  const bool clean = r.finalized ? exited || cause.kind == Cause::Kind::kUnknown
                                 : exited && cause.value == 0 && !r.initialized;
  // If it ended well, its parent continues, and the parent's exit code will be the rank's.
  if (!clean || r.child_over) ended(rank, cause);
}

void AgentCore::ended(std::uint32_t rank, const Cause& cause) {
  Rank& r = ranks_[rank];
  // If it was killed from outside, it is restored again.
  const bool killed = cause.same_as({Cause::Kind::kSignal, SIGKILL});
  const bool forgiven = (killed && holds(RestoreRule::kNotIfKilled)) ||
                        (stopping_ && holds(RestoreRule::kNotIfStopping));
  if (r.restoring && !forgiven && holds(RestoreRule::kEndsIfEnded)) {
    not_restored(rank, "its written image could not be restored (" + to_text(cause) + ")");
  }
  r.cause = cause;
  r.ended_at_ns = now_ns_;
  // Also if it ended well: it will make no image any more.
  if (pending_set_ != 0 && holds(ImageRule::kGiveUpAtDeath)) {
    is_whole_job_ ? drop_set() : tell_of_set(pending_set_, SetNews::kDied);
  }
  // Uses the exit code by which a shell reports a command that was killed.
  const Cause killed_script = script_killed(r);
  if (cause.same_as({Cause::Kind::kExit, 0}) && killed_script.kind == Cause::Kind::kSignal) {
    r.cause.value = 128 + killed_script.value;
    act(rank, Do::Notice{"the script that started the program died (" + to_text(killed_script) +
                         "); the rest of the script was not executed"});
  }
  const bool exited = cause.kind == Cause::Kind::kExit;
  const bool well = exited && (r.finalized || (cause.value == 0 && !r.initialized));
  if (well && !stopping_ && r.wrapper.pid != 0 && holds(WrapperRule::kRelease)) {
    enter(r, State::kReleased);
    end_image(rank);
    act(rank, Do::Release{r.wrapper.keeper, cause});
  } else if (well && !stopping_) {
    enter(r, State::kLingering);
    act(rank, Do::AwaitOutput{});
  } else {
    enter(r, State::kDying);
    act(rank, Do::KillTree{});
    const bool spared = r.image.pid != 0 && !stopping_ && holds(WrapperRule::kSpareWithImage);
    if (!spared && holds(WrapperRule::kKillWithout)) {
      // The rank begins at main again, whatever becomes of the set that is being made.
      if (r.wrapper.pid != 0 && r.pending.pid != 0) {
        act(rank, Do::EndImage{r.pending.pid, r.pending.connection});
        r.pending = {};
      }
      kill_wrapper(rank);
    }
  }
}

void AgentCore::report(std::uint32_t rank) {
  Rank& r = ranks_[rank];
  const bool well = r.state == State::kLingering;
  enter(r, State::kEnded);
  if (holds(ImageRule::kOfThisIncarnation)) r.in_flight = false;
  // Whether those of several hosts are kept is decided by the supervisor.
  if (is_whole_job_) {
    if (r.pending.pid != 0) act(rank, Do::EndImage{r.pending.pid, r.pending.connection});
    r.pending = {};
  }
  const bool wrapped = r.wrapper.pid != 0 && holds(WrapperRule::kReadOn);
  if (wrapped) {
    act(rank, Do::Read{});
  } else {
    act(rank, Do::Drain{});
  }
  if (back_as_ != 0) return put_back_if_all_ended();
  // A rank whose end was ordered has ended now.
  act(rank, Do::ReportEnded{r.cause, r.ended_at_ns != 0 ? r.ended_at_ns : now_ns_});
  // While there is a set, all ranks may go back to it, those that have ended well, too.
  if (well && holds(ImageRule::kEndWithRank) && !(has_set() && holds(ImageRule::kStaysForSet))) {
    end_image(rank);
  }
}

std::vector<AgentAction> AgentCore::spawn(std::uint32_t rank) {
  actions_.clear();
  act(rank, Do::Admit{});
  act(rank, Do::Spawn{});
  return std::move(actions_);
}

std::vector<AgentAction> AgentCore::respawn(std::uint32_t rank, std::uint32_t incarnation) {
  actions_.clear();
  ranks_.at(rank).incarnation = incarnation;
  act(rank, Do::PublishDeath{});
  act(rank, Do::RingAll{});
  act(rank, Do::Admit{});
  start_again(rank);
  return std::move(actions_);
}

std::vector<AgentAction> AgentCore::resume(const ImageNumbers& numbers, std::uint32_t incarnation) {
  actions_.clear();
  for (auto& [i, r] : ranks_) {
    r.incarnation = incarnation;
    r.kept = r.wanted = r.written = numbers.at(i);
    // On several hosts only sets are written.
    if (!is_whole_job_) set_ = newest_wanted_ = numbers.at(i);
    r.why_lost = "its snapshot was lost";
    act(i, Do::PublishDeath{});
    act(i, Do::Admit{});
  }
  return std::move(actions_);
}

std::vector<AgentAction> AgentCore::restore(std::uint32_t rank) {
  actions_.clear();
  start_again(rank);
  return std::move(actions_);
}

void AgentCore::written(const ImageNumbers& numbers) {
  for (auto& [i, r] : ranks_) r.written = numbers.empty() ? 0 : numbers.at(i);
}

std::vector<AgentAction> AgentCore::stop() {
  actions_.clear();
  stopping_ = true;
  back_as_ = 0;
  is_back_ = false;
  drop_set();
  for (auto& [i, r] : ranks_) {
    if (holds(ImageRule::kEndWithJob)) end_image(i);
    const bool restoring = r.state == State::kRestoring && holds(RestoreRule::kOverIfStopped);
    if (r.state == State::kIdle || r.state == State::kWaking || restoring) enter(r, State::kEnded);
    stop_wrapper(i);
    if (r.state != State::kRunning && r.state != State::kLingering) continue;
    if (!r.child_over) {
      act(i, Do::Terminate{});
    } else {
      // Only its child's end would have been noticed.
      enter(r, State::kDying);
      act(i, Do::KillTree{});
    }
  }
  return std::move(actions_);
}

std::vector<AgentAction> AgentCore::kill_all() {
  actions_.clear();
  for (auto& [i, r] : ranks_) {
    const bool released = r.state == State::kReleased && holds(WrapperRule::kKillReleased);
    if (r.state != State::kRunning && r.state != State::kLingering && !released) continue;
    enter(r, State::kDying);
    r.cause = Cause{Cause::Kind::kSignal, 9};
    act(i, Do::KillTree{});
    kill_wrapper(i);
  }
  return std::move(actions_);
}

void AgentCore::give_up(std::uint32_t rank) { enter(ranks_.at(rank), State::kEnded); }

bool AgentCore::all_over() const {
  if (is_back_) return false;  // they are about to be started
  for (const auto& [rank, r] : ranks_) {
    if (r.state != State::kEnded) return false;
  }
  return true;
}

}  // namespace rejoin::launcher
