#include "recovery/checkpoint_policy.h"

#include <algorithm>

namespace rejoin::recovery {
namespace {

constexpr double kWritingShare = 0.02;
constexpr std::uint64_t kMaxDistance = 1024;
constexpr double kShortestVersion_s = 1e-9;  // coarser clocks say 0

}  // namespace

std::uint64_t lazy_distance(const LazyInterval& interval, double write_cost_s,
                            std::uint64_t max_growth_bytes) {
  if (interval.versions == 0) return 1;
  const std::uint64_t most = std::min(2 * interval.versions, kMaxDistance);
  const double version_s = interval.duration_s / static_cast<double>(interval.versions);
  const double cheap = write_cost_s / kWritingShare / std::max(version_s, kShortestVersion_s);
  // Compared as doubles: `cheap` may be more than an integer holds.
  std::uint64_t distance =
      cheap < static_cast<double>(most) ? static_cast<std::uint64_t>(cheap) + 1 : most;
  if (max_growth_bytes != 0) {
    const std::uint64_t growth = interval.journal_growth_bytes / interval.versions + 1;
    distance = std::min(distance, max_growth_bytes / growth);
  }
  return std::clamp<std::uint64_t>(distance, 1, most);
}

}  // namespace rejoin::recovery
