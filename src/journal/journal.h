// What a rank writes: its own records, contexts and payload. Used by the owner only; other ranks
// read through PeerView. Messages: journal/channels.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "journal/contexts.h"
#include "journal/copy_inline.h"
#include "journal/host.h"
#include "journal/log.h"
#include "journal/own.h"
#include "journal/peer_view.h"
#include "journal/region.h"
#include "journal/rules.h"
#include "journal/staging_pool.h"
#include "journal/waiting.h"

namespace rejoin::journal {

template <Host H>
class Journal {
 public:
  using Records = LogWriter<Record, H>;

  explicit Journal(H& host)
      : host_(host),
        notices_(host),
        region_((host.back(reinterpret_cast<std::byte*>(region_of(host.base(), host.rank())),
                           sizeof(RegionHead)),
                 host),
                notices_),
        staging_(host, region_),
        marked_(host, region_, region_.head()->marked, true) {}

  Region<H>& region() { return region_; }
  Notices& notices() { return notices_; }
  StagingPool<H>& staging() { return staging_; }
  LogWriter<Marked, H>& marked() { return marked_; }

  // Reads every cached cursor again (except those of records, which their communicators hold).
  void rebase() {
    region_.rebase();
    staging_.rebase();
    marked_.rebase();
  }

  // Bytes of a result or a message, safe to touch; ends the job if there are none.
  Offset allocate(std::size_t bytes) { return or_stop(region_.allocate(bytes)); }
  Offset reserve(std::size_t bytes) { return or_stop(region_.reserve(bytes)); }
  // The same for the result of a nonblocking operation, which a member may not have read when all
  // have entered a later operation.
  Offset allocate_nonblocking(std::size_t bytes) {
    return or_stop(region_.allocate_nonblocking(bytes));
  }
  Offset reserve_nonblocking(std::size_t bytes) {
    return or_stop(region_.reserve_nonblocking(bytes));
  }
  // Bytes for a message, the newest of sent[ranks].
  Offset allocate_message(std::size_t bytes, const std::uint64_t* sent) {
    return or_stop(region_.allocate_message(bytes, sent));
  }

  // Returns the value of a record or a message: the bytes themselves if they are few, else the
  // place that allocate(bytes) returned, to which they are copied.
  template <class Allocate>
  [[gnu::always_inline]] std::uint64_t store(const void* data, std::size_t bytes,
                                             Allocate&& allocate) {
    std::uint64_t value = 0;
    if (bytes > kInlineBytes) {
      value = allocate(bytes);
      host_.payload_stores().copy(host_.base() + value, static_cast<const std::byte*>(data), bytes);
    } else {
      copy_inline(&value, data, bytes);
    }
    return value;
  }

  // Publishes the record of operation `sequence`: this decides the outcome for all members.
  void commit(Records& records, std::uint64_t sequence, const Record& record) {
    // I5: the tail is the position, and moves by one.
    check(host_, records.tail() == sequence,
          "an operation was completed out of order: this is a defect of Rejoin");
    Record* r = records.next();
    if (r == nullptr) out_of_memory();
    host_.step(Step::kRecord);
    *r = record;
    records.publish(Step::kCommit);
  }

  // Gives something to the other nodes. Its index and `ready` are set here. The newest departure of
  // a context belongs to a later operation, or a later part, than the one before.
  void depart(LogWriter<Departure, H>& departures, const Departed& what) {
    if (departures.tail() > 0) {
      const Departure& newest = *departures.at(departures.tail() - 1);
      // When all ranks have gone back far, a void one may lie in the place of the newest, which is
      // past then.
      const bool is_there = newest.ready.load(std::memory_order_relaxed) == departures.tail();
      const std::uint64_t then = newest.sequence.load(std::memory_order_relaxed);
      const bool same_part =
          newest.part.load(std::memory_order_relaxed) >= static_cast<std::uint32_t>(what.part);
      check(host_, !is_there || then < what.sequence || (then == what.sequence && !same_part),
            "a part of an operation was given twice: this is a defect of Rejoin");
    }
    Departure* d = departures.next();
    if (d == nullptr) out_of_memory();
    const auto put = [&](auto& word, auto value) {
      word.store(host_, Step::kSame, value, std::memory_order_relaxed);
    };
    d->ready.store(host_, Step::kDepart, 0, std::memory_order_relaxed);
    order_stores();
    put(d->sequence, what.sequence);
    put(d->value, what.value);
    put(d->bytes, what.bytes);
    put(d->call, what.call);
    put(d->chain, what.chain);
    put(d->fingerprint, what.fingerprint);
    put(d->part, static_cast<std::uint32_t>(what.part));
    put(d->element_bytes, what.division.element_bytes);
    put(d->readers, what.division.readers);
    put(d->incarnation, what.incarnation);
    d->ready.store(host_, Step::kDepart, departures.tail() + 1);
    departures.publish(Step::kDeparted);
  }

  // --- Contexts

