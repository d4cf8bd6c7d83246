// Recorded bytes that differ from run to run: random numbers, and information about the system.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <malloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "journal/system_call.h"
#include "libc_recording/files.h"
#include "libc_recording/observed_reads.h"
#include "libc_recording/real.h"

namespace rejoin::libc_recording {
namespace {

using journal::system_call;

REJOIN_REAL_AS(openat, "openat", int(int, const char*, int, ...));
REJOIN_REAL(read);
REJOIN_REAL(getrandom);
REJOIN_REAL(getentropy);
REJOIN_REAL(sysinfo);
REJOIN_REAL(getloadavg);
REJOIN_REAL(sysconf);
REJOIN_REAL(sched_getcpu);
REJOIN_REAL_AS(mallinfo2, "mallinfo2", struct mallinfo2());
REJOIN_REAL_AS(mallinfo, "mallinfo", struct mallinfo());
REJOIN_REAL(fileno);
REJOIN_REAL_AS(arc4random_buf, "arc4random_buf", void(void*, std::size_t));
REJOIN_REAL_AS(arc4random_uniform, "arc4random_uniform", std::uint32_t(std::uint32_t));
REJOIN_REAL_AS(random_device, "_ZNSt13random_device9_M_getvalEv", unsigned(void*));

// Puts bytes into `to`: recorded ones, else those of `really`, which returns like read().
template <class Really>
ssize_t observe_bytes(void* to, std::size_t bytes, Really really) {
  Event e{ObservationKind::kRandom, static_cast<std::uint32_t>(bytes)};
  e.data = to;
  e.room_bytes = e.detail;
  if (ask(e) == Answer::kLive) {
    const ssize_t got = really();
    e.error = got < 0 ? errno : 0;
    e.data_bytes = got < 0 ? 0 : static_cast<std::uint32_t>(got);
    record(e);
  }
  if (e.error != 0) {
    errno = e.error;
    return -1;
  }
  return e.data_bytes;
}

// Returns the recorded value, else the one that `really` returns.
template <class Really>
auto observe_value(Really&& really) {
  auto value = decltype(really()){};
  observe_bytes(&value, sizeof value, [&] {
    value = really();
    return static_cast<ssize_t>(sizeof value);
  });
  return value;
}

bool is_of_system(const struct statfs& f) {
  return f.f_type == PROC_SUPER_MAGIC || f.f_type == SYSFS_MAGIC;
}

bool is_observed(int fd) {
  constexpr unsigned kMemoryDevices = 1, kRandom = 8, kUrandom = 9;
  struct stat s;
  if (system_call(SYS_fstat, fd, reinterpret_cast<long>(&s)) != 0) return false;
  if (S_ISREG(s.st_mode)) {
    struct statfs f;
    return fstatfs(fd, &f) == 0 && is_of_system(f);
  }
  if (!S_ISCHR(s.st_mode) || major(s.st_rdev) != kMemoryDevices) return false;
  return minor(s.st_rdev) == kRandom || minor(s.st_rdev) == kUrandom;
}

// Whether a file in /proc describes the memory or registers of a process.
bool is_of_own_memory(const char* path) {
  const char* slash = strrchr(path, '/');
  const char* name = slash != nullptr ? slash + 1 : path;
  for (const char* other : {"maps", "mem", "pagemap", "auxv", "numa_maps", "clear_refs", "stack",
                            "syscall", "smaps", "smaps_rollup"}) {
    if (strcmp(name, other) == 0) return true;
  }
  return false;
}

bool is_file_of_system(const char* path) {
  struct statfs f;
  if (statfs(path, &f) != 0 || !is_of_system(f)) return false;
  char found[PATH_MAX];
  struct stat s;
  return realpath(path, found) != nullptr && !is_of_own_memory(found) &&
         system_call(SYS_stat, reinterpret_cast<long>(found), reinterpret_cast<long>(&s)) == 0 &&
         S_ISREG(s.st_mode);
}

// Whether a descriptor referred to such a file when it was opened. Main thread only.
constexpr int kDescriptors = 1024;
bool opened_as_observed[kDescriptors];

ssize_t read_observed(int fd, void* to, std::size_t bytes) {
  if (!is_observed(fd)) {  // the descriptor was closed since, and its number reused
    opened_as_observed[fd] = false;
    return real_read(fd, to, bytes);
  }
  return observe_bytes(to, bytes, [&] { return real_read(fd, to, bytes); });
}

bool maybe_observed(int fd) { return fd >= 0 && fd < kDescriptors && opened_as_observed[fd]; }

// The streams that this file has opened, with their descriptors for fileno(). Each element is its
// stream's cookie.
struct ObservedStream {
  FILE* stream;
  int fd;
};
constexpr std::size_t kStreams = 64;
ObservedStream streams[kStreams];
std::size_t open_streams = 0;

ssize_t read_stream(void* cookie, char* to, std::size_t bytes) {
  const int fd = static_cast<ObservedStream*>(cookie)->fd;
  if (!observing(nullptr)) return real_read(fd, to, bytes);
  return observe_bytes(to, bytes, [&] { return real_read(fd, to, bytes); });
}

int seek_stream(void* cookie, off64_t* offset, int from) {
  const off64_t now = lseek(static_cast<ObservedStream*>(cookie)->fd, *offset, from);
  if (now < 0) return -1;
  *offset = now;
  return 0;
}

int close_stream(void* cookie) {
  auto* s = static_cast<ObservedStream*>(cookie);
  const int result = close(s->fd);
  s->stream = nullptr;
  --open_streams;
  return result;
}

}  // namespace

bool is_read_observed(const char* path) {
  if (path == nullptr) return false;
  return strcmp(path, "/dev/urandom") == 0 || strcmp(path, "/dev/random") == 0 ||
         is_file_of_system(path);
}

int observe_reads(int fd) {
  if (fd >= 0 && fd < kDescriptors) opened_as_observed[fd] = true;
  return fd;
}

FILE* open_observed_stream(const char* path) {
  ObservedStream* slot = std::find_if(streams, streams + kStreams,
                                      [](const ObservedStream& s) { return s.stream == nullptr; });
  if (slot == streams + kStreams) {
    errno = EMFILE;
    return nullptr;
  }
  slot->fd = observe_reads(real_openat(AT_FDCWD, path, O_RDONLY));
  if (slot->fd < 0) return nullptr;
  slot->stream = fopencookie(slot, "r", {read_stream, nullptr, seek_stream, close_stream});
  if (slot->stream == nullptr) {
    close(slot->fd);
    return nullptr;
  }
  ++open_streams;
  return slot->stream;
}

}  // namespace rejoin::libc_recording

