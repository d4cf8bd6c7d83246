// What /proc says about the threads of this process. Makes system calls only.
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

}  // namespace rejoin::process_image
