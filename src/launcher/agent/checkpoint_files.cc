#include "launcher/agent/checkpoint_files.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "journal/contexts.h"
#include "journal/log.h"
#include "launcher/agent/host_sets.h"
#include "launcher/agent/image_sets.h"
#include "launcher/base/grammar.h"

namespace rejoin::launcher {
namespace {

constexpr char kMagic[8] = {'R', 'E', 'J', 'O', 'I', 'N', 'C', 'K'};
constexpr std::uint32_t kFormat = 2;

NumberedEntries versions_of(const std::string& directory) {
  return NumberedEntries(directory, "checkpoint", 10);
}

std::string texts_of(const CheckpointOwner& owner) {
  std::string texts = owner.program + '\0' + owner.build + '\0';
  for (const std::string& argument : owner.arguments) texts += argument + '\0';
  return texts;
}

// Two texts or more, each ended by a NUL.
bool are_texts(std::string_view texts) {
  return texts.ends_with('\0') && std::count(texts.begin(), texts.end(), '\0') >= 2;
}

// Quotes text from a file for use inside a line: one line, not too long.
std::string quoted(const std::string& text) {
  constexpr std::size_t kShown = 80;
  return "'" + one_line(text.substr(0, kShown)) + (text.size() > kShown ? "…'" : "'");
}

// Describes the first argument that differs. REQUIRES that one does.
std::string other_argument(const std::vector<std::string>& then,
                           const std::vector<std::string>& now) {
  std::size_t i = 0;
  while (i < then.size() && i < now.size() && then[i] == now[i]) ++i;
  const auto text = [i](const std::vector<std::string>& of) {
    return i < of.size() ? quoted(of[i]) : std::string("none");
  };
  return "argument " + std::to_string(i + 1) + " was " + text(then) + " and is " + text(now);
}

std::uint64_t sum_of_heads(const CheckpointHead& head, const Checksum* locals,
                           std::string_view texts) {
  std::string bytes(reinterpret_cast<const char*>(&head), offsetof(CheckpointHead, sum));
  bytes.append(reinterpret_cast<const char*>(locals), head.ranks * sizeof *locals);
  return checksum_of(bytes.append(texts)).sum;
}

}  // namespace

CheckpointOwner owner_of(const RunOptions& options, const std::vector<ProgramFile>& files) {
  CheckpointOwner owner;
  owner.ranks = options.ranks();
  const std::vector<ProgramOptions>& programs = options.programs;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    if (!owner.program.empty()) {  // after the first one, as on the command line
      owner.program += " : ";
      owner.build += " : ";
      owner.arguments.push_back(":");
    }
    if (programs.size() > 1) {
      owner.arguments.push_back("-n");
      owner.arguments.push_back(std::to_string(*programs[i].ranks));
    }
    const ProgramFile& file = files[i];
    owner.program += file.path.substr(file.path.rfind('/') + 1);
    owner.build += file.build;
    const std::vector<std::string>& command = programs[i].command;
    owner.arguments.insert(owner.arguments.end(), command.begin() + 1, command.end());
  }
  std::string layout;
  for (const std::uint32_t ranks : options.layout) {
    layout += (layout.empty() ? "--layout " : ",") + std::to_string(ranks);
  }
  if (options.by_node() && !layout.empty()) layout += " --map-by node";
  if (options.between_nodes != BetweenNodes::kMemory) layout += " --between-nodes messages";
  if (!layout.empty()) owner.program = layout + " " + owner.program;
  return owner;
}

std::string refusal(const std::string& path, const CheckpointOwner& then,
                    const CheckpointOwner& now) {
  const std::string written = "--resume: " + path + " was written by ";
  const std::string anew = ", or start the job anew in another directory";
  if (then.program != now.program) {
    return written + one_line(then.program) + ", not by " + one_line(now.program) +
           ": run that one" + anew;
  }
  if (then.ranks != now.ranks) {
    return written + std::to_string(then.ranks) + " ranks; go on with -n " +
           std::to_string(then.ranks);
  }
  if (then.build != now.build) {
    return written + "another build of " + one_line(then.program) + " (" + one_line(then.build) +
           ", this is " + now.build + "): run that one" + anew;
  }
  if (then.arguments != now.arguments) {
    return written + one_line(then.program) + " with other arguments (" +
           other_argument(then.arguments, now.arguments) + "): give the same arguments" + anew;
  }
  return {};
}

// --- Reading

