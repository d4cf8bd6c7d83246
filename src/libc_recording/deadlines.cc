// Waits with an absolute end time. After a restart the program's clocks continue from the recorded
// values, so after a reboot they are ahead of the kernel's clocks. The end times are converted to
// the kernel's clocks; a repeated wait therefore takes as long as the original one.
//
// Applies to the main thread only, because only its readings of clocks are recorded.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <threads.h>
#include <time.h>

#include <algorithm>

#include "journal/system_call.h"
#include "libc_recording/real.h"

namespace {

using rejoin::journal::system_call;
using rejoin::libc_recording::kClocks;
using rejoin::libc_recording::kSecond_ns;
using rejoin::libc_recording::observing;
using rejoin::libc_recording::Series;

REJOIN_REAL(clock_gettime);
REJOIN_REAL(clock_nanosleep);
REJOIN_REAL(pthread_cond_clockwait);
REJOIN_REAL(pthread_mutex_timedlock);
REJOIN_REAL(pthread_mutex_clocklock);
REJOIN_REAL(pthread_rwlock_timedrdlock);
REJOIN_REAL(pthread_rwlock_timedwrlock);
REJOIN_REAL(pthread_rwlock_clockrdlock);
REJOIN_REAL(pthread_rwlock_clockwrlock);
REJOIN_REAL(pthread_timedjoin_np);
REJOIN_REAL(pthread_clockjoin_np);
REJOIN_REAL(sem_timedwait);
REJOIN_REAL(sem_clockwait);
REJOIN_REAL(cnd_timedwait);
REJOIN_REAL(mtx_timedlock);
REJOIN_REAL(mq_timedsend);
REJOIN_REAL(mq_timedreceive);
REJOIN_REAL(timerfd_settime);
REJOIN_REAL(timer_create);
REJOIN_REAL(timer_settime);

// Returns how far the program's view of a clock is ahead of the kernel's clock, in ns.
std::int64_t ahead_ns(clockid_t clock) {
  timespec now;
  real_clock_gettime(clock, &now);
  const std::int64_t now_ns = now.tv_sec * kSecond_ns + now.tv_nsec;
  const auto series = static_cast<unsigned>(rejoin::libc_recording::series_of_clock(clock));
  std::int64_t ahead = rejoin_libc_ahead(series, now_ns);
  if (clock != CLOCK_REALTIME) return ahead;
  // gettimeofday() and time() read the same clock, with offsets of their own.
  const auto of_day = static_cast<unsigned>(Series::kTimeOfDay);
  const auto seconds = static_cast<unsigned>(Series::kTime);
  ahead = std::max(ahead, rejoin_libc_ahead(of_day, now_ns / 1000) * 1000);
  return std::max(ahead, rejoin_libc_ahead(seconds, now_ns / kSecond_ns) * kSecond_ns);
}

// An end time of the program, converted to the kernel's clock.
class KernelTime {
 public:
  KernelTime(const void* caller, clockid_t clock, const timespec* time) : given_(time) {
    if (time != nullptr && observing(caller)) convert(clock);
  }
  // REQUIRES that the main thread is observed.
  KernelTime(clockid_t clock, const timespec& time) : given_(&time) { convert(clock); }
  operator const timespec*() const { return given_; }

 private:
  void convert(clockid_t clock) {
    const timespec* time = given_;
    const bool valid = time->tv_nsec >= 0 && time->tv_nsec < kSecond_ns;
    if (clock < 0 || clock >= kClocks || !valid) return;
    const std::int64_t ahead = ahead_ns(clock);
    if (ahead == 0 || (time->tv_sec == 0 && time->tv_nsec == 0)) return;  // zero disarms a timer
    const std::int64_t ns =
        std::max<std::int64_t>(time->tv_sec * kSecond_ns + time->tv_nsec - ahead, 1);
    own_ = {ns / kSecond_ns, ns % kSecond_ns};
    given_ = &own_;
  }

