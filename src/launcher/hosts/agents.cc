#include "launcher/hosts/agents.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "launcher/base/grammar.h"

namespace rejoin::launcher {
namespace {

constexpr std::uint64_t kEndNs = 5'000'000'000;  // that agents have to end their ranks' processes
// After that time without an end, agents that were told to stop their ranks, or to kill them, count
// as lost: a host may be silent.
constexpr std::uint64_t kStopNs = 15'000'000'000, kKillNs = 2'000'000'000;

std::string own_path() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : "ftrun";
}

std::vector<std::string> command_of(const std::string& host, const std::string& remote_shell) {
  const std::string path = own_path();
  char own[HOST_NAME_MAX + 1] = "";
  gethostname(own, sizeof own - 1);
  if (host.empty() || is_this_host(host, own)) return {path, "agent"};
  std::vector<std::string> words;
  std::istringstream text(remote_shell);
  for (std::string word; text >> word;) words.push_back(word);
  words.push_back(host);
  // What srun starts is a program with arguments, what others start a command for a shell.
  const std::string& shell = words[0];
  if (shell.substr(shell.rfind('/') + 1) == "srun") {
    words.insert(words.end(), {path, "agent"});
  } else {
    words.push_back("exec " + shell_word(path) + " agent");
  }
  return words;
}

}  // namespace

Agents::Agents(Loop& loop, std::vector<std::string> hosts, std::string remote_shell, Calls calls)
    : loop_(loop),
      remote_shell_(std::move(remote_shell)),
      calls_(std::move(calls)),
      patience_(loop, [this] { give_up_on_silent_ones(); }) {
  for (std::string& name : hosts) {
    agents_.emplace_back();
    agents_.back().name = std::move(name);
  }
}

Agents::~Agents() {
  for (Agent& agent : agents_) {
    if (agent.stream) agent.stream->close_output();
    // A remote shell that has not reached its host would go on trying.
    if (agent.pid > 0 && agent.port == 0) kill(-agent.pid, SIGTERM);
  }
  const std::uint64_t end_ns = monotonic_ns() + kEndNs;
  for (Agent& agent : agents_) {
    while (agent.pid > 0 && waitpid(agent.pid, nullptr, WNOHANG) == 0) {
      if (monotonic_ns() > end_ns) kill(-agent.pid, SIGKILL);
      const timespec pause = {0, 1'000'000};
      nanosleep(&pause, nullptr);
    }
  }
}

void Agents::start(const Order& plan) {
  for (std::uint32_t host = 0; host < agents_.size() && !failed_; ++host) {
    spawn(host);
    Order order = plan;
    order.set_host(host);
    if (!failed_) send(order);
  }
}

// The agent gets a process group of its own: signals from the terminal are for ftrun, which tells
// the agents.
void Agents::spawn(std::uint32_t host) {
  Agent& agent = agents_[host];
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) {
    failed_ = true;
    return calls_.failed({"cannot start the agent of " + text_of(host) + ": " + error_text(errno)});
  }
  Descriptor their_input(to[0]), input(to[1]), output(from[0]), their_output(from[1]);
  const std::vector<std::string> words = command_of(agent.name, remote_shell_);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, their_input.get(), 0);
  posix_spawn_file_actions_adddup2(&files, their_output.get(), 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  const int error =
      posix_spawnp(&agent.pid, arguments[0], &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    agent.pid = -1;
    failed_ = true;
    return calls_.failed({"cannot start the agent of " + text_of(host) + ": " + words[0] + ": " +
                          error_text(error)});
  }
  agent.stream = std::make_unique<MessageStream>(
      loop_, std::move(output), std::move(input),
      MessageStream::Calls{[this, host](std::string_view message) { on_message(host, message); },
                           [this, host](const std::string& why) { on_end(host, why); }});
}

