#include "launcher/cli/host_planning.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "launcher/agent/file_changes.h"
#include "launcher/agent/machine.h"
#include "launcher/cli/preflight.h"
#include "launcher/program/build.h"
#include "launcher/program/program.h"
#include "wire/file_log.h"
#include "wire/messages.h"
#include "wire/random.h"

namespace rejoin::launcher {
namespace {

// Implements --cpus-per-rank: assigns consecutive processors to ranks.
Result<std::vector<cpu_set_t>> bind_each(const HostPlan& plan, const LocalRanks& ranks) {
  std::vector<std::uint32_t> each;
  std::uint32_t all = 0;
  for (const std::uint32_t r : ranks) {
    each.push_back(plan.options.program_of(r).processors_each.value_or(1));
    all += each.back();
  }
  auto sets = processors_each(each);
  if (!sets.empty()) return sets;
  return Error{"--cpus-per-rank: " + std::to_string(ranks.size()) + " ranks need " +
                   std::to_string(all) + " processors, and " + std::to_string(usable_processors()) +
                   " are available; use fewer processors for each rank, or --bind-to none",
               kExitUsage};
}

// The number of OpenMP threads that a program with this environment asks for; 1 if it asks for
// none: OpenMP starts as many then as its rank has processors.
std::uint32_t openmp_threads(const std::vector<std::string>& environment) {
  constexpr std::string_view kName = "OMP_NUM_THREADS=";
  std::uint32_t threads = 1;
  for (const std::string& variable : environment) {
    if (!variable.starts_with(kName)) continue;
    // The first of a list, whose others are for nested regions.
    const long wanted = strtol(variable.c_str() + kName.size(), nullptr, 10);
    threads = static_cast<std::uint32_t>(std::clamp(wanted, 1l, 4096l));
  }
  return threads;
}

// Returns the processors of each of these ranks, which share this machine; empty: all of them.
Result<std::vector<cpu_set_t>> choose_processors(const HostPlan& plan, const LocalRanks& ranks) {
  const RunOptions& options = plan.options;
  const Binding binding = options.binding;
  const auto count = static_cast<std::uint32_t>(ranks.size());
  if (binding == Binding::kNone) return std::vector<cpu_set_t>();
  const bool one_has_several =
      std::any_of(options.programs.begin(), options.programs.end(),
                  [](const ProgramOptions& p) { return p.processors_each.has_value(); });
  if (one_has_several) return bind_each(plan, ranks);
  if (binding == Binding::kAuto) {
    std::vector<std::uint32_t> threads;
    for (const std::uint32_t r : ranks) threads.push_back(openmp_threads(plan.environments[r]));
    return processors_for_threads(threads);
  }
  return bind_ranks(plan.lib_directory, binding, count);
}

Result<ProgramFile> find_file(const ProgramOptions& options, bool identify, bool tells) {
  ProgramFile program;
  auto path = check_program(options.command[0], options.working_directory);
  if (!path.ok()) return path.error();
  program.path = path.value();
  program.identity = identity_of(program.path);
  const std::string trouble =
      tells ? certain_trouble(options.command[0], program.path) : std::string();
  if (!trouble.empty()) fprintf(stderr, "rejoin: %s\n", trouble.c_str());
  if (!identify) return program;
  auto build = build_of(program.path, library_directory());
  if (!build.ok()) return Error{"--checkpoint-dir: " + build.error().text};
  program.build = build.value();
  return program;
}

std::string processors_text(const cpu_set_t& set) {
  std::string text;
  for (int first = 0; first < CPU_SETSIZE; ++first) {
    if (!CPU_ISSET(first, &set)) continue;
    int last = first;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last > first) text += "-" + std::to_string(last);
    first = last;
  }
  return text;
}

// Returns the number of open descriptors of this process.
rlim_t open_descriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator all("/proc/self/fd", error);
  return static_cast<rlim_t>(std::distance(begin(all), end(all)));
}

}  // namespace

std::optional<Error> check_descriptors(std::uint32_t ranks) {
  constexpr rlim_t kOfARank =
      5;  // two pipes of output, its connection, its pidfd, its image's connection
  constexpr rlim_t kOfAJob = 16;  // opened by the agent, and while a rank is started
  const rlim_t needed = open_descriptors() + kOfAJob + ranks * kOfARank;
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= needed) return {};
  return Error{"ulimit -n " + std::to_string(limit.rlim_cur) + " is too low: ftrun needs " +
               std::to_string(needed) + " descriptors for " + std::to_string(ranks) +
               (ranks == 1 ? " rank" : " ranks") + "; raise it, or use fewer ranks"};
}

Result<HostPlan> make_host_plan(const RunOptions& options, const HostIdentity& identity) {
  HostPlan plan;
  plan.options = options;
  plan.ranks = options.ranks();
  plan.host = identity.host;
  plan.local = identity.local;
  for (const ProgramOptions& each : options.programs) {
    auto program = find_file(each, !options.checkpoint_directory.empty() || options.survive_host,
                             !identity.is_agent);
    if (!program.ok()) return program.error();
    plan.programs.push_back(std::move(program.value()));
  }
  plan.lib_directory = library_directory();
  if (identity.is_agent || !options.has_agents()) plan.forbidden = find_forbidden_calls(options);
  plan.job = strtoull(identity.job.c_str(), nullptr, 16);
  plan.socket = "rejoin-" + identity.job;
  // A former agent of this host, which is lost, may still be there, and ends all processes that
  // have its own socket's name.
  if (identity.incarnation > 0) plan.socket += "." + std::to_string(identity.incarnation);
  // Agents that share a machine have a socket each.
  if (options.has_agents()) plan.socket += "-" + std::to_string(plan.host);
  plan.first_incarnation = identity.incarnation;
  plan.secret = identity.secret;
  for (std::uint32_t r = 0; r < plan.ranks; ++r) {
    auto environment = environment_of(r, {plan.socket, plan.secret, plan.lib_directory}, options);
    if (!environment.ok()) return environment.error();
    plan.environments.push_back(std::move(environment.value()));
  }
  // The ranks of all agents of this machine, so that no two get the same processor.
  const LocalRanks here = options.hosts.empty() ? all_local(plan.ranks) : plan.local;
  if (here.empty()) return plan;
  const auto sets = choose_processors(plan, here);
  if (!sets.ok()) return sets.error();
  if (sets.value().empty()) return plan;
  plan.bindings.resize(plan.ranks);
  for (std::size_t i = 0; i < here.size(); ++i) plan.bindings[here[i]] = sets.value()[i];
  return plan;
}

