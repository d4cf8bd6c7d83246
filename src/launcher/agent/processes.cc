#include "launcher/agent/processes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "wire/messages.h"

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

// Makes a raw pseudo-terminal, as mpirun does, so that programs flush each complete line instead of
// each full buffer. Makes a pipe where there are no pseudo-terminals.
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

// Replaces the preloaded libraries by the restorer. rseq is off because the memory that the C
// library would register with the kernel is unmapped afterwards.
void add_restorer(std::vector<std::string>& environment, const std::string& library_directory,
                  const Processes::Restoration& restoration) {
  for (const std::string_view name : {"LD_PRELOAD=", "GLIBC_TUNABLES="}) {
    std::erase_if(environment, [name](const std::string& e) { return e.starts_with(name); });
  }
  environment.push_back("LD_PRELOAD=" + library_directory + "/librejoin_restore.so");
  environment.push_back("GLIBC_TUNABLES=glibc.pthread.rseq=0");
  environment.push_back(std::string(wire::kEnvRestore) + "=" +
                        std::to_string(restoration.incarnation) + " " + restoration.image);
}

std::string identity_of(const Descriptor (&standard)[3]) {
  std::string text;
  for (const Descriptor& one : standard) {
    struct stat s = {};
    fstat(one.get(), &s);
    text += std::to_string(s.st_dev) + " " + std::to_string(s.st_ino) + " ";
  }
  return text;
}

void make_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