const CheckpointHead* CheckpointFile::head() const {
  return reinterpret_cast<const CheckpointHead*>(file_.bytes().data());
}
const Checksum* CheckpointFile::locals() const {
  return reinterpret_cast<const Checksum*>(file_.bytes().data() + sizeof(CheckpointHead));
}
std::string_view CheckpointFile::texts() const {
  return {reinterpret_cast<const char*>(locals() + head()->ranks), head()->texts_bytes};
}

CheckpointOwner CheckpointFile::owner() const {
  std::vector<std::string> fields;
  for (std::size_t at = 0; at < texts().size(); at += fields.back().size() + 1) {
    fields.emplace_back(texts().substr(at, texts().find('\0', at) - at));
  }
  return {fields[0], fields[1], {fields.begin() + 2, fields.end()}, head()->ranks};
}

std::string CheckpointFile::fault() const {
  const std::string_view bytes = file_.bytes();
  if (bytes.size() < sizeof(CheckpointHead)) return "is cut off";
  if (memcmp(head()->magic, kMagic, sizeof kMagic) != 0) return "is no checkpoint of Rejoin";
  if (head()->format != kFormat)
    return "has another format (" + std::to_string(head()->format) + ", not " +
           std::to_string(kFormat) + "): it was written by another version of Rejoin";
  std::uint64_t at = sizeof(CheckpointHead) + std::uint64_t{head()->ranks} * sizeof(Checksum);
  if (at > bytes.size() || head()->texts_bytes > bytes.size() - at) return "is cut off";
  if (head()->sum != sum_of_heads(*head(), locals(), texts()) || !are_texts(texts()))
    return "is damaged: its head has a wrong checksum";
  at += head()->texts_bytes;
  const auto model = [&](const Checksum& written) -> std::string {
    if (written.bytes > bytes.size() - at) return "is cut off";
    const Checksum found = checksum_of(bytes.substr(at, written.bytes));
    at += written.bytes;
    return found == written ? "" : "is damaged: a model has a wrong checksum";
  };
  std::string fault = model(head()->global);
  for (std::uint32_t r = 0; r < head()->ranks && fault.empty(); ++r) fault = model(locals()[r]);
  return fault;
}

bool CheckpointFile::has_model() const {
  std::uint64_t bytes = head()->global.bytes;
  for (std::uint32_t r = 0; r < head()->ranks; ++r) bytes += locals()[r].bytes;
  return bytes != 0;
}

Result<std::optional<CheckpointFile>> CheckpointFile::newest(const std::string& directory,
                                                             const CheckpointOwner& owner,
                                                             std::vector<std::string>& notices) {
  const NumberedEntries versions = versions_of(directory);
  auto file = versions.newest<CheckpointFile>(
      [&versions](std::uint64_t version) { return read(versions.path_of(version), version); },
      notices);
  if (!file) return file;
  const std::string why_not = refusal(versions.path_of(file->version()), file->owner(), owner);
  if (!why_not.empty()) return Error{why_not};
  return file;
}

Result<CheckpointFile> CheckpointFile::read(const std::string& path, std::uint64_t version) {
  auto mapped = MappedFile::open(path);
  if (!mapped.ok()) return mapped.error();
  CheckpointFile file(std::move(mapped.value()));
  std::string fault = file.fault();
  if (fault.empty() && (file.version() != version || version == 0)) {
    fault = "holds another version than its name says";
  }
  if (!fault.empty()) return Error{path + " " + fault};
  return file;
}

std::optional<Error> CheckpointFile::install(const JobSegment& segment) const {
  std::byte* base = segment.base();
  journal::SegmentHeader* header = segment.header();
  const char* from = texts().data() + texts().size();
  const auto place = [&](std::uint32_t rank, std::uint64_t bytes, journal::Offset& at) {
    auto& bump = journal::control_of(base, rank)->payload_bump;
    at = journal::region_offset(header, rank) + bump.load();
    const std::uint64_t size = (bytes + journal::kLine - 1) / journal::kLine * journal::kLine;
    if (bump.load() + size > header->region_bytes) return false;
    if (size > 0 &&
        fallocate(segment.descriptor(), 0, static_cast<off_t>(at), static_cast<off_t>(size)) != 0) {
      return false;
    }
    memcpy(base + at, from, bytes);
    from += bytes;
    journal::put(bump, bump.load() + size);
    return true;
  };
  journal::RegionHead* first = journal::region_of(base, 0);
  first->resume_global_bytes = head()->global.bytes;
  bool room = place(0, head()->global.bytes, first->resume_global);
  for (std::uint32_t r = 0; r < head()->ranks && room; ++r) {
    journal::RegionHead* region = journal::region_of(base, r);
    region->resume_local_bytes = locals()[r].bytes;
    room = place(r, locals()[r].bytes, region->resume_local);
  }
  if (!room) return Error{"--resume: the journal has no room for the models of the checkpoint"};
  header->first_version = version();
  return {};
}

