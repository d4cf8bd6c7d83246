#include "launcher/agent/protection_reports.h"

#include <algorithm>

namespace rejoin::launcher {

void ProtectionReports::start() {
  if (plan_.options.events_path.empty()) return;
  heartbeat_timer_.set(loop_.now_ns() + plan_.options.heartbeat_ns);
}

void ProtectionReports::image_kept(std::uint32_t rank) {
  count_exposed(rank);
  ranks_[rank].at_ns = loop_.now_ns();
  ranks_[rank].fresh = true;
  ++totals_.snapshots;
  report_snapshot();
}

void ProtectionReports::finalized(std::uint32_t rank) {
  count_exposed(rank);
  ranks_[rank].finalized = true;
}

// Updates the longest interval that any rank has gone without a newer image. Called when such an
// interval ends.
void ProtectionReports::count_exposed(std::uint32_t rank) {
  if (ranks_[rank].finalized) return;
  totals_.exposed_ns = std::max(totals_.exposed_ns, image_age_ns(rank));
}

Totals ProtectionReports::totals() {
  for (const std::uint32_t r : plan_.local) count_exposed(r);
  return totals_;
}

// Reports a Snapshot when every rank that has not finalized has completed a new image since the
// last report.
void ProtectionReports::report_snapshot() {
  for (const std::uint32_t r : plan_.local) {
    if (!ranks_[r].fresh && !ranks_[r].finalized) return;
  }
  for (Rank& rank : ranks_) rank.fresh = false;
  reporter_.happened(0, Event::Snapshot{protection()});
}

Protection ProtectionReports::protection() const {
  Protection now;
  now.snapshots = totals_.snapshots;
  now.image_bytes = image_bytes_;
  now.journal_bytes = journal_bytes_;
  for (const std::uint32_t r : plan_.local) {
    if (ranks_[r].finalized) continue;
    if (!core_.has_image(r)) {
      ++now.ranks_without;
    } else {
      now.oldest_ns = std::max(now.oldest_ns, image_age_ns(r));
    }
  }
  return now;
}

}  // namespace rejoin::launcher
