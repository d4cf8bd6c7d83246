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

// The user is told what is awaited after this time, and again after twice as long each time.
constexpr std::uint64_t kTellAfterNs = 10'000'000'000;
constexpr std::uint64_t kEndNs = 5'000'000'000;  // that agents have to end their ranks' processes
// After that time without an end, agents that were told to stop their ranks, or to kill them, count
// as lost: a host may be silent.
// With leases: how long an agent that replaces another one has to say its first word, and to fetch
// its part; and how long an agent may be busy with the end of the job.
constexpr std::uint64_t kFirstWordNs = 30'000'000'000, kFetchNs = 900'000'000'000;
constexpr std::uint64_t kFinishNs = 900'000'000'000;  // a large set may be compressed, and synced
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

Agents::Agents(Loop& loop, std::vector<std::string> hosts, std::string remote_shell,
               std::uint64_t lease_ns, Calls calls)
    : Agents(loop, std::move(hosts), std::move(remote_shell), nullptr, 0, lease_ns,
             std::move(calls)) {}

Agents::Agents(Loop& loop, std::vector<std::string> hosts, JoinedAgents& joined,
               std::uint64_t join_ns, std::uint64_t lease_ns, Calls calls)
    : Agents(loop, std::move(hosts), "", &joined, join_ns, lease_ns, std::move(calls)) {}

Agents::Agents(Loop& loop, std::vector<std::string> hosts, std::string remote_shell,
               JoinedAgents* joined, std::uint64_t join_ns, std::uint64_t lease_ns, Calls calls)
    : loop_(loop),
      remote_shell_(std::move(remote_shell)),
      joined_(joined),
      join_ns_(join_ns),
      calls_(std::move(calls)),
      tell_timer_(loop, [this] { tell_what_is_awaited(); }),
      patience_(loop, [this] { give_up_on_silent_ones(); }),
      lease_ns_(lease_ns),
      lease_timer_(loop, [this] { look_at_leases(); }) {
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
    if (agent.pid <= 0 && agent.stream) agent.stream->await_end(end_ns);
  }
}

void Agents::start(Order plan) {
  begin_to_tell();
  for (std::uint32_t host = 0; host < agents_.size() && !failed_; ++host) {
    plan.set_host(host);
    if (joined_ != nullptr) {
      agents_[host].plan = plan;
      give_place(host);
      if (agents_[host].plan) fail(host, {"the agent of " + text_of(host) + " has left"});
      continue;
    }
    spawn(host);
    if (!failed_) send(plan);
  }
}

void Agents::begin_to_tell() {
  awaited_since_ns_ = loop_.now_ns();
  tell_timer_.set(awaited_since_ns_ + kTellAfterNs);
}

void Agents::tell_what_is_awaited() {
  if (failed_) return;
  constexpr std::uint32_t kMostNamed = 5;
  std::string names, silent;
  std::uint32_t awaited = 0;
  for (std::uint32_t host = 0; host < agents_.size(); ++host) {
    const Agent& agent = agents_[host];
    const bool has_finished = agent.finished || agent.has_ended || !agent.is_there();
    if (finishes_ ? has_finished : agent.port != 0) continue;
    if (++awaited <= kMostNamed) names += (awaited == 1 ? "" : ", ") + text_of(host);
    if (silent.empty() && agent.heard_ns == 0) silent = agent.name;
  }
  if (awaited == 0) return;
  if (awaited > kMostNamed) names += ", ...";
  const std::uint64_t waited_ns = loop_.now_ns() - awaited_since_ns_;
  std::string line = "waiting for " + std::to_string(awaited) + " of " +
                     std::to_string(agents_.size()) + " agents for " + duration_text(waited_ns) +
                     ": " + names;
  if (finishes_) {
    line += ", which end what they write and clean up; Ctrl-C twice does not wait for them";
  } else if (!silent.empty() && joined_ == nullptr) {
    line +=
        "; this command has to work without a question: " + remote_shell_ + " " + silent + " true";
  }
  calls_.waits(line);
  tell_timer_.set(loop_.now_ns() + waited_ns);
}

// The agent gets a process group of its own: signals from the terminal are for ftrun, which tells
// the agents.
void Agents::spawn(std::uint32_t host) {
  Agent& agent = agents_[host];
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) {
    return fail(host, {"cannot start the agent of " + text_of(host) + ": " + error_text(errno)});
  }
  Descriptor their_input(to[0]), input(to[1]), output(from[0]), their_output(from[1]);
  const std::vector<std::string> words = command_of(agent.name, remote_shell_);
  agent.is_here = words.size() == 2;
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
    return fail(host, {"cannot start the agent of " + text_of(host) + ": " + words[0] + ": " +
                       error_text(error)});
  }
  agent.stream =
      std::make_unique<MessageStream>(loop_, std::move(output), std::move(input), calls_of(host));
}