std::optional<Error> prepare_checkpoint_directory(const std::string& directory, bool resume) {
  std::error_code error;
  if (resume && !std::filesystem::is_directory(directory, error)) {
    return Error{"--resume: there is no directory " + directory};
  }
  if (std::filesystem::exists(directory, error) &&
      !std::filesystem::is_directory(directory, error)) {
    return Error{"--checkpoint-dir " + directory + " is a file, not a directory"};
  }
  if (const int failed = make_directory(directory)) {
    return Error{"--checkpoint-dir " + directory + ": cannot create it: " + error_text(failed)};
  }
  if (access(directory.c_str(), W_OK | X_OK) != 0) {
    return Error{"--checkpoint-dir " + directory + ": " + error_text(errno)};
  }
  if (!resume && (holds_image_sets(directory) || holds_host_sets(directory))) {
    return Error{"--checkpoint-dir " + directory +
                 " holds images of a job already: add --resume to go on from them, or give another "
                 "directory"};
  }
  const auto versions = versions_of(directory).numbers();
  if (!resume && !versions.empty()) {
    return Error{"--checkpoint-dir " + directory + " holds a checkpoint of version " +
                 std::to_string(versions.front()) +
                 " already: add --resume to go on from there, or give another directory"};
  }
  return {};
}

bool holds_checkpoints(const std::string& directory) {
  return !versions_of(directory).numbers().empty();
}

std::optional<Error> remove_checkpoints(const std::string& directory) {
  return versions_of(directory).remove_all();
}

Result<Descriptor> lock_checkpoint_directory(const std::string& directory) {
  Descriptor lock(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A job that was killed a moment ago may still hold the lock while it exits.
  constexpr int kTries = 100, kPauseMs = 10;
  for (int i = 0; i < kTries; ++i) {
    if (lock.open() && flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
    if (lock.open() && errno != EWOULDBLOCK) return lock;  // a file system without locks
    poll(nullptr, 0, kPauseMs);
  }
  return Error{"--checkpoint-dir " + directory + ": another job uses this directory"};
}

// --- Writing

CheckpointWriter::CheckpointWriter(const JobSegment& segment, const std::string& directory,
                                   const CheckpointOwner& owner)
    : segment_(segment),
      versions_(versions_of(directory)),
      texts_(texts_of(owner)),
      wake_owner_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  // The segment of a job that resumes from a set may be a copy made while a version was written.
  segment_.header()->version_in_file.store(journal::kAgentStores, journal::Step::kNotice, 0);
  versions_.remove_parts();
  thread_ = std::thread([this] { run(); });
}

void CheckpointWriter::offer(std::uint64_t version) {
  {
    const std::lock_guard lock(mutex_);
    offered_ = std::max(offered_, version);
  }
  wake_.notify_one();
}

void CheckpointWriter::finish() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void CheckpointWriter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return ending_ || offered_ > looked_at_; });
    if (offered_ <= looked_at_) return;
    const std::uint64_t version = looked_at_ = offered_;
    lock.unlock();
    const Outcome outcome = look_at(version);
    lock.lock();
    note(version, outcome);
  }
}

void CheckpointWriter::note(std::uint64_t version, const Outcome& outcome) {
  switch (outcome.kind) {
    case Outcome::Kind::kNothing:
      return;
    case Outcome::Kind::kWritten:
      error_ = 0;
      if (!has_written_.exchange(true)) eventfd_write(wake_owner_.get(), 1);
      return;
    case Outcome::Kind::kFailed:
      if (std::exchange(error_, outcome.error) == outcome.error) return;
      return tell("no checkpoint was written: " + versions_.path_of(version) + ": " +
                  error_text(outcome.error));
    case Outcome::Kind::kFault:
      break;
  }
  const std::uint32_t bit = 1u << static_cast<std::uint32_t>(outcome.fault);
  if ((std::exchange(told_faults_, told_faults_ | bit) & bit) != 0) return;
  tell("no checkpoint was written to " + versions_.directory() + ": rank " +
       std::to_string(outcome.rank) + " " + journal::text_of(outcome.fault) + " at checkpoint " +
       std::to_string(version) +
       ", so a job cannot be resumed from this version (docs/checkpoints.md)");
}

