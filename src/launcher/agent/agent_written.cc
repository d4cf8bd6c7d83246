// Written images: beginning and completing a set of them, and restoring ranks from one.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#include <filesystem>

#include "launcher/agent/agent.h"
#include "launcher/base/process.h"

namespace rejoin::launcher {
namespace {

using wire::Message;

// Time limit for stopping the ranks, which may be in a long system call. After it no set is begun.
constexpr int kStopMs = 200;
// A set that cannot be begun is tried again after this fraction (1/8) of the period.
constexpr std::uint64_t kAgain = 8;

}  // namespace

void Agent::set_cut_timer(std::uint64_t parts) {
  if (sets_ && !stopping_) cut_timer_.set(loop_.now_ns() + plan_.options.image_period_ns / parts);
}

// Cuts a consistent set: copies the journal while exactly these images are kept. The copy has all
// that the images need, because no rank truncates what a kept image needs.
void Agent::cut() {
  if (checkpoints_->has_written()) return;
  if (segment_.header()->goes_back_to.load() == engine::Return::kVersions) {
    return;  // its checkpoints are written instead
  }
  set_cut_timer(kAgain);
  const auto verdict = progress_.look(core_, segment_.recycles(), loop_.now_ns());
  if (!verdict.why_not.empty()) return tell_no_set(verdict.why_not);
  if (!verdict.begin) return;
  const std::uint64_t begin_ns = monotonic_ns();
  const bool all_stand = stop_ranks();
  if (!progress_.may_copy(all_stand, segment_.recycles())) return continue_ranks();
  for (const std::uint32_t r : plan_.local) {
    if (!would_replay_threads(r)) continue;
    continue_ranks();
    return tell_no_set("several threads of rank " + std::to_string(r) +
                       " have called MPI since its snapshot, in an order that is not recorded");
  }
  SegmentCopy journal = segment_.copy();
  std::vector<std::uint64_t> file_log_bytes;
  for (const std::uint32_t r : plan_.local) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(file_log_of(r), error);
    file_log_bytes.push_back(error ? 0 : bytes);
  }
  continue_ranks();
  pause_ns_ = monotonic_ns() - begin_ns;
  set_cut_timer();
  if (!journal.good()) return tell_no_set("there is no memory for a copy of the journal");
  auto files = sets_->begin(sets_->next_number(), plan_.ranks);
  if (!files.ok()) return tell_no_set(files.error().text);
  sets_->add(std::move(journal), std::string(input_.input().behind_kept()));
  ask_to_write(files.value(), file_log_bytes);
}

std::string Agent::file_log_of(std::uint32_t rank) const {
  return file_log_in(file_logs_in(plan_.options.checkpoint_directory), rank,
                     core_.image(rank).number);
}

void Agent::ask_to_write(const std::vector<Descriptor>& files,
                         const std::vector<std::uint64_t>& file_log_bytes) {
  const auto number = static_cast<std::uint32_t>(sets_->next_number() - 1);
  set_ = {};
  set_.number = number;
  set_.owner = owner_of(plan_.options, plan_.programs);
  set_.cut_at_s = time(nullptr);
  set_.machine = machine_mark();
  set_.input_begun = input_.input().begun();
  set_.input_ended = input_.input().source_has_ended();
  std::map<std::uint32_t, std::int64_t> images;
  for (const std::uint32_t r : plan_.local) {
    const AgentCore::Image& image = core_.image(r);
    images[r] = image.pid;
    set_.images.push_back({image.number, ""});
    set_.file_logs.push_back(mark_of_file_log(file_log_of(r), file_log_bytes[r]));
    kill(static_cast<pid_t>(image.pid), SIGCONT);
    connections_.write(image.connection, r, number, files[r].get());
  }
  progress_.begin(number, loop_.now_ns(), images);
}