std::string directory_of_job(const HostPlan& plan, const std::string& suffix) {
  std::error_code error;
  const bool shm = access("/dev/shm", W_OK) == 0;
  const std::filesystem::path directory =
      shm ? "/dev/shm" : std::filesystem::temp_directory_path(error);
  std::string name = plan.socket;  // of this job, and of this agent
  return directory / name.append(suffix);
}

void place_file_logs(HostPlan& plan, const Guardian& guardian) {
  const RunOptions& options = plan.options;
  const bool may_go_back = options.on_divergence == OnDivergence::kRollBack && options.restart;
  if (plan.gives_parts()) {
    plan.directory = directory_of_job(plan, "");
    plan.file_logs = plan.directory + "/files";
    guardian.remove_on_death(plan.directory);
    std::error_code error;
    std::filesystem::create_directories(plan.file_logs, error);  // reported when it is used
    std::filesystem::permissions(plan.directory, std::filesystem::perms::owner_all, error);
  } else if (plan.writes_sets) {
    plan.file_logs = file_logs_in(plan.sets_directory());
  } else if (options.snapshots.on() && may_go_back) {
    plan.file_logs = directory_of_job(plan, ".files");
    guardian.remove_on_death(plan.file_logs);
  }
  if (plan.file_logs.empty()) return;
  std::string variable = wire::kEnvFileLog;
  variable.append(1, '=').append(plan.file_logs);
  for (auto& environment : plan.environments) environment.push_back(variable);
}

std::optional<Error> put_files_back(const HostPlan& plan, JobSegment& segment,
                                    std::size_t* undone) {
  std::vector<std::uint64_t> observations;
  for (std::uint32_t r = 0; r < plan.ranks; ++r) {
    observations.push_back(journal::region_of(segment.base(), r)->observations.tail.load());
  }
  const auto changes =
      FileChanges::read(*plan.resumed, file_logs_in(plan.sets_directory()), observations);
  if (!changes.ok()) return changes.error();
  std::vector<std::string> notices;
  const auto error = changes.value().undo(notices);
  for (const std::string& notice : notices) fprintf(stderr, "rejoin: %s\n", notice.c_str());
  *undone = changes.value().size();
  return error;
}

std::string random_hex(std::size_t bytes) {
  unsigned char random[16];
  if (!wire::fill_random(random, bytes)) {
    fprintf(stderr, "rejoin: /dev/urandom cannot be read: %s\n", error_text(errno).c_str());
    exit(kExitFailure);
  }
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", random[i]);
    text += digits;
  }
  return text;
}

std::optional<Error> restrict_processors(const RunOptions& options) {
  if (!options.processors) return {};
  cpu_set_t usable, before, missing;
  CPU_ZERO(&before);
  sched_getaffinity(0, sizeof before, &before);
  const auto refused = [](const cpu_set_t& those, const std::string& why) {
    return Error{"--cpu-set: processors " + processors_text(those) + " are not available; " + why};
  };
  const std::string usual = "without this option ranks may use " + processors_text(before);
  if (sched_setaffinity(0, sizeof *options.processors, &*options.processors) != 0) {
    return refused(*options.processors, usual);
  }
  CPU_ZERO(&usable);
  sched_getaffinity(0, sizeof usable, &usable);
  CPU_XOR(&missing, &usable, &*options.processors);
  if (CPU_COUNT(&missing) == 0) return {};
  return refused(missing, usual);
}

void report_bindings(const HostPlan& plan) {
  cpu_set_t all;
  CPU_ZERO(&all);
  sched_getaffinity(0, sizeof all, &all);
  for (const std::uint32_t r : plan.local) {
    const bool bound = !plan.bindings.empty();
    fprintf(stderr, "rejoin: rank %u %s processors %s\n", r, bound ? "is bound to" : "may use",
            processors_text(bound ? plan.bindings[r] : all).c_str());
  }
}

SpawnSettings prepare_process(std::uint32_t ranks) {
  SpawnSettings inherited;
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int s :
       {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU}) {
    sigaddset(&wanted, s);
  }
  sigprocmask(SIG_BLOCK, &wanted, &inherited.signals);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // write() fails with EFBIG instead, which is reported
  prctl(PR_SET_CHILD_SUBREAPER, 1);

  constexpr rlim_t kDescriptorsOfARank = 8;
  getrlimit(RLIMIT_NOFILE, &inherited.descriptors);
  rlimit wider = inherited.descriptors;
  wider.rlim_cur =
      std::max(wider.rlim_cur, std::min(wider.rlim_max, 64 + ranks * kDescriptorsOfARank));
  setrlimit(RLIMIT_NOFILE, &wider);
  return inherited;
}

}  // namespace rejoin::launcher