MadePipes make_pipes(std::uint32_t rank) {
  MadePipes made;
  Pipe output[2] = {make_terminal(), make_pipe()};
  Pipe input;
  if (rank == 0) {
    input = make_pipe();
  } else {
    input.read_end = Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  made.theirs[0] = std::move(input.read_end);
  made.ours.input = std::move(input.write_end);
  if (made.ours.input.open()) make_nonblocking(made.ours.input.get());
  for (int stream = 0; stream < 2; ++stream) {
    made.theirs[1 + stream] = std::move(output[stream].write_end);
    made.ours.output[stream] = std::move(output[stream].read_end);
    if (made.ours.output[stream].open()) make_nonblocking(made.ours.output[stream].get());
  }
  return made;
}

Descriptor other_end_of(const Descriptor& output) {
  const int terminal = ioctl(output.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal >= 0) return Descriptor(terminal);
  const std::string path = "/proc/self/fd/" + std::to_string(output.get());
  return Descriptor(open(path.c_str(), O_WRONLY | O_CLOEXEC));
}

Processes::Processes(Loop& loop, const HostPlan& plan, const SpawnSettings& settings, Calls calls)
    : loop_(loop),
      plan_(plan),
      settings_(settings),
      calls_(std::move(calls)),
      ranks_(plan.ranks),
      wrappers_(plan.ranks),
      standard_(plan.ranks),
      expected_at_ns_(plan.ranks) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  signals_ = Descriptor(signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  // Turn kLast: what a rank sent and printed before it died is read before its death is handled.
  signals_watch_ = Loop::Watch(
      loop_, signals_.get(), EPOLLIN, [this](std::uint32_t) { on_child_signal(); },
      Loop::Turn::kLast);
}

RankPipes Processes::spawn(std::uint32_t rank, Spawned& spawned, const Restoration* restoration) {
  MadePipes pipes = make_pipes(rank);
  std::vector<std::string> variables = plan_.environments[rank];
  if (restoration != nullptr) add_restorer(variables, plan_.lib_directory, *restoration);
  const ProgramOptions& program = plan_.options.program_of(rank);
  const std::vector<char*> arguments = pointers_to(program.command);
  const std::vector<char*> environment = pointers_to(variables);
  SpawnRequest request = {};
  request.path = restoration != nullptr ? restoration->executable.c_str()
                                        : plan_.program_of(rank).path.c_str();
  request.arguments = arguments.data();
  request.environment = environment.data();
  const std::string& directory = program.working_directory;
  request.directory = directory.empty() ? nullptr : directory.c_str();
  for (int fd = 0; fd < 3; ++fd) request.standard[fd] = pipes.theirs[fd].get();
  request.core_dumps = plan_.options.core_dumps;
  request.processors = plan_.bindings.empty() ? nullptr : &plan_.bindings[rank];
  request.settings = &settings_;
  spawned = {-1, EMFILE, "pipe"};
  if (!pipes.whole()) return {};
  spawned = spawn_process(request);
  if (spawned.pid < 0) return {};
  standard_[rank] = identity_of(pipes.theirs);
  adopt(rank, spawned.pid);
  return std::move(pipes.ours);
}

void Processes::adopt(std::uint32_t rank, pid_t pid) {
  ranks_[rank] = Rank{};
  ranks_[rank].child = pid;
  ranks_[rank].child_reaped = false;
}

void Processes::adopt_clone(std::uint32_t rank, pid_t pid) {
  adopt(rank, pid);
  const auto ended = take_unknown(pid, expected_at_ns_[rank]);
  if (!ended) return;
  ranks_[rank].child_reaped = true;
  calls_.feed({rank, loop_.now_ns(), AgentEvent::ChildEnded{*ended}});
}

std::optional<Cause> Processes::take_unknown(pid_t pid, std::uint64_t since_ns) {
  const auto found = std::find_if(unknown_.begin(), unknown_.end(), [&](const Unknown& u) {
    return u.ended.pid == pid && u.at_ns >= since_ns;
  });
  if (found == unknown_.end()) return {};
  const Cause cause = found->ended.cause;
  unknown_.erase(found);
  return cause;
}

void Processes::add_writer(pid_t pid, std::uint64_t asked_at_ns) {
  if (const auto ended = take_unknown(pid, asked_at_ns)) {
    calls_.writer_ended(pid, *ended, 0);
  } else {
    writers_.push_back(pid);
  }
}

void Processes::end_image(pid_t pid) {
  const auto found =
      std::find_if(images_.begin(), images_.end(), [pid](const Image& i) { return i.pid == pid; });
  if (found == images_.end()) return;
  found->ended_by_us = !is_ending(pid);
  kill(pid, SIGKILL);
}

void Processes::add_image(std::uint32_t rank, pid_t pid) {
  const bool known =
      std::any_of(images_.begin(), images_.end(), [pid](const Image& i) { return i.pid == pid; });
  if (!known) images_.push_back({rank, pid});
}

std::uint64_t Processes::images_being_killed() const {
  return static_cast<std::uint64_t>(
      std::count_if(images_.begin(), images_.end(),
                    [](const Image& i) { return !i.ended_by_us && is_ending(i.pid); }));
}

void Processes::registered(std::uint32_t rank, pid_t pid, Descriptor process) {
  Registered& r = ranks_[rank].registered;
  r = {};
  r.pid = pid;
  // The child's own end comes as SIGCHLD.
  if (pid == ranks_[rank].child) return;
  r.process = std::move(process);
  r.watch = Loop::Watch(loop_, r.process.get(), EPOLLIN,
                        [this, rank](std::uint32_t) { calls_.registered_ended(rank); });
}

std::optional<Cause> Processes::take_registered_end(std::uint32_t rank) {
  Registered& r = ranks_[rank].registered;
  if (!r.process.open() || !has_ended(r.process.get())) return {};
  const Cause cause = cause_of_stranger(r.process.get(), r.pid);
  r.watch.reset();
  r.process.reset();
  return cause;
}

bool Processes::program_is_dead(std::uint32_t rank) const {
  const Registered& r = ranks_[rank].registered;
  return r.process.open() && has_ended(r.process.get());
}

// --- Signals

void Processes::signal_all(int signal) {
  for (const Rank& rank : ranks_) {
    if (rank.child_reaped) continue;
    if (signal == SIGSTOP || signal == SIGCONT) {
      kill(-rank.child, signal);
      const Wrapper& w = wrappers_[static_cast<std::size_t>(&rank - ranks_.data())];
      if (w.pid != 0 && !w.reaped) kill(-w.pid, signal);
    } else {
      // A shell between us and the program would die of a signal that only the program expects.
      kill(rank.registered.pid != 0 ? rank.registered.pid : rank.child, signal);
    }
  }
}

void Processes::terminate(std::uint32_t rank) {
  for (const int signal : {SIGCONT, SIGTERM}) {
    if (!ranks_[rank].child_reaped) kill(-ranks_[rank].child, signal);
    const Wrapper& w = wrappers_[rank];
    if (w.pid != 0 && !w.reaped) kill(-w.pid, signal);
  }
}

void Processes::signal_rank(std::uint32_t rank, int signal) {
  if (!ranks_[rank].child_reaped) kill(ranks_[rank].child, signal);
}

// --- Processes that have ended

void Processes::on_child_signal() {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
  }
  look_for_ended();
}

