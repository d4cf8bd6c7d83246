#include "process_image/obstacles.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libc_recording/hooks.h"
#include "recovery/attach.h"

namespace rejoin::process_image {
namespace {

bool has_children(char* why, std::size_t size) {
  siginfo_t info;
  constexpr int kAny = WEXITED | WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT | __WALL;
  if (waitid(P_ALL, 0, &info, kAny) != 0) return false;
  snprintf(why, size, "has child processes");
  return true;
}

bool has_timers(char* why, std::size_t size) {
  const int fd = open("/proc/self/timers", O_RDONLY | O_CLOEXEC);
  char byte;
  const bool any = fd >= 0 && read(fd, &byte, 1) > 0;
  if (fd >= 0) close(fd);
  if (any) snprintf(why, size, "has timers of timer_create()");
  return any;
}

// What /proc/self/maps and smaps say of a mapping: a line "ADDRESSES PERMISSIONS OFFSET DEVICE
// INODE PATH"; smaps then "Name: value" lines, the last "VmFlags:" and two letters for each flag.
class Mapping {
 public:
  // If `line` begins a mapping, this object becomes that mapping.
  void begin(const char* line, const char* end) {
    if (*line < '0' || (*line > '9' && *line < 'a')) return;
    const auto bytes = static_cast<std::size_t>(end - line);
    const char* space = static_cast<const char*>(memchr(line, ' ', bytes));
    from_ = reinterpret_cast<const std::byte*>(strtoul(line, nullptr, 16));
    shared_ = space != nullptr && space + 5 <= end && space[2] == 'w' && space[4] == 's';
    const char* path = static_cast<const char*>(memchr(line, '/', bytes));
    const int length = path != nullptr ? static_cast<int>(end - path) : 0;
    snprintf(name_, sizeof name_, "%.*s", length > 0 ? length : 9, length > 0 ? path : "anonymous");
  }
  const std::byte* from() const { return from_; }
  const char* name() const { return name_; }
  bool shared_and_writable() const { return shared_; }

  // Whether madvise() has asked that the mapping be absent in a clone, or empty there.
  static bool is_withheld(const char* line, const char* end) {
    constexpr char kFlags[] = "VmFlags:";
    if (strncmp(line, kFlags, sizeof kFlags - 1) != 0) return false;
    for (const char* at = line + sizeof kFlags - 1; at + 3 <= end; at += 3) {
      if (memcmp(at, " dc", 3) == 0 || memcmp(at, " wf", 3) == 0) return true;
    }
    return false;
  }

 private:
  const std::byte* from_ = nullptr;
  bool shared_ = false;
  char name_[200] = "";
};

// Calls f(begin, end) for each line of a file, until it returns true. Returns whether it did.
template <class F>
bool any_line(int fd, F f) {
  char buffer[16384];
  std::size_t there = 0;
  for (ssize_t n; (n = read(fd, buffer + there, sizeof buffer - 1 - there)) > 0;) {
    there += static_cast<std::size_t>(n);
    buffer[there] = '\0';
    const char* line = buffer;
    for (const char* end; (end = strchr(line, '\n')) != nullptr; line = end + 1) {
      if (f(line, end)) return true;
    }
    there -= static_cast<std::size_t>(line - buffer);
    memmove(buffer, line, there);
  }
  return false;
}

// Calls f(mapping, line, end) for each line of a file about mappings, except those of the shim: the
// journal is meant to be shared, and the shim takes care of its own memory.
template <class F>
bool any_line_of_mappings(const char* path, char* why, std::size_t size, F f) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    snprintf(why, size, "cannot read %s", path);
    return true;
  }
  Mapping mapping;
  const bool found = any_line(fd, [&](const char* line, const char* end) {
    mapping.begin(line, end);
    return !recovery::is_shims(mapping.from()) && f(mapping, line, end);
  });
  close(fd);
  return found;
}

bool shares_memory(char* why, std::size_t size) {
  return any_line_of_mappings(
      "/proc/self/maps", why, size, [&](const Mapping& mapping, const char*, const char*) {
        if (!mapping.shared_and_writable()) return false;
        snprintf(why, size, "shares writable memory with others (%s)", mapping.name());
        return true;
      });
}

std::uint64_t now_ns() {
  timespec t = {};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

// The kernel looks at every page to answer that. It is therefore asked only if the program is known
// to have asked for such memory, or, because the program may have done so without libc, as often as
// it costs next to nothing.
bool withholds_memory(char* why, std::size_t size) {
  constexpr std::uint64_t kShareOfTime = 200;
  static std::uint64_t looked_ns = 0, took_ns = 0;
  const std::uint64_t begin = now_ns();
  const bool known = rejoin_libc_withholds == nullptr || rejoin_libc_withholds() != 0;
  if (!known && begin - looked_ns < kShareOfTime * took_ns) return false;
  const bool found = any_line_of_mappings(
      "/proc/self/smaps", why, size,
      [&](const Mapping& mapping, const char* line, const char* end) {
        if (!Mapping::is_withheld(line, end)) return false;
        snprintf(why, size, "has memory that the kernel does not copy to a clone (madvise, %s)",
                 mapping.name());
        return true;
      });
  looked_ns = now_ns();
  took_ns = looked_ns - begin;
  return found;
}

// The kernel compares the id that such a mutex holds with its owner's, which is another one in a
// clone.
bool inherits_priority(char* why, std::size_t size) {
  if (rejoin_libc_inherits_priority == nullptr || rejoin_libc_inherits_priority() == 0)
    return false;
  snprintf(why, size,
           "uses mutexes with priority inheritance, of which the kernel knows the owner by its "
           "thread id");
  return true;
}

// Whether another process traces this one, such as a debugger, which would not trace a clone.
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

// Whether this process holds locks of fcntl(), which a clone that takes its place would not hold.
bool holds_locks(char* why, std::size_t size) {
  const int fd = open("/proc/locks", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const auto self = static_cast<int>(syscall(SYS_getpid));
  const bool found = any_line(fd, [self](const char* line, const char*) {
    // NUMBER: POSIX ADVISORY WRITE PID ...
    int pid = 0;
    char kind[16] = "";
    return sscanf(line, "%*d: %15s %*s %*s %d", kind, &pid) == 2 && strcmp(kind, "POSIX") == 0 &&
           pid == self;
  });
  close(fd);
  if (found) snprintf(why, size, "has locked a file");
  return found;
}

}  // namespace

bool can_be_cloned(char* why, std::size_t size) {
  return !has_children(why, size) && !has_timers(why, size) && can_ever_be_cloned(why, size);
}

bool can_ever_be_cloned(char* why, std::size_t size) {
  return !inherits_priority(why, size) && !shares_memory(why, size) && !withholds_memory(why, size);
}

bool has_no_pending_signals(char* why, std::size_t size) {
  sigset_t pending;
  sigpending(&pending);
  for (int number = 1; number < NSIG; ++number) {
    if (sigismember(&pending, number) != 1) continue;
    snprintf(why, size, "has a pending signal (%s), which a clone would not get",
             strsignal(number));
    return false;
  }
  return true;
}

bool is_main_thread() { return syscall(SYS_gettid) == syscall(SYS_getpid); }

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