MessageStream::Calls Agents::calls_of(std::uint32_t host) {
  return {[this, host](std::string_view message) { on_message(host, message); },
          [this, host](const std::string& why) { on_end(host, why); }};
}

// Gives the place to the agent that has joined by its name, if it is still there.
void Agents::give_place(std::uint32_t host) {
  Agent& agent = agents_[host];
  JoinedAgents::Agent joined = joined_->take(agent.name);
  if (!joined.stream) return;
  agent.address = joined.address;
  agent.stream = std::move(joined.stream);
  agent.stream->hand_to(calls_of(host));
  if (all_ready_) agent.until_ns = loop_.now_ns() + kFirstWordNs;
  const Order plan = std::move(*std::exchange(agent.plan, {}));
  send(plan);
}

void Agents::on_joined(const std::string& name) {
  Report report;
  report.mutable_spare()->set_name(name);
  const auto found = std::find_if(agents_.begin(), agents_.end(),
                                  [](const Agent& agent) { return agent.plan.has_value(); });
  if (found == agents_.end()) return calls_.report(std::move(report));
  report.set_host(static_cast<std::uint32_t>(found - agents_.begin()));
  report.mutable_spare()->set_takes_place(true);
  found->name = name;
  const std::uint32_t host = report.host();
  calls_.report(std::move(report));
  give_place(host);
}

// Ends a connection, or the remote shell. The end of the stream tells the rest.
void Agents::cut(Agent& agent) {
  if (agent.pid > 0) {
    kill(-agent.pid, SIGKILL);
  } else if (agent.stream) {
    agent.stream->cut();
  }
}

void Agents::send(const Order& order) {
  Agent& agent = agents_[order.host()];
  if (order.what_case() == Order::kStop && !patience_.is_set()) {
    patience_.set(loop_.now_ns() + kStopNs);
  }
  // A job that begins again kills, too. Processes with much memory take seconds to end.
  if (order.what_case() == Order::kKill && order.kill()) {
    is_hurried_ = true;
    patience_.set(loop_.now_ns() + kKillNs);
  }
  if (order.what_case() == Order::kFinish) {
    if (!std::exchange(finishes_, true)) begin_to_tell();
    agent.until_ns = loop_.now_ns() + kFinishNs;
    if (patience_.is_set()) patience_.set(agent.until_ns);
  }
  const bool ends = order.what_case() == Order::kStop || order.what_case() == Order::kKill;
  if (agent.plan && ends) return no_agent_joins(order.host(), "the job ends");
  if (agent.replacement && ends) {  // its lease is waited for
    agent.replacement.reset();
    return;
  }
  if (agent.stream) agent.stream->send(order.SerializeAsString());
}

void Agents::give_up_on_silent_ones() {
  for (std::uint32_t host = 0; host < agents_.size(); ++host) {
    Agent& agent = agents_[host];
    if (is_hurried_ && std::exchange(agent.may_run, false)) report_lost(host, agent.how_lost);
    // Those that are over wait for the others, until they are told to finish.
    if (!agent.finished && (!agent.is_over || agent.until_ns != 0)) cut(agent);
  }
}

void Agents::on_message(std::uint32_t host, std::string_view message) {
  Report report;
  if (!report.ParseFromArray(message.data(), static_cast<int>(message.size()))) return;
  report.set_host(host);
  agents_[host].heard_ns = loop_.now_ns();
  if (agents_[host].port == 0) agents_[host].until_ns = loop_.now_ns() + kFetchNs;
  if (report.what_case() == Report::kBeat) {
    Order answer;
    answer.set_host(host);
    answer.set_beat(report.beat());
    return send(answer);
  }
  if (report.what_case() == Report::kReady) return on_ready(host, report.ready());
  agents_[host].finished |= report.what_case() == Report::kFinished;
  if (report.what_case() == Report::kHappened) {
    agents_[host].is_over |= report.happened().has_all_over();
    report.mutable_happened()->set_at_ns(report.happened().at_ns() + agents_[host].clock_ns);
  }
  calls_.report(std::move(report));
}

// Before all are ready the job ends; later the agent counts as lost.
void Agents::fail(std::uint32_t host, Error error) {
  if (!all_ready_) {
    if (!std::exchange(failed_, true)) calls_.failed(std::move(error));
    return;
  }
  report_lost(host, "cannot be started: " + error.text);
}

void Agents::report_lost(std::uint32_t host, const std::string& how) {
  Report lost;
  lost.set_host(host);
  lost.set_agent_lost(how);
  calls_.report(std::move(lost));
}

