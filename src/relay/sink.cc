#include "relay/sink.h"

#include <algorithm>
#include <cstring>

#include "journal/contexts.h"
#include "journal/log.h"
#include "journal/not_kept.h"

namespace rejoin::relay {

using journal::ChannelEntry;
using journal::ContextBlock;
using journal::ContextEntry;
using journal::Departure;
using journal::kRelayStores;
using journal::Log;
using journal::Offset;
using journal::Step;
using journal::Written;

namespace {

template <class Word, class T>
void put(Word& word, T value, std::memory_order order = std::memory_order_release) {
  word.store(kRelayStores, Step::kSame, value, order);
}

template <class T>
T read(const std::byte* body) {
  T value;
  std::memcpy(&value, body, sizeof value);
  return value;
}

// Copies all of a shared struct but its words in [begin, end), which are published separately.
void copy_around(void* to, const void* from, std::size_t bytes, std::size_t begin,
                 std::size_t end) {
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  std::memcpy(out, in, begin);
  std::memcpy(out + end, in + end, bytes - end);
}

}  // namespace

// All regions are laid out in the same way, and this node's own can be trusted.
Sink::Sink(std::byte* base, std::uint32_t node, std::uint32_t from)
    : base_(base), node_(node), from_(from) {
  std::uint32_t own = 0;
  while (journal::control_of(base, own)->node != node) ++own;
  set_wanted_ = &journal::set_wanted_on(base, own);
  const journal::RegionHead* head = journal::region_of(base, own);
  const Offset begin = journal::region_offset(journal::header_of(base), own);
  channels_ = head->channels - begin;
  consumed_ = head->consumed - begin;
  fixed_bytes_ =
      head->staging[journal::kFirstStagingBuffers - 1] - begin + sizeof(journal::StagingBuffer);
}

bool Sink::is_theirs(std::uint64_t rank) const {
  return rank < journal::header_of(base_)->ranks &&
         journal::control_of(base_, static_cast<std::uint32_t>(rank))->node == from_;
}
bool Sink::is_mine(std::uint64_t rank) const {
  return rank < journal::header_of(base_)->ranks &&
         journal::control_of(base_, static_cast<std::uint32_t>(rank))->node == node_;
}

bool Sink::is_inside(std::uint64_t at, std::uint64_t bytes, bool theirs) const {
  const journal::SegmentHeader* h = journal::header_of(base_);
  if (at < h->first_region || at >= h->segment_bytes) return false;
  const std::uint64_t rank = (at - h->first_region) / h->region_bytes;
  const std::uint64_t place = (at - h->first_region) % h->region_bytes;
  return place >= fixed_bytes_ && bytes <= h->region_bytes - place &&
         (theirs ? is_theirs(rank) : is_mine(rank));
}

bool Sink::is_payload(std::uint64_t at, std::uint64_t bytes) const {
  const journal::SegmentHeader* h = journal::header_of(base_);
  return is_inside(at, bytes) &&
         (at - h->first_region) % h->region_bytes >= journal::payload_begin(h);
}

Log* Sink::channel(std::uint64_t from, std::uint64_t to) const {
  const Offset region =
      journal::region_offset(journal::header_of(base_), static_cast<std::uint32_t>(from));
  return reinterpret_cast<Log*>(base_ + region + channels_) + to;
}

// Logs lie in the heads of regions, or in permanent memory behind these.
Log* Sink::log_at(std::uint64_t at) const {
  if (at % journal::kLine != 0) return nullptr;
  auto* log = reinterpret_cast<Log*>(base_ + at);
  if (is_inside(at, sizeof(Log))) return log;
  const journal::SegmentHeader* h = journal::header_of(base_);
  if (at < h->first_region || at >= h->segment_bytes) return nullptr;
  const std::uint64_t rank = (at - h->first_region) / h->region_bytes;
  if (!is_theirs(rank)) return nullptr;
  journal::RegionHead* head = journal::region_of(base_, static_cast<std::uint32_t>(rank));
  if (log == &head->calls || log == &head->modules) return log;
  for (std::uint32_t to = 0; to < h->ranks; ++to) {
    if (is_mine(to) && log == channel(rank, to)) return log;
  }
  return nullptr;
}

template <class Entry>
Entry* Sink::element(Log& log, std::uint64_t index, bool theirs) const {
  std::uint64_t run = 0;
  if (index >= std::uint64_t{1} << 40) return nullptr;
  Entry* e = journal::log_place<Entry>(base_, log, index, &run);
  if (e == nullptr) return nullptr;
  const auto at = static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(e) - base_);
  return at % alignof(Entry) == 0 && is_inside(at, sizeof *e, theirs) ? e : nullptr;
}

