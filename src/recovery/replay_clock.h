// Estimates how long the operations of a replay take without reading a clock twice for each: the
// first ones are all measured, then one of many, scaled up. Processor time is measured: a call that
// was interrupted for some milliseconds would count for all the calls that it stands for.
#pragma once

#include <cstdint>
#include <utility>

namespace rejoin::recovery {

class ReplayClock {
 public:
  // `reading_ns`: what a pair of readings measures when nothing lies between them.
  void start(std::uint64_t reading_ns) {
    reading_ns_ = reading_ns;
    is_running_ = true;
  }
  // The call that is being measured is no longer replay, and does not count.
  void stop() { is_running_ = is_measuring_ = false; }
  bool is_running() const { return is_running_; }
  bool is_measuring() const { return is_measuring_; }

  // Called around a call that is measured. Only the outermost one is.
  void begin(std::uint64_t cpu_ns) {
    is_measuring_ = true;
    began_ns_ = cpu_ns;
  }
  // Returns how many calls later the next one is to be measured.
  std::uint32_t end(std::uint64_t cpu_ns) {
    if (!std::exchange(is_measuring_, false)) return 1;
    const std::uint64_t took_ns = cpu_ns - began_ns_;
    total_ns_ += took_ns > reading_ns_ ? (took_ns - reading_ns_) * stride_ : 0;
    if (stride_ == 1 && ++measured_ == kAllOfFirst) stride_ = kStride;
    return stride_;
  }

  std::uint64_t total_ns() const { return total_ns_; }

 private:
  static constexpr std::uint32_t kAllOfFirst = 64;
  static constexpr std::uint32_t kStride = 251;  // a prime: programs repeat themselves

  std::uint64_t total_ns_ = 0;
  std::uint64_t began_ns_ = 0;
  std::uint64_t reading_ns_ = 0;
  std::uint32_t stride_ = 1;  // calls that the next measured one stands for
  std::uint32_t measured_ = 0;
  bool is_running_ = false;
  bool is_measuring_ = false;
};

}  // namespace rejoin::recovery
