// What /proc says about the threads of this process. Makes system calls only.
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "journal/system_call.h"

namespace rejoin::process_image {

// Reads the beginning of a file about a thread, for example "stat", and ends it with a zero. False:
// the thread has ended.
inline bool read_thread_file(pid_t id, const char* name, char* text, std::size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/%s", id, name);
  const long file =
      journal::system_call(SYS_open, reinterpret_cast<long>(path), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const long bytes = journal::system_call(SYS_read, file, reinterpret_cast<long>(text),
                                          static_cast<long>(size - 1));
  journal::system_call(SYS_close, file);
  text[bytes > 0 ? bytes : 0] = '\0';
  return bytes > 0;
}

// Whether a thread blocks a signal. False also if it has ended.
inline bool blocks_signal(pid_t id, int signal) {
  char text[4096];
  if (!read_thread_file(id, "status", text, sizeof text)) return false;
  constexpr char kName[] = "\nSigBlk:";
  const char* mask = strstr(text, kName);
  if (mask == nullptr) return false;
  const std::uint64_t blocked = strtoull(mask + sizeof kName - 1, nullptr, 16);
  return (blocked >> (signal - 1) & 1) != 0;
}

// Whether a thread, which is stopped, has the descriptors of the calling one. Seccomp profiles of
// containers often forbid kcmp(); then a new descriptor must appear there, and disappear.
inline bool shares_files(pid_t id) {
  constexpr long kFiles = 2;  // KCMP_FILES
  const long order =
      journal::system_call(SYS_kcmp, journal::system_call(SYS_getpid), id, kFiles, 0, 0);
  if (order >= 0) return order == 0;
  char name[32], text[64];
  const long fd =
      journal::system_call(SYS_open, reinterpret_cast<long>("/dev/null"), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  snprintf(name, sizeof name, "fdinfo/%ld", fd);
  const bool appears = read_thread_file(id, name, text, sizeof text);
  journal::system_call(SYS_close, fd);
  return appears && !read_thread_file(id, name, text, sizeof text);
}

// The same of its working directory, root and umask. Without kcmp(), another umask must be seen
// there.
inline bool shares_directories(pid_t id) {
  constexpr long kDirectories = 3;  // KCMP_FS
  const long order =
      journal::system_call(SYS_kcmp, journal::system_call(SYS_getpid), id, kDirectories, 0, 0);
  if (order >= 0) return order == 0;
  const auto umask_there = [id] {
    char text[4096];
    const bool is_read = read_thread_file(id, "status", text, sizeof text);
    const char* mask = is_read ? strstr(text, "\nUmask:") : nullptr;
    return mask != nullptr ? strtol(mask + sizeof "\nUmask:" - 1, nullptr, 8) : -1;
  };
  constexpr long kOne = S_IXOTH;
  const long mask = journal::system_call(SYS_umask, 0);
  const bool is_off = umask_there() == 0;
  journal::system_call(SYS_umask, kOne);
  const bool is_on = umask_there() == kOne;
  journal::system_call(SYS_umask, mask);
  return is_off && is_on;
}

}  // namespace rejoin::process_image
