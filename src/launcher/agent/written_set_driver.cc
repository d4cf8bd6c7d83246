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
// After a notice: how often it is looked for newer images, and the share of the grace period (1/4)
// after which older ones, and the journal, have to do.
constexpr std::uint64_t kLookNs = 5'000'000;
constexpr std::uint64_t kShareOfImages = 4;

// Why a part is not written; the same each time.
std::string no_room(const HostPlan& plan) {
  if (!plan.gives_parts()) return "there is no room";
  const bool is_shm = plan.directory.starts_with("/dev/shm/");
  const std::string where =
      is_shm ? "/dev/shm (--shm-size makes a container's larger)" : plan.directory;
  return "there is no room in " + where + "; with --checkpoint-dir they are written there instead";
}

}  // namespace

WrittenSetDriver::WrittenSetDriver(Loop& loop, const HostPlan& plan, const JobSegment& segment,
                                   AgentCore& core, Processes& processes, Connections& connections,
                                   const RankInput& input, const CheckpointOffers& checkpoints,
                                   Reporter& reporter, std::function<pid_t()> relay,
                                   PartWritten written)
    : loop_(loop),
      plan_(plan),
      segment_(segment),
      core_(core),
      processes_(processes),
      connections_(connections),
      input_(input),
      checkpoints_(checkpoints),
      reporter_(reporter),
      relay_(std::move(relay)),
      part_written_(std::move(written)),
      timer_(loop, [this] { cut(); }),
      copy_timer_(loop, [this] { copy_more(); }),
      newest_(plan.resumed.value_or(ImageSet{})) {
  // What the system forbids was said at the start.
  if (plan.sets_directory().empty() || plan.forbidden.personality) return;
  std::error_code error;
  if (!plan.is_whole_job()) std::filesystem::create_directories(plan.sets_directory(), error);
  // Parts that other hosts hold are only made here.
  const std::size_t kept = plan.gives_parts() ? 0 : plan.options.sets_kept;
  const ImageSetWriter::Retention retention = {kept, !plan.is_whole_job()};
  writer_.emplace(plan.sets_directory(), plan.lib_directory, retention, plan.options.compress_sets);
  watch_ =
      Loop::Watch(loop, writer_->descriptor(), EPOLLIN, [this](std::uint32_t) { on_outcome(); });
}

void WrittenSetDriver::stop() {
  stopping_ = true;
  timer_.clear();
  stop_copying();
}

void WrittenSetDriver::finish() {
  if (!writer_) return;
  if (checkpoints_.has_written()) writer_->remove_all();  // no rank is restored any more
  writer_->finish();
}

void WrittenSetDriver::set_timer(std::uint64_t parts) {
  if (plan_.writes_sets && plan_.is_whole_job() && !stopping_)
    timer_.set(loop_.now_ns() + plan_.options.image_period_ns / parts);
}

// Begins a set: copies the journal while exactly these images are kept. The copy has all that the
// images need, because no rank truncates what a kept image needs.
void WrittenSetDriver::cut() {
  const bool hurries = hurry_until_ns_ != 0;
  if (hurries) timer_.set(loop_.now_ns() + kLookNs);
  if (checkpoints_.has_written()) {
    if (std::exchange(hurry_until_ns_, 0) != 0) reporter_.happened(0, Event::HasVersions{});
    return;
  }
  if (!writer_) return;  // the job has resumed from a version, or images cannot be written here
  if (segment_.header()->goes_back_to.load() == journal::Return::kVersions) {
    return;  // its checkpoints are written instead
  }
  if (!hurries) set_timer(kAgain);
  if (hurries && core_.set() == newer_than_ && loop_.now_ns() < hurry_until_ns_) return;
  const auto verdict = progress_.look(core_, segment_.recycles(), loop_.now_ns(),
                                      hurries ? 0 : plan_.options.image_period_ns);
  if (!verdict.why_not.empty()) return report_no_set(verdict.why_not);
  if (!verdict.begin) return;
  if (write(core_.set()) && !hurries) set_timer();
}

void WrittenSetDriver::write_now() {
  newer_than_ = core_.set();
  hurry_until_ns_ = loop_.now_ns() + *plan_.options.grace_ns / kShareOfImages;
  timer_.set(loop_.now_ns() + kLookNs);
}