using namespace rejoin::libc_recording;

REJOIN_REPLACES ssize_t read(int fd, void* to, size_t bytes) {
  if (!maybe_observed(fd) || !observing(REJOIN_CALLER)) return real_read(fd, to, bytes);
  return read_observed(fd, to, bytes);
}

REJOIN_REPLACES ssize_t __read_chk(int fd, void* to, size_t bytes, size_t room) {
  if (bytes > room) abort();
  if (!maybe_observed(fd) || !observing(REJOIN_CALLER)) return real_read(fd, to, bytes);
  return read_observed(fd, to, bytes);
}

REJOIN_REPLACES int fileno(FILE* stream) noexcept {
  if (open_streams != 0) {
    for (const ObservedStream& s : streams) {
      if (s.stream == stream) return s.fd;
    }
  }
  return real_fileno(stream);
}
REJOIN_REPLACES int fileno_unlocked(FILE*) noexcept __attribute__((alias("fileno")));

REJOIN_REPLACES ssize_t getrandom(void* to, size_t bytes, unsigned flags) {
  if (!observing(REJOIN_CALLER)) return real_getrandom(to, bytes, flags);
  return observe_bytes(to, bytes, [&] { return real_getrandom(to, bytes, flags); });
}

REJOIN_REPLACES int getentropy(void* to, size_t bytes) {
  if (!observing(REJOIN_CALLER)) return real_getentropy(to, bytes);
  const ssize_t got = observe_bytes(to, bytes, [&]() -> ssize_t {
    return real_getentropy(to, bytes) == 0 ? static_cast<ssize_t>(bytes) : -1;
  });
  return got < 0 ? -1 : 0;
}

