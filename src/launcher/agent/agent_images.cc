// The agent's part in snapshots: requesting, keeping and waking images.
#include <signal.h>

#include <algorithm>
#include <utility>

#include "journal/snapshot_cost.h"
#include "launcher/agent/agent.h"

namespace rejoin::launcher {
namespace {

using wire::Message;
using wire::MessageType;

constexpr std::uint64_t kLongWakeNs = 10'000'000'000;

}  // namespace

void Agent::on_registration(std::uint32_t rank, pid_t pid, int connection, const Message& first) {
  // The messages and the end of the rank's previous process came earlier: handle them first.
  on_registered_ended(rank);
  const std::uint32_t incarnation = first.incarnation;
  switch (first.type) {
    case MessageType::kWoken: {
      std::string why = text_of(first).substr(wire::kSecretBytes);
      if (why.empty()) return feed(rank, AgentEvent::Woken{pid, connection, incarnation});
      return feed(rank, AgentEvent::Useless{pid, connection, incarnation, std::move(why)});
    }
    case MessageType::kMoves: {
      processes_.expect_clone(rank);
      const auto from = static_cast<std::int64_t>(first.value);
      return feed(rank, AgentEvent::Moves{pid, connection, incarnation, from});
    }
    case MessageType::kImage: {
      // The first image decides that ranks return to images, unless a checkpoint has decided.
      auto now = engine::Return::kUndecided;
      auto& word = segment_.header()->goes_back_to;
      word.decide(journal::kAgentStores, journal::Step::kDecide, &now, engine::Return::kImages);
      if (word.load() == engine::Return::kVersions) {
        return connections_.refuse(connection, rank, "ranks of this job go on from checkpoints");
      }
      return feed(rank, AgentEvent::ImageRegisters{pid, connection, first.value, incarnation});
    }
    default:
      feed(rank, AgentEvent::Registers{pid, connection});
  }
}

void Agent::on_image_message(std::uint32_t rank, const Message& message) {
  if (message.type == MessageType::kWriting) return on_writing(rank, message);
  if (message.type == MessageType::kNotWritten) return on_not_written(rank, message);
  if (message.type == MessageType::kSignalled && !stopping_) {
    processes_.signal_rank(rank, message.code);
  }
  if (message.type != MessageType::kForked) return;
  feed(rank, AgentEvent::Forked{static_cast<std::int64_t>(message.value), message.incarnation});
}

// Finds the rank of an image that ended before it registered, by the pid in the rank's control
// words. The pid cannot belong to another process yet, because the image is reaped later.
void Agent::on_stranger_ended(pid_t pid) {
  for (const std::uint32_t r : plan_.local) {
    const auto* control = engine::control_of(segment_.base(), r);
    const std::uint64_t number = control->image_number.load(std::memory_order_acquire);
    if (number == 0 || control->image_pid.load(std::memory_order_relaxed) != pid) continue;
    feed(r, AgentEvent::ImageEnded{pid, number, {}});
  }
}

void Agent::tell(std::uint32_t rank, std::string text) {
  happened(rank, Event::Notice{std::move(text), 0});
}

void Agent::act(std::uint32_t rank, const AgentAction::Want& a) {
  engine::RankControl* control = engine::control_of(segment_.base(), rank);
  control->snapshot_wanted.store(journal::kAgentStores, journal::Step::kNotice,
                                 a.number | (a.at_checkpoint ? journal::kAtCheckpoint : 0));
  segment_.give_notice();
}

void Agent::act(std::uint32_t, const AgentAction::AskImages&) {
  snapshots_.asked();
  set_snapshot_timer();
}

void Agent::act(std::uint32_t rank, const AgentAction::Adopt& a) {
  processes_.adopt_clone(rank, static_cast<pid_t>(a.pid));
  happened(rank, Event::Started{a.pid});
}

void Agent::act(std::uint32_t rank, const AgentAction::Move& a) {
  connections_.keep(a.keeper, rank);
  processes_.move(rank, static_cast<pid_t>(a.pid));
}

void Agent::act(std::uint32_t rank, const AgentAction::Release& a) {
  processes_.release_keeper(rank);
  connections_.release(a.keeper, rank, a.cause.value);
}

void Agent::act(std::uint32_t rank, const AgentAction::EndKeeper& a) {
  processes_.release_keeper(rank);
  connections_.close(a.keeper);
}

void Agent::act(std::uint32_t rank, const AgentAction::KillWrapper&) {
  processes_.kill_wrapper(rank);
}

void Agent::act(std::uint32_t rank, const AgentAction::Notice& a) { tell(rank, a.text); }

void Agent::act(std::uint32_t rank, const AgentAction::Read&) {
  outputs_.read_all(rank);
  connections_.close_all(rank);
  processes_.clear(rank);
}

void Agent::act(std::uint32_t rank, const AgentAction::Lost& a) {
  happened(rank, Event::Lost{a.why});
}

void Agent::act(std::uint32_t rank, const AgentAction::Keep& a) {
  processes_.add_image(rank, static_cast<pid_t>(a.pid));
  outputs_.keep(rank, a.number | wire::kMarkOfImage);
  if (rank == 0) input_.keep(a.number | wire::kMarkOfImage);
  engine::control_of(segment_.base(), rank)
      ->kept_image.store(journal::kAgentStores, journal::Step::kNotice, a.number,
                         std::memory_order_seq_cst);
  count_exposed(rank);
  newest_snapshot_[rank].at_ns = loop_.now_ns();
  newest_snapshot_[rank].fresh = true;
  if (core_.all_made_at_checkpoint()) snapshots_.half_came();
  ++totals_.snapshots;
  tell_snapshot();
  remove_superseded_sets();
  segment_.give_notice();
}

// --- Reports of how far the job is protected

// Updates the longest interval that any rank has gone without a newer image. Called when such an
// interval ends.
void Agent::count_exposed(std::uint32_t rank) {
  const Snapshot& s = newest_snapshot_[rank];
  if (s.over) return;
  totals_.exposed_ns = std::max(totals_.exposed_ns, loop_.now_ns() - s.at_ns);
}

// Reports a Snapshot when every rank that has not finalized has completed a new image since the
// last report.
void Agent::tell_snapshot() {
  for (const std::uint32_t r : plan_.local) {
    if (!newest_snapshot_[r].fresh && !newest_snapshot_[r].over) return;
  }
  for (Snapshot& s : newest_snapshot_) s.fresh = false;
  happened(0, Event::Snapshot{protection()});
}

void Agent::rank_is_over(std::uint32_t rank) {
  count_exposed(rank);
  newest_snapshot_[rank].over = true;
}

Protection Agent::protection() const {
  Protection now;
  now.snapshots = totals_.snapshots;
  for (const std::uint32_t r : plan_.local) {
    const Snapshot& s = newest_snapshot_[r];
    if (s.over) continue;
    if (!core_.has_image(r)) {
      ++now.ranks_without;
    } else {
      now.oldest_ns = std::max(now.oldest_ns, loop_.now_ns() - s.at_ns);
    }
  }
  return now;
}

// Returns the rank's pipes that its wrapper also holds, and new ones for those that it does not.
MadePipes Agent::pipes_again(std::uint32_t rank) {
  MadePipes pipes = make_pipes(rank);
  for (int stream = 0; stream < 2; ++stream) {
    Descriptor ours = outputs_.take_pipe(rank, stream);
    Descriptor theirs = ours.open() ? other_end_of(ours) : Descriptor();
    if (!theirs.open()) continue;
    pipes.ours.output[stream] = std::move(ours);
    pipes.theirs[1 + stream] = std::move(theirs);
  }
  if (rank != 0) return pipes;
  RankInput::Ends input = input_.take_pipe();
  if (!input.read_end.open() || !input.write_end.open()) return pipes;
  pipes.ours.input = std::move(input.write_end);
  pipes.theirs[0] = std::move(input.read_end);
  return pipes;
}

void Agent::act(std::uint32_t rank, const AgentAction::Wake& a) {
  MadePipes pipes = core_.has_wrapper(rank) ? pipes_again(rank) : make_pipes(rank);
  if (!pipes.whole()) {
    tell_spawn_failed(rank, {-1, EMFILE, "pipe"});
    return;
  }
  Snapshot& snapshot = newest_snapshot_[rank];
  snapshot.woken = {RecoveryPoint::Kind::kSnapshot, loop_.now_ns() - snapshot.at_ns};
  snapshot.tell_at_ns = loop_.now_ns() + kLongWakeNs;
  processes_.expect_clone(rank);
  const std::uint64_t mark = a.number | wire::kMarkOfImage;
  outputs_.open(rank, std::move(pipes.ours.output[0]), std::move(pipes.ours.output[1]));
  outputs_.jump(rank, mark);
  if (rank == 0) input_.open(std::move(pipes.ours.input), mark);
  const int theirs[3] = {pipes.theirs[0].get(), pipes.theirs[1].get(), pipes.theirs[2].get()};
  kill(static_cast<pid_t>(a.pid), SIGCONT);  // a user may have stopped all processes of the job
  connections_.wake(a.connection, rank, incarnations_[rank], theirs);
}

// Looks at images that were asked to clone themselves. A stopped image is continued. A slow one (a
// large process in swap) cannot be distinguished from one that hangs, so the agent waits for both,
// and reports them after a while.
void Agent::look_at_wakes() {
  for (const std::uint32_t r : plan_.local) {
    if (!core_.waking(r)) continue;
    const auto pid = static_cast<pid_t>(core_.image(r).pid);
    const char state = state_letter(pid);
    if (state == 'T') kill(pid, SIGCONT);
    std::uint64_t& tell_at = newest_snapshot_[r].tell_at_ns;
    if (tell_at == 0 || loop_.now_ns() < tell_at) continue;
    tell_at = 0;
    tell(r, "its snapshot, process " + std::to_string(pid) + ", was woken " +
                duration_text(kLongWakeNs) + " ago and does not go on (state " + state +
                "); to give it up, kill it with kill -9 (docs/snapshots.md)");
  }
}

// --- When

void Agent::set_snapshot_timer() {
  const std::uint64_t due = snapshots_.due_ns();
  if (due == SnapshotPolicy::kNever || stopping_) return;
  snapshot_timer_.set(due);
}

// Returns the cost of the rank's newest snapshot so far, or an estimate for its first one.
std::uint64_t Agent::snapshot_cost_ns(std::uint32_t rank) const {
  const pid_t pid = processes_.pid_of(rank);
  if (pid == 0) return 0;
  const MemoryUse use = memory_use(pid);
  const engine::RankControl& control = *engine::control_of(segment_.base(), rank);
  const std::uint64_t clone_ns = control.clone_ns.load(std::memory_order_acquire);
  if (clone_ns == 0)
    return SnapshotPolicy::first_cost_ns(use.own_pages, journal::page_copy_ns(control));
  // No page is copied twice, so the rank's anonymous pages are a bound.
  const std::uint64_t copied = std::min(journal::pages_copied(control, use.faults), use.own_pages);
  return clone_ns + copied * journal::page_copy_ns(control);
}

// Finds out whether the program makes checkpoints: only then are images requested at them.
void Agent::look_for_checkpoints() {
  const bool made =
      engine::control_of(segment_.base(), 0)->prepared.load() > segment_.header()->first_version;
  if (!made || std::exchange(makes_checkpoints_, true)) return;
  snapshots_.checkpoints_made();
  set_snapshot_timer();
}

// Reports once that the --snapshots period given by the user takes a large share of the ranks'
// time. The period itself is never changed.
void Agent::tell_price() {
  constexpr std::uint64_t kLeastNs = 2'000'000'000, kShare = 4;
  const std::uint64_t lasted_ns = loop_.now_ns() - ranks_began_ns_;
  const bool given = plan_.options.snapshots.when == SnapshotOptions::When::kPeriod;
  if (!given || told_price_ || lasted_ns < kLeastNs) return;
  for (const std::uint32_t r : plan_.local) {
    if (told_price_) break;
    const std::uint64_t cost_ns = engine::control_of(segment_.base(), r)->snapshots_cost_ns.load();
    if (cost_ns * kShare < lasted_ns) continue;
    told_price_ = true;
    tell(r, "its snapshots take " + std::to_string(100 * cost_ns / lasted_ns) +
                " % of its time, because --snapshots asks for one every " +
                duration_text(plan_.options.snapshots.period_ns) +
                "; with --snapshots auto they take at most 1 %");
  }
}

void Agent::take_snapshots() {
  look_for_checkpoints();
  tell_price();
  std::uint64_t cost_ns = 0;
  for (const std::uint32_t r : plan_.local) {
    cost_ns = std::max(cost_ns, snapshot_cost_ns(r));
  }
  const engine::SegmentHeader* header = segment_.header();
  cost_ns = SnapshotPolicy::job_cost_ns(cost_ns, plan_.ranks, header->cores);
  const SnapshotRound round = snapshots_.look(loop_.now_ns(), cost_ns);
  if (round == SnapshotRound::kNone) {
    set_snapshot_timer();
    return;
  }
  if (segment_.recycles() || header->goes_back_to.load() == engine::Return::kVersions) {
    carry_out(core_.end_images());
    return;
  }
  carry_out(core_.want_snapshots(round));
  set_snapshot_timer();
}

// Called when one rank's journal has grown; the policy considers the journals of all ranks.
void Agent::journal_grown(bool waits) {
  std::uint64_t used = 0, backed = 0;
  for (const std::uint32_t r : plan_.local) {
    const engine::RankControl* control = engine::control_of(segment_.base(), r);
    used += control->used_bytes.load(std::memory_order_relaxed);
    backed += control->backed_bytes.load(std::memory_order_relaxed);
  }
  snapshots_.grown(used, backed, segment_.header()->journal_limit_bytes);
  if (waits) snapshots_.waited_for();
  set_snapshot_timer();
}

void Agent::on_image_killed(std::optional<std::uint32_t> rank) {
  if (!take_oom_kill(0) || !rank || std::exchange(told_image_taken_, true)) return;
  tell(*rank,
       "the kernel has killed its snapshot because memory is short; until the next snapshot is "
       "made, a death of this rank ends the job (docs/snapshots.md)");
}

void Agent::not_frozen(std::uint32_t rank, const Message& message) {
  feed(rank, AgentEvent::NotFrozen{message.value});
  const std::string reason = text_of(message);
  if (told_not_frozen_[rank]) return;
  told_not_frozen_[rank] = true;
  if (!told_reasons_.insert(reason).second) return;
  tell(rank,
       "no snapshot can be made of it now, because it " + reason +
           (plan_.ranks > 1 ? " (other ranks with this reason are not named)" : "") +
           "; until one is, it goes back to " +
           (core_.has_image(rank) ? "the last one" : "the start of the program") + " if it dies" +
           (sets_ ? ", and no images are written to " + plan_.options.checkpoint_directory : "") +
           " (docs/snapshots.md)");
}

}  // namespace rejoin::launcher
