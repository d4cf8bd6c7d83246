#include "libc_recording/files.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>

#include "libc_recording/real.h"

namespace rejoin::libc_recording {
namespace {

constinit Real<int(int, const char*, int, ...)> real_openat("openat");
REJOIN_REAL(statx);
REJOIN_REAL(unlinkat);

bool begins_with(const char* text, const char* start) {
  return strncmp(text, start, strlen(start)) == 0;
}

std::uint64_t mixed(std::uint64_t h, std::uint64_t value) {
  h = (h ^ value) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 32;
}

// The number of a file that is gone is soon given to another: what the file system hands out to
// tell them apart belongs to the identity, and the time of birth where it does not.
std::uint64_t generation(int dirfd, const char* path, int flags, const struct statx& s) {
  alignas(file_handle) unsigned char room[sizeof(file_handle) + MAX_HANDLE_SZ];
  auto* handle = new (room) file_handle{MAX_HANDLE_SZ, 0, {}};
  int mount;
  const int follow = (flags & AT_SYMLINK_NOFOLLOW) != 0 ? 0 : AT_SYMLINK_FOLLOW;
  std::uint64_t h = 0;
  if (name_to_handle_at(dirfd, path, handle, &mount, (flags & AT_EMPTY_PATH) | follow) == 0) {
    for (unsigned i = 0; i < handle->handle_bytes; ++i) h = mixed(h, room[sizeof *handle + i]);
  } else if ((s.stx_mask & STATX_BTIME) != 0) {
    h = mixed(static_cast<std::uint64_t>(s.stx_btime.tv_sec), s.stx_btime.tv_nsec);
  }
  return h;
}

bool find(int dirfd, const char* path, int flags, Found* found) {
  struct statx s;
  const int saved = errno;
  *found = {};
  found->there = real_statx(dirfd, path, flags, STATX_BASIC_STATS | STATX_BTIME, &s) == 0;
  if (found->there) {
    const std::uint64_t device = std::uint64_t{s.stx_dev_major} << 32 | s.stx_dev_minor;
    const std::uint64_t file = mixed(mixed(s.stx_ino, device), generation(dirfd, path, flags, s));
    const std::uint64_t modified =
        mixed(static_cast<std::uint64_t>(s.stx_mtime.tv_sec), s.stx_mtime.tv_nsec);
    found->regular = S_ISREG(s.stx_mode);
    found->file = {static_cast<std::uint32_t>(file) | 1, static_cast<std::uint32_t>(modified),
                   s.stx_size};
  }
  errno = saved;
  return found->there;
}

// What a replay left that died, before anything else is looked at. Newest first: what lies in a
// directory goes before it.
void remove_ghosts() {
  static bool done = false;
  if (done) return;
  done = true;
  constexpr int kNothing = 0, kPerhaps = 2;  // Observations::Noted
  char path[PATH_MAX];
  for (unsigned n = 0;; ++n) {
    const int noted = rejoin_libc_noted_ghost(n, path, sizeof path);
    if (noted == kNothing) return;
    const Found found = look(AT_FDCWD, path, false);
    if (found.there && (noted == kPerhaps || is_ghost(found))) remove_at(AT_FDCWD, path);
  }
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
  rejoin_libc_tell(path, text);
}

bool is_ghost(const Found& f) { return f.there && rejoin_libc_ghost(f.file.file) != 0; }

void about_to_make_ghost(int dirfd, const char* path) {
  if (dirfd == AT_FDCWD || path[0] == '/') rejoin_libc_about_to_make_ghost(path);
}

void set_ghost(const Found& f) {
  constexpr std::uint32_t kCouldNotBeMade = 2;
  rejoin_libc_set_ghost(f.there ? f.file.file : kCouldNotBeMade);
}

void remove_at(int dirfd, const char* path) {
  const int saved = errno;
  if (real_unlinkat(dirfd, path, 0) != 0) real_unlinkat(dirfd, path, AT_REMOVEDIR);
  errno = saved;
}

Answer ask(Event& event) {
  remove_ghosts();
  return rejoin_libc_recall(&event) ? Answer::kRecorded : Answer::kLive;
}

Answer ask_once(Event& event, int dirfd, const char* watched) {
  remove_ghosts();
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
  instead_[0] = '\0';
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

void Opening::begin_again(const OpenedFile& then) {
  then_ = then;
  replayed_ = true;
  if (exclusive()) make_again_in_place();
  prepare();
}

void Opening::end(int fd) {
  const int saved = errno;
  if (unnamed_ >= 0) close(unnamed_);
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
    if (becomes_ != Becomes::kNothing && find(fd, "", AT_EMPTY_PATH, &found)) {
      if (becomes_ == Becomes::kGhost) set_ghost(found);
      rejoin_libc_set_rewritten(found.file.file, dirfd() == AT_FDCWD ? path() : "");
    }
  } else {
    if (becomes_ == Becomes::kGhost) set_ghost({});
    tell(path_, "could be opened by the first execution and cannot by its replay: %s",
         strerrordesc_np(saved));
  }
  errno = saved;
}

// Makes the path ready to be opened as it was the first time.
void Opening::prepare() {
  Found now = look(dirfd_, path_, true);
  const bool usable = now.there && (now.file.file == then_.file || is_ghost(now));
  if (!usable && !find_where_it_was_rewritten(&now) && (writes() || creates())) {
    return now.there ? open_unnamed() : prepare_absent();
  }
  if (truncates()) return prepare_truncation(now);
  if (appends()) return prepare_append(now);
  const bool same_size = now.file.size_bytes == then_.size_bytes;
  const bool untouched =
      now.file.file == then_.file && same_size && now.file.modified == then_.modified;
  if (untouched || (same_size && rejoin_libc_rewritten(now.file.file, nullptr, 0))) return;
  if (!now.there) return;  // it will fail
  if (!writes() || then_.size_bytes > 0) {
    tell(path_, "is not what the first execution saw there: its replay may read something else");
  }
}

// It may lie under another name now: it has been moved since, and comes back when the rank is live.
bool Opening::find_where_it_was_rewritten(Found* now) {
  if (!rejoin_libc_rewritten(then_.file, instead_, sizeof instead_)) return false;
  const Found there = look(AT_FDCWD, instead_, true);
  if (there.file.file == then_.file) {
    *now = there;
    return true;
  }
  instead_[0] = '\0';
  return false;
}

void Opening::prepare_absent() {
  const bool contents_lost = then_.size_bytes > 0 && !truncates() && !appends();
  if (contents_lost && !creates()) return;
  becomes_ = Becomes::kGhost;
  about_to_make_ghost(dirfd_, path_);
  if (!creates() || (appends() && then_.size_bytes > 0)) set_size(O_CREAT);
}

// What other ranks wrote is written by nobody again.
void Opening::prepare_truncation(const Found& now) {
  if (rejoin_libc_written_elsewhere(now.file.file, 0)) {
    flags_ &= ~O_TRUNC;
    tell(path_, "is written by other ranks too: the replay writes over it without emptying it");
  } else {
    becomes_ = Becomes::kRewritten;
  }
}

// Ranks that have emptied the file did so before this one appended to it: what they wrote lies in
// front.
void Opening::prepare_append(const Found& now) {
  if (rejoin_libc_written_elsewhere(now.file.file, 1)) {
    tell(path_, "is written by other ranks too: what the replay appends is there twice");
  } else {
    if (now.file.size_bytes > then_.size_bytes) set_size(0);
    becomes_ = Becomes::kRewritten;
  }
}

void Opening::set_size(int flags) {
  const int saved = errno;
  const int fd = real_openat(dirfd(), path(), O_WRONLY | O_CLOEXEC | flags, mode_ | S_IWUSR);
  if (fd >= 0) {
    if (ftruncate(fd, static_cast<off_t>(then_.size_bytes)) != 0) {
      tell(path_, "cannot be cut to what it was: %s", strerrordesc_np(errno));
    }
    close(fd);
  }
  errno = saved;
}

// Another file lies there, which is complete, and this replay has nothing to do with it. What it
// writes may be large: an unnamed file of the same file system takes it, or memory where there are
// none.
void Opening::open_unnamed() {
  if (then_.size_bytes > 0 && !truncates() && !appends()) {
    tell(path_, "is not what the first execution saw there: its replay reads zeros");
  }
  flags_ &= ~(O_EXCL | O_NOFOLLOW);
  const char* slash = strrchr(path_, '/');
  const int bytes = slash == nullptr ? 0 : static_cast<int>(slash - path_) + 1;
  snprintf(instead_, sizeof instead_, "%.*s.", bytes, path_);
  unnamed_ = real_openat(dirfd_, instead_, O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (unnamed_ < 0) unnamed_ = memfd_create("rejoin", MFD_CLOEXEC);
  if (ftruncate(unnamed_, static_cast<off_t>(then_.size_bytes)) != 0) {
    tell(path_, "is another file now, and there is no room for the first one: %s",
         strerrordesc_np(errno));
  }
  snprintf(instead_, sizeof instead_, "/proc/self/fd/%d", unnamed_);
}

}  // namespace rejoin::libc_recording
