#include "process_image/interrupted_call.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include <cstddef>
#include <cstdint>

namespace rejoin::process_image {
namespace {

struct Range {
  std::uint64_t begin = 0, end = 0;
  bool has(std::uint64_t address) const { return address >= begin && address < end; }
};
Range libc_code;

int find_libc(dl_phdr_info* info, std::size_t, void* found) {
  const auto inside = reinterpret_cast<std::uint64_t>(&gnu_get_libc_version);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& h = info->dlpi_phdr[i];
    if (h.p_type != PT_LOAD || (h.p_flags & PF_X) == 0) continue;
    const Range code = {info->dlpi_addr + h.p_vaddr, info->dlpi_addr + h.p_vaddr + h.p_memsz};
    if (!code.has(inside)) continue;
    *static_cast<Range*>(found) = code;
    return 1;
  }
  return 0;
}

// Returns the number of the system call that was made by the instruction before `next`, or -1. The
// register that held it holds the result now. The C library loads the number as a constant,
// mov $NUMBER, %eax, a few instructions before the call.
long number_of_call(std::uint64_t next) {
  constexpr std::uint64_t kCallBytes = 2, kLoadBytes = 5, kFarthest = 40;
  constexpr unsigned char kSyscall[] = {0x0f, 0x05};
  constexpr unsigned char kLoad = 0xb8, kPrefix = 0x40, kPrefixMask = 0xf0;  // of another register
  if (!libc_code.has(next - kCallBytes - kLoadBytes - kFarthest) || !libc_code.has(next)) return -1;
  const auto* call = reinterpret_cast<const unsigned char*>(next - kCallBytes);
  if (memcmp(call, kSyscall, sizeof kSyscall) != 0) return -1;
  for (const unsigned char* p = call - kLoadBytes; p > call - kFarthest; --p) {
    if (*p != kLoad || (p[-1] & kPrefixMask) == kPrefix) continue;
    std::uint32_t number;
    memcpy(&number, p + 1, sizeof number);
    return number;
  }
  return -1;
}

bool can_be_made_again(long number, greg_t* r) {
  switch (number) {
    case SYS_nanosleep:
      // The kernel has stored the time that is left, if the program wants to know it.
      if (r[REG_RSI] == 0) return false;
      r[REG_RDI] = r[REG_RSI];
      return true;
    case SYS_clock_nanosleep:
      if ((r[REG_RSI] & TIMER_ABSTIME) != 0) return true;
      if (r[REG_R10] == 0) return false;
      r[REG_RDX] = r[REG_R10];
      return true;
    case SYS_futex: {
      // With a set of bits, the time limit is a time, not a duration.
      const auto operation = r[REG_RSI] & FUTEX_CMD_MASK;
      return operation == FUTEX_WAIT_BITSET || (operation == FUTEX_WAIT && r[REG_R10] == 0);
    }
    case SYS_poll:
      return static_cast<int>(r[REG_RDX]) < 0;
    case SYS_epoll_wait:
      return static_cast<int>(r[REG_R10]) < 0;
    case SYS_epoll_pwait:
      return static_cast<int>(r[REG_R10]) < 0 && r[REG_R8] == 0;
    case SYS_ppoll:
      // The kernel has stored the time that is left in the limit, which is the C library's copy.
      return r[REG_R10] == 0;
    case SYS_pselect6: {
      const auto* mask = reinterpret_cast<const void* const*>(r[REG_R9]);
      return mask == nullptr || *mask == nullptr;
    }
    case SYS_pause:
    case SYS_semop:
    case SYS_msgrcv:
    case SYS_msgsnd:
      return true;
    case SYS_semtimedop:
      return r[REG_R10] == 0;
    default:
      return false;
  }
}

}  // namespace

void find_code_of_libc() {
  if (libc_code.end == 0) dl_iterate_phdr(find_libc, &libc_code);
}

void continue_call(ucontext_t& context) {
  constexpr std::uint64_t kCallBytes = 2;
  greg_t* r = context.uc_mcontext.gregs;
  if (r[REG_RAX] != -EINTR) return;
  const long number = number_of_call(static_cast<std::uint64_t>(r[REG_RIP]));
  if (number < 0 || !can_be_made_again(number, r)) return;
  r[REG_RIP] -= static_cast<greg_t>(kCallBytes);
  r[REG_RAX] = number;
}

}  // namespace rejoin::process_image
