// The identity of this process: process ids, and the names of host and system. Programs seed
// generators and name files with them.
//
// The program always sees the process ids of the rank's first incarnation; where it passes them
// back, they mean the process that is the rank now. Its children see the id of their parent like
// that, too.
#include "libc_recording/process.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>

#include "journal/system_call.h"
#include "libc_recording/files.h"
#include "libc_recording/real.h"

namespace rejoin::libc_recording {
namespace {

REJOIN_REAL(getpid);
REJOIN_REAL(getppid);
REJOIN_REAL(gettid);
REJOIN_REAL(kill);
REJOIN_REAL(tgkill);
REJOIN_REAL(sigqueue);
REJOIN_REAL(getpgid);
REJOIN_REAL(setpgid);
REJOIN_REAL(getsid);
REJOIN_REAL(sched_getaffinity);
REJOIN_REAL(sched_setaffinity);
REJOIN_REAL(sched_getscheduler);
REJOIN_REAL(sched_setscheduler);
REJOIN_REAL(sched_getparam);
REJOIN_REAL(sched_setparam);
REJOIN_REAL(gethostname);
REJOIN_REAL(uname);
REJOIN_REAL_AS(prlimit, "prlimit", int(pid_t, int, const rlimit*, rlimit*));
REJOIN_REAL_AS(pidfd_open, "pidfd_open", int(pid_t, unsigned));  // its header is C's only
REJOIN_REAL_AS(getpriority, "getpriority", int(int, id_t));
REJOIN_REAL_AS(setpriority, "setpriority", int(int, id_t, int));

// Does not use libc's syscall(): allocators call this before the dynamic linker can look that up.
long real_syscall(long number, const long* v) {
  const long result = journal::system_call(number, v[0], v[1], v[2], v[3], v[4], v[5]);
  constexpr long kLargestError = 4095;
  if (result >= 0 || result < -kLargestError) return result;
  errno = static_cast<int>(-result);
  return -1;
}

constinit bool withholds = false;

void note_advice(long advice) {
  if (advice == MADV_DONTFORK || advice == MADV_WIPEONFORK) {
    __atomic_store_n(&withholds, true, __ATOMIC_RELAXED);
  }
}

bool pids(const void* caller, Pids* p) {
  return rejoin_libc_pids != nullptr && rejoin_libc_pids(caller, p) != 0;
}

// Returns what the program sees in place of a process id that the kernel has given.
pid_t told(const void* caller, pid_t real) {
  Pids p;
  if (!pids(caller, &p)) return real;
  return real == p.pid ? p.first_pid : real == p.parent ? p.first_parent : real;
}

// Returns what the kernel is given in place of a process id of the program, or of its negative.
pid_t meant(const void* caller, pid_t id) {
  Pids p;
  if (id == 0 || !pids(caller, &p)) return id;
  const pid_t sign = id < 0 ? -1 : 1;
  return id == sign * p.first_pid      ? sign * p.pid
         : id == sign * p.first_parent ? sign * p.parent
                                       : id;
}

id_t meant_one(const void* caller, id_t id) {
  return static_cast<id_t>(meant(caller, static_cast<pid_t>(id)));
}

long observed_syscall(const void* caller, long number, long* v) {
  switch (number) {
    case SYS_getpid:
    case SYS_gettid:
    case SYS_getppid:
      return told(caller, static_cast<pid_t>(real_syscall(number, v)));
    case SYS_madvise:
      note_advice(v[2]);
      break;
    case SYS_tgkill:
      v[1] = meant(caller, static_cast<pid_t>(v[1]));
      [[fallthrough]];
    case SYS_kill:
    case SYS_tkill:
    case SYS_pidfd_open:
    case SYS_prlimit64:
    case SYS_sched_getaffinity:
    case SYS_sched_setaffinity:
      v[0] = meant(caller, static_cast<pid_t>(v[0]));
  }
  return real_syscall(number, v);
}

// Puts a name that the kernel gives, up to `room` bytes, into `data`. Errors are always the same,
// so they are not recorded.
template <class Really>
int observe_name(ObservationKind kind, void* data, std::uint32_t room, Really really) {
  Event e{kind};
  e.data = data;
  e.room_bytes = room;
  if (ask(e) == Answer::kLive) {
    if (really() != 0) return -1;
    e.data_bytes = room;
    record(e);
  }
  return 0;
}

}  // namespace

const char* own_proc_path(const void* caller, const char* path, char* room) {
  constexpr char kProc[] = "/proc/";
  Pids p;
  if (path == nullptr || strncmp(path, kProc, sizeof kProc - 1) != 0 || !pids(caller, &p)) {
    return path;
  }
  int digits;
  int id = 0;
  for (digits = 0; digits < 9; ++digits) {
    const char c = path[sizeof kProc - 1 + digits];
    if (c < '0' || c > '9') break;
    id = 10 * id + (c - '0');
  }
  const char* rest = path + sizeof kProc - 1 + digits;
  if (id != p.first_pid || (*rest != '/' && *rest != '\0')) return path;
  return snprintf(room, PATH_MAX, "/proc/%d%s", p.pid, rest) < PATH_MAX ? room : path;
}

bool is_own_process(const void* caller, pid_t id) {
  Pids p;
  return pids(caller, &p) && (id == p.first_pid || id == p.pid);
}

}  // namespace rejoin::libc_recording

using namespace rejoin::libc_recording;

REJOIN_REPLACES pid_t getpid() noexcept { return told(REJOIN_CALLER, real_getpid()); }
REJOIN_REPLACES pid_t getppid() noexcept { return told(REJOIN_CALLER, real_getppid()); }
REJOIN_REPLACES pid_t gettid() noexcept { return told(REJOIN_CALLER, real_gettid()); }

