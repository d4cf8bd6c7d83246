#include "launcher/agent/rank_starts.h"

#include <errno.h>
#include <signal.h>

#include <algorithm>
#include <utility>

namespace rejoin::launcher {
namespace {

constexpr std::uint64_t kLongWakeNs = 10'000'000'000;

}  // namespace

// Returns whether the program's file was replaced since the job began: a journal can be replayed
// only by the program that wrote it.
bool RankStarts::refuses_program(std::uint32_t rank) {
  const ProgramFile& program = plan_.program_of(rank);
  if (is_same(program.identity, identity_of(program.path))) return false;
  const std::string what = plan_.options.program_of(rank).command[0] +
                           " has been replaced since the job began, and rank " +
                           std::to_string(rank) + " would have to run the new file from main";
  if (plan_.options.on_divergence == OnDivergence::kWarn) {
    reporter_.tell(what + ": its replay may differ from the first execution");
    return false;
  }
  core_.give_up(rank);
  reporter_.happened(
      rank, Event::SpawnFailed{
                kExitFailure,
                what + ", so the job ends; install a new build beside the old one while jobs run"});
  return true;
}

void RankStarts::failed(std::uint32_t rank, const Spawned& spawned) {
  core_.give_up(rank);
  std::string hint;
  if (spawned.error == ENOEXEC) hint = "; a script must begin with #! and its interpreter";
  if (spawned.error == EMFILE) hint = "; use fewer ranks, or raise ulimit -n";
  reporter_.happened(
      rank, Event::SpawnFailed{spawned.error == ENOEXEC ? kExitNotExecutable : kExitFailure,
                               "cannot start rank " + std::to_string(rank) + ", " +
                                   plan_.options.program_of(rank).command[0] + " (" +
                                   spawned.failed_step + "): " + error_text(spawned.error) + hint});
}

// Passes our ends of the rank's pipes on. `mark`: the incarnation continues from there; 0: from the
// beginning.
void RankStarts::open(std::uint32_t rank, RankPipes pipes, std::uint64_t mark) {
  outputs_.open(rank, std::move(pipes.output[0]), std::move(pipes.output[1]));
  if (mark != 0) outputs_.jump(rank, mark);
  if (rank == 0) input_.open(std::move(pipes.input), mark);
}

void RankStarts::start(std::uint32_t rank, const Processes::Restoration* restoration,
                       std::uint64_t mark) {
  Spawned spawned;
  RankPipes pipes = processes_.spawn(rank, spawned, restoration);
  if (spawned.pid < 0) return failed(rank, spawned);
  open(rank, std::move(pipes), mark);
  core_.step({rank, loop_.now_ns(), AgentEvent::Spawned{spawned.pid}});
  reporter_.happened(rank, Event::Started{spawned.pid});
}

// --- From main

void RankStarts::spawn(std::uint32_t rank) {
  if (refuses_program(rank)) return;
  from_[rank] = {};
  start(rank, nullptr, 0);
}

// --- From an image

// Returns the rank's pipes that its wrapper also holds, and new ones for those that it does not.
MadePipes RankStarts::pipes_again(std::uint32_t rank) {
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

void RankStarts::wake(std::uint32_t rank, const AgentAction::Wake& a, std::uint64_t age_ns) {
  MadePipes pipes = core_.has_wrapper(rank) ? pipes_again(rank) : make_pipes(rank);
  if (!pipes.whole()) return failed(rank, {-1, EMFILE, "pipe"});
  from_[rank] = {RecoveryPoint::Kind::kSnapshot, age_ns};
  wake_is_slow_at_ns_[rank] = loop_.now_ns() + kLongWakeNs;
  processes_.expect_clone(rank);
  open(rank, std::move(pipes.ours), a.number | wire::kMarkOfImage);
  const int theirs[3] = {pipes.theirs[0].get(), pipes.theirs[1].get(), pipes.theirs[2].get()};
  kill(static_cast<pid_t>(a.pid), SIGCONT);  // a user may have stopped all processes of the job
  connections_.wake(a.connection, rank, core_.incarnation(rank), theirs, a.files_go_back);
}

// Looks at images that were asked to clone themselves. A stopped image is continued. A slow one (a
// large process in swap) cannot be distinguished from one that hangs, so the agent waits for both,
// and reports them after a while.
void RankStarts::look_at_wakes() {
  for (const std::uint32_t r : plan_.local) {
    if (!core_.waking(r)) continue;
    const auto pid = static_cast<pid_t>(core_.image(r).pid);
    const char state = state_letter(pid);
    if (state == 'T') kill(pid, SIGCONT);
    std::uint64_t& slow_at_ns = wake_is_slow_at_ns_[r];
    if (slow_at_ns == 0 || loop_.now_ns() < slow_at_ns) continue;
    slow_at_ns = 0;
    reporter_.notice(r, "its snapshot, process " + std::to_string(pid) + ", was woken " +
                            duration_text(kLongWakeNs) + " ago and does not go on (state " + state +
                            "); to give it up, kill it with kill -9 (docs/snapshots.md)");
  }
}

void RankStarts::look_at_replays() {
  for (const std::uint32_t r : plan_.local) {
    const journal::RankControl* c = segment_.control(r);
    const std::uint32_t incarnation = core_.incarnation(r);
    if (incarnation == 0 || c->incarnation.load() != incarnation) continue;
    if (core_.dying(r) || c->initialized.load() == 2) continue;
    const Position position = segment_.position(r);
    if (!position.live) reporter_.happened(r, Event::CatchingUp{position});
  }
}

// --- From a written image

void RankStarts::resume(const ImageSet& set) {
  auto input = set.input();
  std::uint64_t newest = 0;
  for (std::size_t i = 0; i < plan_.local.size(); ++i) {
    const std::uint32_t r = plan_.local[i];
    const std::uint64_t number = set.images[r].number, mark = number | wire::kMarkOfImage;
    std::string printed[2];
    for (std::size_t s = 0; s < 2 && !plan_.printed.empty(); ++s) {
      printed[s] = plan_.printed[2 * i + s];
    }
    outputs_.resume(r, mark, printed);
    if (r == 0) input_.resume(input.ok() ? input.value() : "", set.input_ended, mark);
    segment_.control(r)->snapshot_wanted.store(journal::kAgentStores, journal::Step::kNotice,
                                               number);
    newest = std::max(newest, number);
  }
  journal::want_set(journal::set_wanted_on(segment_.base(), plan_.local.front()), newest);
}

std::optional<Error> RankStarts::open_image(std::uint32_t rank, const ImageSet& set) {
  auto image = PlainFile::open(set.path_of_image(rank));
  if (!image.ok()) {
    return Error{"cannot start rank " + std::to_string(rank) + ": " + image.error().text};
  }
  restored_from_[rank] = std::move(image.value());
  return {};
}

std::optional<Error> RankStarts::open_images(const ImageSet& set) {
  for (const std::uint32_t r : plan_.local) {
    if (auto error = open_image(r, set)) return error;
  }
  return {};
}

void RankStarts::restore(std::uint32_t rank, const AgentAction::Restore& a, const ImageSet& set) {
  from_[rank] = {RecoveryPoint::Kind::kWrittenImage};
  if (!restored_from_[rank]) {
    if (const auto error = open_image(rank, set)) {
      core_.give_up(rank);
      return reporter_.happened(rank, Event::SpawnFailed{kExitFailure, error->text});
    }
  }
  const Processes::Restoration restoration = {
      set.images[rank].executable, restored_from_[rank]->path(), core_.incarnation(rank)};
  start(rank, &restoration, a.number | wire::kMarkOfImage);
}

}  // namespace rejoin::launcher