bool Agent::stop_ranks() {
  for (const std::uint32_t r : plan_.local) {
    const auto pid = static_cast<pid_t>(core_.registered(r));
    const char state = state_letter(pid);
    if (state == 'T' || state == 't') return false;  // another process has stopped it
    if (kill(pid, SIGSTOP) == 0) stopped_.push_back(pid);
  }
  const std::uint64_t until_ns = monotonic_ns() + std::uint64_t{kStopMs} * 1'000'000;
  for (const pid_t pid : stopped_) {
    for (;;) {
      const char state = state_letter(pid);
      if (state == 'T' || state == 'Z' || state == 'X' || state == '?') break;
      if (monotonic_ns() > until_ns) return false;
      const timespec pause = {0, 50'000};
      nanosleep(&pause, nullptr);
    }
  }
  return true;
}

void Agent::continue_ranks() {
  for (const pid_t pid : stopped_) kill(pid, SIGCONT);
  stopped_.clear();
}

// --- What becomes of a set

void Agent::on_writing(std::uint32_t rank, const Message& message) {
  const auto pid = static_cast<pid_t>(message.value);
  progress_.writing(rank, message.incarnation, pid);
  if (pid != 0) processes_.add_writer(pid, progress_.begun_at_ns());
  end_awaited_images();
  look_at_set();
}

void Agent::on_not_written(std::uint32_t rank, const Message& message) {
  // On a disk error no rank is named: which image meets it first is chance.
  const bool of_disk = message.code == ENOSPC || message.code == EDQUOT || message.code == EIO;
  const std::string whose = of_disk ? "an image" : "rank " + std::to_string(rank);
  progress_.not_written(message.incarnation, whose + " " + one_line(text_of(message)));
  look_at_set();
}

// An image that a set waits for is ended only after it has cloned itself.
void Agent::act(std::uint32_t rank, const AgentAction::EndImage& a) {
  if (progress_.awaits(a.pid) && !stopping_) {
    awaited_.push_back({rank, a});
    return;
  }
  // The connection of an image that is being written stays until the clone has ended.
  if (!progress_.is_being_written(a.pid)) connections_.close(a.connection);
  processes_.end_image(static_cast<pid_t>(a.pid));
}

void Agent::end_awaited_images() { carry_out(std::exchange(awaited_, {})); }

void Agent::look_at_set() {
  if (!progress_.open()) return;
  if (!progress_.fault().empty()) {
    const std::string fault = progress_.fault();
    give_up_set();
    tell_no_set(fault);
  } else if (progress_.take_whole()) {
    sets_->complete(set_);
  }
}

void Agent::give_up_set() {
  progress_.end();
  end_awaited_images();
  sets_->abandon();
}

void Agent::on_set_outcome() {
  const auto outcome = sets_->outcome();
  if (!outcome || sets_removed_) return;
  progress_.end();
  if (!outcome->fault.empty()) return tell_no_set(outcome->fault);
  told_no_set_.clear();
  set_.path = std::filesystem::absolute(outcome->path);
  restored_from_ = set_;
  ImageNumbers numbers;
  for (const std::uint32_t r : plan_.local) {
    numbers[r] = set_.images[r].number;
    restored_from_.images[r].executable = outcome->executables[r];
  }
  core_.written(numbers);
  happened(0, Event::ImagesWritten{outcome->path, outcome->bytes,
                                   loop_.now_ns() - progress_.begun_at_ns(), pause_ns_});
}

// Removes all sets after a version was written, in the order given in checkpoint_files.h.
void Agent::remove_superseded_sets() {
  if (!sets_ || sets_removed_ || !checkpoints_->has_written()) return;
  cut_timer_.clear();
  if (progress_.open()) give_up_set();
  for (const std::uint32_t r : plan_.local) {
    if (core_.needs_written(r)) return;
  }
  sets_removed_ = true;
  core_.written({});
  sets_->remove_all();
}

void Agent::tell_no_set(const std::string& why) {
  if (std::exchange(told_no_set_, why) == why) return;
  reporter_.tell("no images are written to " + plan_.options.checkpoint_directory + ": " + why);
}

// --- Resuming from a set

void Agent::resume_from(const ImageSet& set) {
  restored_from_ = set;
  ImageNumbers numbers;
  auto input = set.input();
  for (const std::uint32_t r : plan_.local) {
    const std::uint64_t mark = set.images[r].number | wire::kMarkOfImage;
    numbers[r] = set.images[r].number;
    outputs_.mark(r, mark);
    outputs_.keep(r, mark);
    if (r == 0) input_.resume(input.ok() ? input.value() : "", set.input_ended, mark);
    engine::control_of(segment_.base(), r)
        ->snapshot_wanted.store(journal::kAgentStores, journal::Step::kNotice,
                                set.images[r].number);
  }
  carry_out(core_.resume(numbers, plan_.first_incarnation));
  restore_from(0);
}

void Agent::restore_from(std::size_t i) {
  if (i == plan_.local.size() || stopping_) return;
  carry_out(core_.restore(plan_.local[i]));
  loop_.post([this, i] { restore_from(i + 1); });
}

void Agent::act(std::uint32_t rank, const AgentAction::Restore& a) {
  newest_snapshot_[rank].woken = {RecoveryPoint::Kind::kWrittenImage};
  const Processes::Restoration restoration = {restored_from_.images[rank].executable,
                                              restored_from_.path_of_image(rank),
                                              incarnations_[rank]};
  Spawned spawned;
  RankPipes pipes = processes_.spawn(rank, spawned, &restoration);
  if (spawned.pid < 0) return tell_spawn_failed(rank, spawned);
  const std::uint64_t mark = a.number | wire::kMarkOfImage;
  outputs_.open(rank, std::move(pipes.output[0]), std::move(pipes.output[1]));
  outputs_.jump(rank, mark);
  core_.step({rank, loop_.now_ns(), AgentEvent::Spawned{spawned.pid}});
  if (rank == 0) input_.open(std::move(pipes.input), mark);
  happened(rank, Event::Started{spawned.pid});
}

}  // namespace rejoin::launcher
