#include "launcher/agent/snapshot_driver.h"

#include <algorithm>
#include <utility>

#include "journal/snapshot_cost.h"
#include "launcher/agent/agent_socket.h"

namespace rejoin::launcher {

void SnapshotDriver::start() {
  started_ns_ = loop_.now_ns();
  policy_.began(started_ns_);
  set_timer();
}

void SnapshotDriver::stop() {
  stopping_ = true;
  timer_.clear();
}

void SnapshotDriver::want_set(const AgentAction::WantSet& a) {
  journal::want_set(journal::set_wanted_on(segment_.base(), plan_.local.front()), a.number);
  segment_.ring_all();
}

void SnapshotDriver::want(std::uint32_t rank, const AgentAction::Want& a) {
  segment_.control(rank)->snapshot_wanted.store(journal::kAgentStores, journal::Step::kNotice,
                                                a.number);
  segment_.give_notice();
}

void SnapshotDriver::keep(std::uint32_t rank, const AgentAction::Keep& a) {
  segment_.control(rank)->kept_image.store(journal::kAgentStores, journal::Step::kNotice, a.number,
                                           std::memory_order_seq_cst);
}

void SnapshotDriver::ask() {
  policy_.asked();
  set_timer();
}

// --- When

void SnapshotDriver::set_timer() {
  const std::uint64_t due = policy_.due_ns();
  if (due == SnapshotPolicy::kNever || stopping_) return;
  timer_.set(due);
}

// Returns the cost of the rank's newest snapshot so far, or an estimate for its first one.
std::uint64_t SnapshotDriver::newest_cost_ns(std::uint32_t rank) const {
  const pid_t pid = processes_.pid_of(rank);
  if (pid == 0) return 0;
  const MemoryUse use = memory_use(pid);
  const journal::RankControl& control = *segment_.control(rank);
  const std::uint64_t clone_ns = control.clone_ns.load(std::memory_order_acquire);
  if (clone_ns == 0)
    return SnapshotPolicy::first_cost_ns(use.own_pages, journal::page_copy_ns(control));
  return clone_ns + pages_copied(rank, use) * journal::page_copy_ns(control);
}

// Returns how many pages the rank has copied since its newest image. No page is copied twice, so
// its anonymous pages are a bound.
std::uint64_t SnapshotDriver::pages_copied(std::uint32_t rank, const MemoryUse& use) const {
  return std::min(journal::pages_copied(*segment_.control(rank), use.faults), use.own_pages);
}

void SnapshotDriver::look_at_memory() {
  image_bytes_ = 0;
  for (const std::uint32_t r : plan_.local) {
    const pid_t pid = processes_.pid_of(r);
    if (pid == 0 || !core_.has_image(r)) continue;
    image_bytes_ += pages_copied(r, memory_use(pid)) * journal::kPageBytes;
  }
  image_peak_bytes_ = std::max(image_peak_bytes_, image_bytes_);
  const bool end = policy_.memory_taken(image_bytes_);
  set_timer();
  if (!end) return;
  driver_.carry_out(core_.end_images());
  if (std::exchange(reported_memory_, true)) return;
  reporter_.tell(
      "the snapshots of all ranks took " + size_text(image_bytes_) +
      ", a quarter more than --memory-for-images, and were ended; until the next ones are "
      "made, the death of a rank ends the job, if it cannot begin again");
}

std::uint64_t SnapshotDriver::highest_cost_ns() const {
  std::uint64_t highest_ns = 0;
  for (const std::uint32_t r : plan_.local) {
    const auto& cost_ns = segment_.control(r)->snapshots_cost_ns;
    highest_ns = std::max(highest_ns, cost_ns.load(std::memory_order_relaxed));
  }
  return highest_ns;
}

void SnapshotDriver::look() {
  report_cost();
  std::uint64_t cost_ns = 0;
  for (const std::uint32_t r : plan_.local) cost_ns = std::max(cost_ns, newest_cost_ns(r));
  const journal::SegmentHeader* header = segment_.header();
  cost_ns = SnapshotPolicy::job_cost_ns(cost_ns, static_cast<std::uint32_t>(plan_.local.size()),
                                        header->cores);
  const SnapshotRound round = policy_.look(loop_.now_ns(), cost_ns);
  if (round == SnapshotRound::kNone) return set_timer();
  if (segment_.recycles() || header->goes_back_to.load() == journal::Return::kVersions) {
    driver_.carry_out(core_.end_images());
    return;
  }
  if (plan_.is_whole_job()) {
    driver_.carry_out(core_.want_snapshots(round));
  } else {
    reporter_.happened(0, Event::ImagesDue{round == SnapshotRound::kToTruncate,
                                           policy_.truncation_waits(), growth_cost_ns()});
  }
  set_timer();
}

// Estimates the time that ranks have spent on page faults in new journal memory since the newest
// set: a fault there takes about as long as a copy-on-write fault, which ranks measure.
std::uint64_t SnapshotDriver::growth_cost_ns() const {
  std::uint64_t page_ns = 0;
  for (const std::uint32_t r : plan_.local) {
    page_ns = std::max(page_ns, journal::page_copy_ns(*segment_.control(r)));
  }
  return policy_.backed_since_set() / journal::kPageBytes * page_ns;
}

void SnapshotDriver::begins() {
  policy_.begins_set(loop_.now_ns());
  set_timer();
}

// The policy considers the journals of all ranks.
void SnapshotDriver::journal_grown(bool waits) {
  std::uint64_t used = 0, backed = 0;
  for (const std::uint32_t r : plan_.local) {
    const journal::RankControl* control = segment_.control(r);
    used += control->used_bytes.load(std::memory_order_relaxed);
    backed += control->backed_bytes.load(std::memory_order_relaxed);
  }
  policy_.grown(used, backed, segment_.header()->journal_limit_bytes);
  if (waits) policy_.waited_for();
  set_timer();
}

// --- Reports

// Reports once that the --snapshots period given by the user takes a large share of the ranks'
// time. The period itself is never changed.
void SnapshotDriver::report_cost() {
  constexpr std::uint64_t kLeastNs = 2'000'000'000, kShare = 4;
  const std::uint64_t lasted_ns = loop_.now_ns() - started_ns_;
  const bool given = plan_.options.snapshots.when == SnapshotOptions::When::kPeriod;
  if (!given || reported_cost_ || lasted_ns < kLeastNs) return;
  for (const std::uint32_t r : plan_.local) {
    const std::uint64_t cost_ns = segment_.control(r)->snapshots_cost_ns.load();
    if (cost_ns * kShare < lasted_ns) continue;
    reported_cost_ = true;
    return reporter_.notice(r, "its snapshots take " + std::to_string(100 * cost_ns / lasted_ns) +
                                   " % of its time, because --snapshots asks for one every " +
                                   duration_text(plan_.options.snapshots.period_ns) +
                                   "; with --snapshots auto they take at most 1 %");
  }
}

void SnapshotDriver::image_killed(std::uint32_t rank) {
  if (std::exchange(reported_kill_, true)) return;
  reporter_.notice(rank,
                   "the kernel has killed its snapshot because memory is short; until the next "
                   "snapshot is made, a death of this rank ends the job (docs/snapshots.md)");
}

void SnapshotDriver::not_frozen(std::uint32_t rank, const wire::Message& message) {
  const std::string reason = text_of(message);
  if (reason.empty()) return;  // only this one could not be made
  if (reported_rank_[rank]) return;
  reported_rank_[rank] = true;
  if (!reported_reasons_.insert(reason).second) return;
  const std::string& directory = plan_.options.checkpoint_directory;
  reporter_.notice(rank,
                   "no snapshot can be made of it now, because it " + reason +
                       (plan_.ranks > 1 ? " (other ranks with this reason are not named)" : "") +
                       "; until one is, it goes back to " +
                       (core_.has_image(rank) ? "the last one" : "the start of the program") +
                       " if it dies" +
                       (plan_.writes_sets ? ", and no images are written to " + directory : "") +
                       " (docs/snapshots.md)");
}

}  // namespace rejoin::launcher
