#include "launcher/base/lifeline.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace rejoin::launcher {

Lifeline::Lifeline() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  read_end_ = Descriptor(ends[0]);
  write_end_ = Descriptor(ends[1]);
  path_ = "/proc/self/fd/" + std::to_string(ends[0]);
  char name[PATH_MAX];
  const ssize_t bytes = readlink(path_.c_str(), name, sizeof name);
  if (bytes > 0) name_.assign(name, static_cast<std::size_t>(bytes));
}

bool holds_lifeline(pid_t pid, const std::string& lifeline) {
  const std::string directory = "/proc/" + std::to_string(pid) + "/fd";
  DIR* descriptors = opendir(directory.c_str());
  if (descriptors == nullptr) return false;
  bool found = false;
  while (const dirent* entry = readdir(descriptors)) {
    char target[64];
    const ssize_t n = readlinkat(dirfd(descriptors), entry->d_name, target, sizeof target);
    found = found || (n > 0 && std::string_view(target, static_cast<std::size_t>(n)) == lifeline);
  }
  closedir(descriptors);
  return found;
}

void hold_lifeline(const char* path) {
  constexpr rlim_t kHighDescriptor = 899;
  // Opened, not duplicated: each process group must be the signal's owner of its own open file.
  const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const int high = static_cast<int>(std::min(limit.rlim_cur - 1, kHighDescriptor));
  if (dup2(fd, high) != high) return;
  fcntl(high, F_SETSIG, SIGKILL);
  fcntl(high, F_SETOWN, -getpgrp());
  fcntl(high, F_SETFL, O_ASYNC | O_NONBLOCK);
}

}  // namespace rejoin::launcher
