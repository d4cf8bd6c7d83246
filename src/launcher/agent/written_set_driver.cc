#include "launcher/agent/written_set_driver.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/statvfs.h>
#include <time.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "journal/snapshot_cost.h"
#include "launcher/agent/agent_socket.h"
#include "launcher/base/process.h"

namespace rejoin::launcher {
namespace {

// Time limit for stopping the ranks, which may be in a long system call. After it no set is begun.
constexpr int kStopMs = 200;
// A set that cannot be begun is tried again after this fraction (1/8) of the period.
constexpr std::uint64_t kAgain = 8;

}  // namespace

WrittenSetDriver::WrittenSetDriver(Loop& loop, const HostPlan& plan, const JobSegment& segment,
                                   AgentCore& core, Processes& processes, Connections& connections,
                                   const RankInput& input, const CheckpointOffers& checkpoints,
                                   Reporter& reporter)
    : loop_(loop),
      plan_(plan),
      segment_(segment),
      core_(core),
      processes_(processes),
      connections_(connections),
      input_(input),
      checkpoints_(checkpoints),
      reporter_(reporter),
      timer_(loop, [this] { cut(); }),
      newest_(plan.resumed.value_or(ImageSet{})) {
  if (!plan.writes_sets) return;
  writer_.emplace(plan.options.checkpoint_directory, plan.lib_directory, plan.options.sets_kept,
                  plan.options.compress_sets);
  watch_ =
      Loop::Watch(loop, writer_->descriptor(), EPOLLIN, [this](std::uint32_t) { on_outcome(); });
}

void WrittenSetDriver::stop() {
  stopping_ = true;
  timer_.clear();
}

void WrittenSetDriver::finish() {
  if (!writer_) return;
  if (checkpoints_.has_written()) writer_->remove_all();  // no rank is restored any more
  writer_->finish();
}

void WrittenSetDriver::set_timer(std::uint64_t parts) {
  if (writer_ && !stopping_) timer_.set(loop_.now_ns() + plan_.options.image_period_ns / parts);
}

// Begins a set: copies the journal while exactly these images are kept. The copy has all that the
// images need, because no rank truncates what a kept image needs.
void WrittenSetDriver::cut() {
  if (checkpoints_.has_written()) return;
  if (segment_.header()->goes_back_to.load() == journal::Return::kVersions) {
    return;  // its checkpoints are written instead
  }
  set_timer(kAgain);
  const auto verdict =
      progress_.look(core_, segment_.recycles(), loop_.now_ns(), plan_.options.image_period_ns);
  if (!verdict.why_not.empty()) return report_no_set(verdict.why_not);
  if (!verdict.begin) return;
  if (const std::string why = why_no_room(); !why.empty()) {
    return report_no_set(why, "no room");
  }
  const std::uint64_t images = plan_.local.size() == plan_.ranks ? core_.set() : 0;
  SegmentCopy journal = segment_.room_for_copy();
  if (images != 0) segment_.copy_payload(journal);
  const std::uint64_t begin_ns = monotonic_ns();
  const bool all_stopped = stop_ranks();
  if (!progress_.may_copy(all_stopped, segment_.recycles())) return continue_ranks();
  for (const std::uint32_t r : plan_.local) {
    if (images != 0 || !segment_.would_replay_threads(r)) continue;
    continue_ranks();
    return report_no_set("several threads of rank " + std::to_string(r) +
                         " have called MPI since its snapshot, in an order that is not recorded");
  }
  if (images == 0) segment_.copy_payload(journal);
  segment_.copy_structure(journal);
  const std::uint64_t age_ns = images != 0 ? segment_.age_of_set_ns(images) : 0;
  std::vector<std::uint64_t> file_log_bytes;
  for (const std::uint32_t r : plan_.local) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(file_log_of(r), error);
    file_log_bytes.push_back(error ? 0 : bytes);
  }
  continue_ranks();
  pause_ns_ = monotonic_ns() - begin_ns;
  set_timer();
  if (!journal.good()) return report_no_set("there is no memory for a copy of the journal");
  auto files = writer_->begin(writer_->next_number(), plan_.ranks);
  if (!files.ok()) return report_no_set(files.error().text);
  writer_->add(std::move(journal), std::string(input_.input().behind_kept()));
  set_ = {};
  set_.put_back_to = images;
  set_.cut_at_s = time(nullptr) - static_cast<std::int64_t>(age_ns / 1'000'000'000);
  ask_to_write(files.value(), file_log_bytes);
}

// Returns why the set may not fit into the directory, or an empty string. An image writes the pages
// of its own that are not all zero, so their number is a bound. While a file is compressed, it is
// there twice.
std::string WrittenSetDriver::why_no_room() const {
  std::uint64_t bytes = segment_.backed_bytes();
  std::uint64_t largest = bytes;
  for (const std::uint32_t r : plan_.local) {
    const MemoryUse use = memory_use(static_cast<pid_t>(core_.registered(r)));
    bytes += use.own_pages * journal::kPageBytes;
    largest = std::max(largest, use.own_pages * journal::kPageBytes);
  }
  if (plan_.options.compress_sets) bytes += largest;
  struct statvfs found;
  const std::string& directory = plan_.options.checkpoint_directory;
  if (statvfs(directory.c_str(), &found) != 0) return {};  // begin() says what is wrong
  const std::uint64_t free_bytes = std::uint64_t{found.f_bavail} * found.f_frsize;
  if (free_bytes >= bytes) return {};
  return size_text(free_bytes) + " are free there, and a set may take " + size_text(bytes);
}

std::string WrittenSetDriver::file_log_of(std::uint32_t rank) const {
  return file_log_in(file_logs_in(plan_.options.checkpoint_directory), rank,
                     core_.image(rank).number);
}

void WrittenSetDriver::ask_to_write(const std::vector<Descriptor>& files,
                                    const std::vector<std::uint64_t>& file_log_bytes) {
  const auto number = static_cast<std::uint32_t>(writer_->next_number() - 1);
  set_.number = number;
  set_.owner = owner_of(plan_.options, plan_.programs);
  set_.machine = machine_mark();
  set_.input_begun = input_.input().begun();
  set_.input_ended = input_.input().source_has_ended();
  std::map<std::uint32_t, std::int64_t> images;
  for (const std::uint32_t r : plan_.local) {
    const AgentCore::Image& image = core_.image(r);
    images[r] = image.pid;
    set_.images.push_back({image.number, ""});
    set_.file_logs.push_back(checksum_of_file_log(file_log_of(r), file_log_bytes[r]));
    kill(static_cast<pid_t>(image.pid), SIGCONT);
    connections_.write(image.connection, r, number, files[r].get());
  }
  progress_.begin(number, loop_.now_ns(), images);
}

bool WrittenSetDriver::stop_ranks() {
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

void WrittenSetDriver::continue_ranks() {
  for (const pid_t pid : stopped_) kill(pid, SIGCONT);
  stopped_.clear();
}

// --- What becomes of a set

void WrittenSetDriver::writing(std::uint32_t rank, const wire::Message& message) {
  const auto pid = static_cast<pid_t>(message.value);
  progress_.writing(rank, message.incarnation, pid);
  if (pid != 0) processes_.add_writer(pid, progress_.begun_at_ns());
  end_awaited_images();
  look_at_set();
}

void WrittenSetDriver::not_written(std::uint32_t rank, const wire::Message& message) {
  // On a disk error no rank is named: which image meets it first is chance.
  const bool of_disk = message.code == ENOSPC || message.code == EDQUOT || message.code == EIO;
  const std::string whose = of_disk ? "an image" : "rank " + std::to_string(rank);
  progress_.not_written(message.incarnation, whose + " " + one_line(text_of(message)));
  look_at_set();
}

void WrittenSetDriver::end_image(const AgentAction::EndImage& a) {
  if (progress_.awaits(a.pid) && !stopping_) {
    awaited_.push_back(a);
    return;
  }
  // The connection of an image that is being written stays until the clone has ended.
  if (!progress_.is_being_written(a.pid)) connections_.close(a.connection);
  processes_.end_image(static_cast<pid_t>(a.pid));
}

void WrittenSetDriver::end_awaited_images() {
  for (const AgentAction::EndImage& image : std::exchange(awaited_, {})) end_image(image);
}

void WrittenSetDriver::image_ended(pid_t pid, const Cause& cause) {
  progress_.ended(pid, cause);
  look_at_set();
}

void WrittenSetDriver::writer_ended(pid_t pid, const Cause& cause) {
  // The writer's message about the reason is read before its end is handled.
  if (const auto rank = progress_.writer_of(pid)) connections_.read_all(*rank);
  image_ended(pid, cause);
}

void WrittenSetDriver::look_at_set() {
  if (!progress_.open()) return;
  if (!progress_.fault().empty()) {
    const std::string fault = progress_.fault();
    give_up();
    report_no_set(fault);
  } else if (progress_.take_whole()) {
    writer_->complete(set_);
  }
}

void WrittenSetDriver::give_up() {
  progress_.end();
  end_awaited_images();
  writer_->abandon();
}

void WrittenSetDriver::on_outcome() {
  const auto outcome = writer_->outcome();
  if (!outcome || removed_) return;
  progress_.end();
  if (!outcome->fault.empty()) return report_no_set(outcome->fault);
  reported_.clear();
  set_.path = std::filesystem::absolute(outcome->path);
  newest_ = set_;
  for (const std::uint32_t r : plan_.local) {
    newest_.images[r].executable = outcome->executables[r];
  }
  core_.written(newest_.numbers_of(plan_.local));
  reporter_.happened(0, Event::ImagesWritten{outcome->path, outcome->bytes,
                                             loop_.now_ns() - progress_.begun_at_ns(), pause_ns_});
}

void WrittenSetDriver::remove_superseded() {
  if (!writer_ || removed_ || !checkpoints_.has_written()) return;
  timer_.clear();
  if (progress_.open()) give_up();
  for (const std::uint32_t r : plan_.local) {
    if (core_.needs_written(r)) return;
  }
  removed_ = true;
  core_.written({});
  writer_->remove_all();
}

void WrittenSetDriver::report_no_set(const std::string& why, const std::string& kind) {
  if (std::exchange(reported_, kind) == kind) return;
  reporter_.tell("no images are written to " + plan_.options.checkpoint_directory + ": " + why);
}

}  // namespace rejoin::launcher
