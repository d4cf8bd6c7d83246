#include "launcher/agent/image_sets.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "launcher/agent/compressed_files.h"
#include "launcher/base/grammar.h"
#include "launcher/program/build.h"
#include "process_image/written_image.h"

namespace rejoin::launcher {
namespace {

using Json = nlohmann::ordered_json;
using process_image::Extent;
using process_image::ImageHead;
using process_image::MappingHead;

constexpr int kFormat = 4;
constexpr std::size_t kSumDigits = 16;

NumberedEntries sets_of(const std::string& directory) {
  return NumberedEntries(directory, "images", 1);
}

std::string sum_text(std::string_view bytes) { return hex_text(checksum_of(bytes).sum); }

std::string json_of(const ImageSet& set) {
  Json json;
  json["format"] = kFormat;
  json["number"] = set.number;
  json["job"] = set.job;
  json["incarnation"] = set.incarnation;
  json["program"] = set.owner.program;
  json["build"] = set.owner.build;
  json["arguments"] = set.owner.arguments;
  json["ranks"] = set.owner.ranks;
  json["cut_at"] = set.cut_at_s;
  json["put_back_to"] = set.put_back_to;
  json["vdso"] = set.machine.vdso;
  json["cpu_features"] = set.machine.cpu_features;
  json["input_ended"] = set.input_ended;
  json["input_begun"] = set.input_begun;
  for (const ImageSet::Image& i : set.images) {
    json["images"].push_back({{"number", i.number}, {"executable", i.executable}});
  }
  for (const ImageSet::File& f : set.files) {
    json["files"].push_back({{"name", f.name}, {"bytes", f.content.bytes}, {"sum", f.content.sum}});
  }
  for (const Checksum& m : set.file_logs) {
    json["file_logs"].push_back({{"bytes", m.bytes}, {"sum", m.sum}});
  }
  for (const auto& [path, build] : set.libraries) json["libraries"][path] = build;
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Throws if something is missing or has another type.
ImageSet set_of(const Json& json) {
  ImageSet set;
  set.number = json.at("number");
  set.job = json.at("job");
  set.incarnation = json.at("incarnation");
  set.owner.program = json.at("program");
  set.owner.build = json.at("build");
  set.owner.arguments = json.at("arguments").get<std::vector<std::string>>();
  set.owner.ranks = json.at("ranks");
  set.cut_at_s = json.at("cut_at");
  set.put_back_to = json.at("put_back_to");
  set.machine.vdso = json.at("vdso");
  set.machine.cpu_features = json.at("cpu_features").get<std::vector<std::string>>();
  set.input_ended = json.at("input_ended");
  set.input_begun = json.at("input_begun");
  for (const Json& i : json.at("images"))
    set.images.push_back({i.at("number"), i.at("executable")});
  for (const Json& f : json.at("files")) {
    set.files.push_back({f.at("name"), {f.at("bytes"), f.at("sum")}});
  }
  for (const Json& m : json.at("file_logs")) {
    set.file_logs.push_back({m.at("bytes"), m.at("sum")});
  }
  for (const auto& [path, build] : json.at("libraries").items()) set.libraries[path] = build;
  return set;
}

// Reads the set's own file into `set`. Returns what is wrong with it, or an empty string.
std::string read_set(const std::string& directory, std::uint64_t number, ImageSet* set) {
  const std::string path = sets_of(directory).path_of(number);
  auto mapped = MappedFile::open(path + "/set");
  if (!mapped.ok()) return "has no list of its files";
  const std::string_view bytes = mapped.value().bytes();
  if (bytes.size() <= kSumDigits || bytes[kSumDigits] != '\n' ||
      bytes.substr(0, kSumDigits) != sum_text(bytes.substr(kSumDigits + 1))) {
    return "is damaged: its list of files has a wrong checksum";
  }
  try {
    const Json json = Json::parse(bytes.substr(kSumDigits + 1));
    if (json.at("format") != kFormat) return "was written by another version of Rejoin";
    *set = set_of(json);
  } catch (const Json::exception&) {
    return "was written by another version of Rejoin";
  }
  set->path = path;
  if (set->number != number) {
    return "contains set " + std::to_string(set->number) + ", which is not the number in its name";
  }
  const bool complete =
      set->images.size() == set->owner.ranks && set->file_logs.size() == set->owner.ranks;
  return complete ? "" : "does not have an image of every rank";
}

// Returns what is wrong with the file, or an empty string.
std::string fault_of_file(const ImageSet& set, const ImageSet::File& file) {
  auto mapped = MappedFile::open(set.path + "/" + file.name);
  const std::string_view bytes = mapped.ok() ? mapped.value().bytes() : std::string_view();
  if (bytes.size() < file.content.bytes) return "is cut off";
  return checksum_of(bytes) == file.content ? "" : "has a wrong checksum";
}

std::string fault_of_files(const ImageSet& set) {
  for (const ImageSet::File& f : set.files) {
    const std::string fault = fault_of_file(set, f);
    if (!fault.empty()) return "is damaged: " + f.name + " " + fault;
  }
  return {};
}

// Reads the set and all of its files. Errors: what is wrong with it.
Result<ImageSet> complete_set(const std::string& directory, std::uint64_t number) {
  ImageSet set;
  std::string fault = read_set(directory, number, &set);
  if (fault.empty()) fault = fault_of_files(set);
  if (!fault.empty()) return Error{sets_of(directory).path_of(number) + " " + fault};
  return set;
}

// Returns why no job can resume from the set on this machine, or an empty string.
std::string objection_here(const ImageSet& set, const std::string& library_directory) {
  const std::string lacks = lacking(set.machine, machine_mark());
  if (!lacks.empty()) {
    return "--resume: " + set.path + " was written on a machine with " + lacks +
           ": resume on such a machine, or start the job anew in another directory";
  }
  for (const auto& [path, build] : set.libraries) {
    const auto now = build_of(path, library_directory);
    if (now.ok() && now.value() == build) continue;
    return "--resume: " + set.path + " was written with another build of " + one_line(path) + " (" +
           build + ", this is " + (now.ok() ? now.value() : "not there") +
           "): install that one again, or start the job anew in another directory";
  }
  if (set.input_begun && !set.input_ended) {
    return "--resume: " + set.path +
           " was written when the job had read a part of its standard input: the job cannot go on, "
           "because the rest of the input was not saved";
  }
  return {};
}

// Returns why the job of `owner` cannot resume from the set here, or an empty string.
std::string objection(const ImageSet& set, const CheckpointOwner& owner,
                      const std::string& library_directory) {
  const std::string why = refusal(set.path, set.owner, owner);
  return why.empty() ? objection_here(set, library_directory) : why;
}

// Returns false on failure, with errno set.
bool write_file(const std::string& path, std::string_view bytes) {
  NewFile file(path, O_TRUNC, 0600);
  file.add(bytes);
  return file.sync();
}

// Calls f with each file that an image maps. Returns false if the image is truncated.
bool each_mapped_file(std::string_view image, std::string* executable,
                      const std::function<void(const std::string&)>& f) {
  std::size_t at = 0;
  const auto take = [&](void* to, std::size_t bytes) {
    if (bytes > image.size() - at) return false;
    memcpy(to, image.data() + at, bytes);
    at += bytes;
    return true;
  };
  ImageHead head;
  if (!take(&head, sizeof head)) return false;
  *executable = head.executable;
  for (MappingHead m; take(&m, sizeof m);) {
    if (m.kind == MappingHead::Kind::kEnd) return true;
    std::string path(m.path_bytes, '\0');
    if (!take(path.data(), path.size())) return false;
    if (m.kind == MappingHead::Kind::kFile) f(path.c_str());
    for (Extent e;;) {
      if (!take(&e, sizeof e) || e.bytes > image.size() - at) return false;
      if (e.bytes == 0) break;
      at += e.bytes;
    }
  }
  return false;
}

void step_back() {
  constexpr int kLowest = 19;
  constexpr int kProcess = 1, kIdle = 3 << 13;  // of ioprio_set()
  const auto self = static_cast<id_t>(syscall(SYS_gettid));
  setpriority(PRIO_PROCESS, self, kLowest);
  syscall(SYS_ioprio_set, kProcess, self, kIdle);
}

// Works in a thread of the lowest priority, and waits for it. On a busy machine that thread may get
// no processor for seconds, and keeps what it has locked. The agent's loop would wait for it, and
// would be silent. Therefore `work` locks nothing, and neither maps nor unmaps large files.
template <class Work>
void at_lowest_priority(const Work& work) {
  std::optional<std::thread> thread;
  try {
    thread.emplace([&work] {
      step_back();
      work();
    });
  } catch (const std::system_error&) {
    return work();  // there may be no more threads
  }
  thread->join();
}

template <class Work>
void without(std::unique_lock<std::mutex>& lock, const Work& work) {
  lock.unlock();
  at_lowest_priority(work);
  lock.lock();
}

}  // namespace

std::map<std::uint32_t, std::uint64_t> ImageSet::numbers_of(const LocalRanks& ranks) const {
  std::map<std::uint32_t, std::uint64_t> numbers;
  for (const std::uint32_t rank : ranks) numbers[rank] = images[rank].number;
  return numbers;
}

std::string ImageSet::path_of_image(std::uint32_t rank) const {
  return path + "/image-" + std::to_string(rank);
}

Result<std::string> ImageSet::input() const {
  auto mapped = MappedFile::open(path + "/input");
  if (!mapped.ok()) return mapped.error();
  return std::string(mapped.value().bytes());
}

std::string file_logs_in(const std::string& directory) {
  std::error_code error;
  return std::filesystem::absolute(directory, error).string() + "/opened";
}

std::string file_log_in(const std::string& logs, std::uint32_t rank, std::uint64_t image) {
  return logs + "/rank-" + std::to_string(rank) + "-image-" + std::to_string(image);
}

Checksum checksum_of_file_log(const std::string& log, std::uint64_t bytes) {
  auto mapped = MappedFile::open(log);
  if (!mapped.ok()) return {};
  const std::string_view all = mapped.value().bytes().substr(0, bytes);
  return all.empty() ? Checksum() : checksum_of(all);
}

void remove_file_logs(const std::string& logs, const std::vector<std::uint64_t>& oldest) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(logs, error)) {
    unsigned rank = 0;
    unsigned long long number = 0;
    const std::string name = entry.path().filename();
    if (sscanf(name.c_str(), "rank-%u-image-%llu", &rank, &number) != 2 &&
        sscanf(name.c_str(), "kept-%u-%llu-", &rank, &number) != 2) {
      continue;
    }
    if (rank < oldest.size() && number < oldest[rank]) std::filesystem::remove(entry.path(), error);
  }
}

