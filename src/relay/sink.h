// This node's copies of what another node has published: the receiving half of a relay's step. The
// only writer of those copies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "journal/layout.h"
#include "relay/frames.h"

namespace rejoin::relay {

class Sink {
 public:
  // Ranks of `from` are copies in this segment; those of `node` are its own.
  Sink(std::byte* base, std::uint32_t node, std::uint32_t from);

  // Says how far the copies reach: a kHave for each log, then kHaveAll.
  void say_what_it_has(Frames& out) const;

  // Where a payload's bytes are to be stored; null: it is not inside a region of the other node.
  std::byte* place(const Head& head) const;
  // Carries out a frame other than kHave, kAsk and kPayload. Returns false if the other side cannot
  // have sent it: an offset, an index or a size is wrong. What came before that is not undone.
  bool apply(const Head& head, const std::byte* body);
  // Bytes of this message (Loan::message) are written to a program's buffer alone. To be called
  // before.
  void note_not_kept(journal::Offset message) const;

 private:
  bool is_theirs(std::uint64_t rank) const;
  bool is_mine(std::uint64_t rank) const;
  // Whether the bytes lie in the region of a rank of one of the two nodes, behind what was laid out
  // before the job began.
  bool is_inside(std::uint64_t at, std::uint64_t bytes, bool theirs = true) const;
  bool is_payload(std::uint64_t at, std::uint64_t bytes) const;
  // The other node's log at this offset; null: none can be there.
  journal::Log* log_at(std::uint64_t at) const;
  journal::Log* channel(std::uint64_t from, std::uint64_t to) const;
  template <class Entry>
  Entry* element(journal::Log& log, std::uint64_t index, bool theirs = true) const;
  template <class Entry>
  bool append(const Head& head, const std::byte* body);
  bool append_message(const Head& head, const std::byte* body);
  bool append_departure(const Head& head, const std::byte* body);
  bool shape(const Head& head, const std::byte* body);
  journal::ChannelEntry* shown(const Head& head) const;
  bool has_newest_message(journal::Log& log) const;
  bool written(const Head& head, const std::byte* body);
  bool again(const Head& head);
  bool matched(const Head& head, const std::byte* body);
  bool consumed(const Head& head, const std::byte* body);
  bool table(const Head& head, const std::byte* body);
  bool context(const Head& head, const std::byte* body);
  bool past(const Head& head, const std::byte* body);
  bool freed(const Head& head, const std::byte* body);
  bool image(const Head& head, const std::byte* body);
  bool prepared(const Head& head, const std::byte* body);
  bool kept(const Head& head);
  bool position(const Head& head, const std::byte* body);
  journal::ContextEntry* entry(std::uint64_t rank, std::uint64_t place) const;

  std::byte* base_;
  std::uint32_t node_;
  std::uint32_t from_;
  journal::AnyWord<std::uint64_t>* set_wanted_ = nullptr;  // of this host
  // Offsets from the begin of every region.
  std::uint64_t channels_, consumed_, fixed_bytes_;
};

}  // namespace rejoin::relay
