// The open descriptors of a process.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rejoin::wire {

// Calls f(fd) for each open descriptor of this process, until it returns false. f may close it.
// Returns whether all calls returned true. Makes system calls only.
template <class F>
bool each_descriptor(F f) {
  const auto directory =
      static_cast<int>(syscall(SYS_open, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory < 0) return false;
  bool good = true;
  alignas(dirent64) char entries[4096];
  for (long n; good && (n = syscall(SYS_getdents64, directory, entries, sizeof entries)) > 0;) {
    for (long at = 0; good && at < n;) {
      const auto* e = reinterpret_cast<const dirent64*>(entries + at);
      at += e->d_reclen;
      if (e->d_name[0] == '.') continue;
      const int fd = atoi(e->d_name);
      if (fd != directory) good = f(fd);
    }
  }
  syscall(SYS_close, directory);
  return good;
}

}  // namespace rejoin::wire