void CheckpointWriter::tell(std::string line) {
  news_.push_back(std::move(line));
  eventfd_write(wake_owner_.get(), 1);
}

std::vector<std::string> CheckpointWriter::news() {
  eventfd_t count = 0;
  eventfd_read(wake_owner_.get(), &count);
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

// In a job of images a rank reads version_in_file before it reuses a slot. A rank that read it
// before this store may still overwrite one slot of this version. Therefore the slots' numbers are
// checked after the store, and again after the models have been copied. Later reuse sees the store.
CheckpointWriter::Outcome CheckpointWriter::look_at(std::uint64_t version) {
  constexpr auto kFenced = std::memory_order_seq_cst;
  auto& in_file = segment_.header()->version_in_file;
  in_file.store(journal::kAgentStores, journal::Step::kNotice, version, kFenced);
  const Slots slots = slots_of(version);
  const Outcome outcome = slots.empty() ? Outcome() : look_at(version, slots);
  in_file.store(journal::kAgentStores, journal::Step::kNotice, 0, kFenced);
  return outcome;
}

CheckpointWriter::Outcome CheckpointWriter::look_at(std::uint64_t version, const Slots& slots) {
  bool has_model = slots[0]->global.bytes != 0;
  Outcome fault;
  for (std::uint32_t r = 0; r < slots.size() && fault.kind == Outcome::Kind::kNothing; ++r) {
    has_model = has_model || slots[r]->local.bytes != 0;
    if (slots[r]->fault == journal::VersionFault::kNone) continue;
    fault = {.kind = Outcome::Kind::kFault, .rank = r, .fault = slots[r]->fault};
  }
  if (fault.kind == Outcome::Kind::kFault) return are_still_of(version, slots) ? fault : Outcome();
  const bool of_versions = segment_.header()->goes_back_to.load() == journal::Return::kVersions;
  return has_model || of_versions ? write(version, slots) : Outcome();
}

CheckpointWriter::Slots CheckpointWriter::slots_of(std::uint64_t version) const {
  Slots slots;
  for (std::uint32_t r = 0; r < segment_.header()->ranks; ++r) {
    slots.push_back(journal::find_version(segment_.base(), r, version));
    if (slots.back() == nullptr) return {};
  }
  return slots;
}

bool CheckpointWriter::are_still_of(std::uint64_t version, const Slots& slots) {
  journal::order_stores();  // and loads
  return std::all_of(slots.begin(), slots.end(), [&](const journal::Version* slot) {
    return slot->marks.number.load(std::memory_order_acquire) == version;
  });
}

CheckpointWriter::Outcome CheckpointWriter::write(std::uint64_t version, const Slots& slots) {
  const std::byte* base = segment_.base();
  CheckpointHead head = {};
  memcpy(head.magic, kMagic, sizeof kMagic);
  head.format = kFormat;
  head.ranks = segment_.header()->ranks;
  head.version = version;
  head.texts_bytes = texts_.size();
  const journal::Buffer global = slots[0]->global;
  std::vector<journal::Buffer> models;
  for (const journal::Version* slot : slots) models.push_back(slot->local);
  // A slot that is reused while it is read here may give any address.
  if (!are_still_of(version, slots)) return {};
  head.global = checksum_of(base + global.at, global.bytes);
  std::vector<Checksum> locals;
  for (const journal::Buffer& m : models) locals.push_back(checksum_of(base + m.at, m.bytes));
  head.sum = sum_of_heads(head, locals.data(), texts_);

  NewFile file(versions_.part_of(version), O_TRUNC, 0666);
  file.add(&head, sizeof head);
  file.add(locals.data(), locals.size() * sizeof(Checksum));
  file.add(texts_);
  file.add(base + global.at, global.bytes);
  for (const journal::Buffer& m : models) file.add(base + m.at, m.bytes);
  Outcome outcome;
  if (!file.sync()) {
    outcome = {.kind = Outcome::Kind::kFailed, .error = file.error()};
  } else if (are_still_of(version, slots)) {  // else the copy is not valid
    outcome = put_in_place(version);
  }
  if (outcome.kind == Outcome::Kind::kWritten) {
    versions_.remove_old(version, kFilesKept);
  } else {
    versions_.remove_part(version);
  }
  return outcome;
}

// Older files are removed only after the new one is durable in the directory.
CheckpointWriter::Outcome CheckpointWriter::put_in_place(std::uint64_t version) {
  if (!versions_.put_in_place(version)) return {.kind = Outcome::Kind::kFailed, .error = errno};
  return {.kind = Outcome::Kind::kWritten};
}

}  // namespace rejoin::launcher
