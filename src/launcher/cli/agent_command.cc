#include "launcher/cli/agent_command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/agent/agent.h"
#include "launcher/agent/credentials.h"
#include "launcher/agent/former_job.h"
#include "launcher/agent/machine.h"
#include "launcher/agent/part_store.h"
#include "launcher/base/lifeline.h"
#include "launcher/base/loop.h"
#include "launcher/cli/host_planning.h"
#include "launcher/cli/options.h"
#include "launcher/hosts/joining.h"
#include "launcher/hosts/message_stream.h"
#include "launcher/hosts/secret.h"
#include "launcher/hosts/tls.h"
#include "launcher/output/rank_files.h"
#include "launcher/program/program.h"

namespace rejoin::launcher {
namespace {

// The exit code by which an agent asks the process above it for another one, which joins.
constexpr int kExitJoinAgain = 99;

// Waits for the agent's process, to which SIGTERM is passed on. Reaps what else has become a child
// of this process meanwhile. `signals`: SIGTERM and SIGCHLD, which are blocked.
int await_agent(pid_t agent, const sigset_t& signals) {
  for (;;) {
    if (sigwaitinfo(&signals, nullptr) == SIGTERM) kill(agent, SIGTERM);
    int status = 0;
    for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended != agent) continue;
      return WIFEXITED(status) ? WEXITSTATUS(status) : kExitSignal + WTERMSIG(status);
    }
  }
}

// As the first process of a container: what the agent has left, its guardian above all, ends before
// the kernel ends it.
void await_orphans() {
  constexpr std::uint64_t kEndNs = 5'000'000'000;
  for (int fd = 0; fd < 3; ++fd) close(fd);  // those that read what the agent writes see its end
  const std::uint64_t until_ns = monotonic_ns() + kEndNs;
  while (waitpid(-1, nullptr, WNOHANG) >= 0 && monotonic_ns() < until_ns) poll(nullptr, 0, 5);
}

// Runs an agent in a child of this process, and another one if it ends with kExitJoinAgain. Returns
// in the child what `run` returns, and in this process the exit code of the last one.
//
// If the agent were the first process of a container, its end would be that of its guardian, which
// has to clean up, and the guardian could not kill it.
int run_below(const std::function<int()>& run) {
  const pid_t above = getpid();
  sigset_t signals, former;
  sigemptyset(&signals);
  for (const int s : {SIGTERM, SIGCHLD}) sigaddset(&signals, s);
  sigprocmask(SIG_BLOCK, &signals, &former);
  int code = kExitJoinAgain;
  while (code == kExitJoinAgain) {
    const pid_t agent = fork();
    if (agent == 0) {
      prctl(PR_SET_NAME, "ftrun");
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != above) return kExitFailure;
      sigprocmask(SIG_SETMASK, &former, nullptr);
      return run();
    }
    if (agent < 0) {
      fprintf(stderr, "rejoin: cannot start a process for this agent: %s\n",
              error_text(errno).c_str());
      return kExitFailure;
    }
    prctl(PR_SET_NAME, "ftrun-init");
    code = await_agent(agent, signals);
  }
  if (code == kExitSignal + SIGKILL) {
    fprintf(stderr,
            "rejoin: this agent was killed, as its guardian does if it was silent for the time of "
            "--lease\n");
  }
  if (above == 1) await_orphans();
  return code;
}

// The agent, and what it needs while it runs.
class AgentProcess {
 public:
  AgentProcess(Descriptor orders, Descriptor reports)
      : stream_(loop_, std::move(orders), std::move(reports), calls()),
        beat_timer_(loop_, [this] { beat(); }) {
    watch_notices();
  }
  // That has joined.
  AgentProcess(ControlConnection ftrun, const AgentOptions& options)
      : stream_(loop_, std::move(ftrun.socket), std::move(ftrun.tls), calls()),
        has_joined_(true),
        beat_timer_(loop_, [this] { beat(); }) {
    watch_notices();
    Report report;
    report.mutable_joined()->set_version(version_text());
    report.mutable_joined()->set_name(options.name);
    report.mutable_joined()->set_address(options.address);
    send(report);
  }

