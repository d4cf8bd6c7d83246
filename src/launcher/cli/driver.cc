#include "launcher/cli/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iterator>

#include "launcher/agent/agent.h"
#include "launcher/agent/file_changes.h"
#include "launcher/agent/former_job.h"
#include "launcher/agent/image_sets.h"
#include "launcher/agent/machine.h"
#include "launcher/base/lifeline.h"
#include "launcher/base/loop.h"
#include "launcher/cli/host_planning.h"
#include "launcher/cli/options.h"
#include "launcher/cli/preflight.h"
#include "launcher/hosts/agents.h"
#include "launcher/output/rank_files.h"
#include "launcher/program/build.h"
#include "launcher/program/program.h"
#include "launcher/supervisor/supervisor.h"
#include "wire/file_log.h"
#include "wire/messages.h"

namespace rejoin::launcher {
namespace {

int fail(const Error& error) {
  fprintf(stderr, "rejoin: %s\n", error.text.c_str());
  return error.exit_code;
}

// Opens those of descriptors 0 to 2 that are closed; otherwise a pipe that ftrun creates could get
// the number of a standard stream. A closed standard output is opened for reading only, so that
// writing the ranks' output to it fails and is reported.
void open_standard_descriptors() {
  for (int fd = 0; fd < 3; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
  }
}

Result<EventLog::Target> open_events(const std::string& path) {
  if (path.empty()) return EventLog::Target{};
  if (path == "-") return EventLog::Target{{}, {}, true};
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode) && access(path.c_str(), W_OK) == 0) {
    return EventLog::Target{{}, path};
  }
  EventLog::Target file{
      Descriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666))};
  if (!file.file.open()) return Error{"cannot write --events " + path + ": " + error_text(errno)};
  return file;
}

std::optional<Error> check_kept_directory(const RunOptions& options) {
  if (!options.keep || !options.journal_directory.empty() || access(".", W_OK) == 0) return {};
  return Error{
      "--keep: the working directory is not writable; give another directory with --journal-dir"};
}

std::optional<Error> check_options(const RunOptions& options) {
  const std::uint32_t ranks = options.ranks();
  for (const KillOrder& kill : options.kills) {
    if (kill.rank < ranks) continue;
    return Error{"--kill " + to_text(kill) + ": there is no rank " + std::to_string(kill.rank) +
                     ", ranks are 0 to " + std::to_string(ranks - 1),
                 kExitUsage};
  }
  for (const ProgramOptions& program : options.programs) {
    struct stat info = {};
    const std::string& directory = program.working_directory;
    if (!directory.empty() && (stat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))) {
      return Error{"--wdir " + directory + ": there is no such directory"};
    }
  }
  if (options.has_agents()) {
    const std::pair<bool, const char*> of_one_host[] = {
        {!options.checkpoint_directory.empty(), "--checkpoint-dir"},
        {options.keep, "--keep"},
        {options.begin_again, "--begin-again"},
        {options.torch, "--torch"}};
    for (const auto& [given, name] : of_one_host) {
      if (!given) continue;
      return Error{std::string(name) +
                       " is for jobs on one host so far; leave it out, or run the "
                       "job on one host",
                   kExitUsage};
    }
  }
  return check_kept_directory(options);
}

// Makes the job resume from the newest set of images.
std::optional<Error> resume_images(HostPlan& plan) {
  const RunOptions& options = plan.options;
  if (!options.snapshots.on()) {
    return Error{
        "--resume: " + options.checkpoint_directory +
        " holds images, from which a job cannot go on with --snapshots off or --no-restart"};
  }
  const std::string restorer = plan.lib_directory + "/librejoin_restore.so";
  if (access(restorer.c_str(), R_OK) != 0) {
    return Error{restorer +
                 " is missing; it belongs to this ftrun: build or install them together"};
  }
  std::vector<std::string> notices;
  auto set = newest_image_set(options.checkpoint_directory, owner_of(plan.options, plan.programs),
                              plan.lib_directory, notices);
  for (const std::string& notice : notices) fprintf(stderr, "rejoin: %s\n", notice.c_str());
  if (!set.ok()) return set.error();
  plan.resumed = std::move(set.value());
  return {};
}