void Sink::say_what_it_has(Frames& out) const {
  const auto have = [&](Log& log, std::uint64_t context = 0, bool is_whole = true) {
    const std::uint64_t tail = log.tail.load();
    const auto at = static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(&log) - base_);
    const LogCopy copy = {context, is_whole ? 1u : 0u};
    if (tail != 0) out.add({Kind::kHave, sizeof copy, at, tail}, &copy);
  };
  const std::uint32_t ranks = journal::header_of(base_)->ranks;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    if (!is_theirs(r)) continue;
    journal::RegionHead& region = *journal::region_of(base_, r);
    have(region.calls);
    have(region.modules);
    for (std::uint32_t to = 0; to < ranks; ++to) {
      if (is_mine(to)) have(*channel(r, to), 0, has_newest_message(*channel(r, to)));
    }
    journal::for_each_context(base_, r, [&](const ContextBlock& block) {
      have(const_cast<Log&>(block.records), block.context);
      if (Log* departures = log_at(block.departures)) have(*departures, block.context);
    });
  }
  out.add({Kind::kHaveAll, 0, 0, 0}, nullptr);
}

// Whether no bytes of the newest message are missing. A message that is truncated has been read.
bool Sink::has_newest_message(Log& log) const {
  const std::uint64_t tail = log.tail.load();
  const ChannelEntry* e = tail > 0 ? element<ChannelEntry>(log, tail - 1) : nullptr;
  if (e == nullptr || e->ready.load() != tail || e->bytes <= journal::kInlineBytes) return true;
  return Written::of(e->written.load()).bytes >= e->bytes;
}

std::byte* Sink::place(const Head& head) const {
  if (head.kind != Kind::kPayload || !is_payload(head.at, head.bytes)) return nullptr;
  return base_ + head.at;
}

bool Sink::apply(const Head& head, const std::byte* body) {
  switch (head.kind) {
    case Kind::kShape:
      return shape(head, body);
    case Kind::kRecords:
      return append<journal::Record>(head, body);
    case Kind::kCalls:
      return append<journal::CallEntry>(head, body);
    case Kind::kModules:
      return append<journal::ModuleEntry>(head, body);
    case Kind::kMessage:
      return append_message(head, body);
    case Kind::kWritten:
      return written(head, body);
    case Kind::kAgain:
      return again(head);
    case Kind::kDeparture:
      return append_departure(head, body);
    case Kind::kMatched:
      return matched(head, body);
    case Kind::kConsumed:
      return consumed(head, body);
    case Kind::kTable:
      return table(head, body);
    case Kind::kContext:
      return context(head, body);
    case Kind::kPast:
      return past(head, body);
    case Kind::kFreed:
      return freed(head, body);
    case Kind::kImage:
      return image(head, body);
    case Kind::kKept:
      return kept(head);
    case Kind::kPrepared:
      return prepared(head, body);
    case Kind::kPosition:
      return position(head, body);
    case Kind::kSetWanted:
      journal::want_set(*set_wanted_, head.index);
      return true;
    default:
      return false;
  }
}

bool Sink::shape(const Head& head, const std::byte* body) {
  Log* log = log_at(head.at);
  if (log == nullptr || head.bytes != sizeof(LogShape)) return false;
  const auto s = read<LogShape>(body);
  if (s.rings > journal::kLogRings) return false;
  for (std::uint32_t k = 0; k < journal::kLogChunks; ++k) {
    if (s.chunk[k] != 0 && !is_inside(s.chunk[k], journal::kLine)) return false;
  }
  for (std::uint32_t k = 0; k < s.rings; ++k) {
    const journal::LogRing& ring = s.ring[k];
    if (ring.capacity == 0 || (ring.capacity & (ring.capacity - 1)) != 0) return false;
    if (!is_inside(ring.at, ring.capacity)) return false;
  }
  for (std::uint32_t k = 0; k < s.rings; ++k) log->ring[k] = s.ring[k];
  for (std::uint32_t k = 0; k < journal::kLogChunks; ++k) put(log->chunk[k], s.chunk[k]);
  put(log->rings, s.rings);
  return true;
}

// Elements below the tail are there already: a connection ended when they were on their way.
template <class Entry>
bool Sink::append(const Head& head, const std::byte* body) {
  Log* log = log_at(head.at);
  if (log == nullptr || head.bytes % sizeof(Entry) != 0) return false;
  std::uint64_t tail = log->tail.load(std::memory_order_relaxed);
  const std::uint64_t end = head.index + head.bytes / sizeof(Entry);
  if (head.index > tail) return false;
  for (; tail < end; ++tail) {
    Entry* e = element<Entry>(*log, tail);
    if (e == nullptr) return false;
    std::memcpy(static_cast<void*>(e), body + (tail - head.index) * sizeof(Entry), sizeof *e);
  }
  if (end > log->tail.load(std::memory_order_relaxed)) put(log->tail, end);
  return true;
}