  int run() {
    loop_.run([this] {
      if (agent_) agent_->idle();
    });
    stream_.flush();
    if (!has_joined_) return exit_code_;
    // If it closed a connection of which it has not read everything, what it has sent could get
    // lost.
    constexpr std::uint64_t kEndNs = 5'000'000'000;
    stream_.close_output();
    stream_.await_end(monotonic_ns() + kEndNs);
    return exit_code_;
  }

 private:
  MessageStream::Calls calls() {
    return {[this](std::string_view message) { on_message(message); },
            // The supervisor has ended: the lifeline and the guardian end all others.
            [this](const std::string& how) {
              if (has_joined_ && !is_answered_) join_again(how);
              if (has_joined_) fprintf(stderr, "rejoin: ftrun %s; this agent ends\n", how.c_str());
              _exit(kExitFailure);
            },
            [this] { hold_output(false); }};
  }
  // It was just ending, perhaps to begin again, and does not know of this agent.
  [[noreturn]] static void join_again(const std::string& how) {
    constexpr timespec kPause = {0, 500'000'000};
    fprintf(stderr, "rejoin: ftrun %s before it had answered; trying again\n", how.c_str());
    nanosleep(&kPause, nullptr);
    _exit(kExitJoinAgain);
  }
  void watch_notices() {
    sigset_t notices;  // prepare_process() blocks them
    sigemptyset(&notices);
    sigaddset(&notices, SIGTERM);
    notices_ = Descriptor(signalfd(-1, &notices, SFD_CLOEXEC | SFD_NONBLOCK));
    notices_watch_ =
        Loop::Watch(loop_, notices_.get(), EPOLLIN, [this](std::uint32_t) { notice(); });
  }

  void on_message(std::string_view message) {
    Order order;
    if (!order.ParseFromArray(message.data(), static_cast<int>(message.size()))) return;
    is_answered_ = true;
    if (order.what_case() == Order::kPlan) return prepare(order);
    if (order.what_case() == Order::kRefused) return refused(order.refused());
    const bool is_last = order.what_case() == Order::kFinish;
    if (is_last && has_joined_) exit_code_ = order.finish().again() ? kExitJoinAgain : 0;
    if (!agent_) {
      if (is_last) loop_.stop();  // it was a spare
      return;
    }
    if (order.what_case() == Order::kBeat) answered(order.beat());
    if (order.what_case() == Order::kLease) begin_lease(order.lease());
    if (order.what_case() == Order::kStart || order.what_case() == Order::kWake) begin_lease(true);
    if (order.what_case() == Order::kStart && !output_directory_.empty()) {
      if (const auto error = RankFiles::prepare(output_directory_, local_, false)) {
        Report lost;
        lost.set_host(order.host());
        lost.set_agent_lost("cannot start its ranks: " + error->text);
        return send(lost);
      }
    }
    if (is_last) begin_lease(false);
    loop_.post([this, order = std::move(order)] { agent_->order(order); });
    if (is_last) loop_.post([this] { loop_.stop(); });
  }

  // If the supervisor has not answered a beat for as long as the lease, it takes this host for
  // lost, or will do so. Then nothing may be left of it when the ranks go on elsewhere. A tenth is
  // for the time until all processes have ended; in its middle the guardian kills this process, if
  // that has not ended by itself.
  void begin_lease(bool begins) {
    if (lease_ns_ == 0) return;
    if (begins && beat_timer_.is_set()) end_if_unanswered();  // the order may be old
    answered_ns_ = loop_.now_ns();
    begins ? beat_timer_.set(answered_ns_) : beat_timer_.clear();
    set_guardian();
  }
  void answered(std::uint64_t beat_ns) {
    answered_ns_ = std::max(answered_ns_, beat_ns);
    set_guardian();
  }
  void set_guardian() {
    const std::uint64_t begin_ns = monotonic_ns() - loop_.now_ns();
    agent_->kill_at(beat_timer_.is_set() ? begin_ns + answered_ns_ + lease_ns_ / 20 * 19 : 0);
  }
  void end_if_unanswered() const {
    if (loop_.now_ns() <= answered_ns_ + lease_ns_ / 10 * 9) return;
    if (has_joined_) {
      fprintf(stderr, "rejoin: ftrun has not answered for the time of --lease; this agent ends\n");
    }
    _exit(kExitFailure);
  }
  void beat() {
    end_if_unanswered();
    const std::uint64_t now_ns = loop_.now_ns();
    beat_timer_.set(std::min(now_ns + lease_ns_ / 4, answered_ns_ + lease_ns_ / 10 * 9 + 1));
    beat(now_ns);
  }
  void beat(std::uint64_t now_ns) {
    Report report;
    report.set_beat(now_ns);
    send(report);
  }