void WrittenSetDriver::write_part(std::uint64_t set) {
  if (progress_.open()) give_up();
  stop_copying();
  cpu_before_ns_ = own_cpu_ns();
  writers_cpu_ns_ = 0;
  reported_ = "its images are gone";
  if (!images_are_there(set) || segment_.recycles() || !writer_ || !write(set)) {
    part_written_(set, {}, reported_);
  }
}

void WrittenSetDriver::give_up_part(std::uint64_t set) {
  if (set == 0 || set == set_.number) stop_copying();
  if (plan_.is_whole_job()) return;
  if (progress_.open() && (set == 0 || set == progress_.number())) give_up();
  // Else a job might resume from what it has gone back from.
  if (!unsettled_ || plan_.gives_parts() || (set != 0 && set != *unsettled_)) return;
  unsettled_.reset();
  writer_->abandon();
}

void WrittenSetDriver::settled(std::uint64_t set) {
  if (!writer_) return;
  writer_->settled(set);
  if (unsettled_ == set) unsettled_.reset();
  if (plan_.gives_parts()) return core_.written({});
  if (set_.number == set && !set_.path.empty()) note_newest();
}

const AgentCore::Image& WrittenSetDriver::image_of(std::uint32_t rank) const {
  const bool is_pending = set_.put_back_to != 0 && set_.put_back_to == core_.pending_set();
  return is_pending ? core_.pending_image(rank) : core_.image(rank);
}

bool WrittenSetDriver::images_are_there(std::uint64_t set) const {
  return set != 0 && (set == core_.pending_set() || set == core_.set());
}

bool WrittenSetDriver::not_now(const std::string& why, const std::string& kind) {
  stop_copying();
  report_no_set(why, kind);
  return false;
}

// `images`: their number, if they are a set by themselves; or 0. Returns whether the copying has
// begun, or the images were asked to write themselves.
//
// With --survive host, the loop has to turn while the payload is copied, because a host whose agent
// is silent counts as lost. No other set is made before this one is stored or given up. In other
// jobs there is no such limit, but other images could be kept meanwhile.
bool WrittenSetDriver::write(std::uint64_t images) {
  payload_ = segment_.payload(plan_.local, images);
  if (const std::string why = why_no_room(segment_.bytes_with(payload_, plan_.local));
      !why.empty()) {
    return not_now(why, no_room(plan_));
  }
  set_ = {};
  set_.number = plan_.is_whole_job() ? writer_->next_number() : images;
  set_.put_back_to = images;
  journal_.emplace(segment_.room_for_copy());
  pause_ns_ = 0;
  if (images == 0) return copy_rest();
  if (!plan_.is_whole_job()) {
    if (!copy_structure_of_others(*journal_)) {
      return not_now("ranks could not be stopped to copy the journal", "not stopped");
    }
    // Listed again: the structure that was copied may name payload that arrived since.
    payload_ = segment_.payload(plan_.local, images);
  }
  if (!plan_.options.survive_host) {
    copy_payload(~std::uint64_t{0});
    return copy_rest();
  }
  copy_timer_.set(loop_.now_ns());
  return true;
}

// Some of it: that many bytes, to the end of a piece.
void WrittenSetDriver::copy_payload(std::uint64_t bytes) {
  for (std::uint64_t copied = 0; !payload_.empty() && copied < bytes; payload_.pop_back()) {
    segment_.copy_payload(*journal_, payload_.back());
    copied += payload_.back().bytes;
  }
}

void WrittenSetDriver::copy_more() {
  if (!payload_.empty()) {
    copy_payload(JobSegment::kPieceBytes);
    return copy_timer_.set(loop_.now_ns());
  }
  reported_ = "its images are gone";
  if (images_are_there(set_.number) && copy_rest()) return;
  stop_copying();
  part_written_(set_.number, {}, reported_);
}

void WrittenSetDriver::stop_copying() {
  copy_timer_.clear();
  payload_.clear();
  journal_.reset();
}

