// Protects two descriptors of the shim, the connection to the agent and ftrun's lifeline, from
// programs that close all descriptors they did not open. Closing them fails with EBADF, as if they
// were not open. Forked children may close them.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "journal/system_call.h"
#include "libc_recording/real.h"

namespace {

using rejoin::journal::system_call;

REJOIN_REAL(close);
REJOIN_REAL(closefrom);
REJOIN_REAL_AS(close_range, "close_range", int(unsigned, unsigned, int));

constexpr int kHighest = 899;  // launcher/base/lifeline.cc
constexpr int kUnknown = -2, kNone = -1;
constinit int known_lifeline = kUnknown;

bool is_lifeline(int fd) { return system_call(SYS_fcntl, fd, F_GETSIG) == SIGKILL; }

// Returns the lifeline's descriptor, which has the same number in the process and all its clones.
int lifeline() {
  int fd = __atomic_load_n(&known_lifeline, __ATOMIC_RELAXED);
  if (fd != kUnknown) return fd;
  for (fd = kHighest; fd > kNone && !is_lifeline(fd);) --fd;
  __atomic_store_n(&known_lifeline, fd, __ATOMIC_RELAXED);
  return fd;
}

// The protected descriptors in ascending order; -1 for none.
struct Kept {
  int fd[2] = {kNone, kNone};
  int pid = 0;  // the rank's process id in the kernel
  bool is_this_process() const { return system_call(SYS_getpid) == pid; }
};

Kept kept(const void* caller) {
  Kept k;
  if (rejoin_libc_socket == nullptr) return k;
  const int socket = rejoin_libc_socket(caller, &k.pid);
  if (socket < 0) return k;
  k.fd[0] = lifeline();
  k.fd[1] = socket;
  if (k.fd[0] > k.fd[1]) std::swap(k.fd[0], k.fd[1]);
  return k;
}

int close_between(const Kept& k, unsigned first, unsigned last, int flags) {
  if (!k.is_this_process()) return real_close_range(first, last, flags);
  for (const int fd : k.fd) {
    const auto ours = static_cast<unsigned>(fd);
    if (fd < 0 || ours < first || ours > last) continue;
    if (ours > first && real_close_range(first, ours - 1, flags) != 0) return -1;
    if (ours == last) return 0;
    first = ours + 1;
  }
  return real_close_range(first, last, flags);
}

}  // namespace

REJOIN_REPLACES int close(int fd) {
  const Kept k = kept(REJOIN_CALLER);
  const bool ours = fd >= 0 && (fd == k.fd[0] || fd == k.fd[1]) && k.is_this_process();
  if (!ours) return real_close(fd);
  errno = EBADF;
  return -1;
}
REJOIN_REPLACES int close_range(unsigned first, unsigned last, int flags) noexcept {
  const Kept k = kept(REJOIN_CALLER);
  return first <= last ? close_between(k, first, last, flags)
                       : real_close_range(first, last, flags);
}
REJOIN_REPLACES void closefrom(int low) noexcept {
  const Kept k = kept(REJOIN_CALLER);
  const auto first = static_cast<unsigned>(std::max(low, 0));
  if (k.fd[1] < 0 || close_between(k, first, ~0U, 0) != 0) real_closefrom(low);
}