// The receiver polls `ready`, and may have written `matched` already if the relay that published it
// has ended before it published the tail.
bool Sink::append_message(const Head& head, const std::byte* body) {
  Log* log = log_at(head.at);
  if (log == nullptr || head.bytes != sizeof(ChannelEntry)) return false;
  const std::uint64_t tail = log->tail.load(std::memory_order_relaxed);
  if (head.index < tail) return true;
  ChannelEntry* e = head.index == tail ? element<ChannelEntry>(*log, tail) : nullptr;
  if (e == nullptr) return false;
  ChannelEntry from;
  std::memcpy(static_cast<void*>(&from), body, sizeof from);
  if (from.bytes > journal::kInlineBytes && !is_payload(from.value, from.bytes)) return false;
  if (from.written.load(std::memory_order_relaxed) > from.bytes) return false;
  if (e->ready.load(std::memory_order_relaxed) != tail + 1) {
    constexpr std::size_t kBegin = offsetof(ChannelEntry, matched);
    put(e->ready, 0, std::memory_order_relaxed);
    journal::order_stores();
    copy_around(e, &from, sizeof *e, kBegin, sizeof *e);
    put(e->matched, 0, std::memory_order_relaxed);
    put(e->written, from.written.load(std::memory_order_relaxed), std::memory_order_relaxed);
    put(e->ready, tail + 1);
  } else {
    const Written before = Written::of(e->written.load(std::memory_order_relaxed));
    const std::uint64_t now = from.written.load(std::memory_order_relaxed);
    if (now > before.bytes) put(e->written, Written{now, before.are_kept}.word());
  }
  put(log->tail, tail + 1);
  return true;
}

// The message that a frame is about, which was shown before. Null: there is none.
ChannelEntry* Sink::shown(const Head& head) const {
  Log* log = log_at(head.at);
  if (log == nullptr || head.index >= log->tail.load(std::memory_order_relaxed)) return nullptr;
  return element<ChannelEntry>(*log, head.index);
}

bool Sink::written(const Head& head, const std::byte* body) {
  ChannelEntry* e = shown(head);
  if (e == nullptr || head.bytes != sizeof(std::uint64_t)) return false;
  const auto bytes = read<std::uint64_t>(body);
  if (e->ready.load(std::memory_order_relaxed) != head.index + 1) return true;  // truncated
  if (bytes > e->bytes) return false;
  const Written before = Written::of(e->written.load(std::memory_order_relaxed));
  if (bytes > before.bytes) put(e->written, Written{bytes, before.are_kept}.word());
  return true;
}

void Sink::note_not_kept(Offset message) const {
  auto& written = reinterpret_cast<ChannelEntry*>(base_ + message)->written;
  const std::uint64_t word = written.load(std::memory_order_relaxed);
  if ((word & Written::kNotKept) == 0) put(written, word | Written::kNotKept);
}

bool Sink::again(const Head& head) {
  ChannelEntry* e = shown(head);
  if (e == nullptr || head.bytes != 0) return false;
  if (e->ready.load(std::memory_order_relaxed) == head.index + 1) put(e->written, e->bytes);
  return true;
}

bool Sink::append_departure(const Head& head, const std::byte* body) {
  Log* log = log_at(head.at);
  if (log == nullptr || head.bytes != sizeof(Departure)) return false;
  const std::uint64_t tail = log->tail.load(std::memory_order_relaxed);
  if (head.index < tail) return true;
  Departure* d = head.index == tail ? element<Departure>(*log, tail) : nullptr;
  if (d == nullptr) return false;
  Departure from;
  std::memcpy(static_cast<void*>(&from), body, sizeof from);
  const std::uint64_t bytes = from.bytes.load(std::memory_order_relaxed);
  if (bytes > journal::kInlineBytes &&
      !is_payload(from.value.load(std::memory_order_relaxed), bytes)) {
    return false;
  }
  const auto copy = [&](auto Departure::*word) {
    put(d->*word, (from.*word).load(std::memory_order_relaxed), std::memory_order_relaxed);
  };
  put(d->ready, 0, std::memory_order_relaxed);
  journal::order_stores();
  copy(&Departure::sequence);
  copy(&Departure::value);
  copy(&Departure::bytes);
  copy(&Departure::call);
  copy(&Departure::chain);
  copy(&Departure::fingerprint);
  copy(&Departure::part);
  copy(&Departure::element_bytes);
  copy(&Departure::readers);
  copy(&Departure::incarnation);
  put(d->ready, tail + 1);
  put(log->tail, tail + 1);
  return true;
}