  const timespec* given_;
  timespec own_ = {};
};

// Returns the clock of a condition variable, from the flag in which glibc stores it.
clockid_t clock_of(const pthread_cond_t* condition) {
  constexpr unsigned kMonotonic = 2;
  return (condition->__data.__wrefs & kMonotonic) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

// Returns the clock of a timerfd, read from /proc/self/fdinfo; -1 if that fails.
clockid_t clock_of_timer(int fd) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
  const long info =
      system_call(SYS_openat, AT_FDCWD, reinterpret_cast<long>(path), O_RDONLY | O_CLOEXEC);
  if (info < 0) return -1;
  const long n = system_call(SYS_read, info, reinterpret_cast<long>(text), sizeof text - 1);
  system_call(SYS_close, info);
  text[std::max(n, 0L)] = '\0';
  const char* found = strstr(text, "clockid:");
  return found != nullptr ? atoi(found + strlen("clockid:")) : -1;
}

// The clocks of the POSIX timers that the main thread has created last, in a ring. The kernel does
// not report a timer's clock. A timer that is older than the last kTimers ones, deleted ones
// included, has no known clock here: timer_settime() then passes its absolute times on unconverted.
struct MadeTimer {
  timer_t timer;
  clockid_t clock;
};
constexpr unsigned kTimers = 64;
constinit MadeTimer made[kTimers] = {};
constinit unsigned timers = 0;

// Returns the clock of a POSIX timer; -1: not known.
clockid_t clock_of_timer(timer_t timer) {
  for (unsigned i = 1; i <= std::min(timers, kTimers); ++i) {
    const MadeTimer& m = made[(timers - i) % kTimers];
    if (m.timer == timer) return m.clock;
  }
  return -1;
}

// Converts the times of a timer that first expires at an absolute time.
itimerspec kernel_times(clockid_t clock, const itimerspec& time) {
  const KernelTime kernels(clock, time.it_value);
  return {time.it_interval, *static_cast<const timespec*>(kernels)};
}

// dlsym() without a version could return the incompatible function of glibc before 2.3.2.
using CondTimedWait = int(pthread_cond_t*, pthread_mutex_t*, const timespec*);
CondTimedWait* real_cond_timedwait() {
  static CondTimedWait* found = nullptr;
  CondTimedWait* f = __atomic_load_n(&found, __ATOMIC_RELAXED);
  if (f == nullptr) {
    f = reinterpret_cast<CondTimedWait*>(
        dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2"));
    __atomic_store_n(&found, f, __ATOMIC_RELAXED);
  }
  return f;
}

}  // namespace

REJOIN_REPLACES int clock_nanosleep(clockid_t clock, int flags, const timespec* time,
                                    timespec* rest) {
  if ((flags & TIMER_ABSTIME) == 0) return real_clock_nanosleep(clock, flags, time, rest);
  return real_clock_nanosleep(clock, flags, KernelTime(REJOIN_CALLER, clock, time), rest);
}

REJOIN_REPLACES int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                           const timespec* time) {
  const KernelTime t(REJOIN_CALLER, clock_of(condition), time);
  return real_cond_timedwait()(condition, mutex, t);
}
REJOIN_REPLACES int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                           clockid_t clock, const timespec* time) {
  return real_pthread_cond_clockwait(condition, mutex, clock,
                                     KernelTime(REJOIN_CALLER, clock, time));
}
REJOIN_REPLACES int cnd_timedwait(cnd_t* condition, mtx_t* mutex, const timespec* time) {
  return real_cnd_timedwait(condition, mutex, KernelTime(REJOIN_CALLER, CLOCK_REALTIME, time));
}

REJOIN_REPLACES int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* time) noexcept {
  return real_pthread_mutex_timedlock(mutex, KernelTime(REJOIN_CALLER, CLOCK_REALTIME, time));
}
REJOIN_REPLACES int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock,
                                            const timespec* time) noexcept {
  return real_pthread_mutex_clocklock(mutex, clock, KernelTime(REJOIN_CALLER, clock, time));
}
REJOIN_REPLACES int mtx_timedlock(mtx_t* mutex, const timespec* time) {
  return real_mtx_timedlock(mutex, KernelTime(REJOIN_CALLER, CLOCK_REALTIME, time));
}