// Checks everything about the job that can be checked before a process is started. Completes the
// options.
Result<HostPlan> plan_job(RunOptions& options, std::uint32_t processors) {
  if (const auto error = complete(options, processors)) return *error;
  if (const auto error = check_options(options)) return *error;
  // The agents of other hosts choose processors for their ranks.
  const LocalRanks here = options.hosts.empty() ? all_local(options.ranks()) : LocalRanks();
  return make_host_plan(options, {random_hex(8), random_hex(16), 0, here});
}

void warn(const RunOptions& options) {
  for (const std::string& notice : options.notices) {
    fprintf(stderr, "rejoin: %s\n", notice.c_str());
  }
  for (const ProgramOptions& program : options.programs) {
    for (const auto& [name, value] : program.exports) {
      if (value || getenv(name.c_str()) != nullptr) continue;
      fprintf(stderr, "rejoin: -x %s: this variable is not set, so ranks do not get it\n",
              name.c_str());
    }
  }
}

// Makes rank 0 find the end of its standard input at once.
std::optional<Error> close_standard_input() {
  const Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (nothing.open() && dup2(nothing.get(), 0) == 0) return {};
  return Error{std::string("--stdin none: /dev/null: ") + error_text(errno)};
}

void tell_resumed(const ImageSet& set, std::size_t undone) {
  char when[64] = "";
  const std::time_t cut_at = set.cut_at_s;
  std::strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", std::localtime(&cut_at));
  fprintf(stderr, "rejoin: going on from %s, the state of the job at %s\n", set.path.c_str(), when);
  if (undone == 0) return;
  fprintf(stderr,
          "rejoin: undid %zu change%s of file names that the job had made after that time\n",
          undone, undone == 1 ? "" : "s");
}

// State of --checkpoint-dir, until the end of the job.
struct Directory {
  Descriptor lock;
  JobNote note;                           // for the next job
  std::optional<CheckpointFile> version;  // the version that the job resumes from
};

// Finds what --resume resumes from: the newest complete version, else the newest complete set of
// images. Both exist if ftrun died before it had removed the sets (agent/checkpoint_files.h).
std::optional<Error> find_recovery_point(HostPlan& plan, std::optional<CheckpointFile>& version) {
  const std::string& directory = plan.options.checkpoint_directory;
  std::vector<std::string> notices;
  auto found = CheckpointFile::newest(directory, owner_of(plan.options, plan.programs), notices);
  for (const std::string& notice : notices) fprintf(stderr, "rejoin: %s\n", notice.c_str());
  if (!found.ok()) return found.error();
  if (found.value()) {
    version.emplace(std::move(*found.value()));
    return {};
  }
  if (holds_image_sets(directory)) return resume_images(plan);
  return Error{"--resume: there is no complete checkpoint in " + directory};
}

// To be called before the segment is made. Locks the directory first, because an exiting job may
// still change it.
std::optional<Error> open_directory(HostPlan& plan, const Lifeline& lifeline,
                                    Directory& directory) {
  const RunOptions& options = plan.options;
  const std::string& path = options.checkpoint_directory;
  if (path.empty()) return {};
  if (const auto error = prepare_checkpoint_directory(path, options.resume)) return error;
  auto locked = lock_checkpoint_directory(path);
  if (!locked.ok()) return locked.error();
  directory.lock = std::move(locked.value());
  if (const auto error = await_former_job(path)) return error;
  directory.note = JobNote(path, lifeline);
  if (options.resume) {
    if (const auto error = find_recovery_point(plan, directory.version)) return error;
  }
  plan.writes_sets = options.snapshots.on() && !directory.version.has_value();
  return {};
}

// Chooses where ranks log what they do to files: with the sets of images, or in memory, for the
// return of all ranks alone.
void place_file_logs(HostPlan& plan, const Guardian& guardian) {
  const RunOptions& options = plan.options;
  const bool may_go_back = options.on_divergence == OnDivergence::kRollBack && options.restart;
  if (plan.writes_sets) {
    plan.file_logs = file_logs_in(options.checkpoint_directory);
  } else if (options.snapshots.on() && may_go_back) {
    std::error_code error;
    const bool shm = access("/dev/shm", W_OK) == 0;
    const std::filesystem::path directory =
        shm ? "/dev/shm" : std::filesystem::temp_directory_path(error);
    plan.file_logs = directory / ("rejoin-" + hex_text(plan.job) + ".files");
    guardian.remove_on_death(plan.file_logs);
  }
  for (auto& environment : plan.environments) {
    if (!plan.file_logs.empty())
      environment.push_back(std::string(wire::kEnvFileLog) + "=" + plan.file_logs);
  }
}

