// Functions that take a pthread_t.
//
// glibc stores each thread's kernel id in the thread's descriptor. After a wake-up from a snapshot,
// the descriptors of its threads still hold the ids in the process that was cloned; they are not
// updated, because locked mutexes store them as their owners. glibc would pass these stale ids to
// the kernel, so these functions make the system calls with the current ids. (For the calling
// thread, glibc's pthread_kill, pthread_getname_np and pthread_setname_np do not use the stored
// id.)
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>

#include "journal/system_call.h"
#include "libc_recording/real.h"

namespace {

using rejoin::journal::system_call;

REJOIN_REAL(pthread_getaffinity_np);
REJOIN_REAL(pthread_setaffinity_np);
REJOIN_REAL(pthread_getschedparam);
REJOIN_REAL(pthread_setschedparam);
REJOIN_REAL(pthread_setschedprio);
REJOIN_REAL(pthread_getcpuclockid);
REJOIN_REAL(pthread_getname_np);
REJOIN_REAL(pthread_setname_np);
REJOIN_REAL(pthread_kill);
REJOIN_REAL(pthread_sigqueue);
REJOIN_REAL(pthread_cancel);
REJOIN_REAL(pthread_getattr_np);
REJOIN_REAL(pthread_mutexattr_setprotocol);

constexpr std::size_t kNameBytes = 16;
constexpr int kCancelSignal = 32;  // glibc's SIGCANCEL

// The first thread, and the place of the id in its descriptor. glibc registers that place with the
// kernel as the one to clear when the thread ends, so the kernel can be asked for it.
constinit pthread_t first = 0;
constinit pid_t* first_id = nullptr;

constinit bool priority_is_inherited = false;  // a mutex may have been made that does so

[[gnu::constructor]] void note_first() {
  int* cleared = nullptr;
  if (prctl(PR_GET_TID_ADDRESS, &cleared, 0, 0, 0) != 0)
    return;  // the kernel lacks CONFIG_CHECKPOINT_RESTORE
  first = pthread_self();
  first_id = cleared;
}

template <class... Words>
long call_kernel(long number, Words... words) {
  long v[6] = {(long)words...};
  return system_call(number, v[0], v[1], v[2], v[3], v[4], v[5]);
}
// Returns 0 or an errno, as the pthread functions do.
template <class... Words>
int error_of_call(long number, Words... words) {
  return static_cast<int>(-std::min(call_kernel(number, words...), 0L));
}

pid_t process_id() { return static_cast<pid_t>(call_kernel(SYS_getpid)); }

// Returns the kernel id of `thread` if the id that glibc has stored is stale, else 0.
pid_t true_id(pthread_t thread) {
  if (first_id == nullptr) return 0;
  if (thread != first) {
    return rejoin_libc_kernel_id != nullptr
               ? rejoin_libc_kernel_id(reinterpret_cast<const void*>(thread))
               : 0;
  }
  const pid_t id = process_id();  // equal to the first thread's id
  return id == *first_id ? 0 : id;
}

// The place of the id in a thread's descriptor.
volatile pid_t& known_id(pthread_t thread) {
  const auto offset = reinterpret_cast<std::uintptr_t>(first_id) - first;
  return *reinterpret_cast<volatile pid_t*>(thread + offset);
}

bool is_self(pthread_t thread) { return thread == pthread_self(); }

// Reads or writes the name of a thread. Returns 0 or an errno.
int exchange_name(pid_t id, int how, char* name, std::size_t bytes) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/comm", id);
  const long file = call_kernel(SYS_openat, AT_FDCWD, path, how | O_CLOEXEC, 0);
  if (file < 0) return static_cast<int>(-file);
  const long n = call_kernel(how == O_RDONLY ? SYS_read : SYS_write, file, name, bytes);
  call_kernel(SYS_close, file);
  if (n < 0) return static_cast<int>(-n);
  if (how == O_RDONLY) name[std::max(n, 1L) - 1] = '\0';  // instead of the end of the line
  return 0;
}

}  // namespace

REJOIN_REPLACES int pthread_getaffinity_np(pthread_t thread, size_t bytes, cpu_set_t* set) {
  const pid_t id = true_id(thread);
  if (id == 0) return real_pthread_getaffinity_np(thread, bytes, set);
  const long n = call_kernel(SYS_sched_getaffinity, id, std::min(bytes, std::size_t{INT_MAX}), set);
  if (n < 0) return static_cast<int>(-n);
  memset(reinterpret_cast<char*>(set) + n, 0, bytes - static_cast<std::size_t>(n));
  return 0;
}
REJOIN_REPLACES int pthread_setaffinity_np(pthread_t thread, size_t bytes, const cpu_set_t* set) {
  const pid_t id = true_id(thread);
  if (id == 0) return real_pthread_setaffinity_np(thread, bytes, set);
  return error_of_call(SYS_sched_setaffinity, id, bytes, set);
}