REJOIN_REPLACES int pthread_rwlock_timedrdlock(pthread_rwlock_t* lock,
                                               const timespec* time) noexcept {
  return real_pthread_rwlock_timedrdlock(lock, KernelTime(REJOIN_CALLER, CLOCK_REALTIME, time));
}
REJOIN_REPLACES int pthread_rwlock_timedwrlock(pthread_rwlock_t* lock,
                                               const timespec* time) noexcept {
  return real_pthread_rwlock_timedwrlock(lock, KernelTime(REJOIN_CALLER, CLOCK_REALTIME, time));
}
REJOIN_REPLACES int pthread_rwlock_clockrdlock(pthread_rwlock_t* lock, clockid_t clock,
                                               const timespec* time) noexcept {
  return real_pthread_rwlock_clockrdlock(lock, clock, KernelTime(REJOIN_CALLER, clock, time));
}
REJOIN_REPLACES int pthread_rwlock_clockwrlock(pthread_rwlock_t* lock, clockid_t clock,
                                               const timespec* time) noexcept {
  return real_pthread_rwlock_clockwrlock(lock, clock, KernelTime(REJOIN_CALLER, clock, time));
}

REJOIN_REPLACES int pthread_timedjoin_np(pthread_t thread, void** result, const timespec* time) {
  return real_pthread_timedjoin_np(thread, result, KernelTime(REJOIN_CALLER, CLOCK_REALTIME, time));
}
REJOIN_REPLACES int pthread_clockjoin_np(pthread_t thread, void** result, clockid_t clock,
                                         const timespec* time) {
  return real_pthread_clockjoin_np(thread, result, clock, KernelTime(REJOIN_CALLER, clock, time));
}

REJOIN_REPLACES int sem_timedwait(sem_t* semaphore, const timespec* time) {
  return real_sem_timedwait(semaphore, KernelTime(REJOIN_CALLER, CLOCK_REALTIME, time));
}
REJOIN_REPLACES int sem_clockwait(sem_t* semaphore, clockid_t clock, const timespec* time) {
  return real_sem_clockwait(semaphore, clock, KernelTime(REJOIN_CALLER, clock, time));
}

REJOIN_REPLACES int mq_timedsend(mqd_t queue, const char* message, size_t bytes, unsigned priority,
                                 const timespec* time) {
  return real_mq_timedsend(queue, message, bytes, priority,
                           KernelTime(REJOIN_CALLER, CLOCK_REALTIME, time));
}
REJOIN_REPLACES ssize_t mq_timedreceive(mqd_t queue, char* message, size_t bytes,
                                        unsigned* priority, const timespec* time) {
  return real_mq_timedreceive(queue, message, bytes, priority,
                              KernelTime(REJOIN_CALLER, CLOCK_REALTIME, time));
}

REJOIN_REPLACES int timerfd_settime(int fd, int flags, const itimerspec* time,
                                    itimerspec* before) noexcept {
  const bool absolute =
      time != nullptr && (flags & TFD_TIMER_ABSTIME) != 0 && observing(REJOIN_CALLER);
  if (!absolute) return real_timerfd_settime(fd, flags, time, before);
  const itimerspec kernels = kernel_times(clock_of_timer(fd), *time);
  return real_timerfd_settime(fd, flags, &kernels, before);
}
REJOIN_REPLACES int timer_create(clockid_t clock, sigevent* event, timer_t* timer) noexcept {
  const int code = real_timer_create(clock, event, timer);
  if (code == 0 && observing(REJOIN_CALLER)) made[timers++ % kTimers] = {*timer, clock};
  return code;
}
REJOIN_REPLACES int timer_settime(timer_t timer, int flags, const itimerspec* time,
                                  itimerspec* before) noexcept {
  const bool absolute = time != nullptr && (flags & TIMER_ABSTIME) != 0 && observing(REJOIN_CALLER);
  if (!absolute) return real_timer_settime(timer, flags, time, before);
  const itimerspec kernels = kernel_times(clock_of_timer(timer), *time);
  return real_timer_settime(timer, flags, &kernels, before);
}
