// Turns a fresh process into a rank's written image: before any other library is initialised, the
// restorer unmaps all that is mapped and maps what the image contains (written_image.h).
//
// It has two halves. The first checks, and can still refuse, while the process is whole. The second
// runs from a copy of this text at kRestorerAddress, on a stack there, uses nothing that lies
// elsewhere, and can no longer explain a failure: it exits with a RestorerStep. Neither half uses a
// library, because none is initialised yet.
#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/un.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cstddef>

#include "process_image/written_image.h"
#include "wire/messages.h"

extern "C" {
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

// The compiler calls these for copies of structs.
__attribute__((visibility("hidden"))) void* memcpy(void* to, const void* from, std::size_t bytes) {
  auto* t = static_cast<volatile char*>(to);
  const auto* f = static_cast<const char*>(from);
  for (std::size_t i = 0; i < bytes; ++i) t[i] = f[i];
  return to;
}
__attribute__((visibility("hidden"))) void* memset(void* to, int value, std::size_t bytes) {
  auto* t = static_cast<volatile char*>(to);
  for (std::size_t i = 0; i < bytes; ++i) t[i] = static_cast<char>(value);
  return to;
}
}

namespace rejoin::process_image {
namespace {

using Kind = MappingHead::Kind;

inline long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                 long f = 0) {
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}
template <class T>
inline long word(T value) {
  return (long)value;  // NOLINT: a pointer or a number, as the kernel takes it
}

[[noreturn]] inline void leave(int code) {
  for (;;) call(SYS_exit_group, code);
}

struct Range {
  uint64_t begin, end;
};

// The vdso and its data, by the kernel's names for them.
struct KernelMapping {
  char name[24];
  Range now, then;
};
constexpr int kMostKernelMappings = 6;

// The input of the second half, which lies in the same mapping as its stack.
struct Task {
  Restored restored;  // first: at kRestorerAddress
  int file;
  ImageHead head;
  Range stack;
  KernelMapping kernel[kMostKernelMappings];
  int kernels;
  char path[4096];
};
constexpr uint64_t kTextAt = kRestorerAddress + (1 << 20);
constexpr uint64_t kStackEnd = kRestorerAddress + kRestorerBytes;
constexpr uint64_t kSpare = kRestorerAddress + 2 * kRestorerBytes;  // for moves
constexpr uint64_t kSpareBytes = 1 << 20;
static_assert(sizeof(Task) < 1 << 20);

// False: the file ends there.
inline bool read_at(int file, uint64_t& at, void* to, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    const long n = call(SYS_pread64, file, word(to) + word(done), word(bytes - done), word(at));
    if (n == -4) continue;  // EINTR
    if (n <= 0) return false;
    done += static_cast<uint64_t>(n);
    at += static_cast<uint64_t>(n);
  }
  return true;
}

// --- The second half

inline void unmap_between(uint64_t begin, uint64_t end) {
  if (begin < end && call(SYS_munmap, word(begin), word(end - begin)) != 0) leave(kRestorerUnmap);
}

// Unmaps all but this text, the stack, and the kernel's mappings.
inline void unmap_all(const Task& t) {
  uint64_t from = 0;
  for (;;) {
    Range next = {kAddressesEnd, kAddressesEnd};
    const auto consider = [&](Range r) {
      if (r.begin >= from && r.begin < next.begin) next = r;
    };
    consider({kRestorerAddress, kRestorerAddress + kRestorerBytes});
    consider(t.stack);
    for (int i = 0; i < t.kernels; ++i) consider(t.kernel[i].now);
    unmap_between(from, next.begin);
    if (next.begin == kAddressesEnd) return;
    from = next.end;
  }
}

inline void move(uint64_t from, uint64_t to, uint64_t bytes) {
  const long flags = MREMAP_MAYMOVE | MREMAP_FIXED;
  const long at = call(SYS_mremap, word(from), word(bytes), word(bytes), flags, word(to));
  if (at != word(to)) leave(kRestorerKernel);
}