std::string path_of_image_set(const std::string& directory, std::uint64_t number) {
  return sets_of(directory).path_of(number);
}

bool holds_image_sets(const std::string& directory) {
  return !sets_of(directory).numbers().empty();
}

std::vector<std::uint64_t> image_sets_at(const std::string& directory) {
  return sets_of(directory).numbers();
}

Result<ImageSet> image_set_at(const std::string& directory, std::uint64_t number) {
  ImageSet set;
  const std::string fault = read_set(directory, number, &set);
  if (!fault.empty()) return Error{path_of_image_set(directory, number) + " " + fault};
  return set;
}

std::optional<Error> remove_image_sets_after(const std::string& directory, std::uint64_t number) {
  const NumberedEntries sets = sets_of(directory);
  for (const std::uint64_t newer : sets.numbers()) {
    if (newer <= number) break;
    if (const auto error = sets.remove(newer)) return error;
  }
  return {};
}

std::optional<Error> remove_image_sets(const std::string& directory) {
  if (const auto error = sets_of(directory).remove_all()) return error;
  std::error_code error;
  std::filesystem::remove_all(file_logs_in(directory), error);
  return {};
}

Result<ImageSet> newest_image_set(const std::string& directory, const CheckpointOwner& owner,
                                  const std::string& library_directory,
                                  std::vector<std::string>& notices) {
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(directory, error);
  auto set = sets_of(absolute).newest<ImageSet>(
      [&](std::uint64_t number) { return complete_set(absolute, number); }, notices);
  if (!set) return Error{"--resume: there is no complete set of images in " + directory};
  const std::string why_not = objection(*set, owner, library_directory);
  if (!why_not.empty()) return Error{why_not};
  return std::move(*set);
}

