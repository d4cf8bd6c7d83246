#include "launcher/cli/agent_command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/agent/agent.h"
#include "launcher/agent/machine.h"
#include "launcher/base/lifeline.h"
#include "launcher/base/loop.h"
#include "launcher/cli/host_planning.h"
#include "launcher/cli/options.h"
#include "launcher/hosts/message_stream.h"
#include "launcher/output/rank_files.h"

namespace rejoin::launcher {
namespace {

// The agent, and what it needs while it runs.
class AgentProcess {
 public:
  AgentProcess(Descriptor orders, Descriptor reports)
      : stream_(loop_, std::move(orders), std::move(reports),
                {[this](std::string_view message) { on_message(message); },
                 // The supervisor has ended: the lifeline and the guardian end all others.
                 [](const std::string&) { _exit(kExitFailure); }}) {}

  int run() {
    loop_.run([this] {
      if (agent_) agent_->idle();
    });
    stream_.flush();
    return 0;
  }

 private:
  void on_message(std::string_view message) {
    Order order;
    if (!order.ParseFromArray(message.data(), static_cast<int>(message.size()))) return;
    if (order.what_case() == Order::kPlan) return prepare(order);
    if (!agent_) return;
    if (order.what_case() == Order::kStart && !output_directory_.empty()) {
      if (const auto error = RankFiles::prepare(output_directory_, local_, false)) {
        Report lost;
        lost.set_host(order.host());
        lost.set_agent_lost("cannot start its ranks: " + error->text);
        return send(lost);
      }
    }
    const bool is_last = order.what_case() == Order::kFinish;
    loop_.post([this, order = std::move(order)] { agent_->order(order); });
    if (is_last) loop_.post([this] { loop_.stop(); });
  }

  void prepare(const Order& order) {
    const auto error = make_agent(order.host(), order.plan());
    Report report;
    report.set_host(order.host());
    report.mutable_ready();
    if (error) {
      report.mutable_ready()->set_exit_code(error->exit_code);
      report.mutable_ready()->set_why(error->text);
    } else {
      report.mutable_ready()->set_port(agent_->relay_port());
      report.mutable_ready()->set_now_ns(loop_.now_ns());
    }
    send(report);
  }

  void send(const Report& report) { stream_.send(report.SerializeAsString()); }

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
    auto made = make_host_plan(options.value(), {plan.job(), plan.secret(), host, local, true});
    if (!made.ok()) return made.error();
    made.value().first_incarnation = plan.incarnation();
    if (options.value().report_bindings) report_bindings(made.value());
    SpawnSettings settings = prepare_process(static_cast<std::uint32_t>(local.size()));
    if (const auto error = check_descriptors(static_cast<std::uint32_t>(local.size())))
      return error;
    output_directory_ = made.value().options.output.directory;
    local_ = local;
    settings.lifeline = lifeline_.path();
    auto guardian = std::make_unique<Guardian>(made.value().socket, lifeline_);
    auto listener = listen_at(made.value().socket);
    if (!listener.ok()) return listener.error();
    auto segment =
        JobSegment::create(made.value().options, made.value().job, usable_processors(), local);
    if (!segment.ok()) return segment.error();
    agent_.emplace(loop_, std::move(made.value()), std::move(settings), std::move(segment.value()),
                   std::move(listener.value()), std::move(guardian),
                   [this](const Report& report) { send(report); });
    return agent_->open_relay();
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
    options->between_nodes = BetweenNodes::kSockets;
    options->journal_limit_bytes = plan.journal_limit_bytes();
    options->snapshots.every_bytes = plan.snapshot_every_bytes();
    if (const auto error = complete(*options, usable_processors())) return *error;
    return std::move(*options);
  }

  Loop loop_{monotonic_ns()};
  Lifeline lifeline_;
  MessageStream stream_;
  std::optional<Agent> agent_;
  std::string output_directory_;
  LocalRanks local_;
};

}  // namespace

int run_agent() {
  if (isatty(0)) {
    fprintf(stderr, "rejoin: ftrun agent is started by ftrun, which sends it its orders\n");
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

}  // namespace rejoin::launcher
