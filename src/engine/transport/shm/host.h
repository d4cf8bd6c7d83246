// The real host: a mapped segment, futex doorbells, the processor's own clock of patience.
//
// A Host is what the engine and the recovery need of the world around them. The simulated one
// (transport/sim/host.h) has the same members:
//   base(), rank()        the segment and who I am
//   step(Step)            a place where the simulator may interfere; nothing here
//   fence_published(), fence_announced()  the two store-load barriers of a doorbell, see waiting.h
//   poll(turn)            called between two looks while waiting; false: time to sleep
//   sleep()               waits for my bell, for a limited time; spurious returns are allowed
//   ring(rank)            sets a rank's bell and wakes it
//   back(begin, bytes)    makes shared memory safe to touch; false: there is no more
//   touch(rank, begin, bytes)  the same for payload in any rank's region that its owner only
//                         reserved; does nothing for what this process has touched before
//   locate(address, m, p) which loaded module an address of code lies in, and where in its file
//   now_ns()              a clock that only goes forward, for people; the program does not see it
//   die()                 SIGKILL to myself (fault injection)
//   stop(text)            the job cannot go on: waits to be killed (without an agent: exits)
//   tell(type, code, value, text)  one message to the agent
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/segment.h"
#include "engine/step.h"
#include "wire/messages.h"

namespace rejoin::engine {

class ShmHost {
 public:
  // No protocol needs the limit; a lost wake-up costs this instead of a hang.
  static constexpr int kSleepLimitMs = 200;
  static constexpr int kNoLimit = -1;  // for the test that there is none

  // `agent_socket`: connected descriptor, or -1 (a world of one without an agent).
  ShmHost(std::byte* base, std::uint32_t rank, int agent_socket,
          int sleep_limit_ms = kSleepLimitMs);
  ShmHost(const ShmHost&) = delete;
  ShmHost& operator=(const ShmHost&) = delete;

  std::byte* base() const { return base_; }
  std::uint32_t rank() const { return rank_; }
  bool has_agent() const { return agent_socket_ >= 0; }

  void step(Step) {}

  // Publishing is frequent, sleeping is not: where there is a processor for each rank, only the
  // compiler is told here, and who goes to sleep makes the kernel run a barrier on all processors
  // of the job.
  void fence_published() {
    if (light_publish_) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      full_fence();
    }
  }
  void fence_announced();

  bool poll(unsigned turn) {
    if (turn < spins_) {
      __builtin_ia32_pause();
      return true;
    }
    return poll_slowly(turn);
  }

  void sleep();
  void ring(std::uint32_t rank);
  bool back(std::byte* begin, std::size_t bytes);
  bool touch(std::uint32_t rank, std::byte* begin, std::size_t bytes);
  void locate(const void* address, ModuleEntry* module, std::uint64_t* place);
  std::uint64_t now_ns();
  [[noreturn]] void die();
  [[noreturn]] void stop(const char* text);
  void tell(wire::MessageType type, std::int32_t code, std::uint64_t value, const char* text,
            std::size_t text_bytes);

 private:
  bool poll_slowly(unsigned turn);
  void full_fence() {
#if defined(__SANITIZE_THREAD__)
    // ThreadSanitizer does not know fences; a read-modify-write on a private word orders as much.
    tsan_fence_.fetch_add(1, std::memory_order_seq_cst);
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  }

  std::byte* base_;
  std::uint32_t rank_;
  int agent_socket_;
  int sleep_limit_ms_;
  bool light_publish_;
  unsigned spins_;                         // looks with a pause between them
  unsigned looks_;                         // until sleep
  unsigned yield_every_;                   // looks in between
  std::byte* touched_to_[kMaxRanks] = {};  // in each rank's payload, which is handed out upwards
#if defined(__SANITIZE_THREAD__)
  std::atomic<unsigned> tsan_fence_{0};
#endif
};

// Whether this kernel can order the stores of other processes (SegmentHeader::light_publish).
bool can_publish_lightly();

}  // namespace rejoin::engine