inline void move_kernel_mappings(const Task& t) {
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < t.kernels; ++i) {
      const KernelMapping& k = t.kernel[i];
      const uint64_t spare = kSpare + static_cast<uint64_t>(i) * kSpareBytes;
      if (k.now.begin == k.then.begin) continue;
      if (pass == 0) move(k.now.begin, spare, k.now.end - k.now.begin);
      if (pass == 1) move(spare, k.then.begin, k.now.end - k.now.begin);
    }
  }
}

inline void map(const Task& t, const MappingHead& m, const char* path) {
  if (m.kind == Kind::kKernel || m.end == t.stack.end) return;
  const long bytes = word(m.end - m.begin);
  const bool file = m.kind == Kind::kFile;
  long fd = -1;
  if (file && (fd = call(SYS_open, word(path), O_RDONLY | O_CLOEXEC)) < 0) leave(kRestorerFile);
  const long flags = MAP_FIXED | (m.shared != 0 ? MAP_SHARED : MAP_PRIVATE) |
                     (file ? 0 : MAP_ANONYMOUS | MAP_NORESERVE);
  const long protection = m.shared != 0 ? m.protection : PROT_READ | PROT_WRITE;
  const long at =
      call(SYS_mmap, word(m.begin), bytes, protection, flags, fd, word(file ? m.offset : 0));
  if (at != word(m.begin)) leave(file ? kRestorerFile : kRestorerMemory);
  if (file) call(SYS_close, fd);
}

inline void protect(const Task& t, const MappingHead& m) {
  const bool as_mapped = m.protection == (PROT_READ | PROT_WRITE) || m.shared != 0;
  if (m.kind == Kind::kKernel || as_mapped) return;
  const uint64_t begin = m.end == t.stack.end ? t.stack.begin : m.begin;
  if (call(SYS_mprotect, word(begin), word(m.end - begin), m.protection) != 0) {
    leave(kRestorerMemory);
  }
}

inline void map_all(Task& t) {
  uint64_t at = t.head.head_bytes;
  for (;;) {
    MappingHead m;
    if (!read_at(t.file, at, &m, sizeof m)) leave(kRestorerContents);
    if (m.kind == Kind::kEnd) return;
    if (!read_at(t.file, at, t.path, m.path_bytes)) leave(kRestorerContents);
    map(t, m, t.path);
    for (;;) {
      Extent e;
      if (!read_at(t.file, at, &e, sizeof e)) leave(kRestorerContents);
      if (e.bytes == 0) break;
      if (!read_at(t.file, at, reinterpret_cast<void*>(e.begin), e.bytes)) leave(kRestorerContents);
    }
    protect(t, m);
  }
}

[[noreturn]] __attribute__((noinline)) void become(Task* task) {
  Task& t = *task;
  if (call(SYS_brk, word(t.head.brk)) != word(t.head.brk)) leave(kRestorerBrk);
  unmap_all(t);
  move_kernel_mappings(t);
  map_all(t);
  call(SYS_close, t.file);
  if (call(SYS_arch_prctl, ARCH_SET_FS, word(t.head.fs_base)) != 0) leave(kRestorerThread);
  if (t.head.gs_base != 0) call(SYS_arch_prctl, ARCH_SET_GS, word(t.head.gs_base));
  asm volatile(
      "mov %0, %%rsp\n"
      "push $0\n"  // as after a call
      "jmp *%1\n"
      :
      : "r"(t.head.stack), "r"(t.head.entry), "D"(&t.restored)
      : "memory");
  __builtin_unreachable();
}

// --- The first half

struct Surroundings {
  const char* order = nullptr;  // "INCARNATION PATH"
  const char* socket = nullptr;
  const char* secret = nullptr;
  const char* rank = nullptr;
  const char* file_log = nullptr;
};

// Returns the value of NAME in an entry NAME=VALUE; nullptr: the entry has another name.
const char* value_of(const char* entry, const char* name) {
  while (*name != '\0') {
    if (*entry++ != *name++) return nullptr;
  }
  return *entry == '=' ? entry + 1 : nullptr;
}

uint32_t number(const char*& text) {
  uint32_t n = 0;
  while (*text >= '0' && *text <= '9') n = 10 * n + static_cast<uint32_t>(*text++ - '0');
  return n;
}

