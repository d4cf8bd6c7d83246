// Where the context blocks of a rank are, and how a context's low-water marks are evaluated. All
// ranks read them; only the owner makes, frees and reclaims them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "journal/layout.h"
#include "journal/rules.h"
#include "journal/step.h"

namespace rejoin::journal {

struct FoundContext {
  ContextBlock* block;  // null: not made yet, or reclaimed
  ContextEntry* entry;  // null: not made yet
  bool reclaimed() const { return entry != nullptr && block == nullptr; }
};

// O(tables). A block that was found stays valid while any member of its context may go back behind
// the free.
inline FoundContext find_context(std::byte* base, std::uint32_t world_rank, std::uint64_t context) {
  ContextTables& all = region_of(base, world_rank)->contexts;
  for (std::uint32_t k = all.tables.load(std::memory_order_acquire); k-- > 0;) {
    auto* table = reinterpret_cast<ContextEntry*>(base + all.at[k]);
    const std::uint64_t mask = (std::uint64_t{kFirstTableEntries} << k) - 1;
    for (std::uint64_t i = context;; ++i) {
      ContextEntry& e = table[i & mask];
      const std::uint64_t found = e.context.load(std::memory_order_acquire);
      if (found == 0) break;
      if (found != context) continue;
      const Offset at = e.block.load(std::memory_order_acquire);
      if (at == kReclaimed) return {nullptr, &e};
      return {reinterpret_cast<ContextBlock*>(base + at), &e};
    }
  }
  return {nullptr, nullptr};
}

// Calls visit(block) for each context of a rank that is not reclaimed. O(entries of all tables).
template <class Visit>
void for_each_context(std::byte* base, std::uint32_t world_rank, Visit&& visit) {
  const ContextTables& all = region_of(base, world_rank)->contexts;
  for (std::uint32_t k = 0; k < all.tables.load(std::memory_order_acquire); ++k) {
    const auto* table = reinterpret_cast<const ContextEntry*>(base + all.at[k]);
    for (std::uint64_t i = 0; i < std::uint64_t{kFirstTableEntries} << k; ++i) {
      const std::uint64_t context = table[i].context.load(std::memory_order_acquire);
      if (context == 0 || context == kForgottenContext) continue;
      const Offset at = table[i].block.load(std::memory_order_acquire);
      if (at != kReclaimed) visit(*reinterpret_cast<const ContextBlock*>(base + at));
    }
  }
}

// Rank `world_rank`'s block of a context, or null if it has made none yet or it is past.
inline ContextBlock* find_block(std::byte* base, std::uint32_t world_rank, std::uint64_t context) {
  return find_context(base, world_rank, context).block;
}

// A communicator as one member sees it: its members, and where each member's block lies.
struct Members {
  std::uint64_t context;
  std::uint32_t size;
  std::uint32_t rank;          // this rank's, in it
  const std::uint32_t* world;  // [size] world ranks
  ContextBlock* mine;
  ContextBlock** block;  // [size]; null until the member has made its own
};

inline ContextBlock* block_of(std::byte* base, Members& m, std::uint32_t i) {
  if (m.block[i] == nullptr) m.block[i] = find_block(base, m.world[i], m.context);
  return m.block[i];
}

// --- Versions and low-water marks

inline const Cursor* cursors_of(std::byte* base, const Marks& v) {
  return reinterpret_cast<const Cursor*>(base + v.cursors.at);
}
inline const std::uint64_t* sent_of(std::byte* base, const Marks& v) {
  return reinterpret_cast<const std::uint64_t*>(cursors_of(base, v) + v.contexts);
}
inline const std::uint64_t* received_of(std::byte* base, const Marks& v) {
  return sent_of(base, v) + header_of(base)->ranks;
}
// An image's slot may be reused while a peer reads it. The caller then discards what the next two
// functions return; they only guarantee that they read inside the buffer.
inline std::uint64_t contexts_of(const Marks& v) {
  return std::min(v.contexts, v.cursors.capacity / sizeof(Cursor));
}
inline const Cursor* cursor_of(std::byte* base, const Marks& v, std::uint64_t context) {
  const Cursor* c = cursors_of(base, v);
  const std::uint64_t contexts = contexts_of(v);
  for (std::uint64_t i = 0; i < contexts; ++i) {
    if (c[i].context == context) return &c[i];
  }
  return nullptr;
}
// Returns word i of the array that follows the cursors: sent[ranks], received[ranks].
inline std::uint64_t message_mark(std::byte* base, const Marks& v, std::uint64_t i) {
  const std::uint64_t at = contexts_of(v) * sizeof(Cursor) / sizeof(std::uint64_t) + i;
  if (at >= v.cursors.capacity / sizeof(std::uint64_t)) return 0;
  return reinterpret_cast<const std::uint64_t*>(base + v.cursors.at)[at];
}
inline const Image* find_image(std::byte* base, std::uint32_t rank, std::uint64_t number) {
  for (const Image& i : region_of(base, rank)->image) {
    if (i.marks.number.load(std::memory_order_acquire) == number) return &i;
  }
  return nullptr;
}
inline Version* find_version(std::byte* base, std::uint32_t rank, std::uint64_t number) {
  for (Version& v : region_of(base, rank)->version) {
    if (number != 0 && v.marks.number.load(std::memory_order_acquire) == number) return &v;
  }
  return nullptr;
}

// Returns read(marks) for the image that the rank keeps. Its slot may be reused during the read,
// but only after another image is kept: if kept_image is unchanged, the data was consistent.
template <class Host, class Read>
std::uint64_t read_image_mark(Host& host, std::uint32_t rank, Read&& read) {
  std::byte* base = host.base();
  const AgentWord<std::uint64_t>& kept = control_of(base, rank)->kept_image;
  for (;;) {
    const std::uint64_t number = kept.load(std::memory_order_acquire);
    const Image* image = find_image(base, rank, number);
    if (breaks(host, Rule::kImageByNumber)) {
      const Image& any = region_of(base, rank)->image[0];
      if (any.marks.number.load(std::memory_order_acquire) != 0) image = &any;
    }
    host.step(Step::kMark);
    const std::uint64_t mark = image != nullptr ? read(image->marks) : 0;
    order_stores();  // and loads: the marks are read before kept_image is read again
    const bool again = kept.load(std::memory_order_acquire) != number;
    if (!again || breaks(host, Rule::kKeptReadAgain)) return mark;
  }
}

// Returns read(marks) for the version or image that the rank keeps, or 0 if the rank goes back to
// main. The reader of a version is a rank of the job and makes no checkpoint meanwhile, so the
// version stays in its slot even if its owner keeps a newer one by then (PROTOCOL.md,
// "Truncation").
template <class Host, class Read>
std::uint64_t read_mark(Host& host, std::uint32_t rank, Read&& read) {
  std::byte* base = host.base();
  const RankControl* control = control_of(base, rank);
  if (control->kept_image.load(std::memory_order_acquire) != 0) {
    return read_image_mark(host, rank, read);
  }
  const std::uint64_t number = control->kept.load(std::memory_order_acquire);
  if (number == 0) return 0;
  const Version* v = find_version(base, rank, number);
  host.step(Step::kMark);
  return v != nullptr ? read(v->marks) : 0;
}

inline constexpr std::uint64_t kPast = ~std::uint64_t{0};

// The rank's low-water mark in `context` by the marks `v`: the sequence that it never goes back
// behind. kPast: it has freed the context and never goes back behind that.
inline std::uint64_t mark_in(std::byte* base, std::uint32_t rank, const Marks& v,
                             std::uint64_t context, bool by_ordinal = true) {
  if (const Cursor* c = cursor_of(base, v, context)) return c->sequence;
  const FoundContext found = find_context(base, rank, context);
  if (found.reclaimed()) return kPast;
  if (found.block == nullptr) return 0;
  const std::uint64_t freed = found.block->freed.load(std::memory_order_acquire);
  return freed != 0 && (freed <= v.ordinal || !by_ordinal) ? kPast : 0;
}

// The same by the marks of the version or image that the rank keeps.
template <class Host>
std::uint64_t mark_of(Host& host, std::uint32_t rank, std::uint64_t context) {
  return read_mark(host, rank, [&](const Marks& v) {
    const bool by_ordinal = !breaks(host, Rule::kPastImageByOrdinal);
    return mark_in(host.base(), rank, v, context, by_ordinal);
  });
}

// The low-water mark among messages from `from`, by the marks `v` of their receiver.
inline std::uint64_t received_mark_in(std::byte* base, const Marks& v, std::uint32_t from) {
  return message_mark(base, v, std::uint64_t{header_of(base)->ranks} + from);
}

// The rank's low-water mark among the messages that it receives from `from`.
template <class Host>
std::uint64_t received_mark_of(Host& host, std::uint32_t rank, std::uint32_t from) {
  std::byte* base = host.base();
  return read_mark(host, rank, [&](const Marks& v) { return received_mark_in(base, v, from); });
}

// The rank's low-water mark among the messages that it sends to `to`.
template <class Host>
std::uint64_t sent_mark_of(Host& host, std::uint32_t rank, std::uint32_t to) {
  std::byte* base = host.base();
  return read_mark(host, rank, [&](const Marks& v) { return message_mark(base, v, to); });
}

// Returns the first operation of which this rank, former incarnations included, has shown neither
// a record nor a contribution.
inline std::uint64_t first_not_shown(const ContextBlock& block) {
  std::uint64_t first = block.records.tail.load(std::memory_order_acquire);
  for (const Contribution& c : block.contribution) {
    first = std::max(first, c.sequence.load(std::memory_order_relaxed));
  }
  return first;
}

// Returns whether a closed zone of the rank is free: all members' low-water marks, given by
// mark(rank, context) and received(rank, from), have passed the zone's label.
template <class Mark, class Received>
bool is_past(std::byte* base, std::uint32_t rank, const Zone& zone, Mark&& mark,
             Received&& received) {
  const auto* c = reinterpret_cast<const Cursor*>(base + zone.label.at);
  for (std::uint64_t i = 0; i < zone.contexts; ++i) {
    const ContextBlock* block = find_block(base, rank, c[i].context);
    if (block == nullptr) continue;  // reclaimed, so it is past
    const auto* world = reinterpret_cast<const std::uint32_t*>(base + block->members);
    for (std::uint32_t m = 0; m < block->size; ++m) {
      if (mark(world[m], c[i].context) < c[i].sequence) return false;
    }
  }
  const auto* sent = reinterpret_cast<const std::uint64_t*>(c + zone.contexts);
  for (std::uint32_t to = 0; to < header_of(base)->ranks; ++to) {
    if (sent[to] != 0 && received(to, rank) < sent[to]) return false;
  }
  return true;
}
// The same for a zone of this rank, by the marks of the images or versions that ranks keep.
template <class Host>
bool is_past(Host& host, const Zone& zone) {
  return is_past(
      host.base(), host.rank(), zone,
      [&](std::uint32_t r, std::uint64_t context) { return mark_of(host, r, context); },
      [&](std::uint32_t r, std::uint32_t from) { return received_mark_of(host, r, from); });
}

}  // namespace rejoin::journal
