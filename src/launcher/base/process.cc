#include "launcher/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "launcher/base/file.h"
#include "launcher/base/lifeline.h"
#include "wire/messages.h"

namespace rejoin::launcher {
namespace {

// What pidfd's PIDFD_GET_INFO fills in (Linux 6.15); not in this system's headers.
struct PidfdInfo {
  std::uint64_t mask;
  std::uint64_t cgroup;
  std::uint32_t ids[11];
  std::int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr unsigned long kPidfdGetInfo = _IOWR(0xff, 11, PidfdInfo);
constexpr std::uint64_t kPidfdInfoExit = 1u << 3;

struct Failure {
  volatile int error = 0;
  const char* volatile step = nullptr;
};

// Runs in the child, which shares this process's memory until execve: makes system calls only.
[[noreturn]] void become(const SpawnRequest& r, pid_t parent, Failure& failure) {
  const auto fail = [&failure](const char* step) {
    failure.error = errno;
    failure.step = step;
    _exit(127);
  };
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  fix_addresses();
  if (!r.core_dumps) {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
  }
  setrlimit(RLIMIT_NOFILE, &r.settings->descriptors);
  if (r.processors != nullptr) sched_setaffinity(0, sizeof *r.processors, r.processors);
  if (r.directory != nullptr && chdir(r.directory) != 0) fail("chdir");
  for (int i = 0; i < 3; ++i) {
    if (dup2(r.standard[i], i) < 0) fail("dup2");
  }
  hold_lifeline(
      r.settings->lifeline.c_str());  // after dup2: its descriptor may have been 0, 1 or 2
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  sigprocmask(SIG_SETMASK, &r.settings->signals, nullptr);
  execve(r.path, r.arguments, r.environment);
  fail("execve");
  __builtin_unreachable();
}

Cause cause_of_status(int status) {
  if (WIFSIGNALED(status)) return {Cause::Kind::kSignal, WTERMSIG(status)};
  return {Cause::Kind::kExit, WEXITSTATUS(status)};
}

// Field `number` (from 1, as in proc(5)) of /proc/PID/stat.
std::string stat_field(pid_t pid, int number) {
  const std::string text = read_small_file("/proc/" + std::to_string(pid) + "/stat");
  // The second field is the name, which may hold anything; fields are counted from its end.
  std::size_t at = text.rfind(')');
  if (at == std::string::npos) return {};
  for (int field = 2; field < number; ++field) {
    at = text.find(' ', at + 1);
    if (at == std::string::npos) return {};
  }
  return text.substr(at + 1, text.find(' ', at + 1) - at - 1);
}

}  // namespace

bool fix_addresses() {
  const int old = personality(0xffffffff);
  if (old == -1) return false;
  if ((old & ADDR_NO_RANDOMIZE) != 0) return true;
  return personality(static_cast<unsigned long>(old) | ADDR_NO_RANDOMIZE) != -1;
}

__attribute__((noinline)) Spawned spawn_process(const SpawnRequest& request) {
  Failure failure;
  const pid_t parent = getpid();
  const pid_t pid = vfork();
  if (pid == 0) become(request, parent, failure);
  if (pid < 0) return {-1, errno, "fork"};
  if (failure.step != nullptr) {
    waitpid(pid, nullptr, 0);
    return {-1, failure.error, failure.step};
  }
  return {pid, 0, nullptr};
}

std::vector<pid_t> children_of_this_process() {
  const std::string self = std::to_string(getpid());
  const std::string text = read_small_file("/proc/" + self + "/task/" + self + "/children");
  std::vector<pid_t> children;
  for (const char* p = text.c_str(); *p != '\0';) {
    char* end = nullptr;
    const long pid = strtol(p, &end, 10);
    if (end == p) break;
    children.push_back(static_cast<pid_t>(pid));
    p = end + strspn(end, " ");
  }
  return children;
}

std::optional<std::uint32_t> rank_by_environment(pid_t pid, const std::string& socket) {
  const std::string text = read_small_file("/proc/" + std::to_string(pid) + "/environ");
  const std::string socket_prefix = std::string(wire::kEnvSocket) + "=";
  const std::string rank_prefix = std::string(wire::kEnvRank) + "=";
  bool ours = false;
  std::optional<std::uint32_t> rank;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view entry(text.c_str() + at);
    if (entry.starts_with(socket_prefix)) ours = entry.substr(socket_prefix.size()) == socket;
    if (entry.starts_with(rank_prefix)) {
      rank = static_cast<std::uint32_t>(strtoul(entry.data() + rank_prefix.size(), nullptr, 10));
    }
    at += entry.size() + 1;
  }
  return ours ? rank : std::nullopt;
}

bool has_ended(int pidfd) {
  pollfd p = {pidfd, POLLIN, 0};
  return pidfd < 0 || poll(&p, 1, 0) > 0;
}

int open_pidfd(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

std::optional<EndedChild> next_ended_child() {
  siginfo_t info = {};
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return {};
  Cause cause{Cause::Kind::kSignal, info.si_status};
  if (info.si_code == CLD_EXITED) cause.kind = Cause::Kind::kExit;
  return EndedChild{info.si_pid, cause};
}

namespace {

std::uint64_t cpu_ns_of(const rusage& usage) {
  const auto to_ns = [](const timeval& t) {
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(t.tv_usec) * 1'000;
  };
  return to_ns(usage.ru_utime) + to_ns(usage.ru_stime);
}

}  // namespace

Usage reap(pid_t pid) {
  rusage usage = {};
  if (wait4(pid, nullptr, 0, &usage) != pid) return {};
  return {static_cast<std::uint64_t>(usage.ru_maxrss) * 1024, cpu_ns_of(usage)};
}

std::uint64_t own_cpu_ns() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return cpu_ns_of(usage);
}

Cause cause_of_stranger(int pidfd, pid_t pid) {
  // /proc has the exit code until the parent reaps the process, the pidfd after that. The parent
  // may reap it between the two looks.
  for (int look = 0; look < 2; ++look) {
    PidfdInfo info = {};
    info.mask = kPidfdInfoExit;
    if (ioctl(pidfd, kPidfdGetInfo, &info) == 0 && (info.mask & kPidfdInfoExit) != 0) {
      return cause_of_status(info.exit_code);
    }
    if (state_letter(pid) != 'Z') continue;
    const std::string code = stat_field(pid, 52);
    if (!code.empty()) return cause_of_status(atoi(code.c_str()));
  }
  return {};
}

bool is_ending(pid_t pid) {
  constexpr unsigned long kExiting = 4;  // PF_EXITING
  constexpr unsigned long kKilled = 1ul << (SIGKILL - 1);
  const auto bits = [pid](int field) {
    return strtoul(stat_field(pid, field).c_str(), nullptr, 10);
  };
  return (bits(9) & kExiting) != 0 || (bits(31) & kKilled) != 0 || state_letter(pid) == 'Z';
}

MemoryUse memory_use(pid_t pid) {
  const auto number = [](const std::string& text) { return strtoull(text.c_str(), nullptr, 10); };
  const std::string pages = read_small_file("/proc/" + std::to_string(pid) + "/statm");
  unsigned long long resident = 0, shared = 0;
  sscanf(pages.c_str(), "%*u %llu %llu", &resident, &shared);
  return {number(stat_field(pid, 10)), resident - std::min(resident, shared)};
}

char state_letter(pid_t pid) {
  const std::string state = stat_field(pid, 3);
  return state.empty() ? '?' : state[0];
}

unsigned threads_of(pid_t pid) {
  return static_cast<unsigned>(strtoul(stat_field(pid, 20).c_str(), nullptr, 10));
}

}  // namespace rejoin::launcher