Result<ImageSet> resumable_image_set(const std::string& directory, std::uint64_t number,
                                     const CheckpointOwner& owner,
                                     const std::string& library_directory) {
  std::error_code error;
  auto set = complete_set(std::filesystem::absolute(directory, error), number);
  if (!set.ok()) return set;
  const std::string why_not = objection(set.value(), owner, library_directory);
  if (!why_not.empty()) return Error{why_not};
  return set;
}

std::vector<FoundImageSet> image_sets_in(const std::string& directory,
                                         const std::string& library_directory) {
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(directory, error);
  std::vector<FoundImageSet> found;
  const NumberedEntries sets = sets_of(absolute);
  for (const std::uint64_t number : sets.numbers()) {
    FoundImageSet& one = found.emplace_back();
    one.fault = read_set(absolute, number, &one.set);
    one.set.path = sets.path_of(number);
    one.set.number = number;
    if (!one.fault.empty()) continue;
    for (const ImageSet::File& f : one.set.files) {
      one.file_faults.push_back(fault_of_file(one.set, f));
    }
    one.fault = fault_of_files(one.set);
    one.objection = objection_here(one.set, library_directory);
  }
  return found;
}

// --- Writing

ImageSetWriter::ImageSetWriter(const std::string& directory, std::string library_directory,
                               const Retention& retention, bool compress)
    : sets_(sets_of(directory)),
      library_directory_(std::move(library_directory)),
      retention_(retention),
      compress_(compress),
      wake_owner_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  sets_.remove_parts();
  std::error_code error;
  const auto there = sets_.numbers();
  if (!there.empty()) next_ = there.front() + 1;
  all_settled_.assign(there.rbegin(), there.rend());
  if (there.empty()) std::filesystem::remove_all(file_logs_in(sets_.directory()), error);
  thread_ = std::thread([this] { run(); });
}