uint64_t address(const char*& text) {
  uint64_t n = 0;
  for (;; ++text) {
    const char c = *text;
    if (c >= '0' && c <= '9') {
      n = 16 * n + static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      n = 16 * n + static_cast<uint64_t>(c - 'a' + 10);
    } else {
      return n;
    }
  }
}

uint32_t add(char* to, uint32_t at, uint32_t most, const char* text) {
  while (text != nullptr && *text != '\0' && at < most) to[at++] = *text++;
  return at;
}

bool starts_with(const char* text, const char* begin) {
  while (*begin != '\0') {
    if (*text++ != *begin++) return false;
  }
  return true;
}

// Reports to the agent why this process cannot be the rank, and exits.
[[noreturn]] void refuse(const Surroundings& s, uint32_t incarnation, const char* why) {
  sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  const uint32_t name_bytes = add(to.sun_path, 1, sizeof to.sun_path, s.socket);
  const long fd = call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const long length = static_cast<long>(offsetof(sockaddr_un, sun_path)) + name_bytes;
  wire::Message m = {};
  m.type = wire::MessageType::kWoken;
  const char* rank = s.rank != nullptr ? s.rank : "";
  m.rank = number(rank);
  m.incarnation = incarnation;
  m.text_bytes = add(m.text, 0, wire::kMaxText, s.secret);
  m.text_bytes = add(m.text, m.text_bytes, wire::kMaxText, why);
  const long bytes = wire::kMessageHeadBytes + m.text_bytes;
  if (fd >= 0 && call(SYS_connect, fd, word(&to), length) == 0 &&
      call(SYS_sendto, fd, word(&m), bytes, MSG_NOSIGNAL) == bytes) {
    call(SYS_read, fd, word(&m), sizeof m);  // the answer
  }
  leave(1);
}

