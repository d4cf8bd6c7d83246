// What is truncated, by low-water marks: the cursors of the version or image that a rank keeps,
// behind which it never goes back. PROTOCOL.md, "Truncation", lists the marks that count for each
// kind.
#pragma once

#include <algorithm>
#include <cstdint>

#include "journal/journal.h"
#include "journal/own.h"
#include "journal/peer_view.h"
#include "recovery/communicators.h"
#include "recovery/outbox.h"

namespace rejoin::recovery {

template <journal::Host H>
class Truncation final : public journal::ZoneLabels {
 public:
  Truncation(H& host, journal::Journal<H>& journal, const journal::PeerView& peers,
             Communicators<H>& comms, Outbox<H>& outbox)
      : host_(host), journal_(journal), peers_(peers), comms_(comms), outbox_(outbox) {}

  // Called when this rank keeps version v. Closes the zones that were used up to there, and
  // truncates whatever lies behind marks. REQUIRES that the cursors of all its communicators are at
  // v, and that former incarnations had not come further.
  void close(std::uint64_t v) {
    journal::Region<H>& region = journal_.region();
    if (!region.retention().serves_replays()) return;
    journal::RegionHead* head = region.head();
    if (head->past_version < v) {
      region.follow_versions();
      if (!region.zones().close([this](journal::Zone& z) { return label(z); })) {
        journal_.out_of_memory();
      }
      head->past_version = v;
    }
    truncate_all();
  }

  // Truncates whatever lies behind marks.
  void truncate_all() {
    for (Comm<H>* c = comms_.first(); c != nullptr; c = c->next) truncate_records(*c);
    outbox_.truncate();
    comms_.reclaim();
  }

  // A record is truncated when the marks of all members have passed it: a member that goes back may
  // have no other record to adopt.
  void truncate_records(Comm<H>& c) {
    // A process that begins at a version would ask for records of a late communicator again.
    const bool late = c.late && peers_.goes_back_to() == journal::Return::kVersions;
    if (late || c.members.size == 1) return;
    std::uint64_t keep_from = journal::mark_of(host_, host_.rank(), c.members.context);
    for (std::uint32_t i = 0; i < c.members.size; ++i) {
      if (journal::breaks(host_, Rule::kTruncateBehindAllTails)) break;
      keep_from = std::min(keep_from, peers_.tail(c.members, i));
      if (i == c.members.rank || journal::breaks(host_, Rule::kTruncateBehindAllMarks)) continue;
      keep_from =
          std::min(keep_from, journal::mark_of(host_, c.members.world[i], c.members.context));
    }
    c.records.truncate(keep_from);
    if (c.span != nullptr) [[unlikely]]
      truncate_departures(*c.span, keep_from);
  }

  // Labels a zone with everything it may have been used for: all that this rank has entered and
  // sent so far, in contexts that exist or were freed, and all that former incarnations had shown,
  // which may have been further when they died. It is free when all readers' marks have passed
  // that.
  bool label(journal::Zone& z) override {
    std::uint64_t most = 0;
    for_each_context([&](const journal::ContextBlock&) { ++most; });
    const std::size_t sent_bytes = outbox_.bytes_of_cursors();
    if (!journal_.region().memory().make_room(z.label,
                                              most * sizeof(journal::Cursor) + sent_bytes)) {
      return false;
    }
    auto* const begin = reinterpret_cast<journal::Cursor*>(journal::own_bytes(host_, z.label.at));
    journal::Cursor* to = begin;
    const bool shown = !journal::breaks(host_, Rule::kLabelsWhatWasShown);
    for_each_context([&](const journal::ContextBlock& block) {
      const Comm<H>* c = comms_.find(block.context);
      // Blocks of contexts that every incarnation makes stay for ever.
      const bool is_freed = block.freed.load(std::memory_order_relaxed) != 0;
      if (c == nullptr && is_freed && comms_.everybody_is_past(block)) return;
      std::uint64_t end = c == nullptr ? 0 : c->next_sequence;
      if (shown || c == nullptr) end = std::max(end, journal::first_not_shown(block));
      *to++ = {block.context, end, 0, 0};
    });
    z.contexts = static_cast<std::uint64_t>(to - begin);
    if (shown) {
      outbox_.save_shown(reinterpret_cast<std::uint64_t*>(to));
    } else {
      outbox_.save(to);
    }
    return true;
  }

 private:
  // A process that began at a version need not make all contexts again, and then has no marks for
  // the others.
  template <class Visit>
  void for_each_context(Visit&& visit) {
    const bool makes_all = peers_.goes_back_to() != journal::Return::kVersions;
    journal::for_each_own_context(host_, [&](const journal::ContextBlock& block) {
      const bool is_known = makes_all || block.freed.load(std::memory_order_relaxed) != 0 ||
                            comms_.find(block.context) != nullptr;
      if (block.size > 1 && is_known) visit(block);
    });
  }

  // What was given in an operation is needed until all members have its record for good.
  void truncate_departures(Span<H>& span, std::uint64_t keep_from) {
    std::uint64_t k = span.departures.tail();
    for (; k > 0; --k) {
      const journal::Departure& d = *span.departures.at(k - 1);
      if (d.ready.load(std::memory_order_relaxed) != k) break;  // it is truncated already
      if (d.sequence.load(std::memory_order_relaxed) < keep_from) break;
    }
    span.departures.truncate(k);
  }

  H& host_;
  journal::Journal<H>& journal_;
  const journal::PeerView& peers_;
  Communicators<H>& comms_;
  Outbox<H>& outbox_;
};

}  // namespace rejoin::recovery