  void refused(const std::string& why) {
    fprintf(stderr, "rejoin: ftrun has refused this agent: %s\n", one_line(why).c_str());
    exit_code_ = kExitFailure;
    loop_.stop();
  }

  // Its host is about to go: a batch system, or a cloud, says so by SIGTERM.
  void notice() {
    signalfd_siginfo info;
    while (read(notices_.get(), &info, sizeof info) == sizeof info) {
    }
    Report report;
    report.set_notice(true);
    send(report);
  }

  void prepare(const Order& order) {
    beat(loop_.now_ns());  // to fetch a part may take a while
    const auto error = make_agent(order.host(), order.plan());
    std::error_code ignored;
    if (error && !directory_.empty()) std::filesystem::remove_all(directory_, ignored);
    Report report;
    report.set_host(order.host());
    report.mutable_ready();
    if (error) {
      report.mutable_ready()->set_exit_code(error->exit_code);
      report.mutable_ready()->set_why(error->text);
    } else {
      report.mutable_ready()->set_port(agent_->relay_port());
      report.mutable_ready()->set_now_ns(loop_.now_ns());
      report.mutable_ready()->set_part_port(agent_->part_port());
    }
    send(report);
    if (error) return;
    if (order.plan().part().takes_over()) begin_lease(true);
    agent_->report_restored();
  }

  void send(const Report& report) {
    constexpr std::size_t kMostUnsent = 1 << 20;
    stream_.send(report.SerializeAsString());
    if (stream_.backlog() > kMostUnsent) hold_output(true);
  }
  // Beats must not wait for more output than the connection carries in a fraction of a lease.
  void hold_output(bool hold) {
    if (!agent_ || std::exchange(holds_output_, hold) == hold) return;
    agent_->hold_output(hold);
  }

