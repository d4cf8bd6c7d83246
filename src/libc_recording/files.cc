#include "libc_recording/files.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libc_recording/real.h"

namespace rejoin::libc_recording {
namespace {

REJOIN_REAL_AS(openat, "openat", int(int, const char*, int, ...));
REJOIN_REAL(statx);
REJOIN_REAL(unlinkat);
REJOIN_REAL(renameat2);
REJOIN_REAL(getrandom);

bool begins_with(const char* text, const char* start) {
  return strncmp(text, start, strlen(start)) == 0;
}

bool find(int dirfd, const char* path, int flags, Found* found) {
  const int saved = errno;
  *found = find_file(real_statx, dirfd, path, flags);
  errno = saved;
  return found->there;
}

bool ghosts_removed = false;

// Removes what a replay that died has left, before any other file is looked at. The newest goes
// first: what lies in a directory goes before the directory.
void remove_ghosts() {
  if (ghosts_removed) return;
  ghosts_removed = true;
  char path[PATH_MAX];
  std::uint32_t file;
  for (unsigned n = 0; rejoin_libc_noted(n, path, sizeof path, &file) != 0; ++n) {
    const Found found = look(AT_FDCWD, path, false);
    if (found.there && (file == 0 || found.file.file == file)) remove_at(AT_FDCWD, path);
  }
}

bool join(char* to, std::size_t directory_bytes, const char* path) {
  const std::size_t bytes = strlen(path);
  if (directory_bytes + bytes + 2 > PATH_MAX) return false;
  to[directory_bytes] = '/';
  memcpy(to + directory_bytes + 1, path, bytes + 1);
  return true;
}

bool join_working_directory(int dirfd, const char* path, char* to) {
  if (path[0] == '/') return snprintf(to, PATH_MAX, "%s", path) < PATH_MAX;
  if (dirfd == AT_FDCWD) {
    if (getcwd(to, PATH_MAX) == nullptr || to[0] != '/') return false;
    return join(to, strlen(to), path);
  }
  char descriptor[32];
  snprintf(descriptor, sizeof descriptor, "/proc/self/fd/%d", dirfd);
  const ssize_t bytes = readlink(descriptor, to, PATH_MAX - 1);
  return bytes > 0 && to[0] == '/' && join(to, static_cast<std::size_t>(bytes), path);
}

// Follows symbolic links in the last component.
bool follow(char* path) {
  constexpr int kMostLinks = 40;  // as many as the kernel follows
  for (int i = 0; i < kMostLinks; ++i) {
    char target[PATH_MAX];
    const ssize_t bytes = readlink(path, target, sizeof target - 1);
    if (bytes < 0) return true;
    target[bytes] = '\0';
    const char* slash = strrchr(path, '/');
    if (target[0] == '/') {
      memcpy(path, target, static_cast<std::size_t>(bytes) + 1);
    } else if (!join(path, static_cast<std::size_t>(slash - path), target)) {
      return false;
    }
  }
  return false;
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

void untrue(const char* path, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  rejoin_libc_untrue(path, text);
}

bool make_absolute(int dirfd, const char* path, char* to) {
  if (!join_working_directory(dirfd, path, to)) return false;
  for (std::size_t end = strlen(to); end > 1 && to[end - 1] == '/'; --end) to[end - 1] = '\0';
  return true;
}

// Notes a ghost in the journal, for the next replay of this rank, and in the file log, for a job
// that goes on from a set of images: its journal ends before.
static void note_ghost(std::uint32_t file, const char* path) {
  rejoin_libc_note_ghost(file, path);
  if (rejoin_libc_logs_changes() == 0) return;
  const LoggedChange c = {wire::FileChange::kGhost, path, nullptr, file};
  rejoin_libc_changes(&c);
}

bool is_ghost(const Found& f) { return f.there && rejoin_libc_ghost(f.file.file) != 0; }

void about_to_place_ghost(const Found& f, int dirfd, const char* path) {
  char absolute[PATH_MAX];
  if (make_absolute(dirfd, path, absolute)) note_ghost(f.file.file, absolute);
}

bool NewGhost::begin(int dirfd, const char* path) {
  const int saved = errno;
  std::uint64_t random;
  const bool known = make_absolute(dirfd, path, final_) && follow(final_) &&
                     real_getrandom(&random, sizeof random, 0u) > 0;
  if (!known) return false;
  const int directory_bytes = static_cast<int>(strrchr(final_, '/') - final_);
  const int bytes = snprintf(aside_, sizeof aside_, "%.*s/.rejoin-%016lx", directory_bytes, final_,
                             static_cast<unsigned long>(random));
  errno = saved;
  if (bytes >= PATH_MAX) return false;
  rejoin_libc_note_aside(aside_);
  if (rejoin_libc_logs_changes() != 0) log_making(AT_FDCWD, aside_);
  return true;
}

void NewGhost::end() {
  const int saved = errno;
  const Found made = look(AT_FDCWD, aside_, false);
  if (made.there) {
    note_ghost(made.file.file, final_);
    int result = real_renameat2(AT_FDCWD, aside_, AT_FDCWD, final_, RENAME_NOREPLACE);
    // Some file systems cannot do that in one step.
    if (result != 0 && errno == EINVAL && !look(AT_FDCWD, final_, false).there) {
      result = real_renameat2(AT_FDCWD, aside_, AT_FDCWD, final_, 0u);
    }
    if (result != 0) remove_at(AT_FDCWD, aside_);
  }
  errno = saved;
}

void log_making(int dirfd, const char* path) {
  const int saved = errno;
  char absolute[PATH_MAX];
  if (make_absolute(dirfd, path, absolute)) {
    const LoggedChange c = {wire::FileChange::kMaking, absolute};
    rejoin_libc_changes(&c);
  }
  errno = saved;
}

void log_made(int dirfd, const char* path, bool made) {
  const int saved = errno;
  char absolute[PATH_MAX];
  if (make_absolute(dirfd, path, absolute)) {
    const std::uint32_t file = made ? look(dirfd, path, false).file.file : 0;
    const LoggedChange c = {wire::FileChange::kMade, absolute, nullptr, file};
    rejoin_libc_changes(&c);
  }
  errno = saved;
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
      makes_ = creates() && rejoin_libc_logs_changes() != 0 && !look(dirfd_, path_, true).there;
      if (makes_) log_making(dirfd_, path_);
      break;
    case Answer::kDone:
      makes_ = rejoin_libc_logs_changes() != 0;
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
  if (becomes_ == Becomes::kGhost) ghost_.end();
  Found found;
  if (!replayed_) {
    event_.error = fd < 0 ? errno : 0;
    if (fd >= 0 && find(fd, "", AT_EMPTY_PATH, &found) && found.regular()) {
      then_ = found.file;
      event_.data_bytes = sizeof then_;
    }
    // Logged before it is recorded: the replay of what is recorded logs nothing.
    const bool keeps = writes() && !truncates() && event_.data_bytes == sizeof then_;
    if (keeps && rejoin_libc_logs_changes() != 0) {
      rejoin_libc_opened(fd, &then_, static_cast<unsigned>(asked_));
    }
    if (makes_) log_made(dirfd_, path_, fd >= 0);
    record(event_);
  } else if (fd < 0) {
    untrue(path_, "was opened in the first execution, but cannot be opened in the replay: %s",
           strerrordesc_np(saved));
  } else if (becomes_ != Becomes::kNothing && find(fd, "", AT_EMPTY_PATH, &found)) {
    char absolute[PATH_MAX];
    const char* where = becomes_ == Becomes::kGhost                ? ghost_.final_path()
                        : make_absolute(dirfd(), path(), absolute) ? absolute
                                                                   : "";
    rejoin_libc_set_rewritten(found.file.file, where);
  }
  errno = saved;
}

// Makes the path ready to be opened as it was the first time.
void Opening::prepare() {
  Found now = look(dirfd_, path_, !exclusive());
  const bool usable = now.there && (now.file.file == then_.file || is_ghost(now));
  if (!usable && !writes() && find_kept()) return;
  const bool is_it = usable || find_where_it_was_rewritten(&now);
  if (!is_it && (writes() || creates())) return now.there ? open_unnamed() : prepare_absent();
  if (truncates()) return prepare_truncation(now);
  if (appends() || (writes() && then_.size_bytes == 0)) return prepare_growth(now);
  const bool same_size = now.file.size_bytes == then_.size_bytes;
  const bool untouched =
      now.file.file == then_.file && same_size && now.file.modified == then_.modified;
  if (untouched || (is_it && same_size && rejoin_libc_rewritten(now.file.file, nullptr, 0))) return;
  if (!now.there) return;  // opening it will fail
  if (writes()) prepare_growth(now);
  if (reads()) untrue(path_, "has other contents than the first execution read there");
}

// Finds a file that this replay has filled again and that lies under another name: a recorded
// rename has moved it since.
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

// Returns whether the file log has a second name for the file, which the program has removed or
// replaced since.
bool Opening::find_kept() {
  if (!rejoin_libc_kept(then_.file, instead_, sizeof instead_)) return false;
  const Found kept = look(AT_FDCWD, instead_, false);
  if (kept.file.file == then_.file && kept.file.size_bytes == then_.size_bytes) return true;
  instead_[0] = '\0';
  return false;
}

void Opening::prepare_absent() {
  const bool keeps_contents = then_.size_bytes > 0 && !truncates();
  if (!ghost_.begin(dirfd_, path_)) return open_unnamed();
  if (keeps_contents && reads())
    untrue(path_, "does not exist any more, but the first execution read it");
  becomes_ = Becomes::kGhost;
  memcpy(instead_, ghost_.path(), strlen(ghost_.path()) + 1);
  if (!creates() || keeps_contents) set_size(O_CREAT);
}

// Lets the file be emptied, unless other ranks have written to it: they do not write again.
void Opening::prepare_truncation(const Found& now) {
  if (rejoin_libc_written_elsewhere(now.file.file, 0)) {
    flags_ &= ~O_TRUNC;
    tell(path_,
         "is also written by other ranks, so the replay overwrites it without truncating it");
  } else {
    becomes_ = Becomes::kRewritten;
  }
}

// Truncates the file to its former size, so that what is appended lands where it landed before.
// Assumes that ranks that have emptied the file did so before this one appended: their data lies in
// front.
void Opening::prepare_growth(const Found& now) {
  if (rejoin_libc_written_elsewhere(now.file.file, then_.size_bytes > 0 || appends())) {
    tell(path_, appends()
                    ? "is also written by other ranks, so what the replay appends is in it twice"
                    : "is also written by other ranks, so the replay overwrites it in place");
    return;
  }
  if (now.file.size_bytes != then_.size_bytes) set_size(0);
  // It has been emptied since, so its former contents are gone.
  const bool is_shorter = now.file.size_bytes < then_.size_bytes;
  if (is_shorter && appends() && reads())
    untrue(path_, "has other contents than the first execution read there");
  // The rest of the contents is unchanged if this rank has not written into it.
  const bool as_it_was = appends() && !is_shorter && !rejoin_libc_written_in_place(now.file.file);
  if (then_.size_bytes == 0 || as_it_was) becomes_ = Becomes::kRewritten;
}

void Opening::set_size(int flags) {
  const int saved = errno;
  const int fd = real_openat(dirfd(), path(), O_WRONLY | O_CLOEXEC | flags, mode_ | S_IWUSR);
  if (fd >= 0) {
    if (ftruncate(fd, static_cast<off_t>(then_.size_bytes)) != 0) {
      untrue(path_, "cannot be truncated to its former size: %s", strerrordesc_np(errno));
    }
    close(fd);
  }
  errno = saved;
}

// Called when another file lies there, which this replay must not touch: opens an unnamed file of
// the same file system instead, because what the replay writes may be large, or memory if the file
// system has no unnamed files.
void Opening::open_unnamed() {
  if (then_.size_bytes > 0 && !truncates() && reads()) {
    untrue(path_, "has other contents than the first execution read there");
  }
  flags_ &= ~(O_EXCL | O_NOFOLLOW);
  const char* slash = strrchr(path_, '/');
  const int bytes = slash == nullptr ? 0 : static_cast<int>(slash - path_) + 1;
  snprintf(instead_, sizeof instead_, "%.*s.", bytes, path_);
  unnamed_ = real_openat(dirfd_, instead_, O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (unnamed_ < 0) unnamed_ = memfd_create("rejoin", MFD_CLOEXEC);
  if (ftruncate(unnamed_, static_cast<off_t>(then_.size_bytes)) != 0) {
    untrue(path_,
           "was replaced by another file, and there is no space for a copy of the first one: %s",
           strerrordesc_np(errno));
  }
  snprintf(instead_, sizeof instead_, "/proc/self/fd/%d", unnamed_);
}

}  // namespace rejoin::libc_recording

using namespace rejoin::libc_recording;

void rejoin_libc_woken() { ghosts_removed = false; }

// Truncates the file to its size in the image: the woken process writes again what lay behind that.
// What has been overwritten since is overwritten with the same bytes.
void rejoin_libc_write_on(int fd, std::uint64_t size_bytes) {
  Found now;
  if (!find(fd, "", AT_EMPTY_PATH, &now) || !now.regular()) return;
  char descriptor[32], path[PATH_MAX];
  snprintf(descriptor, sizeof descriptor, "/proc/self/fd/%d", fd);
  const ssize_t bytes = readlink(descriptor, path, sizeof path - 1);
  path[bytes > 0 ? bytes : 0] = '\0';
  if (now.file.size_bytes > size_bytes) {
    if (rejoin_libc_written_elsewhere(now.file.file, 1)) {
      tell(path,
           "is also written by other ranks, so what the replay writes at its end is in it twice");
      return;
    }
    if (ftruncate(fd, static_cast<off_t>(size_bytes)) != 0) {
      untrue(path, "cannot be truncated to its former size: %s", strerrordesc_np(errno));
    }
  }
  rejoin_libc_set_rewritten(now.file.file, path);
}

// Truncates the file to its former size, as if it had not been opened since.
int rejoin_libc_roll_back(const rejoin::wire::FileEntryHead* then, const char* path) {
  const Found now = look(AT_FDCWD, path, false);
  if (!now.there || !now.regular() || now.file.file != then->file) return 0;
  const int flags = static_cast<int>(then->flags);
  if (rejoin_libc_written_elsewhere(then->file, 1)) {
    tell(path,
         "is also written by other ranks, so what is written after the images is in it twice");
    return 1;
  }
  const bool reads = (flags & O_ACCMODE) == O_RDWR && then->size_bytes > 0;
  const bool untouched =
      now.file.size_bytes == then->size_bytes && now.file.modified == then->modified;
  if (untouched) return 1;
  if (reads && (flags & O_APPEND) == 0) {
    untrue(path, "was changed in place after the images were made, and the program may read it");
  }
  if (now.file.size_bytes > then->size_bytes &&
      truncate(path, static_cast<off_t>(then->size_bytes)) != 0) {
    untrue(path, "cannot be truncated to its former size: %s", strerrordesc_np(errno));
  }
  return 1;
}
