// Changes of the file system that succeed once: unlink, rename, mkdir, link, mkstemp and their
// families. A replay answers them and does not repeat them; only ghosts are moved and removed.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libc_recording/files.h"
#include "libc_recording/real.h"

namespace {

using rejoin::libc_recording::about_to_place_ghost;
using rejoin::libc_recording::Answer;
using rejoin::libc_recording::ask;
using rejoin::libc_recording::ask_once;
using rejoin::libc_recording::Event;
using rejoin::libc_recording::Found;
using rejoin::libc_recording::is_ghost;
using rejoin::libc_recording::LoggedChange;
using rejoin::libc_recording::look;
using rejoin::libc_recording::make_absolute;
using rejoin::libc_recording::NewGhost;
using rejoin::libc_recording::ObservationKind;
using rejoin::libc_recording::observing;
using rejoin::libc_recording::OpenedFile;
using rejoin::libc_recording::Opening;
using rejoin::libc_recording::ordinary;
using rejoin::libc_recording::remove_at;
using rejoin::wire::FileChange;

REJOIN_REAL(unlinkat);
REJOIN_REAL(remove);
REJOIN_REAL(renameat2);
REJOIN_REAL(mkdirat);
REJOIN_REAL(linkat);
REJOIN_REAL(symlinkat);
REJOIN_REAL_AS(openat, "openat", int(int, const char*, int, ...));
REJOIN_REAL(mkostemps);
REJOIN_REAL(mkdtemp);
REJOIN_REAL(getrandom);

// Classes like this one log a change of the file system, if the file log is in use: before() is
// called before the change, and after() when it has been tried, with whether it has succeeded.
// done() is called instead if a former process has made the change, and was killed then. This one
// logs nothing.
class NoLog {
 public:
  void before() {}
  void after(bool) {}
  void done() {}
};

// Logs that `path` is removed.
class LoggedRemoval : public NoLog {
 public:
  LoggedRemoval(int dirfd, const char* path) : dirfd_(dirfd), path_(path) {}
  void before() {
    const Found gone = look(dirfd_, path_, false);
    char path[PATH_MAX];
    if (!gone.there || !make_absolute(dirfd_, path_, path)) return;
    LoggedChange c = {FileChange::kRemoved, path, nullptr, gone.file.file};
    c.lost = path;
    c.lost_bytes = gone.file.size_bytes;
    if (gone.directory()) {
      c = {FileChange::kRemovedDirectory, path, nullptr, gone.file.file, 0, gone.mode & 07777};
    }
    rejoin_libc_changes(&c);
  }

 private:
  const int dirfd_;
  const char* const path_;
};

// Logs that `path` is made, if nothing is there.
class LoggedMaking : public NoLog {
 public:
  LoggedMaking(int dirfd, const char* path) : dirfd_(dirfd), path_(path) {}
  void before() {
    makes_ = !look(dirfd_, path_, false).there;
    if (makes_) rejoin::libc_recording::log_making(dirfd_, path_);
  }
  void after(bool made) {
    if (makes_) rejoin::libc_recording::log_made(dirfd_, path_, made);
  }
  void done() { rejoin::libc_recording::log_made(dirfd_, path_, true); }

 private:
  bool makes_ = false;
  const int dirfd_;
  const char* const path_;
};

class LoggedRenaming : public NoLog {
 public:
  LoggedRenaming(int from_dir, const char* from, int to_dir, const char* to, unsigned flags)
      : from_dir_(from_dir), from_(from), to_dir_(to_dir), to_(to), flags_(flags) {}
  void before() {
    const Found moved = look(from_dir_, from_, false), there = look(to_dir_, to_, false);
    char from[PATH_MAX], to[PATH_MAX];
    if (!moved.there || !make_absolute(from_dir_, from_, from) ||
        !make_absolute(to_dir_, to_, to)) {
      return;
    }
    LoggedChange c = {FileChange::kRenamed, from, to, moved.file.file, there.file.file};
    if ((flags_ & RENAME_EXCHANGE) != 0) {
      c.change = FileChange::kExchanged;
    } else if (there.there && there.file.file != moved.file.file) {
      if (!there.directory()) c.lost = to;
      if (there.directory()) c.flags = there.mode & 07777;  // the directory is empty
      c.lost_bytes = there.file.size_bytes;
    }
    rejoin_libc_changes(&c);
  }