  std::optional<Error> make_agent(std::uint32_t host, const Order::Plan& plan) {
    if (plan.version() != version_text()) {
      return Error{"it has Rejoin " + version_text() + ", and this host has " + plan.version() +
                   "; install the same on every host"};
    }
    clearenv();
    for (const std::string& variable : plan.environment()) {
      const std::size_t equals = variable.find('=');
      if (equals == std::string::npos) continue;
      setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
    }
    if (chdir(plan.directory().c_str()) != 0) {
      return Error{"the working directory " + plan.directory() + ": " + error_text(errno) +
                   "; it has to be there on every host"};
    }
    auto options = options_of(plan);
    if (!options.ok()) return options.error();
    if (const auto error = restrict_processors(options.value())) return error;
    LocalRanks local;
    for (std::uint32_t r = 0; r < options.value().ranks(); ++r) {
      if (options.value().place_of(r).node == host) local.push_back(r);
    }
    auto made = make_host_plan(options.value(),
                               {plan.job(), plan.secret(), host, local, plan.incarnation(), true});
    if (!made.ok()) return made.error();
    lease_ns_ = options.value().lease_ns;
    if (options.value().report_bindings) report_bindings(made.value());
    SpawnSettings settings = prepare_process(static_cast<std::uint32_t>(local.size()));
    if (const auto error = check_descriptors(static_cast<std::uint32_t>(local.size())))
      return error;
    local_ = local;
    settings.lifeline = lifeline_.path();
    auto guardian = std::make_unique<Guardian>(made.value().socket, lifeline_);
    if (const auto error = open_directory(plan, made.value())) return error;
    if (made.value().writes_sets) guardian->remove_parts_on_death(made.value().sets_directory());
    place_file_logs(made.value(), *guardian);
    directory_ = made.value().directory;
    auto listener = listen_at(made.value().socket);
    if (!listener.ok()) return listener.error();
    if (plan.has_part()) {
      if (const auto error = find_part(plan.part(), made.value())) return error;
    }
    if (const auto error = place_output(plan, made.value().options.output.directory)) return error;
    auto segment =
        made.value().resumed
            ? JobSegment::restore(made.value().options, made.value().resumed->path_of_journal(),
                                  made.value().resumed->put_back_to, usable_processors(), local)
            : JobSegment::create(made.value().options, made.value().job, usable_processors(),
                                 local);
    if (!segment.ok()) return segment.error();
    if (made.value().resumed && made.value().writes_sets) {
      std::size_t undone = 0;
      if (const auto error = put_files_back(made.value(), segment.value(), &undone)) return error;
    }
    agent_.emplace(loop_, std::move(made.value()), std::move(settings), std::move(segment.value()),
                   std::move(listener.value()), std::move(guardian),
                   [this](const Report& report) { send(report); });
    if (auto error = agent_->open_images()) return error;
    return agent_->open_relay();
  }

  // The files of --output-filename. Those of a job that goes on stay as they are, but this host may
  // not have them. Those of one that begins are made when its ranks start.
  std::optional<Error> place_output(const Order::Plan& plan, const std::string& directory) {
    if (directory.empty()) return {};
    if (plan.has_part()) return RankFiles::prepare(directory, local_, true);
    output_directory_ = directory;
    return {};
  }

  // --checkpoint-dir of the job, and what belongs to this host there.
  std::optional<Error> open_directory(const Order::Plan& plan, HostPlan& made) {
    const std::string& all = made.options.checkpoint_directory;
    if (all.empty()) return {};
    if (read_small_file(note_of_job(all)) != plan.note()) {
      return Error{"--checkpoint-dir " + all +
                   " is not the directory that ftrun uses; it has to be on a file system that all "
                   "hosts share"};
    }
    made.writes_sets = made.options.snapshots.on();
    const std::string own = directory_of_host(all, made.host);
    if (const auto error = prepare_checkpoint_directory(own, plan.has_part())) return error;
    // A host that was lost may still be there, and ends by itself.
    if (!plan.part().takes_over()) {
      if (const auto error = await_former_job(own)) return error;
    }
    note_ = JobNote(own, lifeline_);
    return {};
  }

  // Finds this host's part of the set from which its ranks go on.
  static std::optional<Error> find_part(const Order::Plan::Part& part, HostPlan& plan) {
    const std::string sets = plan.sets_directory();
    if (const std::string why = why_not_restored(plan.forbidden); !why.empty()) return Error{why};
    if (part.port() != 0) {
      auto credentials = make_credentials(plan);
      if (!credentials.ok()) return credentials.error();
      const PartStore::Identity identity = {plan.job, plan.host, std::move(credentials.value())};
      const PartStore::Holder holder = {part.holder(),
                                        {part.host(), static_cast<std::uint16_t>(part.port())}};
      const std::string path = path_of_image_set(sets, part.set());
      if (const auto error = PartStore::fetch(identity, holder, part.set(), path)) return error;
    } else if (const auto error = remove_image_sets_after(sets, part.set())) {
      return error;
    }
    auto set = resumable_image_set(sets, part.set(), owner_of(plan.options, plan.programs),
                                   plan.lib_directory);
    if (!set.ok()) return set.error();
    plan.resumed = std::move(set.value());
    plan.takes_over = part.takes_over();
    plan.printed.assign(part.printed().begin(), part.printed().end());
    return {};
  }

