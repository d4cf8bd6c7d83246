#include "engine/transport/sim/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// Saves what the x86-64 calling convention lets a function keep, and the stack pointer; takes both
// from the other stack. void rejoin_sim_switch(void** save, void* load)
asm(R"(
.text
.p2align 4
.globl rejoin_sim_switch
.hidden rejoin_sim_switch
.type rejoin_sim_switch, @function
rejoin_sim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size rejoin_sim_switch, .-rejoin_sim_switch
)");
extern "C" void rejoin_sim_switch(void** save, void* load);

namespace rejoin::engine {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;
constexpr std::size_t kGuardBytes = 4096;
constexpr int kSavedRegisters = 6;

thread_local Fiber* entering = nullptr;

}  // namespace

Fiber::Fiber() {
  void* p = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  mprotect(p, kGuardBytes, PROT_NONE);
  stack_ = static_cast<std::byte*>(p) + kGuardBytes;
}

Fiber::~Fiber() {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
  munmap(stack_ - kGuardBytes, kGuardBytes + kStackBytes);
}

void Fiber::start(Body body, void* argument) {
  body_ = body;
  argument_ = argument;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
  // The stack as rejoin_sim_switch leaves it: registers, then the return address. The slot above it
  // stays empty, so that enter() finds the alignment of a called function.
  auto* top = reinterpret_cast<std::uintptr_t*>(stack_ + kStackBytes) - 2;
  *top = reinterpret_cast<std::uintptr_t>(&Fiber::enter);
  for (int i = 1; i <= kSavedRegisters; ++i) top[-i] = 0;
  inside_ = top - kSavedRegisters;
}

namespace {

// AddressSanitizer would object: it lies in frames that are in use.
__attribute__((no_sanitize("address"))) void copy_words(const std::byte* from, std::byte* to,
                                                        std::size_t bytes) {
  for (std::size_t i = 0; i < bytes / sizeof(std::uint64_t); ++i) {
    reinterpret_cast<volatile std::uint64_t*>(to)[i] =
        reinterpret_cast<const volatile std::uint64_t*>(from)[i];
  }
}

}  // namespace

Fiber::Frozen Fiber::freeze() const {
  const auto* from = static_cast<std::byte*>(inside_);
  Frozen frozen = {std::vector<std::byte>(static_cast<std::size_t>(stack_ + kStackBytes - from)),
                   inside_};
  copy_words(from, frozen.stack.data(), frozen.stack.size());
  return frozen;
}

void Fiber::thaw(const Frozen& frozen) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
  inside_ = frozen.inside;
  copy_words(frozen.stack.data(), static_cast<std::byte*>(inside_), frozen.stack.size());
}

void Fiber::resume() {
  entering = this;
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack_, kStackBytes);
#endif
  rejoin_sim_switch(&outside_, inside_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, outer_stack_, outer_bytes_);
#endif
  rejoin_sim_switch(&inside_, outside_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, &outer_stack_, &outer_bytes_);
#endif
}

void Fiber::arrived() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &outer_stack_, &outer_bytes_);
#endif
}

void Fiber::enter() {
  Fiber* self = entering;
  self->arrived();
  self->body_(self->argument_);
  __builtin_trap();
}

}  // namespace rejoin::engine