// Copies what does not stay as it is while the ranks run. Returns whether the images were asked to
// write themselves.
bool WrittenSetDriver::copy_rest() {
  const std::uint64_t images = set_.put_back_to;
  segment_.make_room(*journal_, plan_.local, false);
  const std::uint64_t begin_ns = monotonic_ns();
  const bool all_stopped = stop_ranks();
  if (!progress_.may_copy(all_stopped, segment_.recycles())) {
    continue_ranks();
    stop_copying();
    return false;
  }
  for (const std::uint32_t r : plan_.local) {
    if (images != 0 || !segment_.would_replay_threads(r)) continue;
    continue_ranks();
    const std::string why = "several threads of rank " + std::to_string(r) +
                            " have called MPI since its snapshot, in an order that is not recorded";
    return not_now(why, why);
  }
  if (images == 0) {
    payload_ = segment_.payload(plan_.local, 0);
    copy_payload(~std::uint64_t{0});
  }
  segment_.copy_structure(*journal_, plan_.local);
  const std::uint64_t age_ns = images != 0 ? segment_.age_of_set_ns(images) : 0;
  std::vector<std::uint64_t> file_log_bytes;
  for (const std::uint32_t r : plan_.local) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(file_log_of(r), error);
    file_log_bytes.push_back(error ? 0 : bytes);
  }
  continue_ranks();
  pause_ns_ += monotonic_ns() - begin_ns;
  if (!journal_->good()) {
    const std::string why = "there is no memory for a copy of the journal";
    return not_now(why, why);
  }
  auto files = writer_->begin(set_.number, plan_.local);
  if (!files.ok()) return not_now(files.error().text, files.error().text);
  writer_->add(std::move(*journal_), std::string(input_.input().behind_kept()));
  journal_.reset();
  set_.cut_at_s = time(nullptr) - static_cast<std::int64_t>(age_ns / 1'000'000'000);
  ask_to_write(files.value(), file_log_bytes);
  return true;
}

bool WrittenSetDriver::copy_structure_of_others(SegmentCopy& journal) {
  segment_.make_room(journal, plan_.local, true);
  const std::uint64_t begin_ns = monotonic_ns();
  const bool all_stopped = stop_ranks();
  if (all_stopped) segment_.copy_structure_of_others(journal, plan_.local);
  continue_ranks();
  pause_ns_ = monotonic_ns() - begin_ns;
  return all_stopped;
}

// Returns why the set may not fit into the directory, or an empty string. An image writes the pages
// of its own that are not all zero, so their number is a bound. While a file is compressed, it is
// there twice.
std::string WrittenSetDriver::why_no_room(std::uint64_t journal_bytes) const {
  std::uint64_t bytes = journal_bytes;
  std::uint64_t largest = bytes;
  for (const std::uint32_t r : plan_.local) {
    const MemoryUse use = memory_use(static_cast<pid_t>(core_.registered(r)));
    bytes += use.own_pages * journal::kPageBytes;
    largest = std::max(largest, use.own_pages * journal::kPageBytes);
  }
  if (plan_.options.compress_sets) bytes += largest;
  struct statvfs found;
  const std::string directory = plan_.sets_directory();
  if (statvfs(directory.c_str(), &found) != 0) return {};  // begin() says what is wrong
  const std::uint64_t free_bytes = std::uint64_t{found.f_bavail} * found.f_frsize;
  if (free_bytes >= bytes) return {};
  return size_text(free_bytes) + " are free there, and a set may take " + size_text(bytes);
}

std::string WrittenSetDriver::file_log_of(std::uint32_t rank) const {
  return file_log_in(file_logs_in(plan_.sets_directory()), rank, image_of(rank).number);
}

void WrittenSetDriver::ask_to_write(const std::vector<Descriptor>& files,
                                    const std::vector<std::uint64_t>& file_log_bytes) {
  const auto number = static_cast<std::uint32_t>(set_.number);
  set_.job = plan_.job;
  set_.incarnation = segment_.next_incarnation();
  set_.owner = owner_of(plan_.options, plan_.programs);
  set_.machine = machine_mark();
  set_.input_begun = input_.input().begun();
  set_.input_ended = input_.input().source_has_ended();
  std::map<std::uint32_t, std::int64_t> images;
  set_.images.resize(plan_.ranks);
  set_.file_logs.resize(plan_.ranks);
  for (std::size_t i = 0; i < plan_.local.size(); ++i) {
    const std::uint32_t r = plan_.local[i];
    const AgentCore::Image& image = image_of(r);
    images[r] = image.pid;
    set_.images[r].number = image.number;
    set_.file_logs[r] = checksum_of_file_log(file_log_of(r), file_log_bytes[i]);
    kill(static_cast<pid_t>(image.pid), SIGCONT);
    connections_.write(image.connection, r, number, files[i].get());
  }
  progress_.begin(number, loop_.now_ns(), images);
}

