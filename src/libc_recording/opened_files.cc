#include "libc_recording/opened_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libc_recording/hooks.h"
#include "libc_recording/memory.h"
#include "libc_recording/observed.h"
#include "recovery/hash.h"
#include "wire/opened_files.h"

namespace rejoin::libc_recording {
namespace {

using wire::OpenedFileHead;

char directory[PATH_MAX];
bool directory_known = false;
std::uint64_t image = 0;
// Hashes of paths that have been written down since the image.
constexpr std::size_t kMostRemembered = 1024;
std::uint64_t remembered[kMostRemembered];
std::size_t remembered_count = 0;

bool has_directory() {
  if (!directory_known) {
    const char* name = getenv(wire::kEnvOpenedFiles);
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
  // One that is written down twice does no harm.
  if (remembered_count < kMostRemembered) remembered[remembered_count++] = hash;
  return false;
}

std::uint32_t this_rank() { return recovery::attached_rank()->rank(); }

void name_of(std::uint64_t number, char* name) {
  snprintf(name, PATH_MAX, "%.3900s/rank-%u-image-%llu", directory, this_rank(),
           static_cast<unsigned long long>(number));
}

void write_down(const OpenedFileHead& head, const char* path) {
  char name[PATH_MAX];
  name_of(image, name);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  int log = open(name, kFlags, 0600);
  if (log < 0 && errno == ENOENT && mkdir(directory, 0700) == 0) log = open(name, kFlags, 0600);
  if (log < 0 && errno == EEXIST) log = open(name, kFlags, 0600);  // another rank has made it
  char entry[sizeof head + PATH_MAX];
  memcpy(entry, &head, sizeof head);
  memcpy(entry + sizeof head, path, head.path_bytes);
  const auto bytes = static_cast<ssize_t>(sizeof head + head.path_bytes);
  if (log < 0 || write(log, entry, static_cast<std::size_t>(bytes)) != bytes) {
    rejoin_libc_tell(name,
                     "cannot be written: a job that goes on from images may add twice to files");
  }
  if (log >= 0) close(log);
}

// Paths that have been rolled back: the first entry of each counts.
class RolledBack {
 public:
  bool add(const char* path) {
    const std::uint64_t hash = XXH3_64bits(path, strlen(path));
    for (std::size_t i = 0; i < count_; ++i) {
      if (hashes_[i] == hash) return false;
    }
    if (count_ < kMost) hashes_[count_++] = hash;
    return true;
  }

 private:
  static constexpr std::size_t kMost = 4096;
  std::uint64_t hashes_[kMost];
  std::size_t count_ = 0;
};

void roll_back(std::uint64_t number, RolledBack& done) {
  char name[PATH_MAX], path[PATH_MAX];
  name_of(number, name);
  const int log = open(name, O_RDONLY | O_CLOEXEC);
  if (log < 0) return;
  OpenedFileHead head;
  while (read(log, &head, sizeof head) == static_cast<ssize_t>(sizeof head) &&
         head.path_bytes <= sizeof path &&
         read(log, path, head.path_bytes) == static_cast<ssize_t>(head.path_bytes)) {
    if (done.add(path)) rejoin_libc_roll_back(&head, path);
  }
  close(log);
  unlink(name);
}

}  // namespace

void opened_since_image(std::uint64_t number) {
  image = number;
  remembered_count = 0;
}

void move_opened_files(const char* name) {
  directory_known = true;
  snprintf(directory, sizeof directory, "%s", name);
}

void roll_back_opened_files(std::uint64_t number) {
  const Unobserved mine;
  if (!has_directory() || rejoin_libc_roll_back == nullptr) return;
  // From the oldest on.
  std::uint64_t newest = 0;
  DIR* all = opendir(directory);
  if (all == nullptr) return;
  while (const dirent* e = readdir(all)) {
    unsigned rank;
    unsigned long long of;
    if (sscanf(e->d_name, "rank-%u-image-%llu", &rank, &of) == 2 && rank == this_rank()) {
      newest = of > newest ? of : newest;
    }
  }
  closedir(all);
  static RolledBack done;
  done = {};
  for (std::uint64_t n = number; n <= newest; ++n) roll_back(n, done);
}

}  // namespace rejoin::libc_recording

using namespace rejoin::libc_recording;

void rejoin_libc_opened(int fd, const OpenedFile* file, unsigned flags) {
  if (image == 0 || !has_directory()) return;
  const Unobserved mine;
  char descriptor[32], path[PATH_MAX];
  snprintf(descriptor, sizeof descriptor, "/proc/self/fd/%d", fd);
  const ssize_t bytes = readlink(descriptor, path, sizeof path - 1);
  if (bytes <= 0) return;
  path[bytes] = '\0';
  if (remembers(path)) return;
  const rejoin::wire::OpenedFileHead head = {file->file, flags, file->size_bytes, file->modified,
                                             static_cast<std::uint32_t>(bytes) + 1};
  write_down(head, path);
}
