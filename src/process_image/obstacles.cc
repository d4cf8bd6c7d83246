#include "process_image/obstacles.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "journal/layout.h"
#include "recovery/attach.h"

namespace rejoin::process_image {
namespace {

bool has_threads(char* why, std::size_t size) {
  struct stat s;
  if (stat("/proc/self/task", &s) != 0) {
    snprintf(why, size, "cannot look at /proc/self");
    return true;
  }
  const auto threads = static_cast<unsigned>(s.st_nlink) - 2;
  if (threads == 1) return false;
  snprintf(why, size, "has %u threads, of which a clone would have only one", threads);
  return true;
}

bool has_children(char* why, std::size_t size) {
  siginfo_t info;
  constexpr int kAny = WEXITED | WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT | __WALL;
  if (waitid(P_ALL, 0, &info, kAny) != 0) return false;
  snprintf(why, size, "has child processes");
  return true;
}

bool has_timers(char* why, std::size_t size) {
  bool armed = false;
  for (const auto which : {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF}) {
    itimerval t = {};
    armed |= getitimer(which, &t) == 0 && (t.it_value.tv_sec != 0 || t.it_value.tv_usec != 0);
  }
  const int fd = open("/proc/self/timers", O_RDONLY | O_CLOEXEC);
  char byte;
  armed |= fd >= 0 && read(fd, &byte, 1) > 0;
  if (fd >= 0) close(fd);
  if (armed) snprintf(why, size, "has armed timers");
  return armed;
}

// A line of /proc/self/maps: ADDRESSES PERMISSIONS OFFSET DEVICE INODE PATH. What is shared and
// writable would be written by both, and is not the journal's.
bool is_foreign_shared(const char* line, std::size_t bytes, const std::byte* segment,
                       std::uint64_t segment_bytes) {
  const char* space = static_cast<const char*>(memchr(line, ' ', bytes));
  if (space == nullptr || space + 5 > line + bytes) return false;
  const auto from = reinterpret_cast<const std::byte*>(strtoul(line, nullptr, 16));
  const bool ours = from >= segment && from < segment + segment_bytes;
  return space[2] == 'w' && space[4] == 's' && !ours;
}

bool has_shared_memory(char* why, std::size_t size) {
  std::byte* segment = recovery::attached_rank()->host().base();
  const std::uint64_t segment_bytes = engine::header_of(segment)->segment_bytes;
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char buffer[16384];
  std::size_t there = 0;
  bool found = false;
  for (ssize_t n; !found && (n = read(fd, buffer + there, sizeof buffer - there)) > 0;) {
    there += static_cast<std::size_t>(n);
    const char* line = buffer;
    const char* end;
    while (!found && (end = static_cast<const char*>(
                          memchr(line, '\n', there - (line - buffer)))) != nullptr) {
      const auto bytes = static_cast<std::size_t>(end - line);
      found = is_foreign_shared(line, bytes, segment, segment_bytes);
      if (found) {
        const char* path = static_cast<const char*>(memchr(line, '/', bytes));
        const int length = path != nullptr ? static_cast<int>(end - path) : 0;
        snprintf(why, size, "shares writable memory with others (%.*s)", length > 0 ? length : 9,
                 length > 0 ? path : "anonymous");
      }
      line = end + 1;
    }
    there -= static_cast<std::size_t>(line - buffer);
    memmove(buffer, line, there);
  }
  close(fd);
  return found;
}

// By a debugger, say, which would not trace a clone.
bool is_traced(char* why, std::size_t size) {
  constexpr char kTracer[] = "TracerPid:\t";
  char text[2048];
  const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  text[n > 0 ? n : 0] = '\0';
  const char* tracer = strstr(text, kTracer);
  if (tracer != nullptr && tracer[sizeof kTracer - 1] == '0') return false;
  snprintf(why, size, "is traced by another process, which would not trace a clone");
  return true;
}

// Locks of fcntl() belong to a process, and would stay with the one that is left behind.
bool holds_locks(char* why, std::size_t size) {
  const int fd = open("/proc/locks", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const auto self = static_cast<int>(syscall(SYS_getpid));
  char buffer[8192];
  std::size_t there = 0;
  bool found = false;
  for (ssize_t n; !found && (n = read(fd, buffer + there, sizeof buffer - 1 - there)) > 0;) {
    there += static_cast<std::size_t>(n);
    buffer[there] = '\0';
    char* line = buffer;
    for (char* end; !found && (end = strchr(line, '\n')) != nullptr; line = end + 1) {
      // NUMBER: POSIX ADVISORY WRITE PID ...
      int pid = 0;
      char kind[16] = "";
      *end = '\0';
      found = sscanf(line, "%*d: %15s %*s %*s %d", kind, &pid) == 2 && strcmp(kind, "POSIX") == 0 &&
              pid == self;
    }
    there -= static_cast<std::size_t>(line - buffer);
    memmove(buffer, line, there);
  }
  close(fd);
  if (found) snprintf(why, size, "has locked a file");
  return found;
}

}  // namespace

bool can_be_cloned(char* why, std::size_t size) {
  return !has_threads(why, size) && !has_children(why, size) && !has_timers(why, size) &&
         !has_shared_memory(why, size);
}

pid_t agent_process() {
  ucred peer = {};
  socklen_t bytes = sizeof peer;
  const int agent = recovery::attached_rank()->host().agent_socket();
  return getsockopt(agent, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 ? peer.pid : 0;
}

bool is_child_of_agent() { return syscall(SYS_getppid) == agent_process(); }

bool can_move(char* why, std::size_t size) {
  return is_child_of_agent() || (!is_traced(why, size) && !holds_locks(why, size));
}

bool say_cannot_move(char* why, std::size_t size) {
  char path[32], name[32] = "";
  snprintf(path, sizeof path, "/proc/%d/comm", static_cast<int>(syscall(SYS_getppid)));
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd < 0 ? 0 : read(fd, name, sizeof name - 1);
  if (fd >= 0) close(fd);
  name[n > 0 ? n - 1 : 0] = '\0';
  snprintf(why, size,
           "was started by a process that waits for it (%s), and its clones do not become children "
           "of ftrun",
           name);
  return false;
}

}  // namespace rejoin::process_image
