// Processes of a job: starting, ending, telling whose they are.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/agent/machine.h"
#include "launcher/inspect/standing.h"
#include "launcher/job.h"

namespace rejoin::launcher {
namespace {

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// A terminal that passes bytes as they are, as mpirun gives to its programs: they then show every
// line when it is complete, not when their buffer is full. A pipe where there are no terminals.
Pipe make_terminal() {
  Pipe ends;
  ends.read_end = Descriptor(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!ends.read_end.open() || unlockpt(ends.read_end.get()) != 0) return make_pipe();
  ends.write_end =
      Descriptor(ioctl(ends.read_end.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios modes;
  if (!ends.write_end.open() || tcgetattr(ends.write_end.get(), &modes) != 0) return make_pipe();
  cfmakeraw(&modes);
  if (tcsetattr(ends.write_end.get(), TCSANOW, &modes) != 0) return make_pipe();
  return ends;
}

void make_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

void Job::spawn(std::uint32_t rank) {
  RankIo& r = ranks_[rank];
  Pipe output[2] = {make_terminal(), make_pipe()};
  Pipe input;
  if (rank == 0) {
    input = make_pipe();
  } else {
    input.read_end = Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  const std::vector<char*> arguments = pointers_to(plan_.options.command);
  const std::vector<char*> environment = pointers_to(plan_.environments[rank]);
  SpawnRequest request = {};
  request.path = plan_.path.c_str();
  request.arguments = arguments.data();
  request.environment = environment.data();
  const std::string& directory = plan_.options.working_directory;
  request.directory = directory.empty() ? nullptr : directory.c_str();
  request.standard[0] = input.read_end.get();
  request.standard[1] = output[0].write_end.get();
  request.standard[2] = output[1].write_end.get();
  request.core_dumps = plan_.options.core_dumps;
  request.processors = plan_.bindings.empty() ? nullptr : &plan_.bindings[rank];
  request.signals = &inherited_.signals;
  request.descriptors = &inherited_.descriptors;
  request.lifeline = plan_.lifeline.c_str();
  Spawned spawned{-1, EMFILE, "pipe"};
  const auto open = [](int fd) { return fd >= 0; };
  if (std::all_of(std::begin(request.standard), std::end(request.standard), open)) {
    spawned = spawn_process(request);
  }
  if (spawned.pid < 0) {
    on_spawn_failed(rank, spawned);
    return;
  }
  r.child = spawned.pid;
  r.child_reaped = false;
  r.dying = r.killed = false;
  r.registered_pid = 0;
  r.await_output_until_ns = 0;
  r.peak_bytes = 0;
  for (int stream = 0; stream < 2; ++stream) {
    r.output[stream] = std::move(output[stream].read_end);
    make_nonblocking(r.output[stream].get());
    r.stream[stream].restart();
    r.unfinished_since_ns[stream] = 0;
  }
  agent_.step({AgentEvent::Kind::kSpawned, rank, now_ns(), spawned.pid});
  if (rank == 0) {
    input_pipe_ = std::move(input.write_end);
    make_nonblocking(input_pipe_.get());
    input_.restart();
    write_input();
  }
  Event event{Event::Kind::kStarted, now_ns(), rank};
  event.pid = spawned.pid;
  feed(event);
}

void Job::on_spawn_failed(std::uint32_t rank, const Spawned& spawned) {
  agent_.give_up(rank);
  Event event{Event::Kind::kSpawnFailed, now_ns(), rank};
  std::string hint;
  if (spawned.error == ENOEXEC) hint = "; a script begins with #! and its shell";
  if (spawned.error == EMFILE) hint = "; fewer ranks, or a higher ulimit -n";
  event.code = spawned.error == ENOEXEC ? kExitNotExecutable : kExitFailure;
  event.text = "cannot start rank " + std::to_string(rank) + ", " + plan_.options.command[0] +
               " (" + spawned.failed_step + "): " + error_text(spawned.error) + hint;
  feed(event);
}

// ---------------------------------------------------------------------------------------- signals

void Job::on_signals() {
  signalfd_siginfo info;
  bool child = false;
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      child = true;
    } else if (signal == SIGUSR1) {
      print_where_all_stand(false);
    } else if (signal == SIGUSR2) {
      signal_ranks(SIGUSR2);
    } else if (signal == SIGTSTP) {
      stop_and_continue();
    } else {
      Event event{Event::Kind::kSignal, now_ns()};
      event.code = signal;
      feed(event);
    }
  }
  if (child) reap_children();
}

void Job::signal_ranks(int signal) {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    const RankIo& rank = ranks_[r];
    if (rank.child_reaped) continue;
    if (signal == SIGSTOP || signal == SIGCONT) {
      kill(-rank.child, signal);
    } else {
      // A shell between us and the program would die of a signal that only the program expects.
      kill(rank.registered_pid != 0 ? rank.registered_pid : rank.child, signal);
    }
  }
}

void Job::stop_and_continue() {
  signal_ranks(SIGSTOP);
  raise(SIGSTOP);
  signal_ranks(SIGCONT);
}

// -------------------------------------------------------------------------------------- the ended

void Job::reap_children() {
  const std::uint64_t now = now_ns();
  while (const auto ended = next_ended_child()) {
    const auto found = std::find_if(ranks_.begin(), ranks_.end(), [&](const RankIo& r) {
      return !r.child_reaped && r.child == ended->pid;
    });
    if (found == ranks_.end()) {
      reap(ended->pid);
      std::erase(helpers_, ended->pid);
      continue;
    }
    const auto rank = static_cast<std::uint32_t>(found - ranks_.begin());
    // What it said before it died.
    accept_all();
    read_registered(rank);
    feed(AgentEvent{AgentEvent::Kind::kChildEnded, rank, now, ended->pid, -1, ended->cause});
    // Before it is reaped: until then nobody else can get its number, and with it the signal.
    run_queue();
    found->peak_bytes = reap(ended->pid);
    found->child_reaped = true;
  }
}

void Job::on_registered_ended(std::uint32_t rank) {
  RankIo& r = ranks_[rank];
  if (!r.registered.open() || !has_ended(r.registered.get())) return;
  read_registered(rank);
  const Cause cause = cause_of_stranger(r.registered.get(), r.registered_pid);
  r.registered.reset();
  feed(AgentEvent{AgentEvent::Kind::kRegisteredEnded, rank, now_ns(), r.registered_pid, -1, cause});
  // If that was no death, its parent goes on and what it prints is wanted.
  queue_.push_back([this, rank] {
    if (!ranks_[rank].killed) show_late_output(rank);
  });
}

// What the agent saw, and what only the kernel's counters tell.
Cause Job::complete(Cause cause, std::uint32_t rank) {
  cause.peak_bytes = ranks_[rank].peak_bytes;
  if (cause.kind == Cause::Kind::kSignal && cause.value == SIGKILL) {
    cause.oom = out_of_memory_kills() > oom_kills_seen_;
    if (cause.oom) ++oom_kills_seen_;
  }
  return cause;
}

// ------------------------------------------------------------------------------------------ trees

void Job::kill_tree(std::uint32_t rank) {
  RankIo& r = ranks_[rank];
  r.dying = r.killed = true;
  if (!r.child_reaped) kill(-r.child, SIGKILL);
}

std::optional<std::uint32_t> Job::rank_of(pid_t pid) const {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].child == pid && !ranks_[r].child_reaped) return r;
  }
  const pid_t group = getpgid(pid);
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].child == group) return r;
  }
  return rank_by_environment(pid, plan_.socket);
}

