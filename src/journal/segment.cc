#include <algorithm>
#include <bit>

#include "journal/layout.h"

namespace rejoin::journal {
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
  h->ranks_here = ranks;
  h->cores = cores;
  h->crowded = ranks > cores;
  h->job = job;
  h->segment_bytes = segment_bytes_for(ranks, limit_bytes);
  h->region_bytes = region_bytes_for(ranks, limit_bytes);
  h->journal_limit_bytes = limit_bytes;
  h->first_region = front_bytes(ranks);
  put(h->goes_back_to, Return::kVersions);  // unless images are asked for
  for (std::uint32_t r = 0; r < ranks; ++r) {
    RegionHead* region = region_of(base, r);
    const std::uint64_t channels = round_up(sizeof(RegionHead), kPage);
    const std::uint64_t consumed = channels + round_up(ranks * sizeof(Log), kLine);
    const std::uint64_t words = round_up(ranks * sizeof(OwnerWord<std::uint64_t>), kLine);
    region->channels = region_offset(h, r) + channels;
    region->consumed = region_offset(h, r) + consumed;
    region->asked = region->consumed + words;
    std::uint64_t bump = round_up(consumed + 2 * words, kPage);
    for (region->staging_buffers = 0; region->staging_buffers < kFirstStagingBuffers;
         ++region->staging_buffers) {
      region->staging[region->staging_buffers] = region_offset(h, r) + bump;
      bump = round_up(bump + sizeof(StagingBuffer), kPage);
    }
    put(control_of(base, r)->permanent_bump, bump);
    put(control_of(base, r)->payload_bump, payload_begin(h));
  }
}

bool has_epochs(std::byte* base) {
  const SegmentHeader* h = header_of(base);
  return std::uint64_t{h->epoch.load()} + h->ranks <= kMaxEpochs;
}

void let_recycle(std::byte* base, Recycles what) {
  SegmentHeader* h = header_of(base);
  h->recycles.store(kAgentStores, Step::kNotice, what, std::memory_order_seq_cst);
  h->notices.add(kAgentStores, Step::kNotice, 1);
}

namespace {

// The process has ended: nothing of its memory can be read any more, and it reads no other's.
void close_memory(RankControl* c) {
  c->opened.what.store(kVacantStores, Step::kDeath, 0);
  c->reads.store(kVacantStores, Step::kDeath, 0);
}

}  // namespace

void publish_death(std::byte* base, std::uint32_t rank) {
  close_memory(control_of(base, rank));
  SegmentHeader* h = header_of(base);
  const std::uint32_t epoch = h->epoch.load(std::memory_order_relaxed) + 1;
  // The rank's word first: a reader that sees the epoch finds the rank that died.
  control_of(base, rank)->death_epoch.store(kAgentStores, Step::kDeath, epoch);
  h->epoch.store(kAgentStores, Step::kDeath, epoch, std::memory_order_seq_cst);
}

void publish_all_deaths(std::byte* base) {
  SegmentHeader* h = header_of(base);
  const std::uint32_t epoch = h->epoch.load(std::memory_order_relaxed) + 1;
  for (std::uint32_t r = 0; r < h->ranks; ++r) {
    close_memory(control_of(base, r));
    control_of(base, r)->death_epoch.store(kAgentStores, Step::kDeath, epoch);
  }
  h->epoch.store(kAgentStores, Step::kDeath, epoch, std::memory_order_seq_cst);
}

void admit(std::byte* base, std::uint32_t rank, std::uint32_t incarnation) {
  RankControl* c = control_of(base, rank);
  const auto clear = [](auto& word) {
    word.store(kVacantStores, Step::kAdmit, {}, std::memory_order_relaxed);
  };
  close_memory(c);  // a segment that was written to a file, or sent, is of some moment
  clear(header_of(base)->asleep[rank]);
  clear(c->bell);
  clear(c->ordinal);
  c->phase.store(kVacantStores, Step::kAdmit, Phase::kOutside);
  clear(c->replayed);
  clear(c->live_since);
  clear(c->initialized);
  clear(c->told_full);
  clear(c->output_mark);
  clear(c->clone_ns);
  c->incarnation.store(kAgentStores, Step::kAdmit, incarnation, std::memory_order_seq_cst);
}

}  // namespace rejoin::journal
