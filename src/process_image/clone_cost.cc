#include "process_image/clone_cost.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "journal/snapshot_cost.h"

namespace rejoin::process_image {
namespace {

constexpr std::size_t kProbePages = 16;

std::uint64_t page_faults() {
  rusage u = {};
  syscall(SYS_getrusage, RUSAGE_SELF, &u);
  return static_cast<std::uint64_t>(u.ru_minflt);
}

}  // namespace

std::uint64_t processor_ns() {
  timespec t = {};
  syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

CloneCost::CloneCost(recovery::Rank& rank)
    : rank_(rank),
      probe_(static_cast<std::byte*>(rank.arena().allocate(kProbePages * journal::kPageBytes))) {}

void CloneCost::count() {
  clone_ns_ += processor_ns() - begun_ns_ + waited_ns_;
  auto& control = rank_.control();
  const std::uint64_t faults = page_faults();
  const std::uint64_t copied = journal::pages_copied(control, faults);
  control.snapshots_cost_ns.add(rank_.host(), journal::Step::kSame,
                                clone_ns_ + copied * journal::page_copy_ns(control));
  begin_count(faults);
}

void CloneCost::begin_count() { begin_count(page_faults()); }

void CloneCost::begin_count(std::uint64_t faults) {
  auto& control = rank_.control();
  auto& host = rank_.host();
  control.faults_at_clone.store(host, journal::Step::kSame, faults);
  control.journal_faults_at_clone.store(host, journal::Step::kSame, control.journal_faults.load());
  control.clone_ns.store(host, journal::Step::kSame, clone_ns_);
}

void CloneCost::measure_page_copy() {
  if (probe_ == nullptr) return;
  const std::uint64_t begin = processor_ns();
  for (std::size_t i = 0; i < kProbePages; ++i) {
    auto* at = reinterpret_cast<volatile unsigned char*>(probe_ + i * journal::kPageBytes);
    *at = static_cast<unsigned char>(*at + 1);
  }
  const std::uint64_t now_ns = (processor_ns() - begin) / kProbePages;
  auto& kept = rank_.control().page_copy_ns;
  const std::uint64_t before = kept.load(std::memory_order_relaxed);
  kept.store(rank_.host(), journal::Step::kSame, before == 0 ? now_ns : (3 * before + now_ns) / 4);
}

}  // namespace rejoin::process_image
