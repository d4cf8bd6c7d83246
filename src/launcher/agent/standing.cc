#include "launcher/agent/standing.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/agent/stacks.h"
#include "launcher/base/file.h"
#include "launcher/base/process.h"
#include "launcher/program/program.h"

namespace rejoin::launcher {
namespace {

constexpr int kLimitMs = 4000;           // for all debuggers together
constexpr std::size_t kMostStacks = 16;  // because debuggers use much memory and time

const char* state_name(char letter) {
  switch (letter) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "in an uninterruptible wait";
    case 'T':
    case 't':
      return "stopped";
    case 'Z':
      return "a zombie";
  }
  return "gone";
}

// A debugger that is printing one process's stack.
struct Debugger {
  pid_t pid = -1;
  Descriptor output;
  std::string text;
};

Debugger start_debugger(const std::string& path, pid_t target) {
  const std::string target_text = std::to_string(target);
  const bool gdb = path.ends_with("gdb");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  Debugger debugger;
  debugger.output = Descriptor(ends[0]);
  debugger.pid = fork();
  if (debugger.pid == 0) {
    setpgid(0, 0);
    const int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, 0);
    dup2(ends[1], 1);
    dup2(nothing, 2);
    unsetenv("DEBUGINFOD_URLS");
    if (gdb) {
      execl(path.c_str(), "gdb", "-nx", "-batch", "-p", target_text.c_str(), "-ex", "py-bt", "-ex",
            "set print frame-info location-and-address", "-ex", "thread apply all backtrace 32",
            nullptr);
    } else {
      execl(path.c_str(), "eu-stack", "-m", "-n", "32", "-p", target_text.c_str(), nullptr);
    }
    _exit(127);
  }
  close(ends[1]);
  return debugger;
}

std::int64_t now_ms() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// Reads until the end of the output or `deadline_ms`.
void collect(Debugger& debugger, std::int64_t deadline_ms) {
  if (!debugger.output.open()) return;
  char buffer[4096];
  for (;;) {
    pollfd p = {debugger.output.get(), POLLIN, 0};
    const std::int64_t left = deadline_ms - now_ms();
    if (left <= 0 || poll(&p, 1, static_cast<int>(left)) <= 0) break;
    const ssize_t got = read(debugger.output.get(), buffer, sizeof buffer);
    if (got <= 0) break;
    debugger.text.append(buffer, static_cast<std::size_t>(got));
  }
  if (debugger.pid > 0) {
    kill(-debugger.pid, SIGKILL);
    waitpid(debugger.pid, nullptr, 0);
  }
}

// Returns what /proc shows of a process, for use without a debugger.
std::vector<std::string> kernel_view(pid_t pid) {
  const std::string directory = "/proc/" + std::to_string(pid) + "/";
  std::vector<std::string> lines;
  for (const char* file : {"wchan", "syscall", "stack"}) {
    std::string content = read_small_file(directory + file);
    while (!content.empty() && content.back() == '\n') content.pop_back();
    std::replace(content.begin(), content.end(), '\n', ' ');
    // Only the system call's number: the addresses after it differ from rank to rank.
    if (file == std::string_view("syscall"))
      content.resize(std::min(content.find(' '), content.size()));
    if (!content.empty()) lines.push_back(std::string(file) + ": " + content);
  }
  return lines;
}

bool is_python(pid_t pid) {
  char path[4096];
  const ssize_t n = readlink(("/proc/" + std::to_string(pid) + "/exe").c_str(), path, sizeof path);
  const std::string_view all(path, n > 0 ? static_cast<std::size_t>(n) : 0);
  return all.substr(all.rfind('/') + 1).starts_with("python");
}

}  // namespace

void find_stacks(StoodOnHost& found, const std::function<std::string(std::uint32_t)>& where) {
  const std::string gdb = find_program("gdb"), eu_stack = find_program("eu-stack");
  const std::int64_t deadline_ms = now_ms() + kLimitMs;
  std::vector<Debugger> debuggers(found.ranks.size());
  for (std::size_t i = 0; i < found.ranks.size(); ++i) {
    Stood& s = found.ranks[i];
    const auto pid = static_cast<pid_t>(s.pid);
    // The state is read before a debugger stops the process.
    s.state = pid == 0 ? "" : state_name(state_letter(pid));
    if (pid == 0 || i >= kMostStacks) continue;
    // gdb knows Python's frames, if Python's debug package is there.
    const std::string& tool = eu_stack.empty() || (is_python(pid) && !gdb.empty()) ? gdb : eu_stack;
    if (!tool.empty()) debuggers[i] = start_debugger(tool, pid);
  }
  for (std::size_t i = 0; i < found.ranks.size(); ++i) {
    Stood& s = found.ranks[i];
    if (s.pid == 0) continue;
    collect(debuggers[i], deadline_ms);
    s.stack =
        short_stack(debuggers[i].text, read_small_file("/proc/" + std::to_string(s.pid) + "/maps"));
    if (s.stack.empty()) s.stack = kernel_view(static_cast<pid_t>(s.pid));
    // The position is read again because the stack is newer than the first one.
    if (std::string now = where(s.rank); now != s.where) s.where += ", and then " + now;
  }
  if (gdb.empty() && eu_stack.empty()) {
    found.remark = "install elfutils or gdb to see the stacks";
  } else if (found.ranks.size() > kMostStacks) {
    found.remark = "stacks of the first " + std::to_string(kMostStacks) + " ranks";
  }
}

}  // namespace rejoin::launcher
