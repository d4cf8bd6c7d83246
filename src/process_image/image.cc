#include "process_image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "journal/snapshot_cost.h"
#include "journal/valgrind.h"
#include "journal/waiting.h"
#include "libc_recording/file_log.h"
#include "libc_recording/observations.h"
#include "libc_recording/observed.h"
#include "process_image/image_writing.h"
#include "process_image/keeper.h"
#include "process_image/kernel_state.h"
#include "process_image/lifeline.h"
#include "process_image/obstacles.h"
#include "process_image/open_files.h"
#include "wire/socket.h"

namespace rejoin::process_image {
namespace {

using engine::Frozen;
using engine::MayFreeze;
using wire::Message;
using wire::MessageType;

constexpr std::size_t kHelperStackBytes = 64 * 1024;
constexpr std::size_t kProbePages = 16;
constexpr const char* kTooOldKernel = "runs on a kernel that is too old for snapshots";
constexpr const char* kUnderValgrind = "runs under valgrind, whose own state a clone would share";

// --- What the kernel does not hand on to a clone

struct Kernel {
  char name[16];
  char oom_score_adj[16];
  sigset_t signals;
  void* robust_list;
  std::size_t robust_bytes;
  int* thread_id;  // where the C library stores this thread's id
  int nice;
};

void write_text(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, text, strlen(text)) < 0) errno = 0;  // the former value stays
  close(fd);
}

void read_text(const char* path, char* text, std::size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);
  text[n > 0 ? n : 0] = '\0';
  if (fd >= 0) close(fd);
}

constexpr const char* kOomScore = "/proc/self/oom_score_adj";

// False: this kernel does not provide it.
bool read_kernel(Kernel* k) {
  prctl(PR_GET_NAME, k->name, 0, 0, 0);
  errno = 0;
  k->nice = getpriority(PRIO_PROCESS, 0);
  read_text(kOomScore, k->oom_score_adj, sizeof k->oom_score_adj);
  return syscall(SYS_get_robust_list, 0, &k->robust_list, &k->robust_bytes) == 0 &&
         prctl(PR_GET_TID_ADDRESS, &k->thread_id, 0, 0, 0) == 0;
}

// The C library still uses the thread id that it knows, because mutexes in the program's memory
// store it as their owner. Code that needs the kernel's id asks the kernel.
long clone_here(unsigned long flags, const Kernel& k) {
  register long r10 asm("r10") = reinterpret_cast<long>(k.thread_id);
  register long r8 asm("r8") = 0;
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(SYS_clone), "D"(flags | CLONE_CHILD_CLEARTID | SIGCHLD), "S"(0), "d"(0),
                 "r"(r10), "r"(r8)
               : "rcx", "r11", "memory");
  return result;
}

void begin_clone(const Kernel& k) {
  syscall(SYS_set_robust_list, k.robust_list, k.robust_bytes);
  setpgid(0, 0);
}

