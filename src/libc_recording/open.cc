// open() and fopen() with their families.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libc_recording/files.h"
#include "libc_recording/observed_reads.h"
#include "libc_recording/process.h"
#include "libc_recording/real.h"

namespace {

using rejoin::libc_recording::observing;
using rejoin::libc_recording::Opening;
using rejoin::libc_recording::ordinary;

REJOIN_REAL_AS(openat, "openat", int(int, const char*, int, ...));
REJOIN_REAL(fopen);
REJOIN_REAL(freopen);

constexpr mode_t kStreamMode = 0666;
constexpr std::size_t kLongestMode = 100;

int open_at(const void* caller, int dirfd, const char* path, int flags, mode_t mode) {
  char own[PATH_MAX];
  path = rejoin::libc_recording::own_proc_path(caller, path, own);
  if (!observing(caller)) return real_openat(dirfd, path, flags, mode);
  const bool found = dirfd == AT_FDCWD || (path != nullptr && path[0] == '/');
  if (found && rejoin::libc_recording::is_read_observed(path)) {
    return rejoin::libc_recording::observe_reads(real_openat(dirfd, path, flags, mode));
  }
  // A replay makes a file without a name anew.
  const bool unnamed = (flags & O_TMPFILE) == O_TMPFILE;
  if (unnamed || !ordinary(path)) return real_openat(dirfd, path, flags, mode);
  Opening opening(dirfd, path, flags, mode);
  if (!opening.begin()) return -1;
  const int fd = real_openat(opening.dirfd(), opening.path(), opening.flags(), mode);
  opening.end(fd);
  return fd;
}

bool takes_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

// Returns the flags of open() that a stream's mode means; -1: the mode is invalid.
int flags_of(const char* mode) {
  int flags;
  switch (mode[0]) {
    case 'r':
      flags = O_RDONLY;
      break;
    case 'w':
      flags = O_WRONLY | O_CREAT | O_TRUNC;
      break;
    case 'a':
      flags = O_WRONLY | O_CREAT | O_APPEND;
      break;
    default:
      return -1;
  }
  for (const char* p = mode + 1; *p != '\0' && *p != ','; ++p) {
    if (*p == '+') flags = (flags & ~O_ACCMODE) | O_RDWR;
    if (*p == 'x') flags |= O_EXCL;
    if (*p == 'e') flags |= O_CLOEXEC;
  }
  return flags;
}

// The mode to use where Opening has changed the flags: at most one character longer.
void change_mode(const char* mode, int asked, int flags, char* changed) {
  const bool keep_contents = (asked & O_TRUNC) != 0 && (flags & O_TRUNC) == 0;
  char* to = changed;
  *to++ = keep_contents ? 'r' : mode[0];
  if (keep_contents) *to++ = '+';
  const char* p = mode + 1;
  for (; *p != '\0' && *p != ','; ++p) {
    const bool drop = (*p == '+' && keep_contents) || (*p == 'x' && (flags & O_EXCL) == 0);
    if (!drop) *to++ = *p;
  }
  strcpy(to, p);
}

// Opens a stream by `really`(path, mode).
template <class Really>
FILE* open_stream(const char* path, const char* mode, Really really) {
  const int asked = flags_of(mode);
  char changed[kLongestMode + 2];
  Opening opening(AT_FDCWD, path, asked, kStreamMode);
  if (!opening.begin()) {
    // The call failed the first time. Another failing call is made in its place, so that the
    // effects on the heap, and on a stream to be reopened, are the same as then.
    const int error = errno;
    really("", mode);
    errno = error;
    return nullptr;
  }
  change_mode(mode, asked, opening.flags(), changed);
  FILE* stream = really(opening.path(), changed);
  opening.end(stream != nullptr ? fileno(stream) : -1);
  return stream;
}

bool observed_stream(const char* path, const char* mode) {
  return ordinary(path) && flags_of(mode) >= 0 && strlen(mode) < kLongestMode;
}

}  // namespace

REJOIN_REPLACES int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = takes_mode(flags) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_at(REJOIN_CALLER, AT_FDCWD, path, flags, mode);
}

REJOIN_REPLACES int openat(int dirfd, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = takes_mode(flags) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_at(REJOIN_CALLER, dirfd, path, flags, mode);
}

REJOIN_REPLACES int creat(const char* path, mode_t mode) {
  return open_at(REJOIN_CALLER, AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

REJOIN_REPLACES FILE* fopen(const char* path, const char* mode) {
  char own[PATH_MAX];
  path = rejoin::libc_recording::own_proc_path(REJOIN_CALLER, path, own);
  if (!observing(REJOIN_CALLER)) return real_fopen(path, mode);
  const bool only_reads = (flags_of(mode) & ~O_CLOEXEC) == O_RDONLY;
  if (only_reads && rejoin::libc_recording::is_read_observed(path)) {
    return rejoin::libc_recording::open_observed_stream(path);
  }
  if (!observed_stream(path, mode)) return real_fopen(path, mode);
  return open_stream(path, mode, [](const char* p, const char* m) { return real_fopen(p, m); });
}

REJOIN_REPLACES FILE* freopen(const char* path, const char* mode, FILE* stream) {
  if (!observing(REJOIN_CALLER) || !observed_stream(path, mode)) {
    return real_freopen(path, mode, stream);
  }
  fflush(stream);  // as it does itself: the file may be the one that is opened
  return open_stream(path, mode,
                     [stream](const char* p, const char* m) { return real_freopen(p, m, stream); });
}

// Called by programs that were compiled with large files, or with checks (_FORTIFY_SOURCE).
static_assert(sizeof(off_t) == sizeof(off64_t));
REJOIN_REPLACES int open64(const char*, int, ...) __attribute__((alias("open")));
REJOIN_REPLACES int openat64(int, const char*, int, ...) __attribute__((alias("openat")));
REJOIN_REPLACES int creat64(const char*, mode_t) __attribute__((alias("creat")));
REJOIN_REPLACES FILE* fopen64(const char*, const char*) __attribute__((alias("fopen")));
REJOIN_REPLACES FILE* freopen64(const char*, const char*, FILE*) __attribute__((alias("freopen")));

REJOIN_REPLACES int __open_2(const char* path, int flags) {
  return open_at(REJOIN_CALLER, AT_FDCWD, path, flags, 0);
}
REJOIN_REPLACES int __openat_2(int dirfd, const char* path, int flags) {
  return open_at(REJOIN_CALLER, dirfd, path, flags, 0);
}
REJOIN_REPLACES int __open64_2(const char*, int) __attribute__((alias("__open_2")));
REJOIN_REPLACES int __openat64_2(int, const char*, int) __attribute__((alias("__openat_2")));