void Agents::send(const Order& order) {
  Agent& agent = agents_[order.host()];
  if (order.what_case() == Order::kStop) patience_.set(loop_.now_ns() + kStopNs);
  if (order.what_case() == Order::kKill) patience_.set(loop_.now_ns() + kKillNs);
  if (agent.stream) agent.stream->send(order.SerializeAsString());
}

// The end of the stream tells the rest.
void Agents::give_up_on_silent_ones() {
  for (const Agent& agent : agents_) {
    if (!agent.finished && agent.pid > 0) kill(-agent.pid, SIGKILL);
  }
}

void Agents::on_message(std::uint32_t host, std::string_view message) {
  Report report;
  if (!report.ParseFromArray(message.data(), static_cast<int>(message.size()))) return;
  report.set_host(host);
  if (report.what_case() == Report::kReady) return on_ready(host, report.ready());
  agents_[host].finished |= report.what_case() == Report::kFinished;
  if (report.what_case() == Report::kHappened) {
    report.mutable_happened()->set_at_ns(report.happened().at_ns() + agents_[host].clock_ns);
  }
  calls_.report(std::move(report));
}

void Agents::on_ready(std::uint32_t host, const Report::Ready& ready) {
  if (failed_ || all_ready_) return;
  if (ready.exit_code() != 0) {
    failed_ = true;
    const std::string where = agents_[host].name.empty() ? "" : agents_[host].name + ": ";
    return calls_.failed({where + ready.why(), ready.exit_code()});
  }
  agents_[host].port = ready.port();
  agents_[host].clock_ns = loop_.now_ns() - ready.now_ns();
  if (std::any_of(agents_.begin(), agents_.end(), [](const Agent& a) { return a.port == 0; }))
    return;
  all_ready_ = true;
  Order order;
  for (const Agent& agent : agents_) {
    const std::string address = agent.name.substr(agent.name.rfind('@') + 1);
    order.mutable_relays()->add_host(address.empty() ? "localhost" : address);
    order.mutable_relays()->add_port(agent.port);
  }
  for (std::uint32_t to = 0; to < agents_.size(); ++to) {
    order.set_host(to);
    send(order);
  }
  calls_.ready();
}

void Agents::on_end(std::uint32_t host, const std::string& why) {
  Agent& agent = agents_[host];
  if (agent.finished) return;
  const std::string how = how_it_ended(agent, why);
  if (!all_ready_) {
    if (std::exchange(failed_, true)) return;
    return calls_.failed({"the agent of " + text_of(host) + " " + how});
  }
  Report lost;
  lost.set_host(host);
  lost.set_agent_lost(how);
  calls_.report(std::move(lost));
}

std::string Agents::how_it_ended(Agent& agent, const std::string& why) {
  int status = 0;
  constexpr int kTries = 200;  // one second: its output ends before it does
  for (int i = 0; i < kTries; ++i) {
    const pid_t found = waitpid(agent.pid, &status, WNOHANG);
    if (found == agent.pid) break;
    if (found < 0 || i == kTries - 1) return why;
    const timespec pause = {0, 5'000'000};
    nanosleep(&pause, nullptr);
  }
  agent.pid = -1;
  if (WIFSIGNALED(status)) {
    return "was ended by signal " + std::to_string(WTERMSIG(status)) + " (" +
           strsignal(WTERMSIG(status)) + ")";
  }
  const int code = WEXITSTATUS(status);
  if (code == kExitNotFound && !all_ready_) {
    return "could not be started, because " + own_path() +
           " is not there: install the same Rejoin in the same directory on every host";
  }
  constexpr int kNoConnection = 255;  // ssh's
  if (code == kNoConnection && !agent.name.empty() && !all_ready_) {
    return "could not be started; this command has to work without a question: " + remote_shell_ +
           " " + agent.name + " true";
  }
  return "has ended with exit code " + std::to_string(code);
}

std::string Agents::text_of(std::uint32_t host) const {
  const std::string& name = agents_[host].name;
  return name.empty() ? "node " + std::to_string(host) : "host " + name;
}

}  // namespace rejoin::launcher