// Makes all ranks begin at the version, and removes the older sets of images.
std::optional<Error> begin_at(const CheckpointFile& version, const RunOptions& options,
                              JobSegment& segment) {
  if (const auto error = version.install(segment)) return error;
  // A rank must not restart from main: the program's own files would be newer than that.
  if (!version.has_model())
    journal::put(segment.header()->goes_back_to, journal::Return::kVersions);
  if (const auto error = remove_image_sets(options.checkpoint_directory)) return error;
  if (!options.quiet) {
    fprintf(stderr, "rejoin: going on from checkpoint %llu\n",
            static_cast<unsigned long long>(version.version()));
  }
  return {};
}

// Restores the files to their state when the set was cut.
std::optional<Error> put_files_back(const RunOptions& options, const ImageSet& set,
                                    JobSegment& segment, std::size_t* undone) {
  std::vector<std::uint64_t> observations;
  for (std::uint32_t r = 0; r < set.owner.ranks; ++r) {
    observations.push_back(journal::region_of(segment.base(), r)->observations.tail.load());
  }
  const auto changes =
      FileChanges::read(set, file_logs_in(options.checkpoint_directory), observations);
  if (!changes.ok()) return changes.error();
  std::vector<std::string> notices;
  const auto error = changes.value().undo(notices);
  for (const std::string& notice : notices) fprintf(stderr, "rejoin: %s\n", notice.c_str());
  *undone = changes.value().size();
  return error;
}

// Prepares --checkpoint-dir and --resume before the first process is started.
std::optional<Error> begin(const HostPlan& plan, const Directory& directory, JobSegment& segment) {
  const RunOptions& options = plan.options;
  if (directory.version) return begin_at(*directory.version, options, segment);
  if (!plan.resumed) return {};
  std::size_t undone = 0;
  if (const auto error = put_files_back(options, *plan.resumed, segment, &undone)) return error;
  // None of these versions is complete.
  if (const auto error = remove_checkpoints(options.checkpoint_directory)) return error;
  if (!options.quiet) tell_resumed(*plan.resumed, undone);
  return {};
}

// Creates the segment, or restores it from the set that the job resumes from.
Result<JobSegment> make_segment(HostPlan& plan, std::uint32_t processors) {
  if (!plan.resumed) return JobSegment::create(plan.options, plan.job, processors, plan.local);
  auto segment =
      JobSegment::restore(plan.options, plan.resumed->path_of_journal(), plan.resumed->put_back_to);
  if (!segment.ok()) return segment;
  plan.first_incarnation = segment.value().next_incarnation();
  plan.options.journal_limit_bytes = segment.value().header()->journal_limit_bytes;
  return segment;
}

JobPlan job_plan(const HostPlan& plan, const Beginning& beginning) {
  JobPlan job;
  job.options = plan.options;
  job.beginning = beginning;
  job.beginning.incarnation = plan.first_incarnation;
  job.hosts = {plan.local};
  job.lib_directory = plan.lib_directory;
  job.version = version_text();
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof name - 1);
  job.host = name;
  return job;
}

// What is the same whenever the job begins.
struct Run {
  RunOptions options;  // complete
  std::uint32_t processors = 0;
  std::uint64_t begun_ns = 0;
  SpawnSettings settings;
  off_t input_begin = -1;  // where standard input began; -1: it can be read only once
  bool has_read_input = false;
  std::optional<EventLog::Target> events;
  Beginning beginning;
};

// What the ranks have read of standard input is read again, unless they go on behind it.
std::optional<Error> give_input_again(const Run& run, const HostPlan& plan) {
  const bool goes_on = plan.resumed && plan.resumed->input_ended;
  if (!run.has_read_input || goes_on) return {};
  if (!plan.resumed && run.input_begin >= 0 && lseek(0, run.input_begin, SEEK_SET) >= 0) return {};
  return Error{
      "the job cannot begin again, because its ranks have read standard input, which can "
      "be read only once"};
}

