#include "libc_recording/file_log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "libc_recording/hooks.h"
#include "libc_recording/memory.h"
#include "libc_recording/observed.h"
#include "recovery/hash.h"
#include "wire/file_log.h"
#include "wire/messages.h"

namespace rejoin::libc_recording {
namespace {

using wire::FileChange;
using wire::FileEntryHead;
using wire::FileLogHead;
using wire::FileLogReader;

char directory[PATH_MAX];
bool directory_known = false;
std::uint64_t image = 0;
// Hashes of the paths that were logged as opened since the image.
constexpr std::size_t kMostRemembered = 1024;
std::uint64_t remembered[kMostRemembered];
std::size_t remembered_count = 0;
// Counts the bytes of removed files that have a second name. ftrun removes these with the sets that
// need them, so they are counted again when they seem too many, once for each image.
constexpr std::uint64_t kMostKeptBytes = std::uint64_t{1} << 30;
std::uint64_t kept_bytes = 0;
std::uint64_t counted_at_image = 0;
unsigned kept_count = 0;

bool has_directory() {
  if (!directory_known) {
    const char* name = getenv(wire::kEnvFileLog);
    snprintf(directory, sizeof directory, "%s", name != nullptr ? name : "");
    directory_known = true;
  }
  return directory[0] != '\0';
}

bool remembers(const char* path) {
  const std::uint64_t hash = XXH3_64bits(path, strlen(path));
  for (std::size_t i = 0; i < remembered_count; ++i) {
    if (remembered[i] == hash) return true;
  }
  // A path that is logged twice does no harm.
  if (remembered_count < kMostRemembered) remembered[remembered_count++] = hash;
  return false;
}

recovery::Rank* this_rank() { return recovery::attached_rank(); }

void name_of(std::uint32_t rank, std::uint64_t number, char* name) {
  snprintf(name, PATH_MAX, "%.3900s/rank-%u-image-%llu", directory, rank,
           static_cast<unsigned long long>(number));
}

// Opens the log of the image, and creates it if it does not exist. Negative: errno is set.
int open_log(const char* name) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC;
  int log = open(name, kFlags);
  struct stat s;
  // An empty log was left by a process that was killed while creating it.
  if (log >= 0 && fstat(log, &s) == 0 && s.st_size > 0) return log;
  if (log >= 0) close(log);
  if (log < 0 && errno != ENOENT) return log;
  if (mkdir(directory, 0700) != 0 && errno != EEXIST) return -1;  // another rank may have made it
  log = open(name, kFlags | O_CREAT, 0600);
  if (log < 0) return log;
  FileLogHead head = {};
  memcpy(head.magic, wire::kFileLogMagic, sizeof head.magic);
  head.image = image;
  head.rank = this_rank()->rank();
  head.sum = sum_of_head(head);
  if (write(log, &head, sizeof head) == static_cast<ssize_t>(sizeof head)) return log;
  close(log);
  return -1;
}

constexpr std::size_t kWhole = ~std::size_t{0};

// Calls f(reader) for each entry of a log, until it returns true. Returns the offset of a truncated
// last entry, or kWhole.
template <class F>
std::size_t each_entry(std::uint32_t rank, std::uint64_t number, F&& f) {
  char name[PATH_MAX];
  name_of(rank, number, name);
  const int log = open(name, O_RDONLY | O_CLOEXEC);
  if (log < 0) return kWhole;
  struct stat s = {};
  fstat(log, &s);
  const auto size = static_cast<std::size_t>(s.st_size);
  void* bytes = size > 0 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, log, 0) : MAP_FAILED;
  close(log);
  if (bytes == MAP_FAILED) return kWhole;
  FileLogReader reader(static_cast<const char*>(bytes), size);
  auto found = FileLogReader::Found::kEnd;
  if (reader.begins(rank, number)) {
    while ((found = reader.next()) == FileLogReader::Found::kEntry && !f(reader)) {
    }
  }
  munmap(bytes, size);
  return found == FileLogReader::Found::kCutOff ? reader.at() : kWhole;
}

