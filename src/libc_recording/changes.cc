// Changes of the file system that succeed once: unlink, rename, mkdir, link, mkstemp and their
// families. In a replay they are answered, not repeated; only ghosts are moved and removed.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libc_recording/files.h"
#include "libc_recording/real.h"

namespace {

using rejoin::libc_recording::about_to_make_ghost;
using rejoin::libc_recording::Answer;
using rejoin::libc_recording::ask;
using rejoin::libc_recording::ask_once;
using rejoin::libc_recording::Event;
using rejoin::libc_recording::Found;
using rejoin::libc_recording::is_ghost;
using rejoin::libc_recording::look;
using rejoin::libc_recording::ObservationKind;
using rejoin::libc_recording::observing;
using rejoin::libc_recording::OpenedFile;
using rejoin::libc_recording::Opening;
using rejoin::libc_recording::ordinary;
using rejoin::libc_recording::remove_at;
using rejoin::libc_recording::set_ghost;

REJOIN_REAL(unlinkat);
REJOIN_REAL(remove);
REJOIN_REAL(renameat2);
REJOIN_REAL(mkdirat);
REJOIN_REAL(linkat);
REJOIN_REAL(symlinkat);
constinit rejoin::libc_recording::Real<int(int, const char*, int, ...)> real_openat("openat");
REJOIN_REAL(mkostemps);
REJOIN_REAL(mkdtemp);

// `really` makes the change; `settle` does what it does to ghosts.
template <class Really, class Settle>
int change(Event e, int dirfd, const char* watched, Really really, Settle settle) {
  const Answer answer = ask_once(e, dirfd, watched);
  if (answer == Answer::kLive) e.error = really() == 0 ? 0 : errno;
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
  return change({kind, 0, path}, dirfd, path, really, [&] {
    if (is_ghost(look(dirfd, path, false))) really();
  });
}

template <class Really>
int put_there(Event e, int dirfd, const char* made, Really really) {
  return change(e, dirfd, made, really, [&] {
    if (look(dirfd, made, false).there) return;
    about_to_make_ghost(dirfd, made);
    really();
    set_ghost(look(dirfd, made, false));
  });
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
  return change({ObservationKind::kRename, flags, from, to}, from_dir, from, really, [&] {
    const Found moved = look(from_dir, from, false), there = look(to_dir, to, false);
    const bool moves_ghost = is_ghost(moved);
    if (moves_ghost && (!there.there || is_ghost(there))) {
      about_to_make_ghost(to_dir, to);
      really();
      set_ghost(moved);
    } else if (moves_ghost) {  // its first copy is where it belongs
      remove_at(from_dir, from);
    } else if (is_ghost(there)) {  // so is what has taken its place
      remove_at(to_dir, to);
    }
  });
}

int mkdir_at(const void* caller, int dirfd, const char* path, mode_t mode) {
  if (!observing(caller) || !ordinary(path)) return real_mkdirat(dirfd, path, mode);
  return put_there({ObservationKind::kMkdir, mode, path}, dirfd, path,
                   [&] { return real_mkdirat(dirfd, path, mode); });
}

int link_at(const void* caller, int from_dir, const char* from, int to_dir, const char* to,
            int flags) {
  const auto really = [&] { return real_linkat(from_dir, from, to_dir, to, flags); };
  if (!observing(caller) || !ordinary(from) || !ordinary(to)) return really();
  const Event e{ObservationKind::kLink, static_cast<std::uint32_t>(flags), from, to};
  return change(e, to_dir, to, really, [&] {
    // A second name of a file that is where it belongs would make a ghost of that.
    if (is_ghost(look(from_dir, from, (flags & AT_SYMLINK_FOLLOW) != 0))) really();
  });
}

int symlink_at(const void* caller, const char* target, int dirfd, const char* path) {
  const auto really = [&] { return real_symlinkat(target, dirfd, path); };
  if (!observing(caller) || !ordinary(target) || !ordinary(path)) return really();
  return put_there({ObservationKind::kSymlink, 0, target, path}, dirfd, path, really);
}

// --------------------------------------------------------------------------------------- mkstemp

constexpr std::size_t kLetters = 6;  // that replace the X of a template

// The answer: what was made.
struct Temporary {
  char letters[kLetters + 2];
  OpenedFile file;  // of a directory: nothing
};

// `really` makes the file or directory that it names by changing the template in place, and returns
// a descriptor, or 0, or -1; `again` makes the one that the template already names.
template <class Really, class Again>
int make_temporary(char* path, int suffix_bytes, Really really, Again again) {
  const std::size_t bytes = strnlen(path, PATH_MAX);
  if (!ordinary(path) || suffix_bytes < 0 || bytes < kLetters + suffix_bytes) return really();
  char asked[PATH_MAX];
  memcpy(asked, path, bytes + 1);
  char* letters = path + bytes - suffix_bytes - kLetters;
  Temporary made = {};
  Event e{ObservationKind::kTemporary, 0, asked};
  e.data = &made;
  e.room_bytes = sizeof made;
  if (ask(e) == Answer::kLive) {
    const int result = really();
    e.error = result < 0 ? errno : 0;
    if (result >= 0) {
      e.other = path;
      e.data_bytes = sizeof made;
      memcpy(made.letters, letters, kLetters);
      made.file = look(AT_FDCWD, path, false).file;
    }
    rejoin::libc_recording::record(e);
    return result;
  }
  if (e.error != 0) {
    errno = e.error;
    return -1;
  }
  memcpy(letters, made.letters, kLetters);
  return again(made.file);
}

int make_temporary_file(const void* caller, char* path, int suffix_bytes, int flags) {
  const auto really = [&] { return real_mkostemps(path, suffix_bytes, flags); };
  if (!observing(caller)) return really();
  return make_temporary(path, suffix_bytes, really, [&](const OpenedFile& then) {
    constexpr mode_t kMode = S_IRUSR | S_IWUSR;
    const int asked = (flags & ~O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL;
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
  if (!observing(REJOIN_CALLER)) return real_mkdtemp(path);
  const int result = make_temporary(
      path, 0, [&] { return real_mkdtemp(path) != nullptr ? 0 : -1; },
      [&](const OpenedFile&) {
        if (look(AT_FDCWD, path, false).there) return 0;
        about_to_make_ghost(AT_FDCWD, path);
        const int made = real_mkdirat(AT_FDCWD, path, S_IRWXU);
        set_ghost(look(AT_FDCWD, path, false));
        return made;
      });
  return result == 0 ? path : nullptr;
}
