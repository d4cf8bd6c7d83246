#include "journal/needed_payload.h"

#include <algorithm>
#include <utility>

#include "journal/contexts.h"
#include "journal/log.h"
#include "journal/pieces.h"
#include "journal/shared.h"

namespace rejoin::journal {
namespace {

class OneRank {
 public:
  OneRank(std::byte* base, std::span<const std::uint32_t> own, std::uint32_t rank,
          std::uint64_t set, Rule broken)
      : base_(base),
        own_(own),
        rank_(rank),
        set_(set),
        broken_(broken),
        header_(*header_of(base)),
        head_(*region_of(base, rank)),
        begin_(region_offset(&header_, rank) + payload_begin(&header_)) {}

  std::vector<Extent> needed() {
    marks_.reserve(header_.ranks);
    for (std::uint32_t r = 0; r < header_.ranks; ++r) {
      const Image* image = find_image(base_, r, set_);
      if (image == nullptr) return {{begin_, end() - begin_}};
      marks_.push_back(&image->marks);
    }
    if (contains(rank_)) return all_but_zones();
    cursors();
    departures();
    pieces();
    for (const std::uint32_t to : own_) messages(to);
    return merged();
  }

 private:
  bool contains(std::uint32_t rank) const {
    return std::find(own_.begin(), own_.end(), rank) != own_.end();
  }
  bool holds(Rule rule) const { return rule != broken_; }
  std::uint64_t end() const { return region_offset(&header_, rank_) + header_.region_bytes; }

  // --- An own rank

  // Memory between zones is never freed. If the owner reuses a zone concurrently, that zone was
  // free before the set was made: whatever is read of it here, it has no payload of the set.
  std::vector<Extent> all_but_zones() {
    std::vector<Extent> left_out;
    for (std::uint32_t i = 0; i < head_.zones; ++i) {
      const Zone& z = head_.zone[i];
      if (is_past_set(z)) {
        left_out.push_back({z.begin, z.bytes});
      } else {
        const std::uint64_t used = std::min(z.used, z.bytes);
        left_out.push_back({z.begin + used, z.bytes - used});
      }
    }
    std::sort(left_out.begin(), left_out.end(), by_place);
    Offset at = begin_;
    for (const Extent& e : left_out) {
      if (e.at > at) found_.push_back({at, e.at - at});
      at = std::max(at, e.at + e.bytes);
    }
    if (end() > at) found_.push_back({at, end() - at});
    return std::move(found_);
  }
  bool is_past_set(const Zone& zone) const {
    const std::uint64_t interval = zone.interval;
    order_stores();  // and loads: the label was written before
    const Zone z = zone;
    if (interval == 0 || z.use == Use::kKept || !is_label(z)) return false;
    return is_past(
        base_, rank_, z,
        [&](std::uint32_t r, std::uint64_t context) {
          return r == rank_ || holds(Rule::kSetNeedsZones) ? mark(r, context) : kPast;
        },
        [&](std::uint32_t r, std::uint32_t from) {
          return holds(Rule::kSetNeedsZones) ? received(r, from) : kPast;
        });
  }

  // Whether the label lies inside the region. The owner may be replacing it by a longer one.
  bool is_label(const Zone& z) const {
    const Offset at = z.label.at;
    if (at < begin_ || at >= end() || z.label.capacity > end() - at) return false;
    const std::uint64_t sent_bytes = header_.ranks * sizeof(std::uint64_t);
    return z.label.capacity >= sent_bytes &&
           z.contexts <= (z.label.capacity - sent_bytes) / sizeof(Cursor);
  }

  // --- A copy