// Calls f(rank, image) for each log in the directory.
template <class F>
void each_log(F&& f) {
  DIR* all = opendir(directory);
  if (all == nullptr) return;
  while (const dirent* e = readdir(all)) {
    unsigned rank;
    unsigned long long of;
    if (sscanf(e->d_name, "rank-%u-image-%llu", &rank, &of) == 2) f(rank, of);
  }
  closedir(all);
}

// Returns the next order number of this rank, counting the entries of its former processes. Also
// removes an entry that a former process was killed while writing: its change was not made.
std::uint64_t next_order() {
  static std::uint64_t newest;
  static long of_process;  // a clone has the memory of its image, not what was written since
  if (of_process != syscall(SYS_getpid)) {
    of_process = syscall(SYS_getpid);
    newest = 0;
    const std::uint32_t me = this_rank()->rank();
    each_log([&](std::uint32_t rank, std::uint64_t of) {
      if (rank != me) return;
      const std::size_t end = each_entry(me, of, [](const FileLogReader& entry) {
        if (entry.head().order > newest) newest = entry.head().order;
        return false;
      });
      if (end == kWhole) return;
      char name[PATH_MAX];
      name_of(me, of, name);
      if (truncate(name, static_cast<off_t>(end)) != 0)
        rejoin_libc_tell(name, "cannot be truncated");
    });
  }
  return ++newest;
}

void write_down(FileEntryHead head, const char* path, const char* other, const char* kept) {
  char name[PATH_MAX];
  char entry[sizeof head + wire::kMostFileEntryText];
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  head.time_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
                 static_cast<std::uint64_t>(now.tv_nsec);
  head.order = next_order();
  head.position = this_rank()->observation_log().tail.load(std::memory_order_relaxed);
  const std::size_t bytes = wire::put_file_entry(head, path, other, kept, entry);
  name_of(this_rank()->rank(), image, name);
  const int log = open_log(name);
  if (log < 0 || write(log, entry, bytes) != static_cast<ssize_t>(bytes)) {
    rejoin_libc_tell(
        name, "cannot be written: a job that resumes from images may find files in a later state");
  }
  if (log >= 0) close(log);
}

void count_kept() {
  counted_at_image = image;
  kept_bytes = 0;
  DIR* all = opendir(directory);
  if (all == nullptr) return;
  while (const dirent* e = readdir(all)) {
    unsigned rank;
    struct stat s;
    const bool mine = sscanf(e->d_name, "kept-%u-", &rank) == 1 && rank == this_rank()->rank();
    if (mine && fstatat(dirfd(all), e->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0) {
      kept_bytes += static_cast<std::uint64_t>(s.st_size);
    }
  }
  closedir(all);
}

// Makes a second name for a file that is about to be removed. Empty: there is none, because the
// file is too large to retain, or the directory is in another file system.
void keep(const char* path, std::uint64_t size_bytes, char* kept) {
  kept[0] = '\0';
  if (kept_bytes + size_bytes > kMostKeptBytes && counted_at_image != image) count_kept();
  if (kept_bytes + size_bytes > kMostKeptBytes) return;
  for (bool made = false;;) {
    snprintf(kept, PATH_MAX, "%.3900s/kept-%u-%llu-%u", directory, this_rank()->rank(),
             static_cast<unsigned long long>(image), ++kept_count);
    if (linkat(AT_FDCWD, path, AT_FDCWD, kept, 0) == 0) break;
    if (errno == EEXIST) continue;
    if (errno == ENOENT && !made && (mkdir(directory, 0700) == 0 || errno == EEXIST)) {
      made = true;
      continue;
    }
    kept[0] = '\0';
    return;
  }
  kept_bytes += size_bytes;
}

// Paths that have been rolled back. Only the first entry of each path counts that is of the file
// that lies there.
class RolledBack {
 public:
  bool contains(const char* path) const {
    const std::uint64_t hash = XXH3_64bits(path, strlen(path));
    for (std::size_t i = 0; i < count_; ++i) {
      if (hashes_[i] == hash) return true;
    }
    return false;
  }
  void add(const char* path) {
    if (count_ < kMost) hashes_[count_++] = XXH3_64bits(path, strlen(path));
  }

 private:
  static constexpr std::size_t kMost = 4096;
  std::uint64_t hashes_[kMost];
  std::size_t count_ = 0;
};

}  // namespace

