#include "engine/transport/sim/half_written.h"

#include <cstring>

#include "journal/log.h"

namespace rejoin::engine {
namespace {

void noise(std::byte* at, std::size_t bytes, SimRandom& random) {
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = random.next();
    std::memcpy(at + i, &word, bytes - i < 8 ? bytes - i : 8);
  }
}

// Spoils element `tail` of a log, if there is room for it already.
template <class T>
unsigned spoil_next(std::byte* base, Log& log, SimRandom& random) {
  const std::uint64_t tail = log.tail.load(std::memory_order_relaxed);
  const std::uint32_t rings = log.rings.load(std::memory_order_relaxed);
  // The element that the next one would overwrite may still be needed.
  if (rings != 0 && tail - log.ring[rings - 1].from >= log.ring[rings - 1].capacity) return 0;
  if (rings == 0 && log.chunk[log_chunk(tail)].load() == 0) return 0;
  noise(reinterpret_cast<std::byte*>(log_at<T>(base, log, tail)), sizeof(T), random);
  return 1;
}

unsigned spoil_slot(Slot& slot, SimRandom& random) {
  if (slot.tag.load(std::memory_order_relaxed) != 0) return 0;
  const auto noise_in = [&random]<class T>(journal::OwnerWord<T>& word) {
    journal::put(word, random.next());
  };
  noise_in(slot.chain);
  noise_in(slot.call);
  for (auto& word : slot.word) noise_in(word);
  noise_in(slot.staged);
  noise_in(slot.reduced);
  return 1;
}

void spoil_buffer(std::byte* base, const Buffer& buffer, SimRandom& random) {
  if (buffer.capacity > 0) noise(base + buffer.at, buffer.capacity, random);
}

// Overwrites the marks of an unpublished version or image with noise.
unsigned spoil_marks(std::byte* base, Marks& m, SimRandom& random) {
  if (m.number.load(std::memory_order_relaxed) != 0) return 0;
  spoil_buffer(base, m.cursors, random);
  m.ordinal = random.next();
  m.contexts = random.next();
  return 1;
}

unsigned spoil_version(std::byte* base, Version& v, SimRandom& random) {
  if (spoil_marks(base, v.marks, random) == 0) return 0;
  spoil_buffer(base, v.global, random);
  spoil_buffer(base, v.local, random);
  v.can_be_imaged = static_cast<std::uint32_t>(random.next());
  v.fault = static_cast<VersionFault>(random.next());
  return 1;
}

unsigned spoil_hash(ModelHash& h, SimRandom& random) {
  if (h.version.load(std::memory_order_relaxed) != 0) return 0;
  journal::put(h.bytes, random.next());
  journal::put(h.hash, random.next());
  return 1;
}

}  // namespace

unsigned leave_half_written(std::byte* base, std::uint32_t rank,
                            const std::vector<ContextBlock*>& blocks, SimRandom& random) {
  constexpr std::size_t kSpoiltBytes = 4096;  // of staging: as much as small operations use of it
  unsigned places = 0;
  RegionHead* region = region_of(base, rank);
  places += spoil_next<CallEntry>(base, region->calls, random);
  places += spoil_next<ModuleEntry>(base, region->modules, random);
  places += spoil_next<Marked>(base, region->marked, random);
  for (Version& v : region->version) places += spoil_version(base, v, random);
  for (Image& i : region->image) places += spoil_marks(base, i.marks, random);
  for (ModelHash& h : region->model_hash) places += spoil_hash(h, random);
  auto* channels = reinterpret_cast<Log*>(base + region->channels);
  for (std::uint32_t to = 0; to < header_of(base)->ranks; ++to) {
    const std::uint64_t tail = channels[to].tail.load(std::memory_order_relaxed);
    std::uint64_t run;
    const auto* next = log_place<ChannelEntry>(base, channels[to], tail, &run);
    // An entry with its own `ready` set is complete, even though the tail does not count it yet.
    if (next != nullptr && next->ready.load(std::memory_order_relaxed) == tail + 1) continue;
    places += spoil_next<ChannelEntry>(base, channels[to], random);
  }
  for (ContextBlock* block : blocks) {
    places += spoil_next<Record>(base, block->records, random);
    if (block->departures != 0) {
      places += spoil_next<journal::Departure>(
          base, *reinterpret_cast<Log*>(base + block->departures), random);
    }
    for (Slot& slot : block->slot) places += spoil_slot(slot, random);
  }
  for (std::uint32_t i = 0; i < region->staging_buffers; ++i) {
    auto* s = reinterpret_cast<StagingBuffer*>(base + region->staging[i]);
    if (s->owner.load(std::memory_order_relaxed) != 0) continue;
    noise(s->bytes, kSpoiltBytes, random);
    ++places;
  }
  return places;
}

}  // namespace rejoin::engine
