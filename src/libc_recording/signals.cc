// Hides the shim's handlers for faults (fault_report.cc) from the program: a query returns the
// default action, and no alternate stack. A handler that the program sets replaces the shim's.
#include <signal.h>
#include <string.h>

#include "libc_recording/real.h"

extern "C" {
int __sigaction(int number, const struct sigaction* action, struct sigaction* old) noexcept;
sighandler_t __sysv_signal(int number, sighandler_t handler) noexcept;
sighandler_t bsd_signal(int number, sighandler_t handler) noexcept;
}

namespace {

REJOIN_REAL_AS(sigaction, "sigaction", int(int, const struct sigaction*, struct sigaction*));
REJOIN_REAL_AS(sigaltstack, "sigaltstack", int(const stack_t*, stack_t*));
using Setter = sighandler_t(int, sighandler_t);
REJOIN_REAL_AS(signal, "signal", Setter);
REJOIN_REAL_AS(sysv_signal, "sysv_signal", Setter);
REJOIN_REAL_AS(sigset, "sigset", Setter);

constinit RejoinFaultHandler hidden = nullptr;
constinit const void* hidden_stack = nullptr;

bool is_hidden(const struct sigaction& action) {
  return hidden != nullptr && (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == hidden;
}

sighandler_t shown(sighandler_t old) {
  const bool is_ours =
      reinterpret_cast<std::uintptr_t>(old) == reinterpret_cast<std::uintptr_t>(hidden);
  return hidden != nullptr && is_ours ? SIG_DFL : old;
}

bool has_hidden_stack() {
  stack_t now = {};
  return hidden_stack != nullptr && real_sigaltstack(nullptr, &now) == 0 &&
         now.ss_sp == hidden_stack;
}

int set_action(int number, const struct sigaction* action, struct sigaction* old) {
  // The handler asks for an alternate stack without having set one: without the shim it runs on the
  // thread's own stack.
  if (action != nullptr && (action->sa_flags & SA_ONSTACK) != 0 && has_hidden_stack()) {
    const stack_t none = {.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    real_sigaltstack(&none, nullptr);
  }
  const int code = real_sigaction(number, action, old);
  if (code == 0 && old != nullptr && is_hidden(*old)) memset(old, 0, sizeof *old);
  return code;
}

}  // namespace

void rejoin_libc_catch_faults(const int* signals, int count, RejoinFaultHandler handler,
                              void* stack, std::size_t stack_bytes) {
  hidden = handler;
  struct sigaction ours = {};
  ours.sa_sigaction = handler;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (int i = 0; i < count; ++i) {
    struct sigaction now = {};
    if (real_sigaction(signals[i], nullptr, &now) != 0) continue;
    if ((now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL) continue;
    real_sigaction(signals[i], &ours, nullptr);
  }
  stack_t now = {};
  if (real_sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
  hidden_stack = stack;
  const stack_t alternate = {.ss_sp = stack, .ss_flags = 0, .ss_size = stack_bytes};
  real_sigaltstack(&alternate, nullptr);
}

REJOIN_REPLACES int sigaction(int number, const struct sigaction* action,
                              struct sigaction* old) noexcept {
  return set_action(number, action, old);
}
REJOIN_REPLACES int __sigaction(int number, const struct sigaction* action,
                                struct sigaction* old) noexcept {
  return set_action(number, action, old);
}
REJOIN_REPLACES sighandler_t signal(int number, sighandler_t handler) noexcept {
  return shown(real_signal(number, handler));
}
REJOIN_REPLACES sighandler_t ssignal(int number, sighandler_t handler) noexcept {
  return shown(real_signal(number, handler));
}
REJOIN_REPLACES sighandler_t bsd_signal(int number, sighandler_t handler) noexcept {
  return shown(real_signal(number, handler));
}
REJOIN_REPLACES sighandler_t sysv_signal(int number, sighandler_t handler) noexcept {
  return shown(real_sysv_signal(number, handler));
}
REJOIN_REPLACES sighandler_t __sysv_signal(int number, sighandler_t handler) noexcept {
  return shown(real_sysv_signal(number, handler));
}
REJOIN_REPLACES sighandler_t sigset(int number, sighandler_t handler) noexcept {
  return shown(real_sigset(number, handler));
}
REJOIN_REPLACES int sigaltstack(const stack_t* stack, stack_t* old) noexcept {
  const bool hides = old != nullptr && has_hidden_stack();
  const int code = real_sigaltstack(stack, old);
  if (code == 0 && hides) *old = {.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  return code;
}
