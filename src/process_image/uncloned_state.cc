#include "process_image/uncloned_state.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rejoin::process_image {
namespace {

constexpr const char* kOomScore = "/proc/self/oom_score_adj";

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

}  // namespace

bool UnclonedState::note() {
  prctl(PR_GET_NAME, name_, 0, 0, 0);
  errno = 0;
  nice_ = getpriority(PRIO_PROCESS, 0);
  read_text(kOomScore, oom_score_adj_, sizeof oom_score_adj_);
  return syscall(SYS_get_robust_list, 0, &robust_list_, &robust_bytes_) == 0 &&
         prctl(PR_GET_TID_ADDRESS, &thread_id_, 0, 0, 0) == 0;
}

void UnclonedState::note_timers() {
  for (const int which : kTimers) syscall(SYS_getitimer, which, &timers_[which]);
  // A timer that has expired stands still until its signal is delivered (ITIMER_REAL starts again
  // only then), and a clone does not get the signal. There, the timer expires at once.
  sigset_t pending;
  sigpending(&pending);
  for (const int which : kTimers) {
    timeval& left = timers_[which].it_value;
    if (left.tv_sec == 0 && left.tv_usec == 0 && sigismember(&pending, kSignals[which]) == 1) {
      left.tv_usec = 1;
    }
  }
}

void UnclonedState::restore_timers() const {
  for (const int which : kTimers) syscall(SYS_setitimer, which, &timers_[which], nullptr);
}

void UnclonedState::stop_timers() {
  constexpr itimerval kOff = {};
  for (const int which : kTimers) syscall(SYS_setitimer, which, &kOff, nullptr);
}

void UnclonedState::block_signals() {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &signals_);
}

void UnclonedState::register_thread_id() const { syscall(SYS_set_tid_address, thread_id_); }

long UnclonedState::clone_here(unsigned long flags) const {
  register long r10 asm("r10") = reinterpret_cast<long>(thread_id_);
  register long r8 asm("r8") = 0;
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(SYS_clone), "D"(flags | CLONE_CHILD_CLEARTID | SIGCHLD), "S"(0), "d"(0),
                 "r"(r10), "r"(r8)
               : "rcx", "r11", "memory");
  return result;
}

void UnclonedState::begin_clone() const {
  syscall(SYS_set_robust_list, robust_list_, robust_bytes_);
  setpgid(0, 0);
}

void UnclonedState::be_killed_first() const { write_text(kOomScore, "1000"); }

void UnclonedState::restore_name_and_priorities() const {
  prctl(PR_SET_NAME, name_);
  write_text(kOomScore, oom_score_adj_);
  // The kernel may refuse to lower the nice value, which then stays as it is.
  if (getpriority(PRIO_PROCESS, 0) != nice_) setpriority(PRIO_PROCESS, 0, nice_);
}

}  // namespace rejoin::process_image