// Stops all processes that write the journal.
bool WrittenSetDriver::stop_ranks() {
  if (const pid_t relay = relay_(); relay > 0 && kill(relay, SIGSTOP) == 0) {
    stopped_.push_back(relay);
  }
  for (const std::uint32_t r : plan_.local) {
    const auto pid = static_cast<pid_t>(core_.registered(r));
    if (pid <= 0) return false;  // it is being started
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

std::uint64_t WrittenSetDriver::cost_ns() const {
  const std::uint64_t at_once =
      std::min<std::uint64_t>(plan_.local.size(), segment_.header()->cores);
  return own_cpu_ns() - cpu_before_ns_ + writers_cpu_ns_ / std::max<std::uint64_t>(at_once, 1);
}

void WrittenSetDriver::writer_ended(pid_t pid, const Cause& cause, std::uint64_t cpu_ns) {
  writers_cpu_ns_ += cpu_ns;
  // The writer's message about the reason is read before its end is handled.
  if (const auto rank = progress_.writer_of(pid)) connections_.read_all(*rank);
  image_ended(pid, cause);
}

void WrittenSetDriver::look_at_set() {
  if (!progress_.open()) return;
  if (!progress_.fault().empty()) {
    const std::string fault = progress_.fault();
    const std::uint64_t number = set_.number;
    give_up();
    report_no_set(fault);
    if (!plan_.is_whole_job()) part_written_(number, {}, fault);
  } else if (progress_.take_whole()) {
    writer_->complete(set_);
  }
}

void WrittenSetDriver::give_up() {
  progress_.end();
  end_awaited_images();
  writer_->abandon();
  set_.number = 0;
}

void WrittenSetDriver::on_outcome() {
  const auto outcome = writer_->outcome();
  if (!outcome || removed_) return;
  if (outcome->number != set_.number) return;  // it was given up
  progress_.end();
  if (!outcome->fault.empty()) {
    report_no_set(outcome->fault);
  } else {
    reported_.clear();
    if (std::exchange(hurry_until_ns_, 0) != 0) set_timer();
    set_.path = std::filesystem::absolute(outcome->path);
    for (const std::uint32_t r : plan_.local) set_.images[r].executable = outcome->executables[r];
    if (plan_.is_whole_job()) note_newest();
    unsettled_ = outcome->number;
    if (plan_.writes_sets) report_written(*outcome);
  }
  if (!plan_.is_whole_job()) part_written_(outcome->number, outcome->path, outcome->fault);
}

void WrittenSetDriver::note_newest() {
  newest_ = set_;
  core_.written(newest_.numbers_of(plan_.local));
}

void WrittenSetDriver::report_written(const ImageSetWriter::Outcome& outcome) {
  reporter_.happened(0, Event::ImagesWritten{outcome.path, outcome.bytes,
                                             loop_.now_ns() - progress_.begun_at_ns(), pause_ns_});
}

void WrittenSetDriver::remove_superseded() {
  if (!writer_ || removed_ || !checkpoints_.has_written()) return;
  if (hurry_until_ns_ == 0) timer_.clear();
  if (progress_.open()) give_up();
  for (const std::uint32_t r : plan_.local) {
    if (core_.needs_written(r)) return;
  }
  removed_ = true;
  core_.written({});
  writer_->remove_all();
}

void WrittenSetDriver::report_no_set(const std::string& why, const std::string& kind) {
  if (std::exchange(reported_, kind) == kind || !plan_.is_whole_job()) return;
  reporter_.tell("no images are written to " + plan_.options.checkpoint_directory + ": " + why);
}

}  // namespace rejoin::launcher