// The message that names a child's rank may have come just before its end, so an unknown child is
// looked at again when the queue is empty. `seen`: the child that was put off.
void Processes::look_for_ended(pid_t seen) {
  while (const auto ended = next_ended_child()) {
    const auto found = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& r) {
      return !r.child_reaped && r.child == ended->pid;
    });
    const auto wrapper = std::find_if(wrappers_.begin(), wrappers_.end(), [&](const Wrapper& w) {
      return !w.reaped && w.pid == ended->pid;
    });
    if (wrapper != wrappers_.end()) {
      wrapper_ended(static_cast<std::uint32_t>(wrapper - wrappers_.begin()), *ended);
      return;
    }
    if (found == ranks_.end() && ended->pid != seen) {
      loop_.post([this, pid = ended->pid] { look_for_ended(pid); });
      return;
    }
    if (found == ranks_.end()) {
      if (std::erase(writers_, ended->pid) > 0) {
        calls_.writer_ended(ended->pid, ended->cause, reap(ended->pid).cpu_ns);
      } else {
        other_ended(*ended);
        reap(ended->pid);
      }
      continue;
    }
    const auto rank = static_cast<std::uint32_t>(found - ranks_.begin());
    calls_.before_end(rank);
    calls_.feed({rank, loop_.now_ns(), AgentEvent::ChildEnded{ended->cause}});
    // Reaped only after the event is handled: until then no other process can get its pid, and with
    // it signals to its group.
    loop_.post([this, rank, pid = ended->pid] {
      ranks_[rank].peak_bytes = std::max(ranks_[rank].peak_bytes, reap(pid).peak_bytes);
      ranks_[rank].child_reaped = true;
      look_for_ended();
    });
    return;
  }
}

// Handles the end of a helper, an image, or an unknown process (an image or a clone).
void Processes::other_ended(const EndedChild& ended) {
  constexpr std::size_t kMostUnknown = 64;
  if (std::erase(helpers_, ended.pid) > 0) return calls_.helper_ended(ended.pid);
  const auto image = std::find_if(images_.begin(), images_.end(),
                                  [&](const Image& i) { return i.pid == ended.pid; });
  if (image != images_.end()) {
    const auto [rank, pid, ended_by_us] = *image;
    images_.erase(image);
    if (!ended_by_us && ended.cause.same_as({Cause::Kind::kSignal, SIGKILL})) {
      calls_.image_killed(rank);
    }
    calls_.before_end(rank);
    calls_.feed({rank, loop_.now_ns(), AgentEvent::ImageEnded{pid, 0, ended.cause}});
    return;
  }
  if (ended.cause.same_as({Cause::Kind::kSignal, SIGKILL})) calls_.image_killed({});
  calls_.stranger_ended(ended.pid);
  if (unknown_.size() == kMostUnknown) unknown_.erase(unknown_.begin());
  unknown_.push_back({ended, loop_.now_ns()});
}

pid_t Processes::pid_of(std::uint32_t rank) const {
  const Rank& r = ranks_[rank];
  if (r.registered.pid != 0) return r.registered.pid;
  return r.child_reaped ? 0 : r.child;
}

// --- Wrappers

void Processes::move(std::uint32_t rank, pid_t clone) {
  Wrapper& w = wrappers_[rank];
  w = {};
  w.pid = ranks_[rank].child;
  w.keeper = ranks_[rank].registered.pid;
  // A descriptor has one watch at most.
  ranks_[rank].registered.watch.reset();
  w.keeper_process = std::move(ranks_[rank].registered.process);
  w.keeper_watch = Loop::Watch(loop_, w.keeper_process.get(), EPOLLIN,
                               [this, rank](std::uint32_t) { calls_.keeper_ended(rank); });
  adopt_clone(rank, clone);
}

void Processes::release_keeper(std::uint32_t rank) {
  wrappers_[rank].keeper_watch.reset();
  wrappers_[rank].keeper_process.reset();
}

bool Processes::keeper_is_dead(std::uint32_t rank) const {
  const Descriptor& process = wrappers_[rank].keeper_process;
  return process.open() && has_ended(process.get());
}

