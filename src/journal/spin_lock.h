// A lock that is held for a few instructions, now and then for a system call.
#pragma once

#include <atomic>

namespace rejoin::journal {

class SpinLock {
 public:
  class Guard {
   public:
    explicit Guard(SpinLock& lock) : flag_(lock.flag_) {
      while (flag_.test_and_set(std::memory_order_acquire)) __builtin_ia32_pause();
    }
    ~Guard() { flag_.clear(std::memory_order_release); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    std::atomic_flag& flag_;
  };

 private:
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

}  // namespace rejoin::journal