  // The cursors in the marks of images are stored in the payload area.
  void cursors() {
    for (const Image& image : head_.image) {
      const Buffer& b = image.marks.cursors;
      if (image.marks.number.load() != 0) add(b.at, b.capacity);
    }
  }
  // A record of an own member may refer to a departure until all own members have passed it.
  void departures() {
    for_each_context(base_, rank_, [&](const ContextBlock& block) {
      if (block.departures == 0 || block.context == 0) return;
      const std::uint64_t from = mark_of_own(block, holds(Rule::kSetNeedsDepartures));
      Log& log = *reinterpret_cast<Log*>(base_ + block.departures);
      for (std::uint64_t k = log.tail.load(std::memory_order_acquire); k > 0; --k) {
        std::uint64_t run;
        const auto* d = log_place<Departure>(base_, log, k - 1, &run);
        if (d == nullptr || d->ready.load(std::memory_order_acquire) != k) break;
        if (d->sequence.load() < from) break;
        add_value(d->value.load(), d->bytes.load());
      }
    });
  }
  // A record of an own rank that another own rank has still to adopt may name, in pieces, what its
  // owner has given again elsewhere since all ranks have gone back, so that no departure names it.
  void pieces() {
    if (!holds(Rule::kSetNeedsPieces)) return;
    for (const std::uint32_t member : own_) {
      for_each_context(base_, member, [&](const ContextBlock& block) {
        if (block.departures == 0 || block.context == 0) return;
        Log& log = *reinterpret_cast<Log*>(base_ + offset_of(block.records));
        const std::uint64_t tail = log.tail.load(std::memory_order_acquire);
        const std::uint64_t until = std::min(tail, mark(member, block.context));
        for (std::uint64_t k = mark_of_own(block, true); k < until; ++k) {
          std::uint64_t run;
          const auto* record = log_place<Record>(base_, log, k, &run);
          if (record != nullptr) pieces_of_record(member, record->value);
        }
      });
    }
  }
  // The value may be a result of up to 8 bytes that looks like the place of a list. Then the set
  // stores more bytes than it needs.
  void pieces_of_record(std::uint32_t member, std::uint64_t value) {
    const Offset at = value & ~kInPieces;
    const Offset region = region_offset(&header_, member);
    const Offset first = region + payload_begin(&header_), last = region + header_.region_bytes;
    const bool may_be = is_in_pieces(value) && at % alignof(PieceList) == 0 && at >= first &&
                        at <= last - sizeof(PieceList);
    if (!may_be) return;
    const auto* list = reinterpret_cast<const PieceList*>(base_ + at);
    const std::uint64_t count = list->pieces, room = last - at - sizeof(PieceList);
    if (count > header_.ranks || count > room / sizeof(Piece)) return;
    const auto* piece = reinterpret_cast<const Piece*>(list + 1);
    for (std::uint64_t i = 0; i < count; ++i) add_value(piece[i].value, piece[i].bytes);
  }
  Offset offset_of(const Log& log) const {
    return static_cast<Offset>(reinterpret_cast<const std::byte*>(&log) - base_);
  }
  // The message at the tail may be visible already: its `ready` is set before the tail moves.
  void messages(std::uint32_t to) {
    Log& log = reinterpret_cast<Log*>(base_ + head_.channels)[to];
    const std::uint64_t tail = log.tail.load(std::memory_order_acquire);
    const std::uint64_t looked_at = std::uint64_t{2} * header_.ranks + rank_;
    std::uint64_t k = holds(Rule::kSetNeedsMessages) ? received(to, rank_)
                                                     : message_mark(base_, *marks_[to], looked_at);
    for (; k <= tail; ++k) {
      std::uint64_t run;
      const auto* e = log_place<ChannelEntry>(base_, log, k, &run);
      if (e == nullptr || e->ready.load(std::memory_order_acquire) != k + 1) continue;
      add_value(e->value, e->bytes);
    }
  }

  void add_value(Offset at, std::uint64_t bytes) {
    if (bytes > kInlineBytes) add(at, bytes);
  }
  void add(Offset at, std::uint64_t bytes) {
    if (at >= begin_ && at < end() && bytes != 0)
      found_.push_back({at, std::min(bytes, end() - at)});
  }

  // --- Marks

  std::uint64_t mark(std::uint32_t rank, std::uint64_t context) const {
    return mark_in(base_, rank, *marks_[rank], context);
  }
  std::uint64_t received(std::uint32_t rank, std::uint32_t from) const {
    return received_mark_in(base_, *marks_[rank], from);
  }

  // The least mark of the own members of a context; or, to break a rule, the greatest.
  std::uint64_t mark_of_own(const ContextBlock& block, bool least) const {
    std::uint64_t found = kPast;
    const auto* world = reinterpret_cast<const std::uint32_t*>(base_ + block.members);
    for (std::uint32_t m = 0; m < block.size; ++m) {
      if (!contains(world[m])) continue;
      const std::uint64_t at = mark(world[m], block.context);
      found = least || found == kPast ? std::min(found, at) : std::max(found, at);
    }
    return found;
  }

  static bool by_place(const Extent& a, const Extent& b) { return a.at < b.at; }
  std::vector<Extent> merged() {
    std::sort(found_.begin(), found_.end(), by_place);
    std::vector<Extent> all;
    for (const Extent& e : found_) {
      if (all.empty() || e.at > all.back().at + all.back().bytes) {
        all.push_back(e);
      } else {
        all.back().bytes = std::max(all.back().bytes, e.at + e.bytes - all.back().at);
      }
    }
    return all;
  }

  std::byte* const base_;
  const std::span<const std::uint32_t> own_;
  const std::uint32_t rank_;
  const std::uint64_t set_;
  const Rule broken_;
  const SegmentHeader& header_;
  const RegionHead& head_;
  const Offset begin_;               // of the payload
  std::vector<const Marks*> marks_;  // of the set, by rank
  std::vector<Extent> found_;
};

}  // namespace

std::vector<Extent> needed_payload(std::byte* base, std::span<const std::uint32_t> own,
                                   std::uint32_t rank, std::uint64_t set, Rule broken) {
  return OneRank(base, own, rank, set, broken).needed();
}

void back_again(std::byte* base, std::uint32_t rank) {
  RegionHead& head = *region_of(base, rank);
  for (std::uint32_t i = 0; i < head.zones; ++i) {
    Zone& z = head.zone[i];
    const bool is_open = z.interval == 0;
    z.backed_to = std::min(z.backed_to, is_open ? z.begin + z.used : z.begin);
  }
}

}  // namespace rejoin::journal