std::string ImageSetWriter::part() const { return sets_.part_of(number_); }

Result<std::vector<Descriptor>> ImageSetWriter::begin(std::uint64_t number,
                                                      const LocalRanks& ranks) {
  {
    const std::lock_guard lock(mutex_);
    number_ = number;
    next_ = number + 1;
    fault_.clear();
  }
  if (mkdir(part().c_str(), 0700) != 0) return Error{part() + ": " + error_text(errno)};
  std::vector<Descriptor> files;
  for (const std::uint32_t r : ranks) {
    const std::string path = part() + "/image-" + std::to_string(r);
    files.emplace_back(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (files.back().open()) continue;
    const Error error{path + ": " + error_text(errno)};
    abandon();
    return error;
  }
  return files;
}

void ImageSetWriter::add(SegmentCopy journal, std::string input) {
  const std::lock_guard lock(mutex_);
  journal_.emplace(std::move(journal));
  input_ = std::move(input);
  wake_.notify_one();
}

void ImageSetWriter::complete(ImageSet set) {
  const std::lock_guard lock(mutex_);
  complete_ = std::move(set);
  wake_.notify_one();
}

void ImageSetWriter::abandon() {
  const std::lock_guard lock(mutex_);
  withdraw(number_);
  abandoned_ = number_;
  journal_.reset();
  complete_.reset();
  wake_.notify_one();
}

// Else those before may have been removed.
void ImageSetWriter::withdraw(std::uint64_t number) const {
  if (retention_.until_settled) sets_.withdraw(number);
}

void ImageSetWriter::settled(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  settled_.push_back(number);
  wake_.notify_one();
}

void ImageSetWriter::remove_all() {
  const std::lock_guard lock(mutex_);
  removing_ = true;
  wake_.notify_one();
}

void ImageSetWriter::finish() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    wake_.notify_one();
  }
  thread_.join();
}

std::optional<ImageSetWriter::Outcome> ImageSetWriter::outcome() {
  eventfd_t count = 0;
  eventfd_read(wake_owner_.get(), &count);
  const std::lock_guard lock(mutex_);
  return std::exchange(outcome_, {});
}

void ImageSetWriter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] {
      return journal_ || complete_ || abandoned_ || !settled_.empty() || removing_ || ending_;
    });
    if (ending_) break;
    run_one(lock);
  }
  if (removing_) remove_image_sets(sets_.directory());
  if (abandoned_) withdraw(*abandoned_);
  sets_.remove_parts();
}

void ImageSetWriter::run_one(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t number = number_;
  const std::string path = part();
  if (abandoned_) {
    const std::uint64_t gone = *std::exchange(abandoned_, {});
    without(lock, [&] {
      withdraw(gone);
      sets_.remove_part(gone);
    });
  } else if (journal_) {
    const SegmentCopy journal = std::move(*journal_);
    const std::string input = std::move(input_);
    journal_.reset();
    std::string fault;
    without(lock, [&] {
      if (journal.write(path + "/journal") && write_file(path + "/input", input)) return;
      fault = path + ": " + error_text(errno);
    });
    if (number_ == number) fault_ = fault;
  } else if (!settled_.empty()) {
    const std::uint64_t newest = settled_.front();
    settled_.erase(settled_.begin());
    without(lock, [&] { remove_unsettled(newest); });
  } else if (!complete_) {
    removing_ = false;
    // The next job removes what is left after an error.
    without(lock, [&] { remove_image_sets(sets_.directory()); });
  } else {
    ImageSet set = std::move(*complete_);
    complete_.reset();
    Outcome done = {number, sets_.path_of(number), fault_};
    without(lock, [&] {
      done = complete_now(set, std::move(done), path);
      if (!done.fault.empty()) {
        sets_.remove_part(number);
      } else if (!retention_.until_settled) {
        sets_.remove_old(number, retention_.kept);
        remove_file_logs();
      }
    });
    outcome_ = std::move(done);
    eventfd_write(wake_owner_.get(), 1);
  }
}