// Runs the job until no process of it is left. Returns its exit code; nothing: it begins again.
// Errors: why no process of it was started.
Result<std::optional<int>> run_once(Run& run, HostPlan& plan) {
  Loop loop(run.begun_ns);
  Lifeline lifeline;
  SpawnSettings settings = run.settings;
  settings.lifeline = lifeline.path();
  auto guardian = std::make_unique<Guardian>(plan.socket, lifeline);
  auto listener = listen_at(plan.socket);
  if (!listener.ok()) return listener.error();
  Directory directory;
  if (const auto error = open_directory(plan, lifeline, directory)) return *error;
  guardian->remove_parts_on_death(run.options.checkpoint_directory);
  place_file_logs(plan, *guardian);
  if (const auto error = give_input_again(run, plan)) return *error;
  auto segment = make_segment(plan, run.processors);
  if (!segment.ok()) return segment.error();
  if (const auto error = begin(plan, directory, segment.value())) {
    return *error;
  }
  directory.version.reset();  // its models were copied to the segment

  // Done last: until it is certain that this job runs, the files may be another job's.
  if (!run.options.output.directory.empty()) {
    const auto error =
        RankFiles::prepare(run.options.output.directory, plan.local, run.options.resume);
    if (error) return *error;
  }
  if (!run.events) {
    auto events = open_events(run.options.events_path);
    if (!events.ok()) return events.error();
    run.events = std::move(events.value());
  }

  // Orders and reports go through the loop's queue, so that neither side is called while it is
  // still sending.
  std::optional<Agent> agent;
  std::optional<Supervisor> supervisor;
  supervisor.emplace(loop, job_plan(plan, run.beginning), std::move(*run.events), [&](Order order) {
    loop.post([&agent, order = std::move(order)] { agent->order(order); });
  });
  agent.emplace(
      loop, std::move(plan), std::move(settings), std::move(segment.value()),
      std::move(listener.value()), std::move(guardian), [&](Report report) {
        loop.post([&supervisor, report = std::move(report)] { supervisor->report(report); });
      });
  supervisor->start();
  loop.run([&] {
    agent->idle();
    supervisor->idle();
  });
  const int code = supervisor->finish();
  if (!supervisor->begins_again()) return std::optional(code);
  run.beginning = *supervisor->begins_again();
  run.events = supervisor->take_events();
  run.has_read_input |= supervisor->has_read_input();
  run.options.kills = agent->unfired_kills();
  return std::optional<int>();
}

// What the agents of all hosts need to know: what this process was given, and what it has found
// out.
Order order_of_plan(const HostPlan& plan, const std::vector<std::string>& arguments) {
  Order order;
  Order::Plan& to = *order.mutable_plan();
  to.set_version(version_text());
  for (const std::string& argument : arguments) to.add_arguments(argument);
  for (char** variable = environ; *variable != nullptr; ++variable) to.add_environment(*variable);
  std::error_code error;
  to.set_directory(std::filesystem::current_path(error));
  to.set_job(hex_text(plan.job));
  to.set_secret(plan.secret);
  const RunOptions& options = plan.options;
  for (const ProgramOptions& program : options.programs) to.add_ranks(*program.ranks);
  for (const std::uint32_t ranks : options.layout) to.add_layout(ranks);
  for (const std::string& host : options.hosts) to.add_hosts(host);
  to.set_journal_limit_bytes(options.journal_limit_bytes);
  to.set_snapshot_every_bytes(options.snapshots.every_bytes);
  return order;
}

int open_ending_signals() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&wanted, s);
  return signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
}