REJOIN_REPLACES int kill(pid_t pid, int number) noexcept {
  return real_kill(meant(REJOIN_CALLER, pid), number);
}
REJOIN_REPLACES int tgkill(pid_t pid, pid_t thread, int number) {
  return real_tgkill(meant(REJOIN_CALLER, pid), meant(REJOIN_CALLER, thread), number);
}
REJOIN_REPLACES int sigqueue(pid_t pid, int number, const sigval value) noexcept {
  return real_sigqueue(meant(REJOIN_CALLER, pid), number, value);
}
REJOIN_REPLACES pid_t getpgid(pid_t pid) noexcept {
  return told(REJOIN_CALLER, real_getpgid(meant(REJOIN_CALLER, pid)));
}
REJOIN_REPLACES int setpgid(pid_t pid, pid_t group) noexcept {
  return real_setpgid(meant(REJOIN_CALLER, pid), meant(REJOIN_CALLER, group));
}
REJOIN_REPLACES pid_t getsid(pid_t pid) noexcept {
  return told(REJOIN_CALLER, real_getsid(meant(REJOIN_CALLER, pid)));
}
REJOIN_REPLACES int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t* set) noexcept {
  return real_sched_getaffinity(meant(REJOIN_CALLER, pid), bytes, set);
}
REJOIN_REPLACES int sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t* set) noexcept {
  return real_sched_setaffinity(meant(REJOIN_CALLER, pid), bytes, set);
}
REJOIN_REPLACES int sched_getscheduler(pid_t pid) noexcept {
  return real_sched_getscheduler(meant(REJOIN_CALLER, pid));
}
REJOIN_REPLACES int sched_setscheduler(pid_t pid, int policy, const sched_param* given) noexcept {
  return real_sched_setscheduler(meant(REJOIN_CALLER, pid), policy, given);
}
REJOIN_REPLACES int sched_getparam(pid_t pid, sched_param* given) noexcept {
  return real_sched_getparam(meant(REJOIN_CALLER, pid), given);
}
REJOIN_REPLACES int sched_setparam(pid_t pid, const sched_param* given) noexcept {
  return real_sched_setparam(meant(REJOIN_CALLER, pid), given);
}
REJOIN_REPLACES int getpriority(__priority_which_t which, id_t who) noexcept {
  const void* caller = REJOIN_CALLER;
  return real_getpriority(which, which == PRIO_PROCESS ? meant_one(caller, who) : who);
}
REJOIN_REPLACES int setpriority(__priority_which_t which, id_t who, int priority) noexcept {
  const void* caller = REJOIN_CALLER;
  return real_setpriority(which, which == PRIO_PROCESS ? meant_one(caller, who) : who, priority);
}
REJOIN_REPLACES int pidfd_open(pid_t pid, unsigned flags) noexcept {
  return real_pidfd_open(meant(REJOIN_CALLER, pid), flags);
}
REJOIN_REPLACES int prlimit(pid_t pid, __rlimit_resource resource, const rlimit* limit,
                            rlimit* old) noexcept {
  return real_prlimit(meant(REJOIN_CALLER, pid), resource, limit, old);
}
REJOIN_REPLACES int prlimit64(pid_t pid, __rlimit_resource resource, const rlimit64* limit,
                              rlimit64* old) noexcept {
  static_assert(sizeof(rlimit) == sizeof(rlimit64));
  return real_prlimit(meant(REJOIN_CALLER, pid), resource, reinterpret_cast<const rlimit*>(limit),
                      reinterpret_cast<rlimit*>(old));
}

// Makes the system call itself, like syscall(): allocators call it early.
REJOIN_REPLACES int madvise(void* memory, size_t bytes, int advice) noexcept {
  note_advice(advice);
  const long v[6] = {reinterpret_cast<long>(memory), static_cast<long>(bytes), advice};
  return static_cast<int>(real_syscall(SYS_madvise, v));
}
extern "C" int rejoin_libc_withholds() {
  return __atomic_load_n(&withholds, __ATOMIC_RELAXED) ? 1 : 0;
}

// On this processor a function that takes a list of arguments of one word each is called like one
// that takes six.
REJOIN_REPLACES long syscall(long number, ...) noexcept {
  va_list arguments;
  va_start(arguments, number);
  long v[6];
  for (long& word : v) word = va_arg(arguments, long);
  va_end(arguments);
  return observed_syscall(REJOIN_CALLER, number, v);
}

REJOIN_REPLACES int gethostname(char* name, size_t room) noexcept {
  if (!observing(REJOIN_CALLER)) return real_gethostname(name, room);
  char all[sizeof(utsname::nodename)] = "";
  const auto really = [&] { return real_gethostname(all, sizeof all); };
  if (observe_name(ObservationKind::kHostName, all, sizeof all, really) != 0) return -1;
  const std::size_t bytes = strnlen(all, sizeof all - 1) + 1;
  memcpy(name, all, std::min(bytes, room));
  if (bytes <= room) return 0;
  errno = ENAMETOOLONG;
  return -1;
}
REJOIN_REPLACES int __gethostname_chk(char* name, size_t bytes, size_t) noexcept {
  return gethostname(name, bytes);
}

REJOIN_REPLACES int uname(utsname* out) noexcept {
  if (!observing(REJOIN_CALLER)) return real_uname(out);
  return observe_name(ObservationKind::kSystemName, out, sizeof *out,
                      [&] { return real_uname(out); });
}