void Agents::on_ready(std::uint32_t host, const Report::Ready& ready) {
  if (failed_) return;
  if (ready.exit_code() != 0) {
    const std::string where = agents_[host].name.empty() ? "" : agents_[host].name + ": ";
    return fail(host, {where + ready.why(), ready.exit_code()});
  }
  agents_[host].port = ready.port();
  agents_[host].part_port = ready.part_port();
  agents_[host].clock_ns = loop_.now_ns() - ready.now_ns();
  agents_[host].until_ns = 0;
  const auto all = static_cast<std::uint32_t>(agents_.size());
  if (all_ready_) {  // it takes the place of another one
    send_all(addresses_of(host, host + 1));
    Order order = addresses_of(0, all);
    order.set_host(host);
    return send(order);
  }
  if (++ready_ < all) return;
  all_ready_ = true;
  send_all(addresses_of(0, all));
  calls_.ready();
  if (lease_ns_ != 0) look_at_leases();
}

// If this process was stopped, or busy, messages of agents may not have been read yet.
void Agents::look_at_leases() {
  const std::uint64_t now_ns = loop_.now_ns(), period_ns = lease_ns_ / 4;
  const std::uint64_t since_ns = now_ns - std::exchange(looked_ns_, now_ns);
  const bool was_away = since_ns > 2 * period_ns;
  std::uint64_t next_ns = now_ns + period_ns;
  for (std::uint32_t host = 0; host < agents_.size(); ++host) {
    Agent& agent = agents_[host];
    if (was_away) agent.heard_ns = now_ns;
    if (was_away && agent.until_ns != 0) agent.until_ns += since_ns;
    const bool has_limit = agent.until_ns != 0;
    const std::uint64_t limit_ns = has_limit ? agent.until_ns : end_of_lease_ns(agent);
    const bool is_late = now_ns > limit_ns;
    if (!is_late) next_ns = std::min(next_ns, limit_ns + 1);
    if (agent.plan && is_late) {
      no_agent_joins(host, "no other one has joined within " + duration_text(join_ns_) +
                               " (--join-timeout sets the time)");
    }
    if (agent.may_run && is_late) {
      lease_is_over(host);
      continue;
    }
    if (!agent.is_there() || agent.has_ended || agent.finished || !is_late) continue;
    agent.how_lost = has_limit ? "has not answered in time"
                               : "was silent for more than " + duration_text(lease_ns_);
    cut(agent);
    agent.stream.reset();  // whatever it still says is not heard
    on_end(host, "");
  }
  lease_timer_.set(next_ns);
}

void Agents::lease_is_over(std::uint32_t host) {
  Agent& agent = agents_[host];
  agent.may_run = false;
  if (!agent.replacement) return report_lost(host, agent.how_lost);
  Replacement next = std::move(*std::exchange(agent.replacement, {}));
  replace(host, next.where, next.holder, std::move(next.plan));
}

// The place of a lost agent remains empty.
void Agents::no_agent_joins(std::uint32_t host, const std::string& why) {
  agents_[host].plan.reset();
  agents_[host].until_ns = 0;
  report_lost(host, "has gone, and " + why);
}

std::string Agents::address_of(std::uint32_t host) const {
  if (!agents_[host].address.empty()) return agents_[host].address;
  const std::string& name = agents_[host].name;
  const std::string address = name.substr(name.rfind('@') + 1);
  return address.empty() ? "localhost" : address;
}

Order Agents::addresses_of(std::uint32_t first, std::uint32_t end) const {
  Order order;
  order.mutable_relays()->set_first(first);
  for (std::uint32_t host = first; host < end; ++host) {
    order.mutable_relays()->add_host(address_of(host));
    order.mutable_relays()->add_port(agents_[host].port);
    order.mutable_relays()->add_part_port(agents_[host].part_port);
  }
  return order;
}

void Agents::send_all(Order order) {
  for (std::uint32_t to = 0; to < agents_.size(); ++to) {
    order.set_host(to);
    send(order);
  }
}

// If the agent is still there, because its host is only left, its ranks end before others begin in
// their place. No beat of the others is answered meanwhile, so the wait is a quarter of a lease at
// most. Returns whether they have ended.
bool Agents::end_ranks(std::uint32_t host) {
  Agent& agent = agents_[host];
  Order order;
  order.set_host(host);
  order.set_kill(true);
  agent.stream->send(order.SerializeAsString());
  agent.stream->close_output();
  const std::uint64_t until_ns = monotonic_ns() + lease_ns_ / 4;
  if (agent.pid <= 0) {
    agent.stream->await_end(until_ns);
    return monotonic_ns() < until_ns;
  }
  while (agent.pid > 0 && monotonic_ns() < until_ns) {
    if (waitpid(agent.pid, nullptr, WNOHANG) != 0) agent.pid = -1;
    const timespec pause = {0, 5'000'000};
    if (agent.pid > 0) nanosleep(&pause, nullptr);
  }
  return agent.pid <= 0;
}

