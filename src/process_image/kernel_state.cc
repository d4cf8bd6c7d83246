#include "process_image/kernel_state.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

// Where the C library keeps what it has registered for restartable sequences; since glibc 2.35.
extern "C" {
__attribute__((weak)) extern const std::ptrdiff_t __rseq_offset;
__attribute__((weak)) extern const unsigned __rseq_size;
}

namespace rejoin::process_image {
namespace {

constexpr std::size_t kMaskBytes = 8;
constexpr unsigned kRseqBytes = 32;
constexpr unsigned kRseqSignature = 0x53053053;

bool can_be_handled(int signal) { return signal != SIGKILL && signal != SIGSTOP; }

}  // namespace

void KernelState::note_places() {
  char text[2048];
  const int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  text[n > 0 ? n : 0] = '\0';
  // The second field is the name, which may hold anything.
  char* p = strrchr(text, ')');
  for (int field = 3; p != nullptr && field < kFields; ++field) {
    p = strchr(p + 1, ' ');
    if (p != nullptr) place_[field] = strtoul(p, nullptr, 10);
  }
}

// Restores the places where tools find this process's arguments and environment. Nothing depends on
// it, and older kernels forbid it.
void KernelState::give_back_places() const {
  prctl_mm_map map = {};
  map.start_code = place_[26];
  map.end_code = place_[27];
  map.start_stack = place_[28];
  map.start_data = place_[45];
  map.end_data = place_[46];
  map.start_brk = place_[47];
  map.brk = static_cast<std::uint64_t>(syscall(SYS_brk, 0));
  map.arg_start = place_[48];
  map.arg_end = place_[49];
  map.env_start = place_[50];
  map.env_end = place_[51];
  map.exe_fd = ~0u;
  prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0);
}

void KernelState::note() {
  note_places();
  for (int s = 1; s <= kSignals; ++s) {
    if (can_be_handled(s)) syscall(SYS_rt_sigaction, s, nullptr, &action_[s - 1], kMaskBytes);
  }
  syscall(SYS_sigaltstack, nullptr, &stack_);
  for (int i = 0; i < static_cast<int>(RLIM_NLIMITS); ++i) {
    syscall(SYS_prlimit64, 0, i, nullptr, &limit_[i]);
  }
  umask_ = umask(0);
  umask(umask_);
  timer_slack_ns_ = static_cast<unsigned long>(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0));
  no_new_privileges_ = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
  const long bytes = syscall(SYS_getcwd, directory_, sizeof directory_);
  if (bytes <= 0) directory_[0] = '\0';
  asm volatile("stmxcsr %0" : "=m"(mxcsr_));
  asm volatile("fnstcw %0" : "=m"(x87_));
}

bool KernelState::give_back(const char** what) const {
  give_back_places();
  if (&__rseq_size != nullptr && __rseq_size > 0) {
    *what = "its restartable sequences";
    auto* area = static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset;
    if (syscall(SYS_rseq, area, kRseqBytes, 0, kRseqSignature) != 0) return false;
  }
  *what = "its signal handlers";
  for (int s = 1; s <= kSignals; ++s) {
    if (!can_be_handled(s)) continue;
    if (syscall(SYS_rt_sigaction, s, &action_[s - 1], nullptr, kMaskBytes) != 0) return false;
  }
  if (syscall(SYS_sigaltstack, &stack_, nullptr) != 0) return false;
  *what = "its limits";
  for (int i = 0; i < static_cast<int>(RLIM_NLIMITS); ++i) {
    rlimit now = {};
    syscall(SYS_prlimit64, 0, i, nullptr, &now);
    const rlimit then = {std::min(limit_[i].rlim_cur, now.rlim_max), now.rlim_max};
    if (syscall(SYS_prlimit64, 0, i, &then, nullptr) != 0) return false;
  }
  umask(umask_);
  prctl(PR_SET_TIMERSLACK, timer_slack_ns_, 0, 0, 0);
  *what = "its flag no_new_privs";
  if (no_new_privileges_ && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  *what = "its working directory";
  if (chdir(directory_) != 0) return false;
  asm volatile("ldmxcsr %0" : : "m"(mxcsr_));
  asm volatile("fldcw %0" : : "m"(x87_));
  return true;
}

}  // namespace rejoin::process_image
