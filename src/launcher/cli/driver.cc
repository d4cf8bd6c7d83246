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
#include "launcher/agent/former_job.h"
#include "launcher/agent/image_sets.h"
#include "launcher/agent/machine.h"
#include "launcher/agent/snapshot_policy.h"
#include "launcher/base/lifeline.h"
#include "launcher/base/loop.h"
#include "launcher/cli/gathering.h"
#include "launcher/cli/host_planning.h"
#include "launcher/cli/options.h"
#include "launcher/cli/plan_order.h"
#include "launcher/cli/preflight.h"
#include "launcher/hosts/agents.h"
#include "launcher/hosts/tls.h"
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
    const std::pair<bool, const char*> of_one_host[] = {{options.keep, "--keep"},
                                                        {options.begin_again, "--begin-again"},
                                                        {options.torch, "--torch"}};
    for (const auto& [given, name] : of_one_host) {
      if (!given) continue;
      return Error{std::string(name) +
                       " is for jobs on one host so far; leave it out, or run the "
                       "job on one host",
                   kExitUsage};
    }
    if (!options.checkpoint_directory.empty() && !options.snapshots.on()) {
      return Error{
          "--checkpoint-dir of a job on several hosts needs snapshots, and restarts; leave out "
          "--snapshots off and --no-restart",
          kExitUsage};
    }
  }
  if (options.encrypt && options.has_agents()) {
    const auto tls = TlsLibrary::load(library_directory());
    if (!tls.ok()) return tls.error();
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
  if (const std::string why = why_not_restored(plan.forbidden); !why.empty()) {
    return Error{"--resume: " + options.checkpoint_directory + " holds images, but " + why};
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

void tell_resumed(const std::string& from, std::time_t cut_at) {
  char when[64] = "";
  std::strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", std::localtime(&cut_at));
  fprintf(stderr, "rejoin: going on from %s, the state of the job at %s\n", from.c_str(), when);
}

void tell_resumed(const ImageSet& set, std::size_t undone) {
  tell_resumed(set.path, set.cut_at_s);
  if (undone == 0) return;
  fprintf(stderr,
          "rejoin: undid %zu change%s of file names that the job had made after that time\n",
          undone, undone == 1 ? "" : "s");
}

void tell_resumed(const RunOptions& options, const HostSet& set) {
  tell_resumed(options.checkpoint_directory + ", set " + std::to_string(set.number), set.cut_at_s);
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
  if (holds_host_sets(directory)) {
    return Error{"--resume: " + directory +
                 " holds images of a job on several hosts; give the same hosts, or as many"};
  }
  return Error{"--resume: there is no complete checkpoint in " + directory};
}

// To be called before the segment is made. Locks the directory first, because an exiting job may
// still change it.
std::optional<Error> take_directory(const RunOptions& options, const Lifeline& lifeline,
                                    Directory& directory) {
  const std::string& path = options.checkpoint_directory;
  if (const auto error = prepare_checkpoint_directory(path, options.resume)) return error;
  auto locked = lock_checkpoint_directory(path);
  if (!locked.ok()) return locked.error();
  directory.lock = std::move(locked.value());
  if (const auto error = await_former_job(path)) return error;
  directory.note = JobNote(path, lifeline);
  return {};
}

std::optional<Error> open_directory(HostPlan& plan, const Lifeline& lifeline,
                                    Directory& directory) {
  const RunOptions& options = plan.options;
  if (options.checkpoint_directory.empty()) return {};
  if (const auto error = take_directory(options, lifeline, directory)) return error;
  if (options.resume) {
    if (const auto error = find_recovery_point(plan, directory.version)) return error;
  }
  plan.writes_sets = options.snapshots.on() && !directory.version.has_value();
  return {};
}

// The same for a job that has agents. Sets `set` if the job resumes from it.
std::optional<Error> open_directory_of_hosts(const RunOptions& options, const Lifeline& lifeline,
                                             Directory& directory, std::optional<HostSet>& set) {
  if (options.checkpoint_directory.empty()) return {};
  if (const auto error = take_directory(options, lifeline, directory)) return error;
  if (!options.resume) return {};
  std::vector<std::string> notices;
  const auto hosts = static_cast<std::uint32_t>(options.layout.size());
  const auto found = newest_host_set(options.checkpoint_directory, hosts, notices);
  for (const std::string& notice : notices) fprintf(stderr, "rejoin: %s\n", notice.c_str());
  if (!found.ok()) return found.error();
  set = found.value();
  return {};
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

// Prepares --checkpoint-dir and --resume before the first process is started.
std::optional<Error> begin(const HostPlan& plan, const Directory& directory, JobSegment& segment) {
  const RunOptions& options = plan.options;
  if (directory.version) return begin_at(*directory.version, options, segment);
  if (!plan.resumed) return {};
  std::size_t undone = 0;
  if (const auto error = put_files_back(plan, segment, &undone)) return error;
  // None of these versions is complete.
  if (const auto error = remove_checkpoints(options.checkpoint_directory)) return error;
  if (!options.quiet) tell_resumed(*plan.resumed, undone);
  return {};
}

// Creates the segment, or restores it from the set that the job resumes from.
Result<JobSegment> make_segment(HostPlan& plan, std::uint32_t processors) {
  if (!plan.resumed) return JobSegment::create(plan.options, plan.job, processors, plan.local);
  auto segment = JobSegment::restore(plan.options, plan.resumed->path_of_journal(),
                                     plan.resumed->put_back_to, processors, plan.local);
  if (!segment.ok()) return segment;
  plan.first_incarnation = segment.value().next_incarnation();
  const std::uint64_t limit = segment.value().header()->journal_limit_bytes;
  std::uint64_t& every = plan.options.snapshots.every_bytes;
  plan.options.journal_limit_bytes = limit;
  every = std::min(every, SnapshotPolicy::most_every_bytes(limit));
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
  Gathering::Meeting meeting;
};

// What the ranks have read of standard input is read again, unless they go on behind it. `resumed`:
// a set from which they go on, or null.
template <class Set>
std::optional<Error> give_input_again(const Run& run, const Set& resumed) {
  if (!run.has_read_input || (resumed && resumed->input_ended)) return {};
  if (!resumed && run.input_begin >= 0 && lseek(0, run.input_begin, SEEK_SET) >= 0) return {};
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
  if (const auto error = give_input_again(run, plan.resumed)) return *error;
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

int open_ending_signals() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&wanted, s);
  return signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
}

// What its supervisor needs. `resumed`: the set from which it goes on.
JobPlan job_of_hosts(const HostPlan& plan, const Beginning& beginning,
                     const std::optional<HostSet>& resumed) {
  JobPlan job = job_plan(plan, beginning);
  if (resumed) {
    job.beginning.incarnation = resumed->incarnation;
    job.beginning.set = resumed->number;
  }
  job.hosts.assign(plan.options.layout.size(), {});
  for (std::uint32_t rank = 0; rank < plan.options.ranks(); ++rank) {
    job.hosts[plan.options.place_of(rank).node].push_back(rank);
  }
  return job;
}

// A job whose nodes have agents of their own.
class JobOnHosts {
 public:
  JobOnHosts(Run& run, HostPlan& plan, const std::vector<std::string>& arguments)
      : run_(run),
        plan_(plan),
        options_(plan.options),
        arguments_(arguments),
        loop_(run.begun_ns),
        signals_(open_ending_signals()),
        too_long_(loop_, [this] {
          give_up({"the time limit of --timeout has expired before all hosts were ready",
                   kExitTimeout});
        }) {}

  // Returns its exit code; nothing: it begins again. Errors: why no rank was started.
  Result<std::optional<int>> run() {
    if (const auto error = open_directory_of_hosts(options_, lifeline_, directory_, resumed_)) {
      return *error;
    }
    if (const auto error = give_input_again(run_, resumed_)) return *error;
    if (!run_.events) {
      auto events = open_events(options_.events_path);
      if (!events.ok()) return events.error();
      events_ = std::move(events.value());
    }
    // Until all agents are ready a signal just ends them.
    interrupted_ =
        Loop::Watch(loop_, signals_.get(), EPOLLIN, [this](std::uint32_t) { give_up_on_signal(); });
    if (options_.timeout_ns) too_long_.set(*options_.timeout_ns);
    if (!options_.agents_join()) {
      start_agents();
    } else if (const auto error = wait_for_agents()) {
      return *error;
    }
    loop_.run([this] {
      if (supervisor_) supervisor_->idle();
    });
    if (failure_) return *failure_;
    const int code = supervisor_->finish();
    if (gathering_) gathering_->agents().finish(supervisor_->begins_again().has_value());
    if (!supervisor_->begins_again()) return std::optional(code);
    run_.beginning = *supervisor_->begins_again();
    run_.events = supervisor_->take_events();
    run_.has_read_input |= supervisor_->has_read_input();
    return std::optional<int>();
  }

 private:
  void give_up(Error error) {
    failure_ = std::move(error);
    loop_.stop();
  }
  void give_up_on_signal() {
    signalfd_siginfo info = {};
    if (read(signals_.get(), &info, sizeof info) != sizeof info) return;
    const auto signal = static_cast<int>(info.ssi_signo);
    const bool is_notice = signal == SIGTERM && options_.grace_ns && options_.resume;
    give_up({"signal " + std::to_string(signal) + " (" + strsignal(signal) +
                 ") before all hosts were ready; no rank was started" +
                 (is_notice ? "; --resume goes on from " + options_.checkpoint_directory : ""),
             is_notice ? kExitRequeue : kExitSignal + signal});
  }
  // What agents say before all of them are ready waits for the supervisor.
  void report(Report report) {
    loop_.post([this, report = std::move(report)] {
      if (supervisor_) return supervisor_->report(report);
      early_.push_back(report);
    });
  }

  // What is printed by then is shown before it.
  void say(const std::string& line) {
    if (!supervisor_) {
      fprintf(stderr, "rejoin: %s\n", line.c_str());
      return;
    }
    Report tells;
    tells.set_tell(line);
    report(std::move(tells));
  }

  std::optional<Error> wait_for_agents() {
    auto gathering =
        Gathering::begin(loop_, options_, plan_.lib_directory, run_.meeting,
                         {[this] {
                            gathering_->name_hosts(options_);
                            start_agents();
                          },
                          [this](Error error) { give_up(std::move(error)); },
                          [this](const std::string& name) { agents_->on_joined(name); },
                          [this](const std::string& name, const std::string& how) {
                            Report left;
                            left.mutable_spare()->set_name(name);
                            left.mutable_spare()->set_left(how);
                            report(std::move(left));
                          },
                          [this](const std::string& line) { say(line); }});
    if (!gathering.ok()) return gathering.error();
    gathering_ = std::move(gathering.value());
    return {};
  }

  void start_agents() {
    Agents::Calls calls = {[this] { start_ranks(); },
                           [this](Error error) { give_up(std::move(error)); },
                           std::bind_front(&JobOnHosts::begin_elsewhere, this),
                           [this](Report r) { report(std::move(r)); },
                           [this](const std::string& line) {
                             if (!options_.quiet) say(line);
                           }};
    std::vector<std::string> names = options_.hosts;
    names.resize(options_.layout.size());
    if (gathering_) {
      agents_.emplace(loop_, std::move(names), gathering_->agents(), options_.join_ns,
                      options_.lease_ns, std::move(calls));
    } else {
      agents_.emplace(loop_, std::move(names), options_.remote_shell, options_.lease_ns,
                      std::move(calls));
    }
    agents_->start(order_of_plan(plan_, arguments_, resumed_));
  }

  // A spare takes the place of a host that cannot be reached. No rank was started yet.
  bool begin_elsewhere(std::uint32_t host, const Error& why) {
    if (options_.hosts.empty() || options_.spare_hosts.empty()) return false;
    const std::string spare = options_.spare_hosts.front();
    options_.spare_hosts.erase(options_.spare_hosts.begin());
    options_.hosts[host] = spare;
    if (!options_.quiet) {
      fprintf(stderr, "rejoin: %s; host %s takes its place\n", why.text.c_str(), spare.c_str());
    }
    loop_.post([this, host, spare] {
      agents_->start_elsewhere(host, spare, order_of_plan(plan_, arguments_, resumed_));
    });
    return true;
  }

  void replace(const Action::Replace& a, const std::vector<std::string>& printed) {
    if (!options_.hosts.empty() && !a.where.empty()) options_.hosts[a.host] = a.where;
    agents_->replace(a.host, a.where, a.holder,
                     order_of_part(order_of_plan(plan_, arguments_), a, printed));
  }

  void start_ranks() {
    interrupted_.reset();
    too_long_.clear();
    if (resumed_ && !options_.quiet) tell_resumed(options_, *resumed_);
    JobPlan job = job_of_hosts(plan_, run_.beginning, resumed_);
    job.replace = [this](const Action::Replace& a, const std::vector<std::string>& printed) {
      // Behind the orders that the former agent was given.
      loop_.post([this, a, printed] { replace(a, printed); });
    };
    EventLog::Target events = std::move(run_.events ? *run_.events : *events_);
    run_.events.reset();
    supervisor_.emplace(loop_, std::move(job), std::move(events), [this](Order order) {
      loop_.post([this, order = std::move(order)] { agents_->send(order); });
    });
    supervisor_->start();
    for (const Report& early : std::exchange(early_, {})) supervisor_->report(early);
  }

  Run& run_;
  HostPlan& plan_;
  RunOptions& options_;
  const std::vector<std::string>& arguments_;
  Loop loop_;
  const Lifeline lifeline_;
  Directory directory_;
  std::optional<HostSet> resumed_;
  std::optional<EventLog::Target> events_;
  std::optional<Error> failure_;
  const Descriptor signals_;
  Loop::Watch interrupted_;
  Loop::Timer too_long_;
  std::unique_ptr<Gathering> gathering_;
  std::optional<Agents> agents_;
  std::vector<Report> early_;
  std::optional<Supervisor> supervisor_;
};

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

// The same for a job on several hosts, from a set that it has written.
Result<HostPlan> plan_again(RunOptions& options, const Beginning& beginning) {
  options.resume = true;
  if (options.agents_join() && options.hosts[0].empty()) {  // any hosts, again
    options.spare_hosts.resize(beginning.spare_hosts.size());
  } else {
    for (std::size_t i = 0; i < options.hosts.size(); ++i) {  // none: all are this machine
      // Without a name: no agent has taken that place.
      if (!beginning.hosts[i].empty()) options.hosts[i] = beginning.hosts[i];
    }
    options.spare_hosts = beginning.spare_hosts;
  }
  return make_host_plan(options, {random_hex(8), random_hex(16), 0, {}});
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
  const bool on_hosts = run.options.has_agents();
  for (;;) {
    const auto code =
        on_hosts ? JobOnHosts(run, plan.value(), arguments).run() : run_once(run, plan.value());
    if (!code.ok()) return fail_to_begin(run, code.error());
    if (code.value()) return *code.value();
    plan = on_hosts ? plan_again(run.options, run.beginning) : plan_again(run.options);
    if (!plan.ok()) return fail_to_begin(run, plan.error());
  }
}

}  // namespace rejoin::launcher
