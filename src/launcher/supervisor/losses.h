// What deaths have cost a job, for its end. Pure: times come with what is told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/supervisor/record.h"

namespace rejoin::launcher {

class Losses {
 public:
  explicit Losses(std::uint32_t ranks) : ranks_(ranks) {}

  // restarted: it is started again; else its death ends the job.
  void died(std::uint32_t rank, std::uint64_t at_ns, const Cause& cause, const Position& at,
            const Fault& fault, bool restarted);
  // It has caught up, and what it went on from; or it will not.
  void is_back(std::uint32_t rank, std::uint64_t at_ns,
               std::optional<RecoveryPoint::Kind> from = {});

  bool any() const { return sum_.deaths > 0; }
  // REQUIRES any().
  Summary at_end(std::uint64_t at_ns, const Totals& totals) const;

 private:
  struct Rank {
    bool away = false;
    std::uint64_t since_ns = 0;
  };
  // If its absence until now is the longest.
  void count(Summary& sum, std::uint32_t rank, std::uint64_t at_ns) const;

  std::vector<Rank> ranks_;
  std::uint32_t away_ = 0;           // ranks
  std::uint64_t away_since_ns_ = 0;  // any of them
  Summary sum_;
};

// For the user: the first says how many and what they cost, the others where.
std::vector<std::string> lines_of(const Summary& summary);

}  // namespace rejoin::launcher