void log_files_since_image(std::uint64_t number) {
  image = number;
  remembered_count = 0;
}

void move_file_log(const char* name) {
  directory_known = true;
  snprintf(directory, sizeof directory, "%s", name);
}

void roll_back_files(std::uint64_t number) {
  const Unobserved mine;
  if (!has_directory() || rejoin_libc_roll_back == nullptr) return;
  const std::uint32_t me = this_rank()->rank();
  std::uint64_t newest = 0;
  each_log([&](std::uint32_t rank, std::uint64_t of) {
    if (rank == me && of > newest) newest = of;
  });
  static RolledBack done;
  done = {};
  const auto each = [&](auto&& f) {
    for (std::uint64_t n = number; n <= newest; ++n) {
      each_entry(me, n, [&](const FileLogReader& entry) {
        f(entry);
        return false;
      });
    }
  };
  // When the job went back to an older image than this one, all entries before that were of another
  // execution up to this image. Where it went back to this image, or to a later one, the entries
  // before that still tell how files were at this image, also if the job was killed before any rank
  // could use them.
  std::uint64_t lost_until = 0;
  each([&](const FileLogReader& entry) {
    const FileEntryHead& undone = entry.head();
    if (undone.change == FileChange::kUndone && undone.size_bytes < number)
      lost_until = std::max(lost_until, undone.order);
  });
  // The oldest entry of a file counts. The logs stay: the job may begin again from the same image.
  each([&](const FileLogReader& entry) {
    const bool opened =
        entry.head().change == FileChange::kOpened && entry.head().order > lost_until;
    if (!opened || done.contains(entry.path())) return;
    if (rejoin_libc_roll_back(&entry.head(), entry.path())) done.add(entry.path());
  });
}

}  // namespace rejoin::libc_recording

using namespace rejoin::libc_recording;

int rejoin_libc_kept(std::uint32_t file, char* path, unsigned room_bytes) {
  if (!has_directory()) return 0;
  const Unobserved mine;
  bool found = false;
  each_log([&](std::uint32_t rank, std::uint64_t of) {
    each_entry(rank, of, [&](const FileLogReader& entry) {
      using rejoin::wire::FileChange;
      const rejoin::wire::FileEntryHead& head = entry.head();
      const std::uint32_t gone = head.change == FileChange::kRemoved   ? head.file
                                 : head.change == FileChange::kRenamed ? head.other_file
                                                                       : 0;
      if (gone != file || entry.kept()[0] == '\0') return false;
      found = snprintf(path, room_bytes, "%s", entry.kept()) < static_cast<int>(room_bytes);
      return found;
    });
  });
  return found;
}

int rejoin_libc_logs_changes() { return image != 0 && has_directory(); }

void rejoin_libc_opened(int fd, const OpenedFile* file, unsigned flags) {
  const Unobserved mine;
  char descriptor[32], path[PATH_MAX];
  snprintf(descriptor, sizeof descriptor, "/proc/self/fd/%d", fd);
  const ssize_t bytes = readlink(descriptor, path, sizeof path - 1);
  if (bytes <= 0) return;
  path[bytes] = '\0';
  if (remembers(path)) return;
  FileEntryHead head = {};
  head.change = rejoin::wire::FileChange::kOpened;
  head.file = file->file;
  head.flags = flags;
  head.size_bytes = file->size_bytes;
  head.modified = file->modified;
  write_down(head, path, "", "");
}

void rejoin_libc_changes(const LoggedChange* c) {
  const Unobserved mine;
  char kept[PATH_MAX] = "";
  FileEntryHead head = {};
  head.change = c->change;
  head.file = c->file;
  head.other_file = c->other_file;
  head.flags = c->flags;
  head.size_bytes = c->lost_bytes;
  if (c->lost != nullptr) keep(c->lost, c->lost_bytes, kept);
  write_down(head, c->path, c->other != nullptr ? c->other : "", kept);
}
