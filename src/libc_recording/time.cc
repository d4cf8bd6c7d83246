// Clocks and counters: each reading is an observation.
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>

#include <cstring>

#include "libc_recording/process.h"
#include "libc_recording/real.h"

namespace {

using rejoin::libc_recording::kClocks;
using rejoin::libc_recording::kMaxFields;
using rejoin::libc_recording::kSecond_ns;
using rejoin::libc_recording::observing;
using rejoin::libc_recording::Series;

REJOIN_REAL(time);
REJOIN_REAL(clock_gettime);
REJOIN_REAL(clock_getcpuclockid);
REJOIN_REAL(clock);
REJOIN_REAL(times);
REJOIN_REAL(getrusage);
REJOIN_REAL(timespec_get);
REJOIN_REAL_AS(gettimeofday, "gettimeofday", int(timeval*, void*));

constexpr std::int64_t kSecond_us = 1000000;

// Reads the values of a series from the journal, else from `ask`, which fills them in. REQUIRES a
// question that the system always answers.
template <class Ask>
void read_series(Series series, std::int64_t* values, Ask ask) {
  const auto s = static_cast<unsigned>(series);
  if (rejoin_libc_recall_series(s, values)) return;
  ask();
  rejoin_libc_record_series(s, values);
}

void read_clock(clockid_t id, timespec* out) {
  std::int64_t ns;
  read_series(rejoin::libc_recording::series_of_clock(id), &ns, [&] {
    real_clock_gettime(id, out);
    ns = out->tv_sec * kSecond_ns + out->tv_nsec;
  });
  *out = {ns / kSecond_ns, ns % kSecond_ns};
}

// Maps the id of a clock of processor time to CLOCK_PROCESS_CPUTIME_ID or CLOCK_THREAD_CPUTIME_ID
// if it denotes this process or thread: those are recorded and continue in later incarnations.
// Returns other ids unchanged. The id encodes a process or thread id, 0 for the caller's (the
// kernel's posix-timers.h).
clockid_t constant_clock(const void* caller, clockid_t id) {
  constexpr int kPlace = 3, kKind = 3, kScheduled = 2, kOfThread = 4;
  if (id >= 0 || (id & kKind) != kScheduled) return id;
  const pid_t of = ~(id >> kPlace);
  if (of != 0 && !rejoin::libc_recording::is_own_process(caller, of)) return id;
  return (id & kOfThread) != 0 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID;
}

timeval from_us(std::int64_t us) { return {us / kSecond_us, us % kSecond_us}; }

}  // namespace

REJOIN_REPLACES time_t time(time_t* out) noexcept {
  if (!observing(REJOIN_CALLER)) return real_time(out);
  std::int64_t seconds;
  read_series(Series::kTime, &seconds, [&] { seconds = real_time(nullptr); });
  if (out != nullptr) *out = seconds;
  return seconds;
}

REJOIN_REPLACES int gettimeofday(timeval* out, void* zone) noexcept {
  if (!observing(REJOIN_CALLER)) return real_gettimeofday(out, zone);
  if (zone != nullptr) real_gettimeofday(nullptr, zone);  // a constant
  std::int64_t us;
  read_series(Series::kTimeOfDay, &us, [&] {
    timeval now;
    real_gettimeofday(&now, nullptr);
    us = now.tv_sec * kSecond_us + now.tv_usec;
  });
  // libc declares `out` as never null, and takes null nevertheless.
  if (timeval* volatile to = out; to != nullptr) *to = from_us(us);
  return 0;
}

REJOIN_REPLACES int clock_gettime(clockid_t given, timespec* out) noexcept {
  const void* caller = REJOIN_CALLER;
  if (given >= kClocks || !observing(caller)) return real_clock_gettime(given, out);
  const clockid_t id = constant_clock(caller, given);
  if (id < 0) return real_clock_gettime(id, out);
  read_clock(id, out);
  return 0;
}

REJOIN_REPLACES int clock_getcpuclockid(pid_t process, clockid_t* id) noexcept {
  constexpr clockid_t kOfCaller =
      -6;  // the clock of the calling process, so valid in later incarnations
  if (!rejoin::libc_recording::is_own_process(REJOIN_CALLER, process)) {
    return real_clock_getcpuclockid(process, id);
  }
  *id = kOfCaller;
  return 0;
}

REJOIN_REPLACES int timespec_get(timespec* out, int base) noexcept {
  if (base != TIME_UTC || !observing(REJOIN_CALLER)) return real_timespec_get(out, base);
  read_clock(CLOCK_REALTIME, out);
  return base;
}

REJOIN_REPLACES clock_t clock() noexcept {
  if (!observing(REJOIN_CALLER)) return real_clock();
  std::int64_t us;
  read_series(Series::kProcessor, &us, [&] { us = real_clock(); });
  return us;
}

REJOIN_REPLACES clock_t times(tms* out) noexcept {
  if (!observing(REJOIN_CALLER)) return real_times(out);
  std::int64_t v[kMaxFields];
  read_series(Series::kTimes, v, [&] {
    tms t;
    v[0] = real_times(&t);
    v[1] = t.tms_utime;
    v[2] = t.tms_stime;
    v[3] = t.tms_cutime;
    v[4] = t.tms_cstime;
  });
  if (out != nullptr) *out = {v[1], v[2], v[3], v[4]};
  return v[0];
}

REJOIN_REPLACES int getrusage(__rusage_who_t who, rusage* out) noexcept {
  const bool known = who == RUSAGE_SELF || who == RUSAGE_CHILDREN || who == RUSAGE_THREAD;
  if (!known || !observing(REJOIN_CALLER)) return real_getrusage(who, out);
  const Series series = who == RUSAGE_SELF       ? Series::kUsageSelf
                        : who == RUSAGE_CHILDREN ? Series::kUsageChildren
                                                 : Series::kUsageThread;
  std::int64_t v[kMaxFields];
  constexpr std::size_t kTimes = 2;  // the fields that are no plain number
  long* const rest = &out->ru_maxrss;
  read_series(series, v, [&] {
    real_getrusage(who, out);
    v[0] = out->ru_utime.tv_sec * kSecond_us + out->ru_utime.tv_usec;
    v[1] = out->ru_stime.tv_sec * kSecond_us + out->ru_stime.tv_usec;
    std::memcpy(v + kTimes, rest, (kMaxFields - kTimes) * sizeof *v);
  });
  out->ru_utime = from_us(v[0]);
  out->ru_stime = from_us(v[1]);
  std::memcpy(rest, v + kTimes, (kMaxFields - kTimes) * sizeof *v);
  return 0;
}
static_assert(sizeof(rusage) == kMaxFields * sizeof(long) + 2 * sizeof(long));
