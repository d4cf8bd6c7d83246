// How far the ranks have come that were started again, and when that is worth a line for the user:
// one two seconds after a death, then one every five seconds, always about the rank that is
// furthest behind. Pure: times come with what is told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/supervisor/record.h"

namespace rejoin::launcher {

class CatchingUp {
 public:
  explicit CatchingUp(std::uint32_t ranks) : ranks_(ranks) {}

  // It is started again. `at`: where it stood, so what is known to be recorded.
  void died(std::uint32_t rank, std::uint64_t at_ns, const Position& at);
  // It has caught up, or will not.
  void is_back(std::uint32_t rank) { ranks_[rank] = Rank(); }

  struct Line {
    std::string text;
    std::uint64_t known = 0;               // operations
    std::optional<std::uint64_t> left_ns;  // until it is there; none: there is no telling
  };
  // A look at a rank, in its `ordinal`th operation: the line that is due about it, if any.
  std::optional<Line> looked(std::uint32_t rank, std::uint64_t at_ns, std::uint64_t ordinal);

 private:
  struct Sample {
    std::uint64_t at_ns;
    std::uint64_t ordinal;
  };
  struct Rank {
    bool away = false;
    std::uint64_t died_at_ns = 0;  // since when it is away
    std::uint64_t known = 0;
    std::vector<Sample> samples;  // at even distances, from its first operation on
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