void Agents::put_new(Agent& agent, const std::string& where) {
  if (agent.pid > 0) {
    kill(-agent.pid, SIGKILL);  // a remote shell; the agent ends at the end of its input
    waitpid(agent.pid, nullptr, 0);
  }
  agent = Agent();
  agent.name = where;
}

void Agents::start_elsewhere(std::uint32_t host, const std::string& where, Order plan) {
  if (failed_) return;
  Agent& agent = agents_[host];
  if (agent.port != 0) --ready_;
  put_new(agent, where);
  plan.set_host(host);
  spawn(host);
  if (agent.stream) send(plan);
}

void Agents::replace(std::uint32_t host, const std::string& where, std::uint32_t holder,
                     Order plan) {
  Agent& agent = agents_[host];
  const bool has_ranks = agent.until_ns == 0;  // it was ready
  if (agent.is_there() && !agent.has_ended && agent.stream && has_ranks && !end_ranks(host)) {
    cut(agent);
    agent.stream.reset();
    agent.has_ended = agent.may_run = true;
    agent.heard_ns = loop_.now_ns();
  }
  if (agent.may_run) {
    agent.replacement = Replacement{where, holder, std::move(plan)};
    return look_at_leases();
  }
  if (joined_ != nullptr) joined_->gone(agent.name);
  put_new(agent, where);
  if (!tell_timer_.is_set()) begin_to_tell();
  agent.until_ns = loop_.now_ns() + kFirstWordNs;
  auto& part = *plan.mutable_plan()->mutable_part();
  part.set_holder(holder);
  part.set_host(address_of(holder));
  part.set_port(agents_[holder].part_port);
  plan.set_host(host);
  if (joined_ != nullptr) {
    agent.until_ns = loop_.now_ns() + join_ns_;
    agent.plan = std::move(plan);
    return give_place(host);
  }
  spawn(host);
  if (agent.stream) send(plan);
}

void Agents::on_end(std::uint32_t host, const std::string& why) {
  Agent& agent = agents_[host];
  agent.has_ended = true;
  if (agent.finished) return;
  if (joined_ != nullptr) joined_->gone(agent.name);
  const std::uint64_t silent_ns = loop_.now_ns() - agent.heard_ns;
  std::string how = how_it_ended(agent, why);
  const bool was_heard = agent.heard_ns != 0;
  if (was_heard && silent_ns > lease_ns_ / 2 && lease_ns_ != 0 && agent.how_lost.empty()) {
    how +=
        ", after it had been silent for " + duration_text(silent_ns);  // its guardian has ended it
  }
  if (!all_ready_) {
    const Error error = {"the agent of " + text_of(host) + " " + how};
    if (failed_ || joined_ != nullptr || !calls_.elsewhere(host, error)) {
      fail(host, error);
    }
    return;
  }
  const bool is_known = agent.is_here && agent.pid <= 0;
  const bool has_ranks = !agent.is_over && agent.until_ns == 0;
  const bool may_run = lease_ns_ != 0 && has_ranks && !is_known && !is_hurried_;
  const std::uint64_t now_ns = loop_.now_ns(), end_ns = end_of_lease_ns(agent);
  if (!may_run || now_ns > end_ns) return report_lost(host, how);
  agent.may_run = true;
  agent.how_lost = how;
  lease_timer_.set(now_ns);
  calls_.waits("the agent of " + text_of(host) + " " + how +
               "; its ranks may run until the end of its lease, in " +
               duration_text(end_ns - now_ns));
}

std::string Agents::how_it_ended(Agent& agent, const std::string& why) {
  if (agent.pid <= 0) return agent.how_lost.empty() ? why : agent.how_lost;
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
  if (!agent.how_lost.empty()) return agent.how_lost;
  if (WIFSIGNALED(status)) {
    return "was ended by signal " + std::to_string(WTERMSIG(status)) + " (" +
           strsignal(WTERMSIG(status)) + ")";
  }
  const int code = WEXITSTATUS(status);
  if (code == kExitNotFound && agent.port == 0) {
    return "could not be started, because " + own_path() +
           " is not there: install the same Rejoin in the same directory on every host";
  }
  constexpr int kNoConnection = 255;  // ssh's
  if (code == kNoConnection && !agent.name.empty() && agent.port == 0) {
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