// The word lies in a message of this node's rank, which that rank has sent.
bool Sink::matched(const Head& head, const std::byte* body) {
  if (head.bytes != sizeof(std::uint32_t)) return false;
  Log* log = nullptr;
  for (std::uint32_t r = 0; r < journal::header_of(base_)->ranks && log == nullptr; ++r) {
    for (std::uint32_t to = 0; is_mine(r) && to < journal::header_of(base_)->ranks; ++to) {
      const auto at = static_cast<Offset>(reinterpret_cast<std::byte*>(channel(r, to)) - base_);
      if (is_theirs(to) && at == head.at) log = channel(r, to);
    }
  }
  if (log == nullptr || head.index >= log->tail.load()) return false;
  auto* e = element<ChannelEntry>(*log, head.index, false);
  if (e == nullptr) return false;
  if (e->ready.load() == head.index + 1) put(e->matched, read<std::uint32_t>(body));
  return true;
}

bool Sink::consumed(const Head& head, const std::byte* body) {
  if (!is_theirs(head.at) || !is_mine(head.index) || head.bytes != sizeof(std::uint64_t)) {
    return false;
  }
  const Offset region =
      journal::region_offset(journal::header_of(base_), static_cast<std::uint32_t>(head.at));
  auto* words = reinterpret_cast<journal::OwnerWord<std::uint64_t>*>(base_ + region + consumed_);
  put(words[head.index], read<std::uint64_t>(body));
  return true;
}

ContextEntry* Sink::entry(std::uint64_t rank, std::uint64_t place) const {
  if (!is_theirs(rank)) return nullptr;
  const auto& all = journal::region_of(base_, static_cast<std::uint32_t>(rank))->contexts;
  const std::uint64_t table = place >> 32, index = place & 0xffffffff;
  if (table >= all.tables.load(std::memory_order_relaxed)) return nullptr;
  if (index >= std::uint64_t{journal::kFirstTableEntries} << table) return nullptr;
  return reinterpret_cast<ContextEntry*>(base_ + all.at[table]) + index;
}

bool Sink::table(const Head& head, const std::byte* body) {
  if (!is_theirs(head.at) || head.bytes != sizeof(Offset)) return false;
  auto& all = journal::region_of(base_, static_cast<std::uint32_t>(head.at))->contexts;
  const auto at = read<Offset>(body);
  const std::uint32_t tables = all.tables.load(std::memory_order_relaxed);
  if (head.index > tables || head.index >= journal::kContextTables) return false;
  const std::uint64_t entries = std::uint64_t{journal::kFirstTableEntries} << head.index;
  if (at % alignof(ContextEntry) != 0 || !is_inside(at, entries * sizeof(ContextEntry))) {
    return false;
  }
  if (head.index < tables) return true;
  all.at[head.index] = at;
  put(all.tables, tables + 1);
  return true;
}

bool Sink::context(const Head& head, const std::byte* body) {
  ContextEntry* e = entry(head.at, head.index);
  if (e == nullptr || head.bytes < sizeof(ContextCopy)) return false;
  const auto from = read<ContextCopy>(body);
  const std::uint64_t list_bytes = std::uint64_t{from.size} * sizeof(std::uint32_t);
  if (head.bytes != sizeof from + list_bytes || from.rank >= from.size) return false;
  if (from.block % journal::kLine != 0 || from.members % sizeof(std::uint32_t) != 0) return false;
  if (!is_inside(from.block, sizeof(ContextBlock)) || !is_inside(from.members, list_bytes) ||
      log_at(from.departures) == nullptr) {
    return false;
  }
  auto* block = reinterpret_cast<ContextBlock*>(base_ + from.block);
  if (block->context != from.context) {
    // It is the block of no context until it is whole: a relay may end at any place here.
    block->context = 0;
    journal::order_stores();
    put(block->records.tail, 0);
    put(reinterpret_cast<Log*>(base_ + from.departures)->tail, 0);
    block->size = from.size;
    block->rank = from.rank;
    block->members = from.members;
    block->departures = from.departures;
    std::memcpy(base_ + from.members, body + sizeof from, list_bytes);
    journal::order_stores();
    block->context = from.context;
  }
  put(block->free_number, from.free_number);
  put(block->freed, from.freed);
  put(e->block, from.block);
  put(e->context, from.context);
  return true;
}