  // The command line is read again, with what ftrun has found out on its own host.
  static Result<RunOptions> options_of(const Order::Plan& plan) {
    std::vector<const char*> arguments;
    for (const std::string& argument : plan.arguments()) arguments.push_back(argument.c_str());
    auto command = parse_command_line(static_cast<int>(arguments.size()), arguments.data(),
                                      HostOptions::kKnown);
    if (!command.ok()) return command.error();
    auto* options = std::get_if<RunOptions>(&command.value());
    const auto programs = static_cast<std::size_t>(plan.ranks_size());
    if (options == nullptr || options->programs.size() != programs) {
      return Error{"its agent was given a plan that no ftrun makes"};
    }
    for (int i = 0; i < plan.ranks_size(); ++i) options->programs[i].ranks = plan.ranks(i);
    options->layout.assign(plan.layout().begin(), plan.layout().end());
    options->hosts.assign(plan.hosts().begin(), plan.hosts().end());
    options->listen.clear();  // they have joined
    options->between_nodes = BetweenNodes::kSockets;
    options->journal_limit_bytes = plan.journal_limit_bytes();
    if (const auto error = complete(*options, usable_processors())) return *error;
    return std::move(*options);
  }

  Loop loop_{monotonic_ns()};
  Lifeline lifeline_;
  MessageStream stream_;
  const bool has_joined_ = false;
  bool is_answered_ = false;
  bool holds_output_ = false;
  int exit_code_ = 0;
  std::optional<Agent> agent_;
  Loop::Timer beat_timer_;
  Descriptor notices_;  // a signalfd
  Loop::Watch notices_watch_;
  std::uint64_t lease_ns_ = 0;     // 0: there is none
  std::uint64_t answered_ns_ = 0;  // when the newest beat was sent that was answered
  std::string directory_;          // of files of this host's job; empty: there are none
  std::string output_directory_;   // whose files are made when the ranks start; empty: of none
  LocalRanks local_;
  JobNote note_;
};

int serve() {
  if (isatty(0)) {
    fprintf(stderr,
            "rejoin: ftrun agent is started by ftrun, which sends it its orders; to join one that "
            "listens, write: ftrun agent --join HOST:PORT\n");
    return kExitUsage;
  }
  // The descriptors of orders and reports are not those that ranks or messages could use.
  constexpr int kFirst = 3;
  Descriptor orders(fcntl(0, F_DUPFD_CLOEXEC, kFirst)), reports(fcntl(1, F_DUPFD_CLOEXEC, kFirst));
  const Descriptor nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!orders.open() || !reports.open() || !nothing.open()) return kExitFailure;
  dup2(nothing.get(), 0);
  dup2(2, 1);
  signal(SIGPIPE, SIG_IGN);
  return AgentProcess(std::move(orders), std::move(reports)).run();
}

int join(const AgentOptions& options) {
  const auto fail = [](const Error& error) {
    fprintf(stderr, "rejoin: %s\n", error.text.c_str());
    return error.exit_code;
  };
  signal(SIGPIPE, SIG_IGN);
  const int nothing = open("/dev/null", O_RDWR);  // kept open if it is one of 0 to 2
  dup2(nothing, 0);
  if (nothing > 2) close(nothing);
  dup2(2, 1);
  const auto secret = read_secret(options.secret_file);
  if (!secret.ok()) return fail(secret.error());
  const auto tls = TlsLibrary::load(library_directory());
  if (!tls.ok()) return fail(tls.error());
  auto ftrun = connect_to_ftrun(options.join, tls.value(), secret.value(), options.join_ns);
  if (!ftrun.ok()) return fail(ftrun.error());
  fprintf(stderr, "rejoin: connected with ftrun at %s, as host %s\n", options.join.c_str(),
          options.name.c_str());
  return AgentProcess(std::move(ftrun.value()), options).run();
}

}  // namespace

int run_agent() { return getpid() == 1 ? run_below(serve) : serve(); }

int run_joined_agent(const AgentOptions& options) {
  return run_below([&] { return join(options); });
}

}  // namespace rejoin::launcher