// Runs a job whose nodes have agents of their own. Returns its exit code. Errors: why no rank was
// started.
Result<int> run_on_hosts(Run& run, const HostPlan& plan,
                         const std::vector<std::string>& arguments) {
  const RunOptions& options = plan.options;
  Loop loop(run.begun_ns);
  auto events = open_events(options.events_path);
  if (!events.ok()) return events.error();
  JobPlan job = job_plan(plan, run.beginning);
  job.hosts.assign(options.layout.size(), {});
  for (std::uint32_t r = 0; r < plan.ranks; ++r) job.hosts[options.place_of(r).node].push_back(r);
  std::vector<std::string> names = options.hosts;
  names.resize(options.layout.size());
  std::optional<Error> failure;
  std::optional<Agents> agents;
  std::optional<Supervisor> supervisor;
  const auto give_up = [&](Error error) {
    failure = std::move(error);
    loop.stop();
  };
  // Until all agents are ready a signal just ends them.
  const Descriptor signals(open_ending_signals());
  Loop::Watch interrupted(loop, signals.get(), EPOLLIN, [&](std::uint32_t) {
    signalfd_siginfo info = {};
    if (read(signals.get(), &info, sizeof info) != sizeof info) return;
    const auto signal = static_cast<int>(info.ssi_signo);
    give_up({"signal " + std::to_string(signal) + " (" + strsignal(signal) +
                 ") before all hosts were ready; no rank was started",
             kExitSignal + signal});
  });
  Loop::Timer too_long(loop, [&] {
    give_up({"the time limit of --timeout has expired before all hosts were ready", kExitTimeout});
  });
  if (options.timeout_ns) too_long.set(*options.timeout_ns);
  agents.emplace(
      loop, std::move(names), options.remote_shell,
      Agents::Calls{[&] {
                      interrupted.reset();
                      too_long.clear();
                      supervisor.emplace(
                          loop, std::move(job), std::move(events.value()), [&](Order order) {
                            loop.post([&agents, order = std::move(order)] { agents->send(order); });
                          });
                      supervisor->start();
                    },
                    give_up,
                    [&](Report report) {
                      loop.post([&supervisor, report = std::move(report)] {
                        if (supervisor) supervisor->report(report);
                      });
                    }});
  agents->start(order_of_plan(plan, arguments));
  loop.run([&] {
    if (supervisor) supervisor->idle();
  });
  if (failure) return *failure;
  return supervisor->finish();
}

// If the job was to begin again, the error is the end of its events.
int fail_to_begin(Run& run, const Error& error) {
  const int code = fail(error);
  if (!run.events) return code;
  const std::uint64_t lasted_ns = monotonic_ns() - run.begun_ns;
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  const double begun_s = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9 -
                         static_cast<double>(lasted_ns) / 1e9;
  CallSites sites("");
  EventLog log(std::move(*run.events), begun_s, sites);
  Record end{.event = "end", .at_ns = lasted_ns};
  end.code = code;
  log.add(end);
  log.finish(-1, [] { return false; });
  fputs(log.take_lines().c_str(), stdout);
  return code;
}

// Finds out from where the job begins again.
Result<HostPlan> plan_again(RunOptions& options) {
  const std::string& directory = options.checkpoint_directory;
  options.resume =
      !directory.empty() && (holds_image_sets(directory) || holds_checkpoints(directory));
  if (!options.resume && !options.quiet) {
    fprintf(stderr, "rejoin: beginning again at the start of the program\n");
  }
  return make_host_plan(options, {random_hex(8), random_hex(16), 0, all_local(options.ranks())});
}

}  // namespace

int run_job(RunOptions options, const std::vector<std::string>& arguments) {
  open_standard_descriptors();
  Run run;
  run.begun_ns = monotonic_ns();
  warn(options);
  const bool elsewhere = std::any_of(options.programs.begin(), options.programs.end(),
                                     [](const ProgramOptions& p) { return !p.hosts.empty(); });
  if (!elsewhere) {
    if (const auto error = restrict_processors(options)) return fail(*error);
  }
  run.processors = usable_processors();
  auto plan = plan_job(options, run.processors);
  if (!plan.ok()) return fail(plan.error());
  if (options.report_bindings && !options.has_agents()) report_bindings(plan.value());
  if (!options.standard_input) {
    if (const auto error = close_standard_input()) return fail(*error);
  }
  run.input_begin = lseek(0, 0, SEEK_CUR);
  run.options = std::move(options);
  run.settings = prepare_process(plan.value().ranks);
  if (!elsewhere) {
    if (const auto error = check_descriptors(plan.value().ranks)) return fail(*error);
  }
  if (run.options.has_agents()) {
    const auto code = run_on_hosts(run, plan.value(), arguments);
    return code.ok() ? code.value() : fail(code.error());
  }
  for (;;) {
    const auto code = run_once(run, plan.value());
    if (!code.ok()) return fail_to_begin(run, code.error());
    if (code.value()) return *code.value();
    plan = plan_again(run.options);
    if (!plan.ok()) return fail_to_begin(run, plan.error());
  }
}

}  // namespace rejoin::launcher