// Returns this process's time on the processor, in which a wait for the processor does not count.
// It makes a system call, because no library is at hand.
std::uint64_t processor_ns() {
  timespec t = {};
  syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

bool has_addresses(std::size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at != MAP_FAILED && munmap(at, bytes) == 0;
}

std::uint64_t page_faults() {
  rusage u = {};
  syscall(SYS_getrusage, RUSAGE_SELF, &u);
  return static_cast<std::uint64_t>(u.ru_minflt);
}

void tell_agent(int socket, MessageType type, std::uint32_t rank, std::uint32_t incarnation,
                std::int32_t code, std::uint64_t value, const char* text = "") {
  Message m;
  wire::begin_message(m, type, rank);
  m.incarnation = incarnation;
  m.code = code;
  m.value = value;
  wire::set_text(m, text, strlen(text));
  wire::send_message(socket, m);
}

// Lowers the scheduling priority of this process: no other process waits for it.
void step_back() {
  constexpr int kLowest = 19;
  constexpr int kProcess = 1, kIdle = 3 << 13;  // of ioprio_set()
  setpriority(PRIO_PROCESS, 0, kLowest);
  syscall(SYS_ioprio_set, kProcess, 0, kIdle);
}

// --- The process of a rank, and its images

class Freezer final : public engine::ProcessImage {
 public:
  Freezer(recovery::Rank& rank, void (*woken)())
      : rank_(rank),
        woken_(woken),
        files_(rank.arena()),
        helper_stack_(static_cast<std::byte*>(rank.arena().allocate(kHelperStackBytes))),
        probe_(static_cast<std::byte*>(rank.arena().allocate(kProbePages * journal::kPageBytes))) {}

  MayFreeze may_freeze(std::uint64_t number) override {
    if (helper_stack_ == nullptr || !rank_.host().has_agent()) return MayFreeze::kNo;
    const libc_recording::Unobserved mine;
    begun_ns_ = processor_ns();
    char why[400];
    if (!libc_recording::observations_are_live()) return MayFreeze::kNotNow;
    if (journal::runs_under_valgrind()) return refuse(number, kUnderValgrind);
    if (!read_kernel(&kernel_)) return refuse(number, kTooOldKernel);
    if (!can_be_cloned(why, sizeof why) ||
        !files_.note(rank_.host().agent_socket(), why, sizeof why) || !can_move(why, sizeof why) ||
        (!is_child_of_agent() && !move(why, sizeof why))) {
      return refuse(number, why);
    }
    if (!mark_output(number)) return MayFreeze::kNotNow;
    libc_recording::mark_observations();
    libc_recording::truncate_observations(rank_.observations_mark());
    return MayFreeze::kYes;
  }

  bool can_be_frozen(char* why, std::size_t size) override {
    const libc_recording::Unobserved mine;
    if (helper_stack_ == nullptr || !rank_.host().has_agent()) {
      snprintf(why, size, "has no memory for the stack of a clone");
      return false;
    }
    const char* impossible = journal::runs_under_valgrind() ? kUnderValgrind : nullptr;
    if (impossible == nullptr && !read_kernel(&kernel_)) impossible = kTooOldKernel;
    if (impossible != nullptr) {
      snprintf(why, size, "%s", impossible);
      return false;
    }
    if (cannot_move_) return say_cannot_move(why, size);
    return can_ever_be_cloned(why, size) &&
           (files_.note(rank_.host().agent_socket(), why, size) || files_.may_pass());
  }

  Frozen freeze(std::uint64_t number) override {
    const libc_recording::Unobserved mine;
    number_ = number;
    thread_id_ = *kernel_.thread_id;
    segment_bytes_ = journal::job_of(rank_.host())->segment_bytes;
    incarnation_ = rank_.incarnation();
    libc_recording::log_files_since_image(number);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &kernel_.signals);
    if (_setjmp(image_) != 0) {
      be_image();
      libc_recording::wake_observations();
      woken_();
      files_.write_on();
      if (std::exchange(written_since_, false)) libc_recording::roll_back_files(number_);
      sigprocmask(SIG_SETMASK, &kernel_.signals, nullptr);
      begin_count(page_faults());
      return Frozen::kWoken;
    }
    const int error = clone_image();
    clone_ns_ += processor_ns() - begun_ns_;
    count_cost();
    if (error == 0) measure_page_copy();
    sigprocmask(SIG_SETMASK, &kernel_.signals, nullptr);
    if (error == 0) return Frozen::kGoesOn;
    char why[120];
    const int bytes = snprintf(why, sizeof why, "cannot be cloned (%s)", strerrordesc_np(error));
    rank_.host().tell(MessageType::kNotFrozen, error, number, why, static_cast<std::size_t>(bytes));
    return Frozen::kNot;
  }

 private:
  MayFreeze refuse(std::uint64_t number, const char* why) {
    rank_.host().tell(MessageType::kNotFrozen, 0, number, why, strlen(why));
    return MayFreeze::kNo;
  }

  // Adds to the total what the former snapshot has cost since it was made, and what this one has
  // cost so far; then begins a new count.
  void count_cost() {
    auto& control = rank_.control();
    const std::uint64_t faults = page_faults();
    const std::uint64_t copied = journal::pages_copied(control, faults);
    control.snapshots_cost_ns.add(rank_.host(), journal::Step::kSame,
                                  clone_ns_ + copied * journal::page_copy_ns(control));
    begin_count(faults);
  }
  void begin_count(std::uint64_t faults) {
    auto& control = rank_.control();
    auto& host = rank_.host();
    control.faults_at_clone.store(host, journal::Step::kSame, faults);
    control.journal_faults_at_clone.store(host, journal::Step::kSame,
                                          control.journal_faults.load());
    control.clone_ns.store(host, journal::Step::kSame, clone_ns_);
  }

  // Measures the cost of a copy-on-write fault: writes to private pages, each of which the kernel
  // copies.
  void measure_page_copy() {
    if (probe_ == nullptr) return;
    const std::uint64_t begin = processor_ns();
    for (std::size_t i = 0; i < kProbePages; ++i) {
      auto* at = reinterpret_cast<volatile unsigned char*>(probe_ + i * journal::kPageBytes);
      *at = static_cast<unsigned char>(*at + 1);
    }
    const std::uint64_t now_ns = (processor_ns() - begin) / kProbePages;
    auto& kept = rank_.control().page_copy_ns;
    const std::uint64_t before = kept.load(std::memory_order_relaxed);
    kept.store(rank_.host(), journal::Step::kSame,
               before == 0 ? now_ns : (3 * before + now_ns) / 4);
  }

  // Moves the rank into a clone that is the agent's child; this process becomes its keeper. Returns
  // true in the clone, and false in this process if it is still the rank.
  bool move(char* why, std::size_t size) {
    int news[2] = {-1, -1};
    if (cannot_move_ || pipe2(news, O_CLOEXEC) != 0) return say_cannot_move(why, size);
    const pid_t from = static_cast<pid_t>(syscall(SYS_getpid));
    const pid_t agent = agent_process();
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &kernel_.signals);
    if (_setjmp(image_) != 0) {
      go_on_as_rank(from, agent, news[1]);
      close(news[0]);
      close(news[1]);
      sigprocmask(SIG_SETMASK, &kernel_.signals, nullptr);
      begin_count(page_faults());
      return true;
    }
    const int error = clone_image();
    close(news[1]);
    if (error == 0) become_keeper_if(news[0]);
    close(news[0]);
    sigprocmask(SIG_SETMASK, &kernel_.signals, nullptr);
    if (error == 0) {
      cannot_move_ = true;
      return say_cannot_move(why, size);
    }
    snprintf(why, size, "cannot be cloned (%s)", strerrordesc_np(error));
    return false;
  }

  // Called in the clone. A byte in `news` says that the clone asks the agent to be the rank from
  // now on; `news` stays open until it is the rank.
  void go_on_as_rank(pid_t from, pid_t agent, int news) {
    close(rank_.host().agent_socket());
    begin_clone(kernel_);
    hold_lifeline();
    while (syscall(SYS_getppid) == helper_) sched_yield();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (syscall(SYS_getppid) != agent || write(news, "", 1) != 1) syscall(SYS_exit_group, 1);
    const int socket = recovery::connect_as(MessageType::kMoves, static_cast<std::uint64_t>(from),
                                            rank_.incarnation());
    if (socket < 0 || !recovery::attach_again(socket)) syscall(SYS_exit_group, 1);
    libc_recording::move_observations();
    rank_.host().tell(MessageType::kInitialized, 0, 0, nullptr, 0);
    if (rank_.is_replaying()) woken_();
  }

  // Returns if the clone has ended without asking. If the clone has ended since then, the agent
  // knows, or will soon, that no process is the rank, so this process must end, too.
  void become_keeper_if(int news) {
    char asks;
    ssize_t n;
    while ((n = read(news, &asks, 1)) < 0 && errno == EINTR) {
    }
    if (n != 1) return;
    const int agent = rank_.host().agent_socket();
    pollfd both[2] = {{agent, POLLIN, 0}, {news, POLLIN, 0}};
    while (poll(both, 2, -1) < 0 && errno == EINTR) {
    }
    Message m;
    if (wire::receive_message(agent, m, nullptr, MSG_DONTWAIT) == wire::Received::kMessage &&
        m.type == MessageType::kStay) {
      be_keeper(agent, rank_.rank());
    }
    for (;;) syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
  }

  // Asks the agent to read what this process has printed so far, which is in its pipes, and gives
  // it the position in the rank's input. False: this process still has to print what its
  // predecessor has printed.
  bool mark_output(std::uint64_t number) {
    const std::uint64_t value = number | wire::kMarkOfImage;
    auto& host = rank_.host();
    auto& mark = rank_.control().output_mark;
    // A mark that was refused is requested again with the same number, so the former answer is
    // erased.
    mark.store(host, journal::Step::kSame, 0);
    host.tell(MessageType::kMark, files_.unread_input(), value, nullptr, 0);
    std::uint64_t answer = 0;
    engine::wait_until(host, [&](bool) {
      answer = mark.load(std::memory_order_acquire);
      return (answer & ~wire::kMarkRefused) == value;
    });
    return answer == value;
  }

  // Returns 0 or an errno.
  int clone_image() {
    error_ = 0;
    void* top = helper_stack_ + kHelperStackBytes;
    const int helper = clone(&Freezer::help, top, CLONE_VM | CLONE_VFORK, this);
    if (helper < 0) return errno;
    while (waitpid(helper, nullptr, __WALL) < 0 && errno == EINTR) {
    }
    return error_;
  }

  // Runs in the helper, a process that shares this one's memory; this process waits for its end.
  static int help(void* freezer) {
    auto& self = *static_cast<Freezer*>(freezer);
    self.helper_ = static_cast<pid_t>(syscall(SYS_getpid));
    const std::uint64_t begin = processor_ns();
    const long result = clone_here(0, self.kernel_);
    if (result == 0) _longjmp(self.image_, 1);
    self.clone_ns_ = processor_ns() - begin;
    if (result < 0) {
      self.error_ = static_cast<int>(-result);
    } else {
      // The agent recognises the image by this if it ends before it has registered. The agent is
      // told of its end only when this helper has ended, too.
      auto& control = self.rank_.control();
      auto& host = self.rank_.host();
      control.image_pid.store(host, journal::Step::kSame, result);
      control.image_number.store(host, journal::Step::kSame, self.number_);
    }
    syscall(SYS_exit, 0);
    __builtin_unreachable();
  }

  // Sleeps until the agent wakes it. Returns in a clone that is the rank.
  void be_image() {
    // If the rank is killed while its helper shares its memory, the kernel clears the thread id
    // there. Without it every lock of the C library that stores its owner seems to be held by this
    // thread.
    *kernel_.thread_id = thread_id_;
    close(rank_.host().agent_socket());
    begin_clone(kernel_);
    write_text(kOomScore, "1000");
    files_.release_pipes();
    hold_lifeline();
    agent_ = recovery::connect_as(MessageType::kImage, number_, incarnation_);
    // As long as its parent is the helper, the helper's end would be taken for the agent's.
    while (syscall(SYS_getppid) == helper_) sched_yield();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The image is usable from here on: the agent reads its messages before it sees a death.
    prctl(PR_SET_NAME, "rejoin-image");
    for (;;) {
      Message m;
      wire::Descriptors given;
      if (agent_ < 0 || wire::receive_message(agent_, m, &given) != wire::Received::kMessage) {
        syscall(SYS_exit_group, 0);
      }
      const bool writes = m.type == MessageType::kWrite;
      if (!writes && m.type != MessageType::kWake) continue;
      const long clone = clone_here(CLONE_PARENT, kernel_);
      if (clone == 0)
        return writes ? be_written(given.fd[0], m.incarnation)
                      : become_rank(m.incarnation, given.fd);
      tell_agent(agent_, writes ? MessageType::kWriting : MessageType::kForked, rank_.rank(),
                 m.incarnation, clone < 0 ? static_cast<int>(-clone) : 0,
                 clone < 0 ? 0 : static_cast<std::uint64_t>(clone));
      for (std::size_t i = 0; i < given.count; ++i) close(given.fd[i]);
    }
  }

  // Called in a clone of the image: writes the clone to `file`, of this set, and ends. Returns in a
  // process that has been given what the file holds, and is the rank.
  void be_written(int file, std::uint32_t set) {
    begin_clone(kernel_);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "rejoin-writer");
    hold_lifeline();
    step_back();
    char why[400];
    const int own[] = {agent_, file};
    if (!files_.note_names(own, 2, why, sizeof why)) cannot_be_written(set, 0, why);
    state_.note();
    agent_ = -1;
    restored_ = this;
    if (_setjmp(written_) != 0) return go_on_restored();
    ImageHead head = {};
    head.rank = rank_.rank();
    head.number = number_;
    head.entry = reinterpret_cast<std::uint64_t>(&Freezer::restored);
    head.stack = reinterpret_cast<std::uint64_t>(helper_stack_ + kHelperStackBytes);
    const int error = write_image(file, head);
    agent_ = own[0];
    if (error == 0) syscall(SYS_exit_group, 0);
    if (error == EOPNOTSUPP) {
      cannot_be_written(set, error,
                        "cannot be started with address randomisation switched off on this system");
    }
    if (error == EPERM) cannot_be_written(set, error, "shares memory that is not in a file");
    snprintf(why, sizeof why, "could not be written: %s", strerrordesc_np(error));
    cannot_be_written(set, error, why);
  }

  [[noreturn]] void cannot_be_written(std::uint32_t set, int error, const char* why) const {
    tell_agent(agent_, MessageType::kNotWritten, rank_.rank(), set, error, 0, why);
    syscall(SYS_exit_group, 1);
    __builtin_unreachable();
  }

  // Called by the restorer, on the helper's stack.
  static void restored(const Restored* by) {
    restored_->given_ = *by;
    _longjmp(restored_->written_, 1);
  }

  void go_on_restored() {
    munmap(reinterpret_cast<void*>(kRestorerAddress), kRestorerBytes);
    syscall(SYS_set_tid_address, kernel_.thread_id);
    recovery::move_to_agent(given_.socket, given_.secret);
    libc_recording::move_file_log(given_.file_log);
    written_since_ = true;
    char why[400] = "";
    const char* what = "";
    if (!state_.give_back(&what)) {
      snprintf(why, sizeof why, "%s could not be restored: %s", what, strerrordesc_np(errno));
    }
    if (why[0] == '\0') files_.reopen(why, sizeof why);
    become_rank(given_.incarnation, given_.pipes, why);
  }

  // Makes this process the rank. Touches nothing that other processes see before the agent has
  // admitted it. `reason`: why it cannot go on; the agent then refuses it.
  void become_rank(std::uint32_t incarnation, const int* pipes, const char* reason = "") {
    close(agent_);
    begin_clone(kernel_);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, kernel_.name);
    write_text(kOomScore, kernel_.oom_score_adj);
    // The kernel may refuse to lower the nice value, which then stays as it is.
    if (getpriority(PRIO_PROCESS, 0) != kernel_.nice) setpriority(PRIO_PROCESS, 0, kernel_.nice);
    hold_lifeline();
    char why[400];
    snprintf(why, sizeof why, "%s", reason);
    // Mapping the journal again would fail under a limit that the program set after the first
    // mapping.
    rlimit addresses = {};
    getrlimit(RLIMIT_AS, &addresses);
    const rlimit widest = {addresses.rlim_max, addresses.rlim_max};
    setrlimit(RLIMIT_AS, &widest);
    if (why[0] == '\0' && !has_addresses(segment_bytes_)) {
      snprintf(why, sizeof why,
               "has a limit of %llu MiB of address space (RLIMIT_AS, ulimit -v), under which the "
               "journal cannot be mapped",
               static_cast<unsigned long long>(addresses.rlim_max >> 20));
    }
    if (why[0] == '\0') files_.restore(pipes, why, sizeof why);
    const int socket = recovery::connect_as(MessageType::kWoken, number_, incarnation, why);
    if (socket < 0 || !recovery::attach_again(socket)) syscall(SYS_exit_group, 1);
    setrlimit(RLIMIT_AS, &addresses);
    recovery::renote_standard_pipes(pipes);
    for (int i = 0; i < 3; ++i) close(pipes[i]);
  }

  recovery::Rank& rank_;
  void (*const woken_)();
  OpenFiles files_;
  std::byte* const helper_stack_;
  std::byte* const probe_;  // kProbePages pages; null: no memory, so the cost is not measured
  Kernel kernel_ = {};
  int thread_id_ = 0;  // *kernel_.thread_id, when the newest clone was asked for
  jmp_buf image_;
  std::uint64_t number_ = 0;
  std::uint32_t incarnation_ = 0;
  std::size_t segment_bytes_ = 0;
  bool cannot_move_ = false;
  std::uint64_t begun_ns_ = 0;  // when the newest clone was asked for, in this process's time
  std::uint64_t clone_ns_ = 0;  // the processor time that it took this process and its helper
  pid_t helper_ = 0;
  int error_ = 0;
  int agent_ = -1;  // the image's connection

  // The state of a written image.
  KernelState state_ = {};
  jmp_buf written_;
  Restored given_ = {};
  bool written_since_ = false;  // other processes may have written files since the image
  static inline Freezer* restored_ = nullptr;
};

}  // namespace

void install(recovery::Rank& rank, void (*woken)()) {
  const auto* header = journal::job_of(rank.host());
  if (header->snapshots == 0) return;
  rank.host().set_image(rank.arena().make<Freezer>(rank, woken));
}

}  // namespace rejoin::process_image
