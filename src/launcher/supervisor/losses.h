// Collects what deaths have cost a job, for the summary at its end. Pure: times are arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/base/record.h"

namespace rejoin::launcher {

class Losses {
 public:
  explicit Losses(std::uint32_t ranks) : ranks_(ranks) {}

  // restarted: the rank is started again; otherwise its death ends the job.
  void died(std::uint32_t rank, std::uint64_t at_ns, const Cause& cause, const Position& at,
            const Fault& fault, bool restarted);
  // The rank has caught up, starting from `from`; without that: it will not.
  void is_back(std::uint32_t rank, std::uint64_t at_ns,
               std::optional<RecoveryPoint::Kind> from = {});

  // All ranks have gone back by that time.
  void rolled_back(std::uint64_t at_ns, std::uint64_t by_ns);

  // The job begins again, with all ranks.
  void begins_again(std::uint64_t at_ns);
  std::uint32_t beginnings() const { return sum_.beginnings; }

  bool any() const { return sum_.deaths > 0 || sum_.rollbacks > 0 || sum_.beginnings > 0; }
  // REQUIRES any().
  Summary at_end(std::uint64_t at_ns, const Totals& totals) const;

 private:
  struct Rank {
    bool away = false;
    std::uint64_t since_ns = 0;
  };
  // Updates the longest absence in `sum`, if the rank's absence until now is longer.
  void count(Summary& sum, std::uint32_t rank, std::uint64_t at_ns) const;

  std::vector<Rank> ranks_;
  std::uint32_t away_ = 0;           // ranks
  std::uint64_t away_since_ns_ = 0;  // the earliest of them
  Summary sum_;
};

// Lines for the user: the first has the number of deaths and their cost, the others their places.
std::vector<std::string> lines_of(const Summary& summary);

}  // namespace rejoin::launcher
