// Reports a rank's own fault to the agent before the signal ends the process.
//
// The handler only reports. The signal is then delivered again with its default action and the
// siginfo of the fault. The handler is installed only where the program has none, and a handler
// that the program installs later replaces it.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unwind.h>

#include <algorithm>

#include "journal/system_call.h"
#include "libc_recording/hooks.h"
#include "libc_recording/observed.h"
#include "recovery/attach.h"
#include "wire/socket.h"

namespace rejoin::libc_recording {
namespace {

using journal::system_call;

constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr std::size_t kStackBytes = 64 * 1024;
constexpr unsigned kMostFrames = 16;
constexpr long kKernelMaskBytes = 8;

// Static because the stack of the handler may be small.
alignas(64) std::byte alternate_stack[kStackBytes];
long reporter = 0;         // the thread that reports its fault; only the first fault is reported
sigjmp_buf out_of_memory;  // where a second fault, while the stack is read, returns to
wire::Message report;
journal::ModuleEntry module;

void put(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char* end = report.text + report.text_bytes;
  const std::size_t room = sizeof report.text - report.text_bytes;
  const int bytes = vsnprintf(end, room, format, arguments);
  va_end(arguments);
  if (bytes > 0 && static_cast<std::size_t>(bytes) < room) {
    report.text_bytes += static_cast<std::uint32_t>(bytes);
  }
}

// Appends a line for the frame that returns to `address`.
void put_frame(std::uintptr_t address) {
  std::uint64_t place = 0;
  recovery::attached_rank()->host().locate(reinterpret_cast<const void*>(address), &module, &place);
  char id[2 * sizeof module.build_id + 1] = "-";
  const auto bytes = std::min<std::size_t>(module.build_id_bytes, sizeof module.build_id);
  for (std::size_t i = 0; i < bytes; ++i) {
    snprintf(id + 2 * i, 3, "%02x", static_cast<unsigned>(module.build_id[i]));
  }
  put("\n%llx %s %s", static_cast<unsigned long long>(place), id,
      module.path[0] != '\0' ? module.path : "?");
}

struct Walk {
  std::uintptr_t fault;
  unsigned frames;
};

_Unwind_Reason_Code put_next(_Unwind_Context* frame, void* data) {
  Walk& walk = *static_cast<Walk*>(data);
  int is_exact = 0;
  const std::uintptr_t address = _Unwind_GetIPInfo(frame, &is_exact);
  if (walk.frames == 0 && address != walk.fault) return _URC_NO_REASON;  // a frame of the handler
  if (walk.frames > 0 && address == 0) return _URC_END_OF_STACK;
  put_frame(is_exact != 0 ? address + 1 : address);
  return ++walk.frames < kMostFrames ? _URC_NO_REASON : _URC_END_OF_STACK;
}

void put_stack(const mcontext_t& machine) {
  Walk walk = {static_cast<std::uintptr_t>(machine.gregs[REG_RIP]), 0};
  if (sigsetjmp(out_of_memory, 0) == 0) _Unwind_Backtrace(put_next, &walk);
  if (walk.frames == 0) put_frame(walk.fault + 1);
  // The program has jumped to an address without code: the caller's address is on top of the stack.
  if (walk.frames <= 1 && module.path[0] == '\0' && sigsetjmp(out_of_memory, 0) == 0) {
    put_frame(*reinterpret_cast<const std::uintptr_t*>(machine.gregs[REG_RSP]));
  }
}

// Returns whether the signal was raised by the program itself, not sent by another process.
bool is_own(const siginfo_t& info, int pid) { return info.si_code > 0 || info.si_pid == pid; }

void send_report(int signal, const siginfo_t& info, const ucontext_t& context, int socket) {
  wire::begin_message(report, wire::MessageType::kFault, 0);
  report.code = signal;
  put("%d %lx %llx", info.si_code, reinterpret_cast<std::uintptr_t>(info.si_addr),
      static_cast<unsigned long long>(context.uc_mcontext.gregs[REG_RSP]));
  put_stack(context.uc_mcontext);
  system_call(SYS_sendto, socket, reinterpret_cast<long>(&report),
              static_cast<long>(wire::kMessageHeadBytes + report.text_bytes),
              MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Ends this process by SIGKILL if the report takes too long: the fault may have happened while the
// dynamic linker's lock was held, which the report needs. The kernel's timer needs no thread.
class Deadline {
 public:
  Deadline() {
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    const itimerspec after = {{0, 0}, {kSeconds, 0}};
    set_ = system_call(SYS_timer_create, CLOCK_MONOTONIC, reinterpret_cast<long>(&event),
                       reinterpret_cast<long>(&timer_)) == 0 &&
           system_call(SYS_timer_settime, timer_, 0, reinterpret_cast<long>(&after), 0) == 0;
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  ~Deadline() {
    if (set_) system_call(SYS_timer_delete, timer_);
  }

 private:
  static constexpr time_t kSeconds = 2;
  int timer_ = 0;  // the kernel's type
  bool set_;
};

// Queues the signal again with its default action. It is delivered when the handler returns.
void repeat(int signal, siginfo_t* info, long pid, long thread) {
  constexpr std::uint64_t kDefaultAction[4] = {};  // the kernel's struct sigaction
  const std::uint64_t mask = std::uint64_t{1} << (signal - 1);
  system_call(SYS_rt_sigaction, signal, reinterpret_cast<long>(kDefaultAction), 0,
              kKernelMaskBytes);
  system_call(SYS_rt_sigprocmask, SIG_BLOCK, reinterpret_cast<long>(&mask), 0, kKernelMaskBytes);
  system_call(SYS_rt_tgsigqueueinfo, pid, thread, signal, reinterpret_cast<long>(info));
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const long pid = system_call(SYS_getpid), thread = system_call(SYS_gettid);
  if (__atomic_load_n(&reporter, __ATOMIC_RELAXED) == thread) siglongjmp(out_of_memory, 1);
  long nobody = 0;
  int rank_pid = 0;
  const int socket = rejoin_libc_socket(nullptr, &rank_pid);
  if (socket >= 0 && rank_pid == pid && is_own(*info, rank_pid) &&
      __atomic_compare_exchange_n(&reporter, &nobody, thread, false, __ATOMIC_RELAXED,
                                  __ATOMIC_RELAXED)) {
    const Deadline deadline;
    send_report(signal, *info, *static_cast<const ucontext_t*>(context), socket);
  }
  repeat(signal, info, pid, thread);
}

}  // namespace

void report_faults() {
  int pid = 0;
  // Without librejoin_libc.so the handler could not be hidden from the program.
  if (rejoin_libc_catch_faults == nullptr || rejoin_libc_socket(nullptr, &pid) < 0) return;
  rejoin_libc_catch_faults(kFaults, std::size(kFaults), on_fault, alternate_stack,
                           sizeof alternate_stack);
}

}  // namespace rejoin::libc_recording