REJOIN_REPLACES void arc4random_buf(void* to, size_t bytes) noexcept {
  if (!observing(REJOIN_CALLER)) return real_arc4random_buf(to, bytes);
  observe_bytes(to, bytes, [&] {
    real_arc4random_buf(to, bytes);
    return static_cast<ssize_t>(bytes);
  });
}

REJOIN_REPLACES std::uint32_t arc4random() noexcept {
  std::uint32_t value;
  if (!observing(REJOIN_CALLER)) {
    real_arc4random_buf(&value, sizeof value);
    return value;
  }
  observe_bytes(&value, sizeof value, [&] {
    real_arc4random_buf(&value, sizeof value);
    return static_cast<ssize_t>(sizeof value);
  });
  return value;
}

REJOIN_REPLACES std::uint32_t arc4random_uniform(std::uint32_t below) noexcept {
  if (!observing(REJOIN_CALLER)) return real_arc4random_uniform(below);
  std::uint32_t value;
  observe_bytes(&value, sizeof value, [&] {
    value = real_arc4random_uniform(below);
    return static_cast<ssize_t>(sizeof value);
  });
  return value;
}

// std::random_device asks the processor itself.
REJOIN_REPLACES unsigned observed_random_device(void*) asm("_ZNSt13random_device9_M_getvalEv");
unsigned observed_random_device(void* self) {
  if (!observing(REJOIN_CALLER)) return real_random_device(self);
  unsigned value;
  observe_bytes(&value, sizeof value, [&] {
    value = real_random_device(self);
    return static_cast<ssize_t>(sizeof value);
  });
  return value;
}

// --- System information by function calls

REJOIN_REPLACES int sysinfo(struct sysinfo* out) noexcept {
  if (!observing(REJOIN_CALLER)) return real_sysinfo(out);
  const ssize_t got = observe_bytes(out, sizeof *out, [&]() -> ssize_t {
    return real_sysinfo(out) == 0 ? static_cast<ssize_t>(sizeof *out) : -1;
  });
  return got < 0 ? -1 : 0;
}

REJOIN_REPLACES int getloadavg(double* loads, int count) noexcept {
  if (count <= 0 || !observing(REJOIN_CALLER)) return real_getloadavg(loads, count);
  constexpr int kMost = 3;
  double all[kMost] = {};
  const ssize_t got = observe_bytes(all, sizeof all, [&]() -> ssize_t {
    const int n = real_getloadavg(all, kMost);
    return n < 0 ? -1 : static_cast<ssize_t>(sizeof *all) * n;
  });
  if (got < 0) return -1;
  const int n = std::min(count, static_cast<int>(static_cast<std::size_t>(got) / sizeof *all));
  std::copy_n(all, n, loads);
  return n;
}

REJOIN_REPLACES long sysconf(int name) noexcept {
  const bool observed = name == _SC_AVPHYS_PAGES && observing(REJOIN_CALLER);
  return observed ? observe_value([name] { return real_sysconf(name); }) : real_sysconf(name);
}

REJOIN_REPLACES struct mallinfo mallinfo() noexcept {
  return observing(REJOIN_CALLER) ? observe_value(real_mallinfo) : real_mallinfo();
}

REJOIN_REPLACES struct mallinfo2 mallinfo2() noexcept {
  return observing(REJOIN_CALLER) ? observe_value(real_mallinfo2) : real_mallinfo2();
}

REJOIN_REPLACES int sched_getcpu() noexcept {
  return observing(REJOIN_CALLER) ? observe_value(real_sched_getcpu) : real_sched_getcpu();
}
