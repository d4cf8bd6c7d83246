#include "launcher/agent/file_changes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "launcher/base/file.h"
#include "libc_recording/identity.h"

namespace rejoin::launcher {
namespace {

using libc_recording::FoundFile;
using wire::FileChange;
using wire::FileLogReader;

FoundFile look(const std::string& path) {
  return libc_recording::find_file(statx, AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW);
}

Error damaged(const std::string& log, const std::string& why) {
  return Error{
      "--resume: " + log + " " + why +
      ": it is not known how the job has changed files since the set was written. Nothing was "
      "changed; use an older copy of the directory, or start the job anew in another one"};
}

// Returns the images from `since` on for which the rank has a log, oldest first.
std::vector<std::uint64_t> images_with_logs(const std::string& directory, std::uint32_t rank,
                                            std::uint64_t since) {
  std::vector<std::uint64_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    unsigned of = 0;
    unsigned long long number = 0;
    const std::string name = entry.path().filename();
    if (sscanf(name.c_str(), "rank-%u-image-%llu", &of, &number) != 2) continue;
    if (of == rank && number >= since) found.push_back(number);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

Result<FileChanges> FileChanges::read(const ImageSet& set, const std::string& directory,
                                      const std::vector<std::uint64_t>& observations) {
  std::vector<std::uint64_t> images;
  for (std::uint32_t r = 0; r < set.images.size(); ++r) {
    images.push_back(set.images[r].number);
    const Checksum& at_cut = set.file_logs[r];
    const std::string first = file_log_in(directory, r, images[r]);
    const Checksum now = checksum_of_file_log(first, at_cut.bytes);
    if (now != at_cut) {
      return damaged(first, now.bytes < at_cut.bytes ? "is cut off or gone"
                                                     : "is damaged or that of another set");
    }
  }
  auto all = read_all(images, directory, observations);
  if (!all.ok()) return all;
  if (const auto error = all.value().check()) return *error;
  return all;
}

Result<FileChanges> FileChanges::read_since(std::uint64_t image, const std::string& directory,
                                            const std::vector<std::uint64_t>& observations) {
  return read_all(std::vector(observations.size(), image), directory, observations);
}

Result<FileChanges> FileChanges::read_all(const std::vector<std::uint64_t>& images,
                                          const std::string& directory,
                                          const std::vector<std::uint64_t>& observations) {
  FileChanges all;
  std::vector<Rank> of_ranks(images.size());
  for (std::uint32_t r = 0; r < images.size(); ++r) {
    for (const std::uint64_t image : images_with_logs(directory, r, images[r])) {
      const auto error = all.read_log(directory, r, image, observations[r], of_ranks[r]);
      if (error) return *error;
    }
    all.complete(of_ranks[r], observations[r], images[r]);
  }
  // Merges the ranks' changes, the newest first. The changes of one rank stay in their order, even
  // if its clock was set back.
  for (;;) {
    std::vector<Change>* newest = nullptr;
    for (auto& [changes, logs, order] : of_ranks) {
      if (changes.empty()) continue;
      const bool newer =
          newest == nullptr || changes.back().head.time_ns > newest->back().head.time_ns;
      if (newer) newest = &changes;
    }
    if (newest == nullptr) break;
    all.changes_.push_back(std::move(newest->back()));
    newest->pop_back();
  }
  return all;
}

std::optional<Error> FileChanges::read_log(const std::string& directory, std::uint32_t rank,
                                           std::uint64_t image, std::uint64_t observations,
                                           Rank& of) {
  const std::string log = file_log_in(directory, rank, image);
  auto mapped = MappedFile::open(log);
  if (!mapped.ok()) return damaged(log, "cannot be read");
  const std::string_view bytes = mapped.value().bytes();
  if (bytes.size() < sizeof(wire::FileLogHead)) {  // the rank was killed while it created the log
    cut_off_.push_back({log, 0});
    return {};
  }
  of.logs.push_back(log);
  FileLogReader reader(bytes.data(), bytes.size());
  if (!reader.begins(rank, image)) return damaged(log, "is damaged or that of another rank");
  for (;;) {
    switch (reader.next()) {
      case FileLogReader::Found::kEntry:
        break;
      case FileLogReader::Found::kCutOff:
        cut_off_.push_back({log, reader.at()});
        [[fallthrough]];
      case FileLogReader::Found::kEnd:
        return {};
      case FileLogReader::Found::kDamaged:
        return damaged(log, "is damaged: an entry has a wrong checksum");
    }
    const wire::FileEntryHead& head = reader.head();
    // An entry exactly at the cut is a change that the rank was making at that moment: the replay
    // finds out whether it was made (ask_once() in libc_recording/files.h). Entries of a replay
    // that makes ghosts have exactly that position, too, but are after the cut.
    const bool ghost = head.change == FileChange::kGhost;
    const bool before = head.position < observations + (ghost ? 0 : 1);
    of.newest_order = std::max(of.newest_order, head.order);
    const bool of_ftrun = head.change == FileChange::kUndone || head.change == FileChange::kPutBack;
    if (!of_ftrun && (head.change == FileChange::kOpened || before)) continue;
    if (head.change == FileChange::kRemovedDirectory) removed_directories_.insert(head.file);
    of.changes.push_back({head, reader.path(), reader.other(), reader.kept(), log, ""});
  }
}

void FileChanges::complete(Rank& of, std::uint64_t observations, std::uint64_t image) {
  // A job that resumes from images reuses their numbers, and therefore the names of logs.
  std::stable_sort(of.changes.begin(), of.changes.end(),
                   [](const Change& a, const Change& b) { return a.head.order < b.head.order; });
  std::vector<Change> left;
  for (Change& c : of.changes) {
    if (c.head.change == FileChange::kUndone) {
      const std::uint64_t from = c.head.position;
      std::erase_if(left, [from](const Change& undone) { return undone.head.position > from; });
    } else if (c.head.change == FileChange::kPutBack) {
      while (!left.empty() && left.back().head.order >= c.head.size_bytes) left.pop_back();
    } else {
      left.push_back(std::move(c));
    }
  }
  of.changes = std::move(left);
  const auto add = [](const std::string& log, wire::FileEntryHead head, const std::string& path) {
    char bytes[sizeof head + wire::kMostFileEntryText];
    const std::size_t size = wire::put_file_entry(head, path.c_str(), "", "", bytes);
    return Addition{log, std::string(bytes, size)};
  };
  // A process of the rank was killed before it logged the file that it had made, and none of its
  // successors has come that far: it is the file that is there now. That is logged before anything
  // is undone, because after an interruption another file may be there.
  std::set<std::string> logged;
  std::vector<Change> made;
  for (std::size_t i = of.changes.size(); i-- > 0;) {
    const Change& c = of.changes[i];
    if (c.head.change == FileChange::kMade) logged.insert(c.path);
    if (c.head.change != FileChange::kMaking || logged.contains(c.path)) continue;
    made.push_back(c);
    made.back().head.change = FileChange::kMade;
    made.back().head.file = look(c.path).file.file;  // 0: there is nothing
    made.back().head.order = ++of.newest_order;
    before_.push_back(add(c.log, made.back().head, c.path));
  }
  for (Change& c : made) of.changes.push_back(std::move(c));
  for (std::size_t i = of.changes.size(); i-- > 0;) {
    wire::FileEntryHead put_back = {};
    put_back.change = FileChange::kPutBack;
    put_back.order = ++of.newest_order;
    put_back.size_bytes = of.changes[i].head.order;
    of.changes[i].put_back = add("", put_back, "").entry;
  }
  wire::FileEntryHead undone = {};
  undone.change = FileChange::kUndone;
  undone.order = ++of.newest_order;
  undone.position = observations;
  undone.size_bytes = image;
  for (const std::string& log : of.logs) behind_.push_back(add(log, undone, ""));
}

// Calls f(change, name) for every file that is gone and cannot be put back. It can if it still has
// another name, or was made after the cut as well.
template <class F>
void FileChanges::each_lost(F&& f) const {
  std::set<std::uint32_t> made;
  for (const Change& c : changes_) {
    if (c.head.change == FileChange::kMade) made.insert(c.head.file);
  }
  for (const Change& c : changes_) {
    const bool removed = c.head.change == FileChange::kRemoved;
    const bool replaced = c.head.change == FileChange::kRenamed && c.head.other_file != 0 &&
                          c.head.other_file != c.head.file;
    if (!removed && !replaced) continue;
    const std::string& name = removed ? c.path : c.other;
    const std::uint32_t gone = removed ? c.head.file : c.head.other_file;
    const bool was_directory = replaced && c.head.flags != 0;
    if (made.contains(gone) || look(name).file.file == gone || was_directory) continue;
    if (c.kept.empty() || look(c.kept).file.file != gone) f(c, name);
  }
}

std::vector<std::string> FileChanges::lost() const {
  std::vector<std::string> names;
  each_lost([&](const Change&, const std::string& name) { names.push_back(name); });
  return names;
}

std::optional<Error> FileChanges::check() const {
  std::optional<Error> error;
  each_lost([&](const Change& c, const std::string& name) {
    if (error) return;
    error = Error{
        "--resume: " + name + " was " +
        (c.head.change == FileChange::kRemoved ? "removed" : "replaced") +
        " after the set of images was written, and there is no hard link to it" +
        (c.kept.empty() ? " (it was in another file system than the --checkpoint-dir, or too many "
                          "files were removed)"
                        : "") +
        ": the job cannot go on without it. Nothing was changed; put the file back, or start the "
        "job anew in another directory"};
  });
  return error;
}

std::optional<Error> FileChanges::undo(std::vector<std::string>& notices, std::size_t most) const {
  for (const CutOff& c : cut_off_) {
    const int result =
        c.bytes == 0 ? unlink(c.log.c_str()) : truncate(c.log.c_str(), static_cast<off_t>(c.bytes));
    if (result != 0) return Error{"--resume: " + c.log + ": " + error_text(errno)};
  }
  if (const auto error = append(before_)) return error;
  for (const Change& c : changes_) {
    if (most-- == 0) return {};
    const std::string fault = undo(c, notices);
    if (!fault.empty()) return Error{"--resume: " + fault};
    if (most-- == 0) return {};
    if (auto error = append(c.log, c.put_back)) return error;
  }
  return append(behind_);
}

std::optional<Error> FileChanges::append(const std::string& log, const std::string& entry) {
  const Descriptor file(open(log.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  const auto bytes = static_cast<ssize_t>(entry.size());
  if (file.open() && write(file.get(), entry.data(), entry.size()) == bytes) return {};
  return Error{"--resume: " + log + ": " + error_text(errno)};
}
std::optional<Error> FileChanges::append(const std::vector<Addition>& additions) {
  for (const Addition& a : additions) {
    if (auto error = append(a.log, a.entry)) return error;
  }
  return {};
}

// Undoes one change. Returns what the system refused, or an empty string.
std::string FileChanges::undo(const Change& c, std::vector<std::string>& notices) const {
  const auto failed = [](const std::string& what) { return what + " (" + error_text(errno) + ")"; };
  const FoundFile at_path = look(c.path);
  const bool there = at_path.there && at_path.file.file == c.head.file;
  // Links the file that was removed, whose other name is `kept`, to its old name again.
  const auto put_back = [&](const std::string& to) {
    if (c.kept.empty() || look(to).there) return std::string();
    if (linkat(AT_FDCWD, c.kept.c_str(), AT_FDCWD, to.c_str(), 0) == 0) return std::string();
    return failed(to + " cannot be restored");
  };
  switch (c.head.change) {
    case FileChange::kOpened:
    case FileChange::kMaking:
    case FileChange::kUndone:
    case FileChange::kPutBack:
      break;
    case FileChange::kGhost:
    case FileChange::kMade: {
      // A directory that was removed after it was made has been made again above, as another file.
      const bool again = at_path.directory() && removed_directories_.contains(c.head.file);
      if (!there && !again) break;
      if (!at_path.directory()) {
        return unlink(c.path.c_str()) == 0 ? "" : failed(c.path + " cannot be removed");
      }
      if (rmdir(c.path.c_str()) == 0) break;
      if (errno != ENOTEMPTY) return failed(c.path + " cannot be removed");
      notices.push_back(c.path +
                        " was created after the set of images was written, but contains files that "
                        "the job's ranks did not create: it is not removed");
      break;
    }
    case FileChange::kRemoved:
      return put_back(c.path);
    case FileChange::kRemovedDirectory:
      if (at_path.there || mkdir(c.path.c_str(), c.head.flags) == 0) break;
      return failed(c.path + " cannot be created again");
    case FileChange::kRenamed: {
      if (look(c.other).file.file == c.head.file && !there) {
        if (at_path.there) return c.path + " is not the file any more that the job had there";
        if (rename(c.other.c_str(), c.path.c_str()) != 0) {
          return failed(c.other + " cannot be renamed to " + c.path);
        }
      }
      if (c.head.other_file == 0 || c.head.other_file == c.head.file) break;
      if (c.head.flags == 0 || look(c.other).there) return put_back(c.other);
      return mkdir(c.other.c_str(), c.head.flags) == 0 ? ""
                                                       : failed(c.other + " cannot be created");
    }
    case FileChange::kExchanged:
      if (there || look(c.other).file.file != c.head.file) break;
      if (renameat2(AT_FDCWD, c.path.c_str(), AT_FDCWD, c.other.c_str(), RENAME_EXCHANGE) == 0) {
        break;
      }
      return failed(c.path + " and " + c.other + " cannot be exchanged");
  }
  return {};
}

}  // namespace rejoin::launcher
