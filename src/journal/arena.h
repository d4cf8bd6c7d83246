// The shim's own memory: never the program's malloc, and never where the program's mappings go, so
// that pointers replay. Power-of-two size classes over one reserved range. Threads may share it:
// the main thread records libc while another one is inside MPI.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "journal/spin_lock.h"

namespace rejoin::journal {

class Arena {
 public:
  // Memory that the caller owns and that outlives the arena. Zeroed by the caller (fresh mappings
  // are). REQUIRES 64-byte alignment of `memory`.
  Arena(std::byte* memory, std::size_t bytes)
      : begin_(memory), next_(memory), end_(memory + bytes) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Returns at least `bytes`, 64-byte aligned, contents undefined; nullptr: the range is used up.
  void* allocate(std::size_t bytes) {
    const SpinLock::Guard guard(lock_);
    const int k = size_class(bytes);
    if (k >= kClasses) return nullptr;
    if (free_[k] != nullptr) {
      Free* f = free_[k];
      free_[k] = f->next;
      return f;
    }
    const std::size_t size = std::size_t{kSmallest} << k;
    if (static_cast<std::size_t>(end_ - next_) < size) return nullptr;
    void* p = next_;
    next_ += size;
    return p;
  }
  // REQUIRES `bytes` as in the allocate() that gave `p`. nullptr is allowed.
  void release(void* p, std::size_t bytes) {
    if (p == nullptr) return;
    const SpinLock::Guard guard(lock_);
    const int k = size_class(bytes);
    free_[k] = new (p) Free{free_[k]};
  }

  // Bytes of the range used so far.
  std::size_t used_bytes() const { return static_cast<std::size_t>(next_ - begin_); }

  template <class T, class... Args>
  T* make(Args&&... args) {
    void* p = allocate(sizeof(T));
    return p == nullptr ? nullptr : new (p) T(std::forward<Args>(args)...);
  }
  template <class T>
  T* make_array(std::size_t count) {  // value-initialised
    void* p = allocate(count * sizeof(T));
    return p == nullptr ? nullptr : new (p) T[count]();
  }
  template <class T>
  void destroy(T* p) {
    if (p == nullptr) return;
    p->~T();
    release(p, sizeof(T));
  }

 private:
  static constexpr std::size_t kSmallest = 64;
  static constexpr int kClasses = 40;
  struct Free {
    Free* next;
  };
  static int size_class(std::size_t bytes) {
    return bytes <= kSmallest ? 0 : std::bit_width((bytes - 1) / kSmallest);
  }

  SpinLock lock_;
  std::byte* const begin_;
  std::byte* next_;
  std::byte* end_;
  Free* free_[kClasses] = {};
};

}  // namespace rejoin::journal
