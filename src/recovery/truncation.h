// What is truncated, by low-water marks: the cursors of the version or image that a rank keeps,
// behind which it never goes back. PROTOCOL.md, "Truncation", lists the marks that count for each
// kind.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "recovery/rooms.h"

namespace rejoin::recovery {

template <engine::Host H>
class Truncation final : public journal::Region<H>::Labels {
 public:
  explicit Truncation(Rooms<H>& rooms) : r_(rooms) {}

  // Called when this rank keeps version v. Closes the zones that were used up to there, and
  // truncates whatever lies behind marks. REQUIRES that the cursors of all its communicators are at
  // v, and that former incarnations had not come further.
  void close(std::uint64_t v) {
    journal::Region<H>& region = r_.journal.region();
    if (region.recycling()) return;
    journal::RegionHead* head = region.head();
    if (head->past_version < v) {
      region.start_zones();
      if (!region.close_zones([this](journal::Zone& z) { return label(z); })) {
        r_.journal.out_of_memory();
      }
      head->past_version = v;
    }
    truncate_all();
  }

  // Truncates whatever lies behind marks.
  void truncate_all() {
    for (Comm<H>* c = r_.comms.first(); c != nullptr; c = c->next) truncate_records(*c);
    for (std::uint32_t to = 0; to < r_.header->ranks; ++to) {
      if (r_.journal.has_channel(to)) truncate_messages(to);
    }
    r_.comms.reclaim();
  }

  // A record is truncated when its owner's mark has passed it and every member has one.
  void truncate_records(Comm<H>& c) {
    // A process that begins at a version would ask for records of a late communicator again.
    const bool late = c.late && r_.goes_back_to() == journal::Return::kVersions;
    if (late || c.members.size == 1) return;
    std::uint64_t keep_from = journal::mark_of(r_.host, r_.host.rank(), c.members.context);
    for (std::uint32_t i = 0; i < c.members.size; ++i) {
      if (engine::breaks(r_.host, Rule::kTruncateBehindAllTails)) break;
      keep_from = std::min(keep_from, r_.peers.tail(c.members, i));
    }
    c.records.truncate(keep_from);
  }

  // A message is truncated when the marks of its receiver and of its sender have passed it: a
  // sender that goes back in front of it sends it again, and the two are compared.
  void truncate_messages(std::uint32_t to) {
    auto& channel = r_.journal.channel(to);
    std::uint64_t keep_from = channel.tail();
    const std::uint32_t me = r_.host.rank();
    if (!engine::breaks(r_.host, Rule::kTruncateMessagesByReceiver)) {
      keep_from = std::min(keep_from, journal::received_mark_of(r_.host, to, me));
    }
    if (!engine::breaks(r_.host, Rule::kTruncateMessagesBySender)) {
      keep_from = std::min(keep_from, journal::sent_mark_of(r_.host, me, to));
    }
    channel.truncate(keep_from);
  }

  // Labels a zone with everything it may have been used for: all that this rank has entered and
  // sent so far, in contexts that exist or were freed. It is free when all readers' marks have
  // passed that.
  bool label(journal::Zone& z) override {
    std::uint64_t contexts = 0;
    for (Comm<H>* c = r_.comms.first(); c != nullptr; c = c->next) contexts += c->members.size > 1;
    for (auto* r = r_.comms.retired(); r != nullptr; r = r->next) {
      contexts += r_.comms.block_of(*r) != nullptr;
    }
    const std::size_t sent_bytes = r_.header->ranks * sizeof(std::uint64_t);
    if (!r_.journal.region().make_room(z.label, contexts * sizeof(journal::Cursor) + sent_bytes)) {
      return false;
    }
    z.contexts = contexts;
    auto* to = reinterpret_cast<journal::Cursor*>(journal::own_bytes(r_.host, z.label.at));
    for (Comm<H>* c = r_.comms.first(); c != nullptr; c = c->next) {
      if (c->members.size > 1) *to++ = {c->members.context, c->next_sequence, c->chain, 0};
    }
    for (auto* r = r_.comms.retired(); r != nullptr; r = r->next) {
      const journal::ContextBlock* block = r_.comms.block_of(*r);
      if (block == nullptr) continue;
      *to++ = {r->context, block->records.tail.load(std::memory_order_relaxed), 0, 0};
    }
    std::memcpy(to, r_.progress.sent, sent_bytes);
    return true;
  }

 private:
  Rooms<H>& r_;
};

}  // namespace rejoin::recovery
