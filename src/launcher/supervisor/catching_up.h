// Progress of restarted ranks, and when it is reported to the user: two seconds after a death, then
// every five seconds, always about the rank that is furthest behind. Pure: times are arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/base/record.h"

namespace rejoin::launcher {

class CatchingUp {
 public:
  explicit CatchingUp(std::uint32_t ranks) : ranks_(ranks) {}

  // The rank has died and is restarted. `at`: its position then; operations up to it are recorded.
  void died(std::uint32_t rank, std::uint64_t at_ns, const Position& at);
  // The rank has caught up, or will not.
  void is_back(std::uint32_t rank) { ranks_[rank] = Rank(); }

  struct Line {
    std::string text;
    std::uint64_t known = 0;               // operations
    std::optional<std::uint64_t> left_ns;  // estimate until it has caught up; none: not known
  };
  // The rank is in its `ordinal`th operation. Returns the line that is due about it, if any.
  std::optional<Line> looked(std::uint32_t rank, std::uint64_t at_ns, std::uint64_t ordinal);

 private:
  struct Sample {
    std::uint64_t at_ns;
    std::uint64_t ordinal;
  };
  struct Rank {
    bool away = false;
    std::uint64_t died_at_ns = 0;
    std::uint64_t known = 0;
    std::vector<Sample> samples;  // evenly spaced, from its first operation on
    std::uint32_t skips = 0;      // looks between two samples
    std::uint32_t skipped = 0;
    std::optional<Sample> newest = {};
  };

  bool is_furthest_behind(std::uint32_t rank, std::uint64_t at_ns) const;
  std::uint32_t others(std::uint32_t rank, std::uint64_t at_ns) const;
  static void remember(Rank& rank, const Sample& sample);
  static std::optional<std::uint64_t> left_ns(const Rank& rank);

  std::vector<Rank> ranks_;
  std::uint64_t next_ns_ = 0;  // before that: no line
};

}  // namespace rejoin::launcher
