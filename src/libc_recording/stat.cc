// Looking at files: access() and stat() with their families. The answer is recorded whole.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libc_recording/files.h"
#include "libc_recording/process.h"
#include "libc_recording/real.h"

namespace {

using rejoin::libc_recording::Answer;
using rejoin::libc_recording::ask;
using rejoin::libc_recording::Event;
using rejoin::libc_recording::ObservationKind;
using rejoin::libc_recording::observing;
using rejoin::libc_recording::ordinary;
using rejoin::libc_recording::own_proc_path;

REJOIN_REAL(faccessat);
REJOIN_REAL(fstatat);
REJOIN_REAL(statx);
REJOIN_REAL(readlink);
REJOIN_REAL(readlinkat);

// Returns 0, or -1 with errno set, like the functions that it implements.
template <class Really>
int check(Event& e, void* data, std::uint32_t data_bytes, Really really) {
  e.data = data;
  e.room_bytes = data_bytes;
  if (ask(e) == Answer::kLive) {
    e.error = really() == 0 ? 0 : errno;
    e.data_bytes = e.error == 0 ? data_bytes : 0;
    rejoin::libc_recording::record(e);
  }
  if (e.error == 0) return 0;
  errno = e.error;
  return -1;
}

int access_at(const void* caller, int dirfd, const char* path, int mode, int flags) {
  char own[PATH_MAX];
  path = own_proc_path(caller, path, own);
  if (!observing(caller) || !ordinary(path)) return real_faccessat(dirfd, path, mode, flags);
  Event e{ObservationKind::kAccess, static_cast<std::uint32_t>(mode | flags), path};
  return check(e, nullptr, 0, [&] { return real_faccessat(dirfd, path, mode, flags); });
}

int stat_at(const void* caller, int dirfd, const char* path, struct stat* out, int flags) {
  char own[PATH_MAX];
  path = own_proc_path(caller, path, own);
  // An empty path asks about the descriptor, not about a path.
  if (!observing(caller) || !ordinary(path) || path[0] == '\0') {
    return real_fstatat(dirfd, path, out, flags);
  }
  Event e{ObservationKind::kStat, static_cast<std::uint32_t>(flags), path};
  return check(e, out, sizeof *out, [&] { return real_fstatat(dirfd, path, out, flags); });
}

}  // namespace

REJOIN_REPLACES int access(const char* path, int mode) noexcept {
  return access_at(REJOIN_CALLER, AT_FDCWD, path, mode, 0);
}
REJOIN_REPLACES int faccessat(int dirfd, const char* path, int mode, int flags) noexcept {
  return access_at(REJOIN_CALLER, dirfd, path, mode, flags);
}
REJOIN_REPLACES int euidaccess(const char* path, int mode) noexcept {
  return access_at(REJOIN_CALLER, AT_FDCWD, path, mode, AT_EACCESS);
}
REJOIN_REPLACES int eaccess(const char*, int) noexcept __attribute__((alias("euidaccess")));

REJOIN_REPLACES int stat(const char* path, struct stat* out) noexcept {
  return stat_at(REJOIN_CALLER, AT_FDCWD, path, out, 0);
}
REJOIN_REPLACES int lstat(const char* path, struct stat* out) noexcept {
  return stat_at(REJOIN_CALLER, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
REJOIN_REPLACES int fstatat(int dirfd, const char* path, struct stat* out, int flags) noexcept {
  return stat_at(REJOIN_CALLER, dirfd, path, out, flags);
}

REJOIN_REPLACES int statx(int dirfd, const char* path, int flags, unsigned mask,
                          struct statx* out) noexcept {
  char own[PATH_MAX];
  path = own_proc_path(REJOIN_CALLER, path, own);
  if (!observing(REJOIN_CALLER) || !ordinary(path) || path[0] == '\0') {
    return real_statx(dirfd, path, flags, mask, out);
  }
  Event e{ObservationKind::kStatx, static_cast<std::uint32_t>(flags) ^ mask, path};
  return check(e, out, sizeof *out, [&] { return real_statx(dirfd, path, flags, mask, out); });
}

// The answers are not recorded, but a rank's own links in /proc are found.
REJOIN_REPLACES ssize_t readlink(const char* path, char* to, size_t room) noexcept {
  char own[PATH_MAX];
  return real_readlink(own_proc_path(REJOIN_CALLER, path, own), to, room);
}
REJOIN_REPLACES ssize_t readlinkat(int dirfd, const char* path, char* to, size_t room) noexcept {
  char own[PATH_MAX];
  return real_readlinkat(dirfd, own_proc_path(REJOIN_CALLER, path, own), to, room);
}

// Called by programs that were compiled with large files, or before glibc 2.33; `version` says
// which struct stat they mean, and there is only one on this processor.
static_assert(sizeof(struct stat) == sizeof(struct stat64));
REJOIN_REPLACES int stat64(const char*, struct stat64*) noexcept __attribute__((alias("stat")));
REJOIN_REPLACES int lstat64(const char*, struct stat64*) noexcept __attribute__((alias("lstat")));
REJOIN_REPLACES int fstatat64(int, const char*, struct stat64*, int) noexcept
    __attribute__((alias("fstatat")));

REJOIN_REPLACES int __xstat(int /*version*/, const char* path, struct stat* out) {
  return stat_at(REJOIN_CALLER, AT_FDCWD, path, out, 0);
}
REJOIN_REPLACES int __lxstat(int /*version*/, const char* path, struct stat* out) {
  return stat_at(REJOIN_CALLER, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
REJOIN_REPLACES int __fxstatat(int /*version*/, int dirfd, const char* path, struct stat* out,
                               int flags) {
  return stat_at(REJOIN_CALLER, dirfd, path, out, flags);
}
REJOIN_REPLACES int __xstat64(int, const char*, struct stat*) __attribute__((alias("__xstat")));
REJOIN_REPLACES int __lxstat64(int, const char*, struct stat*) __attribute__((alias("__lxstat")));
REJOIN_REPLACES int __fxstatat64(int, int, const char*, struct stat*, int)
    __attribute__((alias("__fxstatat")));
