#include "process_image/keeper.h"

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>

#include "wire/messages.h"
#include "wire/open_descriptors.h"

// Only these functions, their stack, and the thread's control block, to which the kernel writes,
// remain of the process. They therefore call no other functions and have no data: they lie in a
// section of their own, and the compiler must add nothing to them.
#define REJOIN_KEEPER                                                                  \
  __attribute__((section("rejoin_keeper"), no_stack_protector, no_instrument_function, \
                 no_sanitize("address", "undefined", "thread")))

extern "C" {
extern const char __start_rejoin_keeper[] __attribute__((visibility("hidden")));
extern const char __stop_rejoin_keeper[] __attribute__((visibility("hidden")));
}

namespace rejoin::process_image {
namespace {

using wire::MessageType;

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kStackBytes = 16 * kPageBytes;  // below the caller's frame

// The head of a wire::Message.
struct Head {
  MessageType type;
  std::uint32_t rank;
  std::int32_t code;
  std::uint32_t incarnation;
  std::uint64_t value;
  std::uint32_t text_bytes;
};
static_assert(offsetof(Head, text_bytes) == offsetof(wire::Message, text_bytes));

REJOIN_KEEPER long kernel(long number, long a = 0, long b = 0, long c = 0, long d = 0) {
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = 0;
  register long r9 asm("r9") = 0;
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

REJOIN_KEEPER long address(const void* p) { return reinterpret_cast<long>(p); }

struct Range {
  std::uint64_t from, to;
};

REJOIN_KEEPER Range pages_of(std::uint64_t from, std::uint64_t to) {
  return {from & -kPageBytes, (to + kPageBytes - 1) & -kPageBytes};
}

// Without this the keeper would hold a second copy of every page that the rank writes to. Nothing
// large lies above the stack.
REJOIN_KEEPER void give_memory_back() {
  const auto stack = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  const auto thread = reinterpret_cast<std::uint64_t>(__builtin_thread_pointer());
  Range kept[3];
  kept[0] = pages_of(reinterpret_cast<std::uint64_t>(__start_rejoin_keeper),
                     reinterpret_cast<std::uint64_t>(__stop_rejoin_keeper));
  kept[1] = pages_of(thread, thread + kPageBytes);
  kept[2] = pages_of(stack - kStackBytes, stack);
  for (int i = 1; i < 3; ++i) {
    for (int k = i; k > 0 && kept[k].from < kept[k - 1].from; --k) {
      const Range higher = kept[k - 1];
      kept[k - 1] = kept[k];
      kept[k] = higher;
    }
  }
  std::uint64_t from = 0;
  for (int i = 0; i < 3; ++i) {
    if (kept[i].from > from) {
      kernel(SYS_munmap, static_cast<long>(from), static_cast<long>(kept[i].from - from));
    }
    from = kept[i].to > from ? kept[i].to : from;
  }
}

// Reports to the agent a signal that this process was sent.
REJOIN_KEEPER void tell_of_signal(int agent, int signals, std::uint32_t rank) {
  signalfd_siginfo info;
  if (kernel(SYS_read, signals, address(&info), sizeof info) != sizeof info) return;
  Head m;
  m.type = MessageType::kSignalled;
  m.rank = rank;
  m.code = static_cast<std::int32_t>(info.ssi_signo);
  m.incarnation = 0;
  m.value = 0;
  m.text_bytes = 0;
  kernel(SYS_sendto, agent, address(&m), wire::kMessageHeadBytes, MSG_NOSIGNAL);
}

REJOIN_KEEPER void listen(int agent) {
  Head m;
  const long got = kernel(SYS_recvfrom, agent, address(&m), sizeof m, MSG_DONTWAIT);
  if (got == static_cast<long>(wire::kMessageHeadBytes) && m.type == MessageType::kEnd) {
    kernel(SYS_exit_group, m.code);
  }
  if (got == 0) {
    // No process waits for this one, or ftrun has ended.
    kernel(SYS_kill, kernel(SYS_getpid), SIGKILL);
  }
}

REJOIN_KEEPER __attribute__((noinline, noclone, noreturn)) void sleep_in_place(int agent,
                                                                               int signals,
                                                                               std::uint32_t rank) {
  give_memory_back();
  for (;;) {
    pollfd both[2];
    both[0].fd = agent;
    both[0].events = POLLIN;
    both[1].fd = signals;
    both[1].events = POLLIN;
    kernel(SYS_poll, address(both), 2, -1);
    if (both[1].revents != 0) tell_of_signal(agent, signals, rank);
    if (both[0].revents != 0) listen(agent);
  }
}

}  // namespace

void be_keeper(int agent, std::uint32_t rank) {
  prctl(PR_SET_NAME, "rejoin-keeper");
  sigset_t all;
  sigfillset(&all);
  for (const int its_own : {SIGCHLD, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGURG, SIGWINCH}) {
    sigdelset(&all, its_own);
  }
  const int signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
  wire::each_descriptor([=](int fd) {
    if (fd != agent && fd != signals) syscall(SYS_close, fd);
    return true;
  });
  sleep_in_place(agent, signals, rank);
}

}  // namespace rejoin::process_image