// Until another host has written its part of the newest set, the job can go on only from one of
// those before.
void ImageSetWriter::remove_unsettled(std::uint64_t newest) {
  all_settled_.push_back(newest);
  while (all_settled_.size() > retention_.kept) all_settled_.erase(all_settled_.begin());
  for (const std::uint64_t number : sets_.numbers()) {
    const bool stays =
        number > newest || std::count(all_settled_.begin(), all_settled_.end(), number) > 0;
    if (!stays) sets_.remove(number);
  }
  remove_file_logs();
}

ImageSetWriter::Outcome ImageSetWriter::complete_now(ImageSet& set, Outcome done,
                                                     const std::string& part) {
  if (!done.fault.empty()) return done;
  const auto failed = [&](const std::string& fault) {
    done.fault = fault;
    return done;
  };
  std::vector<std::string> names = {"input", "journal"};
  for (std::uint32_t r = 0; r < set.owner.ranks; ++r) {
    const std::string name = "image-" + std::to_string(r);
    if (set.images[r].number != 0) {
      const std::string fault = note_image(set, r, part + "/" + name);
      if (!fault.empty()) return failed(fault);
      names.push_back(name);
    }
    done.executables.push_back(set.images[r].executable);
  }
  for (std::string& name : names) {
    std::string path = part + "/" + name;
    const bool durable = compress_ && name != "input" ? compress_file(path) : sync_path(path);
    if (!durable) return failed(path + ": " + error_text(errno));
    if (compress_ && name != "input") {
      name += kCompressedSuffix;
      path += kCompressedSuffix;
    }
    const auto sum = checksum_of_file(path);
    if (!sum) return failed(path + ": " + error_text(errno));
    set.files.push_back({name, *sum});
    done.bytes += set.files.back().content.bytes;
  }
  const std::string log_fault = sync_file_logs(set);
  if (!log_fault.empty()) return failed(log_fault);
  const std::string json = json_of(set);
  if (!write_file(part + "/set", sum_text(json) + "\n" + json) || !sync_path(part) ||
      !sets_.put_in_place(done.number)) {
    return failed(done.path + ": " + error_text(errno));
  }
  return done;
}

// Makes the ranks' file logs durable, without which no job can resume from the set. Returns what
// has failed, or an empty string.
std::string ImageSetWriter::sync_file_logs(const ImageSet& set) const {
  const std::string logs = file_logs_in(sets_.directory());
  bool any = false;
  for (std::uint32_t r = 0; r < set.file_logs.size(); ++r) {
    if (set.file_logs[r].bytes == 0) continue;
    const std::string log = file_log_in(logs, r, set.images[r].number);
    if (!sync_path(log)) return log + ": " + error_text(errno);
    any = true;
  }
  return any && !sync_path(logs) ? logs + ": " + error_text(errno) : "";
}

std::string ImageSetWriter::note_image(ImageSet& set, std::uint32_t rank, const std::string& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped.ok()) return mapped.error().text;
  std::string fault;
  const bool good = each_mapped_file(mapped.value().bytes(), &set.images[rank].executable,
                                     [&](const std::string& file) {
                                       if (set.libraries.contains(file)) return;
                                       auto found = build(file);
                                       if (!found.ok()) fault = found.error().text;
                                       if (found.ok()) set.libraries[file] = found.value();
                                     });
  return good ? fault : path + " is cut off";
}

Result<std::string> ImageSetWriter::build(const std::string& path) {
  struct stat s = {};
  if (stat(path.c_str(), &s) != 0) return Error{path + ": " + error_text(errno)};
  const auto bytes = static_cast<std::uint64_t>(s.st_size);
  const std::int64_t modified_ns = s.st_mtim.tv_sec * 1'000'000'000 + s.st_mtim.tv_nsec;
  const auto known = builds_.find(path);
  if (known != builds_.end() && known->second.bytes == bytes &&
      known->second.modified_ns == modified_ns) {
    return known->second.build;
  }
  auto found = build_of(path, library_directory_);
  if (found.ok()) builds_[path] = {bytes, modified_ns, found.value()};
  return found;
}

// Removes what no set needs any more.
void ImageSetWriter::remove_file_logs() {
  ImageSet oldest;
  const auto there = sets_.numbers();
  if (there.empty() || !read_set(sets_.directory(), there.back(), &oldest).empty()) return;
  std::vector<std::uint64_t> images;
  for (const ImageSet::Image& image : oldest.images) images.push_back(image.number);
  launcher::remove_file_logs(file_logs_in(sets_.directory()), images);
}

}  // namespace rejoin::launcher