// Calls f(range, name) for each mapping of this process.
template <class F>
bool each_mapping(F f) {
  static char text[1 << 20];
  const long fd = call(SYS_open, word("/proc/self/maps"), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  long there = 0;
  for (long n; (n = call(SYS_read, fd, word(text + there), sizeof text - 1 - there)) > 0;) {
    there += n;
  }
  call(SYS_close, fd);
  text[there] = '\0';
  for (const char* p = text; *p != '\0';) {
    Range r;
    r.begin = address(p);
    r.end = address(++p);
    const char* name = "";
    for (; *p != '\0' && *p != '\n'; ++p) {
      if (*p == '[') name = p;
    }
    if (*p == '\n') ++p;
    f(r, name);
  }
  return true;
}

const char* look_at_this_process(Task& t) {
  bool in_the_way = false, too_many = false;
  const bool good = each_mapping([&](Range r, const char* name) {
    in_the_way |= r.begin < kSpare + kMostKernelMappings * kSpareBytes && r.end > kRestorerAddress;
    if (starts_with(name, "[stack]")) t.stack = r;
    if (!starts_with(name, "[v") || starts_with(name, "[vsyscall]")) return;
    too_many |= t.kernels == kMostKernelMappings;
    if (too_many) return;
    KernelMapping& k = t.kernel[t.kernels++];
    for (unsigned i = 0; i + 1 < sizeof k.name && name[i] != '\n' && name[i] != '\0'; ++i) {
      k.name[i] = name[i];
    }
    k.now = r;
  });
  if (!good || too_many) return "this process's mappings cannot be read";
  if (in_the_way) return "another mapping is at the addresses that the restorer needs";
  if (t.stack.end != kAddressesEnd) return "address randomisation cannot be switched off here";
  return nullptr;
}

// Checks that the image fits this kernel, and that it maps nothing where it is restored from.
const char* look_at_image(Task& t) {
  uint64_t at = 0;
  if (!read_at(t.file, at, &t.head, sizeof t.head)) return "its written image is cut off";
  if (t.head.format != kImageFormat || t.head.head_bytes != sizeof t.head) {
    return "its image was written by another version of Rejoin";
  }
  int found = 0;
  for (;;) {
    MappingHead m;
    if (!read_at(t.file, at, &m, sizeof m)) return "its written image is cut off";
    if (m.kind == Kind::kEnd) break;
    if (m.path_bytes > sizeof t.path) return "its written image is damaged";
    if (!read_at(t.file, at, t.path, m.path_bytes)) return "its written image is cut off";
    const bool in_the_way =
        m.begin < kSpare + kMostKernelMappings * kSpareBytes && m.end > kRestorerAddress;
    if (in_the_way) return "it has a mapping at the addresses that the restorer needs";
    for (Extent e;;) {
      if (!read_at(t.file, at, &e, sizeof e)) return "its written image is cut off";
      if (e.bytes == 0) break;
      at += e.bytes;
    }
    for (int i = 0; m.kind == Kind::kKernel && i < t.kernels; ++i) {
      KernelMapping& k = t.kernel[i];
      const bool same = starts_with(t.path, k.name) && m.end - m.begin == k.now.end - k.now.begin;
      if (!same) continue;
      k.then = {m.begin, m.end};
      ++found;
    }
  }
  return found == t.kernels ? nullptr
                            : "the kernel's vdso is not the one that the image was made with";
}

const char* open_image(Task& t, const char* path) {
  constexpr long kHigh = 910;
  const long fd = call(SYS_open, word(path), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "its written image cannot be opened";
  long high = call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, kHigh);
  if (high < 0) high = fd;
  if (high != fd) call(SYS_close, fd);
  t.file = static_cast<int>(high);
  for (int i = 0; i < 3; ++i) {
    const long pipe = call(SYS_fcntl, i, F_DUPFD_CLOEXEC, kHigh);
    t.restored.pipes[i] =
        static_cast<int32_t>(pipe >= 0 ? pipe : call(SYS_fcntl, i, F_DUPFD_CLOEXEC, 3));
  }
  return nullptr;
}

void restore(const Surroundings& s) {
  const uint64_t all = ~uint64_t{0};
  call(SYS_rt_sigprocmask, SIG_SETMASK, word(&all), 0, sizeof all);
  const char* path = s.order;
  const uint32_t incarnation = number(path);
  if (*path == ' ') ++path;
  static Task task;
  Task& t = task;
  t.restored.incarnation = incarnation;
  add(t.restored.socket, 0, sizeof t.restored.socket - 1, s.socket);
  add(t.restored.file_log, 0, sizeof t.restored.file_log - 1, s.file_log);
  add(t.restored.secret, 0, sizeof t.restored.secret - 1, s.secret);
  const char* why = look_at_this_process(t);
  if (why == nullptr) why = open_image(t, path);
  if (why == nullptr) why = look_at_image(t);
  if (why != nullptr) refuse(s, incarnation, why);
  constexpr long kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE;
  const long at = call(SYS_mmap, word(kRestorerAddress), kRestorerBytes,
                       PROT_READ | PROT_WRITE | PROT_EXEC, kFlags, -1, 0);
  if (at != word(kRestorerAddress)) {
    refuse(s, incarnation, "there is no memory for the restorer");
  }
  auto* there = reinterpret_cast<Task*>(kRestorerAddress);
  memcpy(there, &t, sizeof t);
  memcpy(reinterpret_cast<void*>(kTextAt), __ehdr_start,
         static_cast<std::size_t>(etext - __ehdr_start));
  const uint64_t copy =
      kTextAt + (reinterpret_cast<uint64_t>(&become) - reinterpret_cast<uint64_t>(__ehdr_start));
  asm volatile(
      "mov %0, %%rsp\n"
      "push $0\n"
      "jmp *%1\n"
      :
      : "r"(kStackEnd), "r"(copy), "D"(there)
      : "memory");
  __builtin_unreachable();
}

__attribute__((constructor)) void begin(int, char**, char** environment) {
  Surroundings s;
  for (char** e = environment; *e != nullptr; ++e) {
    if (const char* v = value_of(*e, wire::kEnvRestore)) s.order = v;
    if (const char* v = value_of(*e, wire::kEnvSocket)) s.socket = v;
    if (const char* v = value_of(*e, wire::kEnvSecret)) s.secret = v;
    if (const char* v = value_of(*e, wire::kEnvRank)) s.rank = v;
    if (const char* v = value_of(*e, wire::kEnvFileLog)) s.file_log = v;
  }
  if (s.order != nullptr) restore(s);
}

}  // namespace
}  // namespace rejoin::process_image