// Entries are found by probing, so places that the other rank has used must not look free.
bool Sink::past(const Head& head, const std::byte* body) {
  ContextEntry* e = entry(head.at, head.index);
  if (e == nullptr || head.bytes != sizeof(std::uint64_t)) return false;
  put(e->block, journal::kReclaimed);
  put(e->context, read<std::uint64_t>(body));
  return true;
}

bool Sink::freed(const Head& head, const std::byte* body) {
  if (head.at % journal::kLine != 0 || !is_inside(head.at, sizeof(ContextBlock))) return false;
  if (head.bytes != sizeof(std::uint64_t)) return false;
  auto& block = *reinterpret_cast<ContextBlock*>(base_ + head.at);
  put(block.free_number, read<std::uint64_t>(body));
  put(block.freed, head.index);
  return true;
}

bool Sink::image(const Head& head, const std::byte* body) {
  if (!is_theirs(head.at) || head.index >= journal::kImages) return false;
  if (head.bytes < sizeof(journal::Image)) return false;
  auto& image = journal::region_of(base_, static_cast<std::uint32_t>(head.at))->image[head.index];
  journal::Image from;
  std::memcpy(static_cast<void*>(&from), body, sizeof from);
  const journal::Marks& marks = from.marks;
  const std::uint64_t bytes = head.bytes - sizeof from, most = bytes / sizeof(std::uint64_t);
  constexpr std::uint64_t kWordsOfCursor = sizeof(journal::Cursor) / sizeof(std::uint64_t);
  const std::uint64_t ranks = 3 * journal::header_of(base_)->ranks;
  if (marks.contexts > most || marks.waiting > most ||
      kWordsOfCursor * marks.contexts + ranks + marks.waiting > most) {
    return false;
  }
  if (bytes > marks.cursors.capacity || marks.cursors.at % alignof(journal::Cursor) != 0 ||
      !is_inside(marks.cursors.at, marks.cursors.capacity)) {
    return false;
  }
  constexpr std::size_t kNumber = offsetof(journal::Image, marks.number);
  const std::uint64_t number = marks.number.load(std::memory_order_relaxed);
  // A reader that reads this slot finds at its end that another image is kept (read_image_mark).
  auto& kept = journal::control_of(base_, static_cast<std::uint32_t>(head.at))->kept_image;
  const std::uint64_t former = image.marks.number.load(std::memory_order_relaxed);
  if (former == number && number != 0) return true;  // sent again, by another connection
  if (former != 0 && former == kept.load(std::memory_order_relaxed)) {
    put(kept, 0);  // until the number of the one that is kept comes, too
    journal::order_stores();
  }
  put(image.marks.number, 0);
  journal::order_stores();
  std::memcpy(base_ + marks.cursors.at, body + sizeof from, bytes);
  copy_around(&image, &from, sizeof image, kNumber, kNumber + sizeof marks.number);
  put(image.marks.number, number);
  return true;
}

bool Sink::prepared(const Head& head, const std::byte* body) {
  if (!is_theirs(head.at) || head.bytes != sizeof(std::uint64_t)) return false;
  journal::RankControl& c = *journal::control_of(base_, static_cast<std::uint32_t>(head.at));
  put(c.written_versions, read<std::uint64_t>(body));
  put(c.prepared, head.index);
  return true;
}

bool Sink::kept(const Head& head) {
  if (!is_theirs(head.at)) return false;
  const auto rank = static_cast<std::uint32_t>(head.at);
  if (journal::find_image(base_, rank, head.index) == nullptr) return false;
  put(journal::control_of(base_, rank)->kept_image, head.index);
  return true;
}

// As PeerView::position() reads it: the ordinal and the moves are the same before and behind.
bool Sink::position(const Head& head, const std::byte* body) {
  if (!is_theirs(head.at) || head.bytes != sizeof(PositionCopy)) return false;
  const auto p = read<PositionCopy>(body);
  if (p.inside > static_cast<std::uint32_t>(journal::Phase::kInside)) return false;
  journal::RankControl& c = *journal::control_of(base_, static_cast<std::uint32_t>(head.at));
  put(c.moves, p.moves | 1);
  journal::order_stores();
  put(c.ordinal, p.ordinal);
  put(c.phase, static_cast<journal::Phase>(p.inside));
  put(c.context, p.context);
  put(c.sequence, p.sequence);
  put(c.call, p.call);
  put(c.prepared, p.prepared);
  put(c.told_full, p.told_full);
  put(c.incarnation, p.incarnation);
  put(c.moves, p.moves & ~1u);
  return true;
}

}  // namespace rejoin::relay
