#include "process_image/other_threads.h"

#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <new>

#include "journal/system_call.h"
#include "libc_recording/hooks.h"
#include "process_image/interrupted_call.h"
#include "process_image/thread_files.h"
#include "recovery/causes.h"

// Where the C library keeps what it has registered for restartable sequences; since glibc 2.35.
extern "C" {
__attribute__((weak)) extern const std::ptrdiff_t __rseq_offset;
__attribute__((weak)) extern const unsigned __rseq_size;
}

namespace rejoin::process_image {

// A place in a function: the registers that a called function preserves, where it returns to, and
// its stack pointer then.
struct Place {
  std::uint64_t rbx, rbp, r12, r13, r14, r15, stack, address;
};

extern "C" {
// Notes the place to which this function returns. Returns 0; and 1 in a thread that goes there.
__attribute__((visibility("hidden"), returns_twice)) int rejoin_note_place(Place*);
__attribute__((visibility("hidden"))) void rejoin_return_from_signal();
}
// The last function has the instructions by which debuggers recognise the frame of a signal.
asm(R"(
  .text
  .globl rejoin_note_place
  .hidden rejoin_note_place
  .type rejoin_note_place, @function
rejoin_note_place:
  movq %rbx, 0(%rdi)
  movq %rbp, 8(%rdi)
  movq %r12, 16(%rdi)
  movq %r13, 24(%rdi)
  movq %r14, 32(%rdi)
  movq %r15, 40(%rdi)
  leaq 8(%rsp), %rax
  movq %rax, 48(%rdi)
  movq (%rsp), %rax
  movq %rax, 56(%rdi)
  xorl %eax, %eax
  ret
  .size rejoin_note_place, . - rejoin_note_place

  .globl rejoin_go_to_place
  .hidden rejoin_go_to_place
  .type rejoin_go_to_place, @function
rejoin_go_to_place:
  movq 0(%rdi), %rbx
  movq 8(%rdi), %rbp
  movq 16(%rdi), %r12
  movq 24(%rdi), %r13
  movq 32(%rdi), %r14
  movq 40(%rdi), %r15
  movq 48(%rdi), %rsp
  movl $1, %eax
  jmp *56(%rdi)
  .size rejoin_go_to_place, . - rejoin_go_to_place

  .globl rejoin_return_from_signal
  .hidden rejoin_return_from_signal
  .type rejoin_return_from_signal, @function
  nop
rejoin_return_from_signal:
  movq $15, %rax
  syscall
  .size rejoin_return_from_signal, . - rejoin_return_from_signal
)");

namespace {

using journal::system_call;

constexpr int kSignal = 33;  // glibc's SIGSETXID
constexpr std::uint64_t kPatience_ns = 500'000'000;
// A stop that failed is not tried again for so many times as long as it took. If the threads only
// wait for a processor, the next one may go well: it is tried sooner, at first.
constexpr std::uint64_t kShareOfTime = 100, kShareOnBusyMachine = 20;
constexpr unsigned kMostOnBusyMachine = 4;
constexpr int kMostThreads = 4096;
constexpr std::size_t kMaskBytes = 8;
constexpr unsigned kRseqBytes = 32;
constexpr unsigned kRseqSignature = 0x53053053;
constexpr int kRegistrationFailed = -2;  // RSEQ_CPU_ID_REGISTRATION_FAILED
constexpr std::size_t kWords = 16;       // of a set of 1,024 processors or memory nodes

template <class... Words>
long call(long number, Words... words) {
  return system_call(number, (long)words...);
}

template <class Word>
void wait_while(std::atomic<Word>& word, Word value, const timespec* limit = nullptr) {
  call(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, limit);
}
template <class Word>
void wake_all(std::atomic<Word>& word) {
  constexpr int kAll = 1 << 30;
  call(SYS_futex, &word, FUTEX_WAKE_PRIVATE, kAll);
}

std::uint64_t now_ns() {
  timespec t = {};
  call(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

struct KernelAction {  // as the system call has it
  void (*handler)(int, siginfo_t*, void*);
  std::uint64_t flags;
  void (*restorer)();
  std::uint64_t mask;
};
// The C library's action for the signal, which is called for signals that are not ours.
KernelAction former_action;

// The value that the signal carries: which stop it belongs to, and which thread it is for.
constexpr std::uint64_t kOurs = std::uint64_t{0x52454a} << 40;
constexpr std::uint64_t kOursMask = std::uint64_t{0xffffff} << 40;
constexpr std::uint32_t kStopMask = 0xffffff;
std::uint64_t value_for(std::uint32_t stop, int index) {
  return kOurs | std::uint64_t{stop & kStopMask} << 16 | static_cast<std::uint64_t>(index);
}

// A thread's state: the number of the stop, and its phase.
enum Phase : std::uint32_t { kSignalled, kStopping, kStopped, kGone };
constexpr int kPhaseBits = 2;
constexpr std::uint32_t kPhaseMask = 3;
std::uint32_t state_of(std::uint32_t stop, Phase phase) {
  return (stop & kStopMask) << kPhaseBits | phase;
}

struct Scheduling {  // as sched_getattr() has it
  std::uint32_t bytes, policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime, deadline, period;
  std::uint32_t least_use, most_use;
};

// What the kernel holds of a thread, besides what is in the frame of a signal.
struct ThreadState {
  int id;
  std::uint64_t thread_pointer;
  std::uint64_t gs;
  int* id_word;  // where the C library knows its id
  int known_id;
  void* robust_list;
  std::size_t robust_bytes;
  char name[16];
  Scheduling scheduling;
  bool has_policies;  // knows scheduling and memory policy, and may set them
  long affinity_bytes;
  std::uint64_t affinity[kWords];
  long io_priority;
  int memory_policy;
  std::uint64_t memory_nodes[kWords];
  long timer_slack_ns;
  std::uint64_t pending;  // signals
  // Not restored, but compared with the main thread's.
  long seccomp;
  unsigned ids[6];
  __user_cap_data_struct capabilities[2];

  void note();
  void restore() const;
  // Ends what restore() registers anew: this thread becomes another one.
  void leave() const;
  // Where, from the thread pointer on, the C library knows the id: the same for all of its threads.
  std::uint64_t place_of_id() const {
    return reinterpret_cast<std::uint64_t>(id_word) - thread_pointer;
  }
  bool is_as_privileged_as(const ThreadState& other) const {
    return memcmp(ids, other.ids, sizeof ids) == 0 &&
           memcmp(capabilities, other.capabilities, sizeof capabilities) == 0;
  }
};

constexpr int kOfThread = 1;  // IOPRIO_WHO_PROCESS, PRIO_PROCESS are of one thread

void ThreadState::note() {
  id = static_cast<int>(call(SYS_gettid));
  call(SYS_arch_prctl, ARCH_GET_FS, &thread_pointer);
  call(SYS_arch_prctl, ARCH_GET_GS, &gs);
  call(SYS_prctl, PR_GET_TID_ADDRESS, &id_word);
  known_id = id_word != nullptr ? *const_cast<volatile int*>(id_word) : 0;
  call(SYS_get_robust_list, 0, &robust_list, &robust_bytes);
  call(SYS_prctl, PR_GET_NAME, name);
  has_policies = call(SYS_sched_getattr, 0, &scheduling, sizeof scheduling, 0) == 0 &&
                 call(SYS_sched_setattr, 0, &scheduling, 0) == 0;
  affinity_bytes = call(SYS_sched_getaffinity, 0, sizeof affinity, affinity);
  io_priority = call(SYS_ioprio_get, kOfThread, 0);
  const bool knows = call(SYS_get_mempolicy, &memory_policy, memory_nodes, 64 * kWords, 0, 0) == 0;
  if (!knows) memory_policy = 0;
  // Containers forbid to know it and to set it, so there is none. No policy has this number.
  const bool may_set = call(SYS_set_mempolicy, -1, 0, 0) == -EINVAL;
  has_policies &= knows ? memory_policy == 0 || may_set : !may_set;
  timer_slack_ns = call(SYS_prctl, PR_GET_TIMERSLACK);
  call(SYS_rt_sigpending, &pending, kMaskBytes);
  seccomp = call(SYS_prctl, PR_GET_SECCOMP);
  call(SYS_getresuid, &ids[0], &ids[1], &ids[2]);
  call(SYS_getresgid, &ids[3], &ids[4], &ids[5]);
  __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  call(SYS_capget, &head, capabilities);
}

// Called in a thread that was created in the place of the one that was noted. The kernel may refuse
// to raise a priority, which then stays as it is; UnclonedState is no different.
void ThreadState::restore() const {
  call(SYS_set_robust_list, robust_list, robust_bytes);
  if (&__rseq_size != nullptr && __rseq_size > 0) {
    auto* area = reinterpret_cast<char*>(thread_pointer) + __rseq_offset;
    if (call(SYS_rseq, area, kRseqBytes, 0, kRseqSignature) != 0) {
      reinterpret_cast<volatile int*>(area)[1] = kRegistrationFailed;
    }
  }
  if (gs != 0) call(SYS_arch_prctl, ARCH_SET_GS, gs);
  call(SYS_prctl, PR_SET_NAME, name);
  if (affinity_bytes > 0) call(SYS_sched_setaffinity, 0, affinity_bytes, affinity);
  call(SYS_sched_setattr, 0, &scheduling, 0);
  if (io_priority > 0) call(SYS_ioprio_set, kOfThread, 0, io_priority);
  if (memory_policy != 0) call(SYS_set_mempolicy, memory_policy, memory_nodes, 64 * kWords);
  if (timer_slack_ns > 0) call(SYS_prctl, PR_SET_TIMERSLACK, timer_slack_ns);
}

void ThreadState::leave() const {
  constexpr int kUnregister = 1;
  if (&__rseq_size == nullptr || __rseq_size == 0) return;
  auto* area = reinterpret_cast<char*>(thread_pointer) + __rseq_offset;
  call(SYS_rseq, area, kRseqBytes, kUnregister, kRseqSignature);
}

// Creates a thread of this process that goes to `place`, with a small stack until it is there.
// Returns its id, or -errno.
long create_thread(const ThreadState& state, const Place* place, void* stack) {
  constexpr unsigned long kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
                                   CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
                                   CLONE_CHILD_CLEARTID;
  register long r10 asm("r10") = reinterpret_cast<long>(state.id_word);
  register long r8 asm("r8") = static_cast<long>(state.thread_pointer);
  register const Place* r12 asm("r12") = place;
  long result;
  asm volatile(
      "syscall\n"
      "testq %%rax, %%rax\n"
      "jnz 1f\n"
      "movq %%r12, %%rdi\n"
      "jmp rejoin_go_to_place\n"
      "1:\n"
      : "=a"(result)
      : "a"(SYS_clone), "D"(kFlags), "S"(stack), "d"(0), "r"(r10), "r"(r8), "r"(r12)
      : "rcx", "r11", "memory");
  return result;
}

// Continues at `place` as the thread that was noted, on its stack.
[[noreturn]] void continue_as(const ThreadState& state, const Place* place) {
  call(SYS_set_tid_address, state.id_word);
  register const Place* r12 asm("r12") = place;
  asm volatile(
      "syscall\n"
      "movq %%r12, %%rdi\n"
      "jmp rejoin_go_to_place\n"
      :
      : "a"(SYS_arch_prctl), "D"(ARCH_SET_FS), "S"(state.thread_pointer), "r"(r12)
      : "rcx", "r11", "memory");
  __builtin_unreachable();
}

// Calls f(id) for each thread of this process, until it returns false.
template <class F>
bool each_thread(int directory, F f) {
  struct Entry {
    std::uint64_t inode;
    std::int64_t offset;
    unsigned short bytes;
    unsigned char type;
    char name[1];
  };
  alignas(Entry) char entries[4096];
  call(SYS_lseek, directory, 0, SEEK_SET);
  for (long n; (n = call(SYS_getdents64, directory, entries, sizeof entries)) > 0;) {
    for (long at = 0; at < n;) {
      const auto* e = reinterpret_cast<const Entry*>(entries + at);
      at += e->bytes;
      int id = 0;
      for (const char* c = e->name; *c >= '0' && *c <= '9'; ++c) id = 10 * id + (*c - '0');
      if (id != 0 && !f(id)) return false;
    }
  }
  return true;
}

}  // namespace

struct OtherThread {
  std::atomic<std::uint32_t> state;
  Phase phase() const { return static_cast<Phase>(state.load() & kPhaseMask); }
  int id;        // as it was listed
  bool is_main;  // of the process in which it was stopped
  ThreadState kernel;
  stack_t signal_stack;  // of the caller; others have theirs in the signal's frame
  Place place;           // in the handler
  alignas(16) std::byte first_stack[256];  // of a created thread, until it is there
};

// --- In the thread that is stopped

// Uses nothing of the thread but its stack, because it may not be one of the C library's.
void OtherThreads::on_signal(int number, siginfo_t* info, void* context) {
  const auto value = reinterpret_cast<std::uint64_t>(info->si_value.sival_ptr);
  if (info->si_code != SI_QUEUE || (value & kOursMask) != kOurs || the_one_ == nullptr) {
    constexpr auto kIgnore = std::uint64_t{1};  // SIG_IGN; SIG_DFL is below
    if (reinterpret_cast<std::uint64_t>(former_action.handler) > kIgnore) {
      former_action.handler(number, info, context);
    }
    return;
  }
  const int saved = errno;
  ThreadState kernel;
  kernel.note();
  auto& interrupted = *static_cast<ucontext_t*>(context);
  std::uint64_t blocked;
  __builtin_memcpy(&blocked, &interrupted.uc_sigmask, sizeof blocked);
  // A signal that the program waits for has to end its call.
  if ((kernel.pending & ~blocked) == 0) continue_call(interrupted);
  const auto stop = static_cast<std::uint32_t>(value >> 16) & kStopMask;
  const auto index = static_cast<int>(value & 0xffff);
  Table& table = *the_one_->table_;
  if (index >= table.count.load()) return;  // too late
  OtherThread& thread = table.threads[index];
  std::uint32_t state = state_of(stop, kSignalled);
  if (!thread.state.compare_exchange_strong(state, state_of(stop, kStopping))) return;  // too late
  thread.kernel = kernel;
  the_one_->stay(thread);
  errno = saved;
}

// Waits for release(). In a clone, a thread that was created there comes out of rejoin_note_place.
void OtherThreads::stay(OtherThread& thread) {
  const std::uint32_t seen = released_.load(std::memory_order_acquire);
  if (rejoin_note_place(&thread.place) != 0) {
    thread.kernel.id = static_cast<int>(call(SYS_gettid));
    thread.kernel.restore();
    if (thread.is_main) create_caller();
  }
  thread.state.store(state_of(thread.state.load() >> kPhaseBits, kStopped));
  stopped_.fetch_add(1);
  wake_all(stopped_);
  while (released_.load(std::memory_order_acquire) == seen) wait_while(released_, seen);
  if (rest_ == nullptr) return;
  if (thread.is_main) call_rest();
  call(SYS_exit, 0);
}

// --- In the thread that has the process cloned

bool OtherThreads::install_handler(char* why, std::size_t size) {
  KernelAction now = {};
  call(SYS_rt_sigaction, kSignal, 0, &now, kMaskBytes);
  if (now.handler == &OtherThreads::on_signal) return true;
  // The C library has installed its own since, at its first thread.
  former_action = now;
  constexpr std::uint64_t kRestorer = 0x04000000;
  const KernelAction ours = {&OtherThreads::on_signal,
                             SA_SIGINFO | SA_RESTART | SA_ONSTACK | kRestorer,
                             &rejoin_return_from_signal, ~std::uint64_t{0}};
  if (call(SYS_rt_sigaction, kSignal, &ours, 0, kMaskBytes) == 0) return true;
  snprintf(why, size, "cannot handle the signal by which threads are stopped");
  return false;
}

bool OtherThreads::make_room(int threads, char* why, std::size_t size) {
  Table& table = *table_;
  table.count.store(0);
  if (threads <= table.room) return true;
  const auto bytes = [](int count) {
    return (static_cast<std::size_t>(count) + 1) * sizeof(OtherThread);
  };
  if (table.threads != nullptr) rank_.arena().release(table.threads, bytes(table.room));
  table.threads = static_cast<OtherThread*>(rank_.arena().allocate(bytes(threads)));
  table.room = table.threads != nullptr ? threads : 0;
  for (int i = 0; table.room != 0 && i <= table.room; ++i) new (&table.threads[i]) OtherThread{};
  if (table.room == 0) snprintf(why, size, "has no memory for a list of its threads");
  return table.room != 0;
}

bool OtherThreads::stop(char* why, std::size_t size) {
  const std::uint64_t begin = now_ns();
  const int threads = recovery::thread_count();
  the_one_ = this;
  stop_ns_ = 0;
  stopped_.store(0);
  table_ = &tables_[published_.load() == &tables_[0] ? 1 : 0];
  table_->count.store(0);
  if (threads == 1) {
    published_.store(nullptr);
    return true;
  }
  if (begin < not_before_ns_) {
    snprintf(why, size, "%s", is_busy_machine_ ? "" : "has a thread that does not stop in time");
    return false;
  }
  find_code_of_libc();
  const int directory =
      static_cast<int>(call(SYS_open, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory < 0) snprintf(why, size, "cannot read /proc/self/task");
  ++stops_;
  const bool ready =
      directory >= 0 && install_handler(why, size) && make_room(2 * threads + 16, why, size);
  const bool stopped = ready && list_and_stop(directory, why, size);
  if (ready && !stopped) give_up();
  if (directory >= 0) call(SYS_close, directory);
  stop_ns_ = now_ns() - begin;
  if (!stopped) return false;
  slow_stops_ = 0;
  if (look_for_obstacles(why, size)) {
    release();
    return false;
  }
  note_caller();
  published_.store(table_, std::memory_order_release);
  return true;
}

bool OtherThreads::is_known(pid_t id) const {
  for (int i = 0; i < table_->count.load(); ++i) {
    const OtherThread& t = table_->threads[i];
    if (t.id == id && t.phase() != kGone) return true;
  }
  return false;
}

// Threads that are not stopped yet may create others, so the list is read until it has no new ones.
bool OtherThreads::list_and_stop(int directory, char* why, std::size_t size) {
  const std::uint64_t begin = now_ns();
  for (;;) {
    int signalled = 0;
    if (!signal_new_ones(directory, &signalled, why, size)) return false;
    if (signalled == 0) return true;
    while (!all_have_stopped()) {
      const std::uint64_t waited = now_ns() - begin;
      if (waited <= kPatience_ns) continue;
      is_busy_machine_ = !name_slow_thread(why, size, ++slow_stops_ > kMostOnBusyMachine);
      not_before_ns_ =
          now_ns() + waited * (is_busy_machine_ ? slow_stops_ * kShareOnBusyMachine : kShareOfTime);
      return false;
    }
  }
}

// Returns false, with an empty `why`, if all threads that have not stopped wait for a processor.
// also_ready: names one of these, too.
bool OtherThreads::name_slow_thread(char* why, std::size_t size, bool also_ready) const {
  why[0] = '\0';
  for (int i = 0; i < table_->count.load(); ++i) {
    if (table_->threads[i].phase() != kSignalled) continue;
    // "ID (NAME) STATE ..."; R: it would run if there was a processor, and hear the signal then
    char text[128] = "";
    if (!read_thread_file(table_->threads[i].id, "stat", text, sizeof text)) continue;
    const char* name = strchr(text, '(');
    const char* end = strrchr(text, ')');
    if (name == nullptr || end == nullptr) continue;
    const bool waits =
        strncmp(end, ") R", 3) == 0 && !blocks_signal(table_->threads[i].id, kSignal);
    if (waits && !also_ready) continue;
    snprintf(why, size, "has a thread (%.*s) that did not stop within half a second",
             static_cast<int>(end - name - 1), name + 1);
    return true;
  }
  return false;
}

bool OtherThreads::signal_new_ones(int directory, int* signalled, char* why, std::size_t size) {
  const long process = call(SYS_getpid), me = call(SYS_gettid);
  return each_thread(directory, [&](int id) {
    if (id == me || is_known(id)) return true;
    const int index = table_->count.load();
    if (index == table_->room || index == kMostThreads) {
      snprintf(why, size, "starts threads faster than they can be stopped, or has more than %d",
               kMostThreads);
      return false;
    }
    OtherThread& t = table_->threads[index];
    t.id = id;
    t.is_main = id == process;
    t.state.store(state_of(stops_, kSignalled));
    table_->count.store(index + 1);
    siginfo_t info = {};
    info.si_signo = kSignal;
    info.si_code = SI_QUEUE;
    info.si_pid = static_cast<pid_t>(process);
    info.si_value.sival_ptr = reinterpret_cast<void*>(value_for(stops_, index));
    const long error = call(SYS_rt_tgsigqueueinfo, process, id, kSignal, &info);
    ++*signalled;
    if (error == 0) return true;
    t.state.store(state_of(stops_, kGone));
    if (error == -ESRCH) return true;  // it has ended
    snprintf(why, size, "has a thread that cannot be sent a signal: %s",
             strerrordesc_np(static_cast<int>(-error)));
    return false;
  });
}

// Waits at most a millisecond for another thread to stop. Returns whether all that were signalled
// have stopped or ended.
bool OtherThreads::all_have_stopped() {
  constexpr timespec kAMillisecond{0, 1'000'000};
  const std::uint32_t before = stopped_.load();
  std::uint32_t alive = 0;
  for (int i = 0; i < table_->count.load(); ++i) {
    alive += table_->threads[i].phase() != kGone ? 1u : 0u;
  }
  if (before >= alive) return true;
  wait_while(stopped_, before, &kAMillisecond);
  if (stopped_.load() != before) return false;
  const long process = call(SYS_getpid);
  for (int i = 0; i < table_->count.load(); ++i) {
    std::uint32_t signalled = state_of(stops_, kSignalled);
    OtherThread& t = table_->threads[i];
    if (t.state.load() == signalled && call(SYS_tgkill, process, t.id, 0) == -ESRCH) {
      t.state.compare_exchange_strong(signalled, state_of(stops_, kGone));
    }
  }
  return false;
}

// Lets the threads that have stopped go on; the others will find that they are too late.
void OtherThreads::give_up() {
  std::uint32_t stopping = 0;
  for (int i = 0; i < table_->count.load(); ++i) {
    std::uint32_t signalled = state_of(stops_, kSignalled);
    OtherThread& t = table_->threads[i];
    t.state.compare_exchange_strong(signalled, state_of(stops_, kGone));
    stopping += t.phase() != kGone ? 1u : 0u;
  }
  for (std::uint32_t n; (n = stopped_.load()) < stopping;) wait_while(stopped_, n);
  release();
}

bool OtherThreads::look_for_obstacles(char* why, std::size_t size) const {
  ThreadState main;
  main.note();
  for (int i = 0; i < table_->count.load(); ++i) {
    if (table_->threads[i].phase() != kStopped) continue;
    const ThreadState& t = table_->threads[i].kernel;
    const char* obstacle = nullptr;
    if (t.thread_pointer == main.thread_pointer || t.place_of_id() != main.place_of_id()) {
      obstacle = "that was not started by the C library (pthread_create)";
    } else if (t.seccomp != main.seccomp) {
      obstacle = "with a seccomp filter of its own";
    } else if (!t.has_policies) {
      obstacle = "whose scheduling or memory policy cannot be set again (it is forbidden)";
    } else if (!t.is_as_privileged_as(main)) {
      obstacle = "with user ids, group ids or capabilities of its own";
    } else if (!shares_files(t.id) || !shares_directories(t.id)) {
      obstacle = "with open files or a working directory of its own (unshare)";
    } else if ((t.pending & ~main.pending) != 0) {
      obstacle = "with a pending signal, which a clone would not get";
    }
    if (obstacle == nullptr) continue;
    snprintf(why, size, "has a thread (%.15s) %s", t.name, obstacle);
    return true;
  }
  return false;
}

void OtherThreads::note_caller() {
  OtherThread& caller = table_->threads[table_->room];
  caller.state.store(state_of(stops_, kGone));
  caller.kernel.note();
  call(SYS_sigaltstack, 0, &caller.signal_stack);
}

bool OtherThreads::create(char* why, std::size_t size) {
  stopped_.store(0);
  std::uint32_t created = 0;
  const OtherThread* main = nullptr;
  for (int i = 0; i < table_->count.load(); ++i) {
    OtherThread& t = table_->threads[i];
    if (t.phase() != kStopped) continue;
    // The kernel clears the word of a thread that is killed while its process is being cloned.
    *t.kernel.id_word = t.kernel.known_id;
    ++created;
    if (t.is_main) {
      main = &t;
      continue;
    }
    const long id = create_thread(t.kernel, &t.place, t.first_stack + sizeof t.first_stack);
    if (id < 0) {
      snprintf(why, size, "cannot start its threads again: %s",
               strerrordesc_np(static_cast<int>(-id)));
      return false;
    }
  }
  if (main != nullptr) become_main(*main);
  for (std::uint32_t n; (n = stopped_.load()) < created;) wait_while(stopped_, n);
  return true;
}

// This thread, the kernel's main one, becomes the one that was main. Returns in the thread that
// create_caller() makes, on the same stack.
void OtherThreads::become_main(const OtherThread& main) {
  OtherThread& caller = table_->threads[table_->room];
  if (rejoin_note_place(&caller.place) == 0) {
    caller.kernel.leave();
    continue_as(main.kernel, &main.place);
  }
  caller.kernel.id = static_cast<int>(call(SYS_gettid));
  caller.kernel.restore();
  call(SYS_sigaltstack, &caller.signal_stack, 0);
  caller.state.store(state_of(stops_, kStopped));
}

// Called when the main thread has left the caller's stack.
void OtherThreads::create_caller() {
  OtherThread& caller = table_->threads[table_->room];
  const long id =
      create_thread(caller.kernel, &caller.place, caller.first_stack + sizeof caller.first_stack);
  if (id < 0) call(SYS_exit_group, 1);
}

void OtherThreads::release() {
  if (stopped_.load() == 0) return;
  released_.fetch_add(1, std::memory_order_acq_rel);
  wake_all(released_);
}

void OtherThreads::end(void (*rest)(void*), void* argument) {
  rest_ = rest;
  argument_ = argument;
  release();
  if (call(SYS_gettid) == call(SYS_getpid)) call_rest();
  for (;;) call(SYS_exit, 0);
}

void OtherThreads::call_rest() {
  constexpr timespec kPause{0, 100'000};
  while (recovery::thread_count() > 1) call(SYS_nanosleep, &kPause, 0);
  rest_(argument_);
  __builtin_unreachable();
}

pid_t OtherThreads::kernel_id(const void* descriptor) {
  const Table* table =
      the_one_ != nullptr ? the_one_->published_.load(std::memory_order_acquire) : nullptr;
  if (table == nullptr) return 0;
  const int count = table->count.load();
  for (int i = 0; i <= count; ++i) {
    const OtherThread& t = table->threads[i < count ? i : table->room];  // the last is the caller
    const ThreadState& k = t.kernel;
    const bool is_it = reinterpret_cast<const void*>(k.thread_pointer) == descriptor;
    if (!is_it || t.phase() != kStopped) continue;
    // A newer thread may have this descriptor by now; the C library knows its id.
    const int known = *const_cast<volatile int*>(k.id_word);
    return known == k.known_id && known != k.id ? k.id : 0;
  }
  return 0;
}

}  // namespace rejoin::process_image

pid_t rejoin_libc_kernel_id(const void* descriptor) {
  return rejoin::process_image::OtherThreads::kernel_id(descriptor);
}