 private:
  const int from_dir_;
  const char* const from_;
  const int to_dir_;
  const char* const to_;
  const unsigned flags_;
};

// Asks the journal, and makes the change by `really` if it has no answer. Otherwise settle() makes
// it for ghosts. Returns 0, or -1 with errno set.
template <class Really, class Settle, class Log>
int change(Event e, int dirfd, const char* watched, Really really, Settle settle, Log log) {
  const Answer answer = ask_once(e, dirfd, watched);
  if (answer == Answer::kLive) {
    const bool logs = rejoin_libc_logs_changes() != 0;
    if (logs) log.before();
    e.error = really() == 0 ? 0 : errno;
    if (logs) log.after(e.error == 0);
  } else if (answer == Answer::kDone && rejoin_libc_logs_changes() != 0) {
    log.done();
  }
  if (answer != Answer::kRecorded) rejoin::libc_recording::record(e);
  if (answer != Answer::kLive && e.error == 0) {
    const int saved = errno;
    settle();
    errno = saved;
  }
  if (e.error == 0) return 0;
  errno = e.error;
  return -1;
}

template <class Really>
int take_away(ObservationKind kind, int dirfd, const char* path, Really really) {
  return change(
      {kind, 0, path}, dirfd, path, really,
      [&] {
        if (is_ghost(look(dirfd, path, false))) really();
      },
      LoggedRemoval(dirfd, path));
}

// `really`(dirfd, path) makes it.
template <class Really>
void make_ghost(int dirfd, const char* path, Really really) {
  NewGhost ghost;
  if (look(dirfd, path, false).there || !ghost.begin(dirfd, path)) return;
  really(AT_FDCWD, ghost.path());
  ghost.end();
}

template <class Really>
int put_there(Event e, int dirfd, const char* made, Really really) {
  return change(
      e, dirfd, made, [&] { return really(dirfd, made); }, [&] { make_ghost(dirfd, made, really); },
      LoggedMaking(dirfd, made));
}

int unlink_at(const void* caller, int dirfd, const char* path, int flags) {
  if (!observing(caller) || !ordinary(path)) return real_unlinkat(dirfd, path, flags);
  const auto kind =
      (flags & AT_REMOVEDIR) != 0 ? ObservationKind::kRmdir : ObservationKind::kUnlink;
  return take_away(kind, dirfd, path, [&] { return real_unlinkat(dirfd, path, flags); });
}

int rename_at(const void* caller, int from_dir, const char* from, int to_dir, const char* to,
              unsigned flags) {
  const auto really = [&] { return real_renameat2(from_dir, from, to_dir, to, flags); };
  if (!observing(caller) || !ordinary(from) || !ordinary(to)) return really();
  const auto settle = [&] {
    const Found moved = look(from_dir, from, false), there = look(to_dir, to, false);
    const bool moves_ghost = is_ghost(moved);
    if (moves_ghost && (!there.there || is_ghost(there))) {
      about_to_place_ghost(moved, to_dir, to);
      really();
    } else if (moves_ghost) {  // the file that was moved the first time is where it belongs
      remove_at(from_dir, from);
    } else if (is_ghost(there)) {  // what has replaced it is where it belongs
      remove_at(to_dir, to);
    }
  };
  return change({ObservationKind::kRename, flags, from, to}, from_dir, from, really, settle,
                LoggedRenaming(from_dir, from, to_dir, to, flags));
}

int mkdir_at(const void* caller, int dirfd, const char* path, mode_t mode) {
  if (!observing(caller) || !ordinary(path)) return real_mkdirat(dirfd, path, mode);
  return put_there({ObservationKind::kMkdir, mode, path}, dirfd, path,
                   [&](int at, const char* p) { return real_mkdirat(at, p, mode); });
}

int link_at(const void* caller, int from_dir, const char* from, int to_dir, const char* to,
            int flags) {
  const auto really = [&] { return real_linkat(from_dir, from, to_dir, to, flags); };
  if (!observing(caller) || !ordinary(from) || !ordinary(to)) return really();
  const Event e{ObservationKind::kLink, static_cast<std::uint32_t>(flags), from, to};
  const auto settle = [&] {
    // Only a ghost gets a second name: a new name for a file that is where it belongs would be a
    // ghost.
    const Found linked = look(from_dir, from, (flags & AT_SYMLINK_FOLLOW) != 0);
    if (!is_ghost(linked)) return;
    about_to_place_ghost(linked, to_dir, to);
    really();
  };
  return change(e, to_dir, to, really, settle, LoggedMaking(to_dir, to));
}

int symlink_at(const void* caller, const char* target, int dirfd, const char* path) {
  const auto really = [&](int at, const char* p) { return real_symlinkat(target, at, p); };
  if (!observing(caller) || !ordinary(target) || !ordinary(path)) return really(dirfd, path);
  return put_there({ObservationKind::kSymlink, 0, target, path}, dirfd, path, really);
}

// --- mkstemp

constexpr std::size_t kLetters = 6;  // random letters that replace the X of a template

// Chooses random letters, such that nothing lies at `path` with them in place of `letters`.
void choose_letters(const char* path, char* letters) {
  constexpr char kAll[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    std::uint64_t random = 0;
    real_getrandom(&random, sizeof random, 0u);
    for (std::size_t k = 0; k < kLetters; ++k, random /= sizeof kAll - 1) {
      letters[k] = kAll[random % (sizeof kAll - 1)];
    }
    if (!look(AT_FDCWD, path, false).there) return;
  }
}

// mkstemp() and its family. The name is chosen, recorded, then made: what a death in between leaves
// is therefore found again by the replay. `make` makes what the path names, and returns a
// descriptor, or 0, or -1; `again`(made) gives what the first execution has made.
template <class Make, class Again>
int make_temporary(char* path, char* letters, Make make, Again again) {
  char asked[PATH_MAX];
  memcpy(asked, path, strlen(path) + 1);
  char announced[kLetters + 2] = {};
  Event about{ObservationKind::kAbout, static_cast<std::uint32_t>(ObservationKind::kTemporary),
              asked};
  about.data = announced;
  about.room_bytes = about.data_bytes = sizeof announced;
  if (ask(about) == Answer::kLive) {
    choose_letters(path, letters);
    memcpy(announced, letters, kLetters);
    rejoin::libc_recording::record(about);
  }
  memcpy(letters, announced, kLetters);

  OpenedFile made = {};
  Event e{ObservationKind::kTemporary, 0, asked};
  e.data = &made;
  e.room_bytes = sizeof made;
  if (ask(e) == Answer::kRecorded) {
    if (e.error == 0) return again(made);
    errno = e.error;
    return -1;
  }
  // An incarnation that died before it wrote the record may have left the file.
  const Found left = look(AT_FDCWD, path, false);
  const bool logs = !left.there && rejoin_libc_logs_changes() != 0;
  if (logs) rejoin::libc_recording::log_making(AT_FDCWD, path);
  const int result = left.there ? again(left.file) : make();
  e.error = result < 0 ? errno : 0;
  if (logs) rejoin::libc_recording::log_made(AT_FDCWD, path, result >= 0);
  if (result >= 0) {
    e.data_bytes = sizeof made;
    made = look(AT_FDCWD, path, false).file;
  }
  rejoin::libc_recording::record(e);
  return result;
}

// Returns the letters X of a template; nullptr: the path is not one.
char* letters_of(char* path, int suffix_bytes) {
  const std::size_t bytes = strnlen(path, PATH_MAX);
  if (!ordinary(path) || suffix_bytes < 0 || bytes < kLetters + suffix_bytes) return nullptr;
  char* letters = path + bytes - suffix_bytes - kLetters;
  return memcmp(letters, "XXXXXX", kLetters) == 0 ? letters : nullptr;
}

int make_temporary_file(const void* caller, char* path, int suffix_bytes, int flags) {
  char* letters = observing(caller) ? letters_of(path, suffix_bytes) : nullptr;
  if (letters == nullptr) return real_mkostemps(path, suffix_bytes, flags);
  constexpr mode_t kMode = S_IRUSR | S_IWUSR;
  const int asked = (flags & ~O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL;
  return make_temporary(
      path, letters, [&] { return real_openat(AT_FDCWD, path, asked, kMode); },
      [&](const OpenedFile& then) {
        Opening opening(AT_FDCWD, path, asked, kMode);
        opening.begin_again(then);
        const int fd = real_openat(opening.dirfd(), opening.path(), opening.flags(), kMode);
        opening.end(fd);
        return fd;
      });
}

}  // namespace

REJOIN_REPLACES int unlink(const char* path) noexcept {
  return unlink_at(REJOIN_CALLER, AT_FDCWD, path, 0);
}
REJOIN_REPLACES int unlinkat(int dirfd, const char* path, int flags) noexcept {
  return unlink_at(REJOIN_CALLER, dirfd, path, flags);
}
REJOIN_REPLACES int rmdir(const char* path) noexcept {
  return unlink_at(REJOIN_CALLER, AT_FDCWD, path, AT_REMOVEDIR);
}
REJOIN_REPLACES int remove(const char* path) noexcept {
  if (!observing(REJOIN_CALLER) || !ordinary(path)) return real_remove(path);
  return take_away(ObservationKind::kRemove, AT_FDCWD, path, [&] { return real_remove(path); });
}

REJOIN_REPLACES int rename(const char* from, const char* to) noexcept {
  return rename_at(REJOIN_CALLER, AT_FDCWD, from, AT_FDCWD, to, 0);
}
REJOIN_REPLACES int renameat(int from_dir, const char* from, int to_dir, const char* to) noexcept {
  return rename_at(REJOIN_CALLER, from_dir, from, to_dir, to, 0);
}
REJOIN_REPLACES int renameat2(int from_dir, const char* from, int to_dir, const char* to,
                              unsigned flags) noexcept {
  return rename_at(REJOIN_CALLER, from_dir, from, to_dir, to, flags);
}

REJOIN_REPLACES int mkdir(const char* path, mode_t mode) noexcept {
  return mkdir_at(REJOIN_CALLER, AT_FDCWD, path, mode);
}
REJOIN_REPLACES int mkdirat(int dirfd, const char* path, mode_t mode) noexcept {
  return mkdir_at(REJOIN_CALLER, dirfd, path, mode);
}

REJOIN_REPLACES int link(const char* from, const char* to) noexcept {
  return link_at(REJOIN_CALLER, AT_FDCWD, from, AT_FDCWD, to, 0);
}
REJOIN_REPLACES int linkat(int from_dir, const char* from, int to_dir, const char* to,
                           int flags) noexcept {
  return link_at(REJOIN_CALLER, from_dir, from, to_dir, to, flags);
}
REJOIN_REPLACES int symlink(const char* target, const char* path) noexcept {
  return symlink_at(REJOIN_CALLER, target, AT_FDCWD, path);
}
REJOIN_REPLACES int symlinkat(const char* target, int dirfd, const char* path) noexcept {
  return symlink_at(REJOIN_CALLER, target, dirfd, path);
}

REJOIN_REPLACES int mkstemp(char* path) { return make_temporary_file(REJOIN_CALLER, path, 0, 0); }
REJOIN_REPLACES int mkostemp(char* path, int flags) {
  return make_temporary_file(REJOIN_CALLER, path, 0, flags);
}
REJOIN_REPLACES int mkstemps(char* path, int suffix_bytes) {
  return make_temporary_file(REJOIN_CALLER, path, suffix_bytes, 0);
}
REJOIN_REPLACES int mkostemps(char* path, int suffix_bytes, int flags) {
  return make_temporary_file(REJOIN_CALLER, path, suffix_bytes, flags);
}
REJOIN_REPLACES int mkstemp64(char*) __attribute__((alias("mkstemp")));
REJOIN_REPLACES int mkostemp64(char*, int) __attribute__((alias("mkostemp")));
REJOIN_REPLACES int mkstemps64(char*, int) __attribute__((alias("mkstemps")));
REJOIN_REPLACES int mkostemps64(char*, int, int) __attribute__((alias("mkostemps")));

REJOIN_REPLACES char* mkdtemp(char* path) noexcept {
  char* letters = observing(REJOIN_CALLER) ? letters_of(path, 0) : nullptr;
  if (letters == nullptr) return real_mkdtemp(path);
  const auto make_at = [](int at, const char* p) { return real_mkdirat(at, p, S_IRWXU); };
  const int result = make_temporary(
      path, letters, [&] { return make_at(AT_FDCWD, path); },
      [&](const OpenedFile&) {
        make_ghost(AT_FDCWD, path, make_at);
        return 0;
      });
  return result == 0 ? path : nullptr;
}