std::optional<Cause> Processes::take_keeper_end(std::uint32_t rank) {
  if (!keeper_is_dead(rank)) return {};
  Wrapper& w = wrappers_[rank];
  const Cause cause = cause_of_stranger(w.keeper_process.get(), w.keeper);
  release_keeper(rank);
  return cause;
}

void Processes::kill_wrapper(std::uint32_t rank) {
  Wrapper& w = wrappers_[rank];
  if (w.pid == 0) return;
  w.dying = true;
  if (!w.reaped) kill(-w.pid, SIGKILL);
  // The keeper may be in a process group of its own.
  if (w.keeper_process.open()) {
    syscall(SYS_pidfd_send_signal, w.keeper_process.get(), SIGKILL, nullptr, 0);
  }
  release_keeper(rank);
}

void Processes::wrapper_ended(std::uint32_t rank, const EndedChild& ended) {
  calls_.before_end(rank);
  calls_.keeper_ended(rank);
  calls_.feed({rank, loop_.now_ns(), AgentEvent::WrapperEnded{ended.pid, ended.cause}});
  loop_.post([this, rank, pid = ended.pid] {
    ranks_[rank].peak_bytes = std::max(ranks_[rank].peak_bytes, reap(pid).peak_bytes);
    Wrapper& w = wrappers_[rank];
    if (!w.dying) w = {};
    w.reaped = true;
    look_for_ended();
  });
}

// --- Trees

void Processes::kill_tree(std::uint32_t rank) {
  Rank& r = ranks_[rank];
  r.dying = r.killed = true;
  if (!r.child_reaped) kill(-r.child, SIGKILL);
}

std::optional<std::uint32_t> Processes::rank_of(pid_t pid) const {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].child == pid && !ranks_[r].child_reaped) return r;
  }
  const pid_t group = getpgid(pid);
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].child == group) return r;
    if (wrappers_[r].pid != 0 && wrappers_[r].pid == group) return r;
  }
  return rank_by_environment(pid, plan_.socket);
}

// Helpers, writers and images belong to no rank's tree, though their environment names a rank.
bool Processes::spared(pid_t pid) const {
  return std::find(helpers_.begin(), helpers_.end(), pid) != helpers_.end() ||
         std::find(writers_.begin(), writers_.end(), pid) != writers_.end() ||
         std::any_of(images_.begin(), images_.end(),
                     [pid](const Image& i) { return i.pid == pid; });
}

// Returns whether the process does not die with the rank, because the wrapper does not.
bool Processes::outlives(std::uint32_t rank, pid_t pid) const {
  const Rank& r = ranks_[rank];
  const Wrapper& w = wrappers_[rank];
  if (w.pid == 0 || w.dying) return !r.dying && !w.dying;
  return !r.dying || (pid != r.child && getpgid(pid) != r.child);
}

void Processes::sweep() {
  const auto dying = [this](std::uint32_t r) { return ranks_[r].dying || wrappers_[r].dying; };
  bool any = false;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) any = any || dying(r);
  if (!any) return;
  std::vector<bool> alive(ranks_.size(), false);
  // Twice: a child that ends while the kernel lists them can hide its neighbour.
  for (int look = 0; look < 2; ++look) {
    for (const pid_t pid : children_of_this_process()) {
      if (spared(pid)) continue;
      const auto rank = rank_of(pid);
      if (!rank || outlives(*rank, pid)) continue;
      alive[*rank] = true;
      kill(pid, SIGKILL);
    }
  }
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    const bool wrapper_gone = !wrappers_[r].dying || wrappers_[r].reaped;
    if (alive[r] || !wrapper_gone) continue;
    if (wrappers_[r].dying) wrappers_[r] = {};
    if (!ranks_[r].dying || !ranks_[r].child_reaped) continue;
    ranks_[r].dying = false;
    calls_.feed({r, loop_.now_ns(), AgentEvent::TreeGone{}});
  }
}

void Processes::await_helpers(pid_t spared) {
  for (const pid_t pid : helpers_) {
    if (pid != spared) reap(pid);
  }
}

void Processes::kill_leftovers(pid_t spared) {
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    bool found = false;
    for (const pid_t pid : children_of_this_process()) {
      if (pid == spared) continue;
      found = true;
      kill(pid, SIGKILL);
    }
    while (const auto ended = next_ended_child()) reap(ended->pid);
    if (!found) return;
    poll(nullptr, 0, 5);
  }
}

}  // namespace rejoin::launcher