REJOIN_REPLACES int pthread_getschedparam(pthread_t thread, int* policy, sched_param* given) {
  const pid_t id = true_id(thread);
  if (id == 0) return real_pthread_getschedparam(thread, policy, given);
  const long found = call_kernel(SYS_sched_getscheduler, id);
  if (found < 0) return static_cast<int>(-found);
  *policy = static_cast<int>(found);
  return error_of_call(SYS_sched_getparam, id, given);
}
REJOIN_REPLACES int pthread_setschedparam(pthread_t thread, int policy, const sched_param* given) {
  const pid_t id = true_id(thread);
  if (id == 0) return real_pthread_setschedparam(thread, policy, given);
  return error_of_call(SYS_sched_setscheduler, id, policy, given);
}
REJOIN_REPLACES int pthread_setschedprio(pthread_t thread, int priority) {
  const pid_t id = true_id(thread);
  if (id == 0) return real_pthread_setschedprio(thread, priority);
  const sched_param given = {.sched_priority = priority};
  return error_of_call(SYS_sched_setparam, id, &given);
}

REJOIN_REPLACES int pthread_getcpuclockid(pthread_t thread, clockid_t* clock) {
  constexpr clockid_t kOfThread = 4, kCpu = 2;  // the kernel's posix-timers.h
  const pid_t id = true_id(thread);
  if (id == 0) return real_pthread_getcpuclockid(thread, clock);
  *clock = static_cast<clockid_t>(~static_cast<unsigned>(id) << 3) | kOfThread | kCpu;
  return 0;
}

REJOIN_REPLACES int pthread_getname_np(pthread_t thread, char* name, size_t room) {
  const pid_t id = true_id(thread);
  if (id == 0 || is_self(thread)) return real_pthread_getname_np(thread, name, room);
  return room < kNameBytes ? ERANGE : exchange_name(id, O_RDONLY, name, kNameBytes);
}
REJOIN_REPLACES int pthread_setname_np(pthread_t thread, const char* name) {
  const pid_t id = true_id(thread);
  if (id == 0 || is_self(thread)) return real_pthread_setname_np(thread, name);
  const std::size_t bytes = strlen(name);
  return bytes >= kNameBytes ? ERANGE : exchange_name(id, O_WRONLY, const_cast<char*>(name), bytes);
}

REJOIN_REPLACES int pthread_kill(pthread_t thread, int number) {
  const pid_t id = true_id(thread);
  if (id == 0 || is_self(thread)) return real_pthread_kill(thread, number);
  return error_of_call(SYS_tgkill, process_id(), id, number);
}
REJOIN_REPLACES int pthread_sigqueue(pthread_t thread, int number, const sigval value) {
  const pid_t id = true_id(thread);
  if (id == 0) return real_pthread_sigqueue(thread, number, value);
  siginfo_t info = {};
  info.si_signo = number;
  info.si_code = SI_QUEUE;
  info.si_pid = process_id();
  info.si_uid = static_cast<uid_t>(call_kernel(SYS_getuid));
  info.si_value = value;
  return error_of_call(SYS_rt_tgsigqueueinfo, info.si_pid, id, number, &info);
}
REJOIN_REPLACES int pthread_cancel(pthread_t thread) {
  const pid_t id = true_id(thread);
  const int code = real_pthread_cancel(thread);
  // glibc has marked the thread as cancelled, and only failed to send it the signal.
  if (id == 0 || is_self(thread) || code != ESRCH) return code;
  return error_of_call(SYS_tgkill, process_id(), id, kCancelSignal);
}

// glibc reads the affinity by the stored id. That id is replaced during the call, which is safe
// only in the thread itself: its mutex operations read the id, too.
REJOIN_REPLACES int pthread_getattr_np(pthread_t thread, pthread_attr_t* attributes) {
  const pid_t id = true_id(thread);
  if (id == 0 || !is_self(thread)) return real_pthread_getattr_np(thread, attributes);
  volatile pid_t& known = known_id(thread);
  const pid_t before = known;
  known = id;
  const int code = real_pthread_getattr_np(thread, attributes);
  known = before;
  return code;
}

REJOIN_REPLACES int pthread_mutexattr_setprotocol(pthread_mutexattr_t* attributes, int protocol) {
  if (protocol == PTHREAD_PRIO_INHERIT) {
    __atomic_store_n(&priority_is_inherited, true, __ATOMIC_RELAXED);
  }
  return real_pthread_mutexattr_setprotocol(attributes, protocol);
}
extern "C" int rejoin_libc_inherits_priority() {
  return __atomic_load_n(&priority_is_inherited, __ATOMIC_RELAXED) ? 1 : 0;
}

// The linker makes these of the section in which REJOIN_REAL lists the functions.
extern "C" {
extern rejoin::libc_recording::RealAddress* const __start_rejoin_reals[]
    __attribute__((visibility("hidden")));
extern rejoin::libc_recording::RealAddress* const __stop_rejoin_reals[]
    __attribute__((visibility("hidden")));
}
extern "C" void rejoin_libc_find_all() {
  for (auto* real = __start_rejoin_reals; real != __stop_rejoin_reals; ++real) (*real)->find();
}
