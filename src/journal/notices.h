// What a rank has to handle as it enters its next operation: the agent counts notices up when it
// wants a snapshot, when marks have moved or when the journal has grown; the rank itself may have
// something to look at, too.
#pragma once

#include <atomic>
#include <cstdint>

#include "journal/layout.h"

namespace rejoin::journal {

class Notices {
 public:
  template <class H>
  explicit Notices(const H& host) : word_(header_of(host.base())->notices) {}

  // Whether there is something to handle.
  bool pending() const {
    return word_.load(std::memory_order_relaxed) != handled_.load(std::memory_order_relaxed);
  }
  // The agent's count; handled(count) says that all up to there is handled.
  std::uint32_t count() const { return word_.load(); }
  void handled(std::uint32_t count) { handled_.store(count, std::memory_order_relaxed); }
  // There is something to handle at the next operation, whatever the agent counts. May be called by
  // a thread that records libc.
  void raise() {
    raised_.store(true, std::memory_order_relaxed);
    again();
  }
  // Handles what there is once more at the next operation.
  void again() { handled(count() - 1); }
  // Whether raise() was called since the last time.
  bool take_raised() { return raised_.exchange(false, std::memory_order_relaxed); }

 private:
  const AgentWord<std::uint32_t>& word_;
  std::atomic<std::uint32_t> handled_{0};
  std::atomic<bool> raised_{false};
};

}  // namespace rejoin::journal
