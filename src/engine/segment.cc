#include "engine/segment.h"

#include <algorithm>
#include <bit>

namespace rejoin::engine {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kLargePage = 2 << 20;
constexpr std::uint64_t round_up(std::uint64_t x, std::uint64_t to) {
  return (x + to - 1) / to * to;
}

std::uint64_t front_bytes(std::uint32_t ranks) {
  return round_up(sizeof(SegmentHeader) + ranks * sizeof(RankControl), kLargePage);
}

}  // namespace

// Logs and zones reserve up to twice what they use, and extents of given-up attempts are not
// reused, so a region's addresses are several times the limit. They cost nothing until they are
// touched.
std::uint64_t region_bytes_for(std::uint32_t ranks, std::uint64_t limit_bytes) {
  constexpr std::uint64_t kSmallest = 4ull << 30;
  constexpr std::uint64_t kAllTogether = 1ull << 45;
  const std::uint64_t wanted = std::bit_ceil(std::max(8 * limit_bytes, kSmallest));
  return std::min(wanted, std::bit_floor(kAllTogether / ranks));
}

std::uint64_t segment_bytes_for(std::uint32_t ranks, std::uint64_t limit_bytes) {
  return front_bytes(ranks) + ranks * region_bytes_for(ranks, limit_bytes);
}

void format_segment(std::byte* base, std::uint32_t ranks, std::uint64_t job,
                    std::uint64_t limit_bytes, std::uint32_t cores) {
  SegmentHeader* h = header_of(base);
  h->magic = kSegmentMagic;
  h->ranks = ranks;
  h->cores = cores;
  h->job = job;
  h->segment_bytes = segment_bytes_for(ranks, limit_bytes);
  h->region_bytes = region_bytes_for(ranks, limit_bytes);
  h->journal_limit_bytes = limit_bytes;
  h->first_region = front_bytes(ranks);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    RegionHead* region = region_of(base, r);
    const std::uint64_t channels = round_up(sizeof(RegionHead), kPage);
    const std::uint64_t consumed = channels + round_up(ranks * sizeof(Log), kLine);
    region->channels = region_offset(h, r) + channels;
    region->consumed = region_offset(h, r) + consumed;
    control_of(base, r)->lasting_bump.store(
        round_up(consumed + ranks * sizeof(std::atomic<std::uint64_t>), kPage));
    control_of(base, r)->payload_bump.store(payload_begin(h));
  }
}

void publish_death(std::byte* base, std::uint32_t rank) {
  SegmentHeader* h = header_of(base);
  const std::uint32_t epoch = h->epoch.load(std::memory_order_relaxed) + 1;
  // The rank's word first: whoever sees the epoch finds the rank that made it.
  control_of(base, rank)->death_epoch.store(epoch, std::memory_order_release);
  h->epoch.store(epoch, std::memory_order_seq_cst);
}

void admit(std::byte* base, std::uint32_t rank, std::uint32_t incarnation) {
  RankControl* c = control_of(base, rank);
  header_of(base)->asleep[rank].store(0, std::memory_order_relaxed);
  c->bell.store(0, std::memory_order_relaxed);
  if (c->phase.load(std::memory_order_relaxed) == Phase::kInside) {
    c->died_context.store(0, std::memory_order_release);
    c->died_sequence.store(c->sequence.load(std::memory_order_relaxed), std::memory_order_release);
    c->died_call.store(c->call.load(std::memory_order_relaxed), std::memory_order_release);
    c->died_context.store(c->context.load(std::memory_order_relaxed), std::memory_order_release);
  }
  c->ordinal.store(0, std::memory_order_relaxed);
  c->phase.store(Phase::kOutside, std::memory_order_release);
  c->replayed.store(0, std::memory_order_relaxed);
  c->live_since.store(0, std::memory_order_relaxed);
  c->initialized.store(0, std::memory_order_relaxed);
  c->output_mark.store(0, std::memory_order_relaxed);
  c->incarnation.store(incarnation, std::memory_order_seq_cst);
}

}  // namespace rejoin::engine
