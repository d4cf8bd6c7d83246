#include "launcher/inspect/standing.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launcher/agent/process.h"
#include "launcher/base/file.h"
#include "launcher/program/program.h"

namespace rejoin::launcher {
namespace {

constexpr int kLimitMs = 4000;           // for all debuggers together
constexpr std::size_t kMostStacks = 16;  // debuggers are heavy

const char* state_name(char letter) {
  switch (letter) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "waiting for a device";
    case 'T':
    case 't':
      return "stopped";
    case 'Z':
      return "dead, not reaped";
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
      execl(path.c_str(), "gdb", "-nx", "-batch", "-p", target_text.c_str(), "-ex",
            "thread apply all backtrace 32", nullptr);
    } else {
      execl(path.c_str(), "eu-stack", "-n", "32", "-p", target_text.c_str(), nullptr);
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

// The lines that belong to a stack, indented.
std::string frames_of(const std::string& text) {
  std::string frames;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (line.starts_with("#") || line.starts_with("Thread ") || line.starts_with("TID ")) {
      frames += "    " + line + "\n";
    }
    at = end + 1;
  }
  return frames;
}

std::string kernel_view(pid_t pid) {
  const std::string directory = "/proc/" + std::to_string(pid) + "/";
  std::string text;
  for (const char* file : {"wchan", "syscall", "stack"}) {
    std::string content = read_small_file(directory + file);
    while (!content.empty() && content.back() == '\n') content.pop_back();
    for (std::size_t at = 0; (at = content.find('\n', at)) != std::string::npos; at += 5) {
      content.replace(at, 1, "\n    ");
    }
    if (!content.empty()) text += "    " + std::string(file) + ": " + content + "\n";
  }
  return text;
}

void write_all(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = write(2, text.data() + at, text.size() - at);
    if (n <= 0) return;
    at += static_cast<std::size_t>(n);
  }
}

}  // namespace

void print_standing(const std::vector<Standing>& ranks) {
  std::string tool = find_program("eu-stack");
  if (tool.empty()) tool = find_program("gdb");
  const std::int64_t deadline_ms = now_ms() + kLimitMs;
  std::vector<Debugger> debuggers(ranks.size());
  std::vector<char> states;  // before a debugger stops it
  for (const Standing& rank : ranks) states.push_back(state_letter(rank.pid));
  for (std::size_t i = 0; i < ranks.size() && i < kMostStacks && !tool.empty(); ++i) {
    if (ranks[i].pid != 0) debuggers[i] = start_debugger(tool, ranks[i].pid);
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Standing& rank = ranks[i];
    std::string text = "rejoin: rank " + std::to_string(rank.rank) + " ";
    if (rank.pid == 0) {
      write_all(text + "has ended\n");
      continue;
    }
    collect(debuggers[i], deadline_ms);
    const std::string frames = frames_of(debuggers[i].text);
    text += "(process " + std::to_string(rank.pid) + ", " + state_name(states[i]) + ") is " +
            rank.where + "\n";
    write_all(text + (frames.empty() ? kernel_view(rank.pid) : frames));
  }
}

}  // namespace rejoin::launcher
