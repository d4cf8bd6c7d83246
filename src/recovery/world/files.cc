#include "recovery/world/files.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recovery/world/real.h"

namespace rejoin::world {
namespace {

constinit Real<int(int, const char*, int, ...)> real_openat("openat");
REJOIN_REAL(statx);

bool begins_with(const char* text, const char* start) {
  return strncmp(text, start, strlen(start)) == 0;
}

std::uint64_t mixed(std::uint64_t h, std::uint64_t value) {
  h = (h ^ value) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 32;
}

// The number of a file that is gone is soon given to another: so its time of birth belongs to its
// identity, where the file system knows it.
bool find(int dirfd, const char* path, int flags, Found* found) {
  struct statx s;
  const int saved = errno;
  const bool there = real_statx(dirfd, path, flags, STATX_BASIC_STATS | STATX_BTIME, &s) == 0;
  errno = saved;
  *found = {};
  if (!there) return false;
  const bool born = (s.stx_mask & STATX_BTIME) != 0;
  std::uint64_t file = mixed(s.stx_ino, std::uint64_t{s.stx_dev_major} << 32 | s.stx_dev_minor);
  file = mixed(file, born ? static_cast<std::uint64_t>(s.stx_btime.tv_sec) : 0);
  file = mixed(file, born ? s.stx_btime.tv_nsec : 0);
  const std::uint64_t modified =
      mixed(static_cast<std::uint64_t>(s.stx_mtime.tv_sec), s.stx_mtime.tv_nsec);
  found->there = true;
  found->regular = S_ISREG(s.stx_mode);
  found->file = {static_cast<std::uint32_t>(file) | 1, static_cast<std::uint32_t>(modified),
                 s.stx_size};
  return true;
}

}  // namespace

bool ordinary(const char* path) {
  if (path == nullptr || strnlen(path, PATH_MAX) == PATH_MAX) return false;
  if (begins_with(path, "/dev/")) return begins_with(path, "/dev/shm/");
  return !begins_with(path, "/proc/") && !begins_with(path, "/sys/");
}

Found look(int dirfd, const char* path, bool follow_links) {
  Found found;
  find(dirfd, path, follow_links ? 0 : AT_SYMLINK_NOFOLLOW, &found);
  return found;
}

void tell(const char* path, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  rejoin_world_tell(path, text);
}

Answer ask_once(Event& event, int dirfd, const char* watched) {
  const std::uint32_t now = look(dirfd, watched, false).file.file;
  std::uint32_t before = now;
  Event about{ObservationKind::kAbout, static_cast<std::uint32_t>(event.kind), watched};
  about.data = &before;
  about.room_bytes = about.data_bytes = sizeof before;
  if (ask(about) == Answer::kLive) {
    record(about);
    return Answer::kLive;
  }
  if (ask(event) == Answer::kRecorded) return Answer::kRecorded;
  return now != before ? Answer::kDone : Answer::kLive;
}

Opening::Opening(int dirfd, const char* path, int flags, mode_t mode)
    : dirfd_(dirfd),
      path_(path),
      asked_(flags),
      mode_(mode),
      flags_(flags),
      event_{ObservationKind::kOpen, static_cast<std::uint32_t>(flags), path} {
  event_.data = &then_;
  event_.room_bytes = sizeof then_;
}

bool Opening::begin() {
  switch (exclusive() ? ask_once(event_, dirfd_, path_) : ask(event_)) {
    case Answer::kLive:
      break;
    case Answer::kDone:
      make_again_in_place();
      break;
    case Answer::kRecorded:
      if (event_.error != 0) {
        errno = event_.error;
        return false;
      }
      replayed_ = true;
      if (exclusive()) make_again_in_place();
      if (event_.data_bytes == sizeof then_) prepare();
  }
  return true;
}

void Opening::end(int fd) {
  const int saved = errno;
  if (elsewhere_ >= 0) close(elsewhere_);
  if (!replayed_) {
    Found found;
    event_.error = fd < 0 ? errno : 0;
    if (fd >= 0 && find(fd, "", AT_EMPTY_PATH, &found) && found.regular) {
      then_ = found.file;
      event_.data_bytes = sizeof then_;
    }
    record(event_);
  } else if (fd >= 0) {
    Found found;
    if (remakes_ != Remakes::kNothing && find(fd, "", AT_EMPTY_PATH, &found)) {
      set_remade(found, remakes_ == Remakes::kGone);
    }
  } else {
    tell(path_, "could be opened by the first execution and cannot by its replay: %s",
         strerrordesc_np(saved));
  }
  errno = saved;
}

// Makes the path ready to be opened as it was the first time. What this rank wrote since is written
// again by the replay; what anybody else wrote is not, and is left alone.
void Opening::prepare() {
  const Found now = look(dirfd_, path_, true);
  if (!now.there) return prepare_absent();
  if (truncates()) return prepare_truncation(now);
  if (appends()) return prepare_append(now);
  const bool same_size = now.file.size_bytes == then_.size_bytes;
  const bool untouched =
      now.file.file == then_.file && same_size && now.file.modified == then_.modified;
  if (untouched || (same_size && remade(now))) return;
  if (!writes()) {
    tell(path_, "is not what the first execution read there: its replay may read something else");
  } else if (then_.size_bytes > 0) {
    tell(path_,
         "has been changed since the first execution opened it: its replay may read there "
         "what was written later");
  }
}

// The first execution has removed or renamed it since. It is made once more, and goes the same way
// when the replay comes to that.
void Opening::prepare_absent() {
  if (!writes() && !creates()) return;
  const bool contents_lost = then_.size_bytes > 0 && !truncates() && !appends();
  if (contents_lost && !creates()) return;
  remakes_ = Remakes::kGone;
  if (!creates() || (appends() && then_.size_bytes > 0)) set_size(O_CREAT);
}

void Opening::prepare_truncation(const Found& now) {
  if (!rejoin_world_written_elsewhere(now.file.file, 0)) {
    remakes_ = Remakes::kThere;
  } else if (now.file.file == then_.file) {
    flags_ &= ~O_TRUNC;
    tell(path_, "is written by other ranks too: the replay writes over it without emptying it");
  } else {
    go_elsewhere();
    tell(path_, "is now a file of another rank: what the replay writes there is dropped");
  }
}

// Ranks that have emptied the file did so before this one appended to it; all that they wrote lies
// in front.
void Opening::prepare_append(const Found& now) {
  if (now.file.file != then_.file && !remade(now)) {
    go_elsewhere();
    tell(path_,
         "is another file than the one that the first execution appended to: what the replay "
         "appends is dropped");
  } else if (rejoin_world_written_elsewhere(now.file.file, 1)) {
    tell(path_, "is written by other ranks too: what the replay appends is there twice");
  } else {
    if (now.file.size_bytes > then_.size_bytes) set_size(0);
    remakes_ = Remakes::kThere;
  }
}

void Opening::set_size(int flags) {
  const int saved = errno;
  const int fd = real_openat(dirfd_, path_, O_WRONLY | O_CLOEXEC | flags, mode_ | S_IWUSR);
  if (fd >= 0) {
    if (ftruncate(fd, static_cast<off_t>(then_.size_bytes)) != 0) {
      tell(path_, "cannot be cut to what it was: %s", strerrordesc_np(errno));
    }
    close(fd);
  }
  errno = saved;
}

void Opening::go_elsewhere() {
  elsewhere_ = memfd_create("rejoin", MFD_CLOEXEC);
  if (elsewhere_ < 0) return;
  snprintf(elsewhere_path_, sizeof elsewhere_path_, "/proc/self/fd/%d", elsewhere_);
  if (appends() && ftruncate(elsewhere_, static_cast<off_t>(then_.size_bytes)) != 0) return;
}

}  // namespace rejoin::world