void Job::sweep() {
  if (std::none_of(ranks_.begin(), ranks_.end(), [](const RankIo& r) { return r.dying; })) return;
  std::vector<bool> alive(ranks_.size(), false);
  // Twice: a child that ends while the kernel lists them can hide its neighbour.
  for (int look = 0; look < 2; ++look) {
    for (const pid_t pid : children_of_this_process()) {
      if (std::find(helpers_.begin(), helpers_.end(), pid) != helpers_.end()) continue;
      const auto rank = rank_of(pid);
      if (!rank || !ranks_[*rank].dying) continue;
      alive[*rank] = true;
      kill(pid, SIGKILL);
    }
  }
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    if (!ranks_[r].dying || alive[r] || !ranks_[r].child_reaped) continue;
    ranks_[r].dying = false;
    feed(AgentEvent{AgentEvent::Kind::kTreeGone, r, now_ns()});
  }
  run_queue();
}

// What the ranks left running, after all of them ended.
void Job::kill_leftovers() {
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    bool found = false;
    for (const pid_t pid : children_of_this_process()) {
      if (pid == guardian_->pid()) continue;
      found = true;
      kill(pid, SIGKILL);
    }
    while (const auto ended = next_ended_child()) reap(ended->pid);
    if (!found) return;
    poll(nullptr, 0, 5);
  }
}

// --------------------------------------------------------------------------------------- standing

void Job::print_where_all_stand(bool wait_for_it) {
  std::vector<Standing> all;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    const RankIo& rank = ranks_[r];
    const pid_t pid =
        rank.registered_pid != 0 ? rank.registered_pid : (rank.child_reaped ? 0 : rank.child);
    const Position p = segment_.position(r);
    std::string where = to_text(p);
    if (!p.site.empty()) where += " at " + expanded(p.site);
    if (p.ordinal > 0) {
      char place[64];
      snprintf(place, sizeof place, ", seq %llu of communicator %016llx",
               static_cast<unsigned long long>(p.sequence),
               static_cast<unsigned long long>(p.context));
      where += place;
    }
    if (supervisor_.incarnation(r) > 0) {
      where +=
          ", life " + std::to_string(supervisor_.incarnation(r)) + (p.live ? "" : ", catching up");
    }
    all.push_back({r, pid, where});
  }
  write_outputs();
  const pid_t reporter = fork();
  if (reporter == 0) {
    sigprocmask(SIG_SETMASK, &inherited_.signals, nullptr);
    print_standing(all);
    _exit(0);
  }
  if (reporter < 0) return;
  if (wait_for_it) {
    waitpid(reporter, nullptr, 0);
  } else {
    helpers_.push_back(reporter);
  }
}

}  // namespace rejoin::launcher