  // Returns this rank's block of a context, or makes it. Null: no memory, or the context is past.
  // spans: the members are on nodes that share only messages.
  ContextBlock* make_block(std::uint64_t context, const std::uint32_t* members, std::uint32_t size,
                           bool permanent, bool spans) {
    const FoundContext found = find_context(host_.base(), host_.rank(), context);
    if (found.entry != nullptr) {
      // The former incarnation may have died before it did so.
      if (!breaks(host_, Rule::kContextShownAgain)) note_change();
      return found.block;
    }
    ContextEntry* entry = free_entry(context);
    ContextBlock* block = entry == nullptr ? nullptr : free_block(size, spans);
    if (block == nullptr) return nullptr;
    block->context = context;
    block->size = size;
    block->permanent = permanent;
    for (std::uint32_t i = 0; i < size; ++i) {
      reinterpret_cast<std::uint32_t*>(host_.base() + block->members)[i] = members[i];
      if (members[i] == host_.rank()) block->rank = i;
    }
    entry->block.store(host_, Step::kContext, offset_of(block), std::memory_order_relaxed);
    entry->context.store(host_, Step::kCommit, context);
    ++region_.head()->contexts.entries;
    note_change();
    return block;
  }

  // REQUIRES that the context is past, so that no rank needs its contents. Frees the block for
  // reuse.
  void reclaim_block(std::uint64_t context) {
    const FoundContext found = find_context(host_.base(), host_.rank(), context);
    if (found.block == nullptr) return;
    found.entry->block.store(host_, Step::kContext, kReclaimed);
    found.block->next_reclaimed = region_.head()->reclaimed_blocks;
    region_.head()->reclaimed_blocks = offset_of(found.block);
    note_change();
  }
  // This rank is past the operation `ordinal`, in which it freed a context; 0: it has not freed it.
  void note_freed(ContextBlock& block, std::uint64_t ordinal) {
    block.freed.store(host_, Step::kFreed, ordinal);
    note_change();
  }

  [[noreturn]] void out_of_memory() {
    host_.stop(
        "the journal cannot grow, because memory (or the space in --journal-dir) is used up: give "
        "the job more, or set --journal-limit below what is available");
  }

 private:
  Offset or_stop(Offset at) {
    if (at == 0) [[unlikely]]
      out_of_memory();
    return at;
  }
  Offset offset_of(const void* p) const {
    return static_cast<Offset>(static_cast<const std::byte*>(p) - host_.base());
  }

  // Tells the relay, if there is one, that it has to look at the contexts again.
  void note_change() {
    if (job_of(host_)->has_relay == 0) return;
    auto& changes = region_.head()->contexts.changes;
    changes.store(host_, Step::kContext, changes.load(std::memory_order_relaxed) + 1);
  }

  ContextEntry* free_entry(std::uint64_t context) {
    ContextTables& all = region_.head()->contexts;
    std::uint32_t tables = all.tables.load(std::memory_order_relaxed);
    const auto size = [](std::uint32_t k) { return std::uint64_t{kFirstTableEntries} << k; };
    if (tables == 0 || 2 * (all.entries + 1) > size(tables - 1)) {
      if (tables == kContextTables) return nullptr;
      const Offset at = region_.memory().allocate_permanent(size(tables) * sizeof(ContextEntry));
      if (at == 0) return nullptr;
      all.at[tables] = at;
      all.entries = 0;
      all.tables.store(host_, Step::kContext, ++tables);
    }
    auto* table = reinterpret_cast<ContextEntry*>(host_.base() + all.at[tables - 1]);
    std::uint64_t i = context;
    const std::uint64_t mask = size(tables - 1) - 1;
    while (table[i & mask].context.load(std::memory_order_relaxed) != 0) ++i;
    return &table[i & mask];
  }

  // Returns a new block, or a reclaimed one with its memory for members and logs. Nothing is
  // allocated once it is cleared: between that and its next context it looks like the former one.
  ContextBlock* free_block(std::uint32_t size, bool spans) {
    Offset& first = region_.head()->reclaimed_blocks;
    const bool is_new = first == 0;
    const Offset at = is_new ? region_.memory().allocate_permanent(sizeof(ContextBlock)) : first;
    if (at == 0) return nullptr;
    auto* block = reinterpret_cast<ContextBlock*>(host_.base() + at);
    if (spans && block->departures == 0) {
      block->departures = region_.memory().allocate_permanent(sizeof(Log));
      if (block->departures == 0) return nullptr;
    }
    const std::uint64_t bytes = size * sizeof(std::uint32_t);
    if (bytes > round_up_line(block->size * sizeof(std::uint32_t))) {
      const Offset list = region_.memory().allocate_permanent(bytes);
      if (list == 0) return nullptr;
      block->members = list;
    }
    if (is_new) return block;
    first = block->next_reclaimed;
    const auto clear = [this](OwnerWord<std::uint64_t>& word) {
      word.store(host_, Step::kContext, 0, std::memory_order_relaxed);
    };
    for (Slot& slot : block->slot) clear(slot.tag);
    for (Contribution& c : block->contribution) clear(c.sequence);
    clear(block->freed);
    if (block->departures != 0) reuse(*own_departures(host_, *block));
    reuse(block->records);
    return block;
  }

  // Empties a log that has no readers any more. Only the largest of its rings remains.
  void reuse(Log& log) {
    const std::uint32_t rings = log.rings.load(std::memory_order_relaxed);
    if (rings > 0) {
      log.ring[0] = log.ring[rings - 1];
      log.ring[0].from = 0;
      log.rings.store(host_, Step::kContext, 1, std::memory_order_relaxed);
    }
    log.tail.store(host_, Step::kContext, 0, std::memory_order_relaxed);
  }

  H& host_;
  Notices notices_;
  Region<H> region_;
  StagingPool<H> staging_;
  LogWriter<Marked, H> marked_;
};

}  // namespace rejoin::journal
