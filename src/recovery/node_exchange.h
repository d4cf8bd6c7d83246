// What the leaders of a communicator's nodes do for one operation: give what their nodes' members
// contribute, and combine what all nodes give, in an order that follows from the layout alone.
//
//   reduction, small    every leader reads all nodes' parts and combines them
//   reduction, large    leader k combines slice k of all parts, and gives it to the other leaders;
//                       to that of one node alone, if only one member gets the result
//   gathering           every leader copies the blocks of all members to their places in the result
//   not commutative     every leader combines the contributions of all members in their order
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "copy/copy.h"
#include "engine/division.h"
#include "engine/node_parts.h"
#include "journal/lending.h"
#include "journal/pieces.h"
#include "recovery/operations.h"
#include "recovery/span.h"

namespace rejoin::recovery {

using engine::Division;
using journal::Departed;
using journal::Part;
using journal::Progress;

// What this rank gives to the other nodes in one operation, and what they give.
template <journal::Host H>
class Departures {
 public:
  using Other = typename Operations<H>::Other;

  Departures(Operations<H>& ops, Comm<H>& comm, const Entry& entry)
      : ops_(ops), c_(comm), e_(entry) {}

  // Returns what this rank has given already, in this incarnation or in a former one. `fingerprint`
  // of the contribution is compared.
  std::optional<Departed> given(Part part, std::uint32_t fingerprint) {
    if (journal::breaks(ops_.host, Rule::kGivenOnce)) return std::nullopt;
    const auto mine =
        c_.span->find(ops_.host, ops_.peers, c_.members, c_.members.rank, e_.sequence, part);
    if (mine) ops_.compare_departed(e_, *mine, fingerprint);
    return mine;
  }

  // REQUIRES that all earlier operations have their records, and that it is not given().
  void give(Part part, std::uint64_t value, std::size_t bytes, std::uint32_t fingerprint,
            const Division& division = {}) {
    const std::uint32_t chain = c_.chain == journal::kUnlinked ? journal::kUnlinked : e_.chain;
    ops_.journal.depart(c_.span->departures,
                        {e_.sequence, value, bytes, e_.call, chain, fingerprint, part, division,
                         ops_.execution.incarnation()});
    if (!journal::breaks(ops_.host, Rule::kRingAfterDeparture)) ring_leaders();
  }

  // Copies `bytes` at `data`, which do not change meanwhile, to `value` in this rank's region, for
  // a departure that is given next. The other nodes are sent them before they lie there.
  void put(Part part, std::uint64_t value, const std::byte* data, std::size_t bytes,
           const Division& division = {}) {
    put(part, value, data, bytes, division, [&] {
      H& host = ops_.host;
      host.payload_stores().copy(journal::own_bytes(host, value), data, bytes);
    });
  }
  template <class Copy>
  void put(Part part, std::uint64_t value, const std::byte* data, std::size_t bytes,
           const Division& division, Copy&& copy) {
    H& host = ops_.host;
    const bool is_large = bytes >= kLeastAhead;
    journal::Loan loan = {value, const_cast<std::byte*>(data), bytes};
    loan.context = c_.members.context;
    loan.sequence = e_.sequence;
    loan.part = part;
    loan.division = division;
    loan.incarnation = ops_.execution.incarnation();
    const bool lent = is_large && host.send_from(&loan);
    // A step of a connection sends at most a mebibyte.
    constexpr std::size_t kStep = 1 << 20;
    for (std::size_t sent = 0; lent && sent < bytes; sent += kStep) ring_leaders();
    copy();
    if (lent) host.send_from(nullptr);
  }
  // What is known of the bytes that member i sends before its departure.
  journal::Ahead ahead(std::uint32_t i, Part part) {
    return ops_.host.ahead(c_.members.world[i],
                           journal::ahead_key(c_.members.context, e_.sequence, part));
  }

  // Looks for the departure of member i. kFailed: that member has called another operation, which
  // other() names.
  Progress look(std::uint32_t i, Part part, std::size_t bytes, bool thorough, Departed* found) {
    // A member publishes its departures before its record, so its tail is read before its
    // departures.
    const bool finished = thorough && ops_.peers.tail(c_.members, i) > e_.sequence;
    const auto d = c_.span->find(ops_.host, ops_.peers, c_.members, i, e_.sequence, part);
    if (!d) {
      if (!finished) return Progress::kPending;
      return fail(i, ops_.peers.record(c_.members, i, e_.sequence).call & ~journal::kRecordFailed);
    }
    const bool linked = d->chain != journal::kUnlinked && c_.chain != journal::kUnlinked;
    const bool agrees = linked
                            ? d->chain == e_.chain
                            : ops_.peers.is_call(c_.members.world[i], d->call, e_.signature_hash);
    if (!agrees) return fail(i, d->call);
    journal::check(ops_.host, d->bytes == bytes,
                   "another node has given another number of bytes: this is a defect of Rejoin");
    *found = *d;
    return Progress::kDone;
  }

  // The bytes of what was given. `d` must stay.
  const std::byte* bytes_of(const Departed& d) const {
    return d.bytes <= journal::kInlineBytes ? reinterpret_cast<const std::byte*>(&d.value)
                                            : ops_.peers.payload(d.value, d.bytes).data();
  }
  const Other& other() const { return other_; }
  std::uint64_t sequence() const { return e_.sequence; }

 private:
  static constexpr std::size_t kLeastAhead = 32 * 1024;

  void ring_leaders() {
    for (std::uint32_t k = 0; k < c_.span->nodes; ++k) {
      if (k == c_.span->mine) continue;
      const std::uint32_t to = c_.span->leader(k, e_.sequence);
      journal::ring_sleepers(ops_.host, &c_.members.world[to], 1);
    }
  }
  Progress fail(std::uint32_t member, std::uint32_t call) {
    other_ = {member, call};
    return Progress::kFailed;
  }

  Operations<H>& ops_;
  Comm<H>& c_;
  const Entry& e_;
  Other other_;
};

// Makes a list of what the nodes have given, in their order and without node `but`. It lies where
// they have given it, that of others in this node's copies, as long as the originals do: until the
// marks of all members have passed the operation. Returns the value of a record.
template <journal::Host H, class Allocate>
std::uint64_t list_given(H& host, const Span<H>& span, std::uint32_t but, Allocate&& allocate) {
  const std::uint64_t pieces = span.nodes - (but == kNobody ? 0 : 1);
  const journal::Offset at = allocate(sizeof(journal::PieceList) + pieces * sizeof(journal::Piece));
  auto* list = reinterpret_cast<journal::PieceList*>(journal::own_bytes(host, at));
  *list = {pieces, 0};
  auto* piece = reinterpret_cast<journal::Piece*>(list + 1);
  for (std::uint32_t k = 0; k < span.nodes; ++k) {
    if (k != but) *piece++ = {span.given[k].value, span.given[k].bytes};
  }
  return at | journal::kInPieces;
}

// The leader's part of an operation to which all members contribute.
template <journal::Host H>
class NodeExchange {
 public:
  NodeExchange(Operations<H>& ops, Comm<H>& comm, const Entry& entry, const ReplicatedSpec& spec)
      : departures_(ops, comm, entry),
        ops_(ops),
        c_(comm),
        span_(*comm.span),
        spec_(spec),
        lending_(ops.host) {}

  // Whether the contributions are gathered: also those to a reduction that is not commutative.
  bool gathers() const { return spec_.reduction == nullptr || !spec_.reduction->commutative; }
  // The bytes that a node's members contribute together.
  std::size_t part_bytes(std::uint32_t k) const {
    if (!gathers()) return spec_.input_bytes;
    std::size_t bytes = 0;
    for (std::uint32_t i = span_.begin[k]; i < span_.begin[k + 1]; ++i) {
      bytes += block(span_.member[i]).bytes;
    }
    return bytes;
  }

  Departures<H>& departures() { return departures_; }
  // Gives the part of this rank's node. Each leader reads only its slice of a sliced reduction.
  void give(std::uint64_t value, std::size_t bytes, std::uint32_t fingerprint) {
    departures_.give(Part::kNode, value, bytes, fingerprint, division());
  }
  // Copies the contribution of the only member of this rank's node to `value`, to be given: all of
  // it that other leaders read, and this rank's next incarnation if its input may be another one.
  void put_input(std::uint64_t value, std::size_t bytes) {
    const auto* input = static_cast<const std::byte*>(spec_.input);
    const auto copy = [&](std::size_t begin, std::size_t end) {
      std::byte* const to = journal::own_bytes(ops_.host, value);
      ops_.host.payload_stores().copy(to + begin, input + begin, end - begin);
    };
    const bool leaves_out = is_sliced() && !ops_.may_contribute_others();
    const Slice mine = leaves_out ? slice(span_.mine) : Slice{bytes, bytes};
    departures_.put(Part::kNode, value, input, bytes, division(), [&] {
      copy(0, mine.begin);
      copy(mine.end, bytes);
    });
  }
  // REQUIRES that this rank has given its node's part, `value`. is_input: the input is that part
  // alone, and this rank's slice of it is only there. early:
  // null, or spec.early.
  void begin(std::uint64_t value, std::uint32_t fingerprint, bool is_input, std::byte* early) {
    fingerprint_ = fingerprint;
    lending_.end();
    is_input_ = is_input;
    constexpr std::uintptr_t kAligned = 16;  // what the kernels of reductions may count on
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(early) % kAligned == 0;
    early_ = is_sliced() && is_aligned ? early : nullptr;
    span_.given[span_.mine] = {.sequence = 0,
                               .value = value,
                               .bytes = part_bytes(span_.mine),
                               .call = 0,
                               .chain = 0,
                               .fingerprint = 0,
                               .part = Part::kNode,
                               .division = {},
                               .incarnation = 0};
    next_ = 0;
    result_ = 0;
    part_ = Part::kNode;
  }
  // Goes on as far as it can without waiting. kDone: value() is the result. kFailed: other().
  // allocate(bytes): memory of this rank's.
  template <class Allocate>
  Progress advance(bool thorough, Allocate&& allocate) {
    if (part_ == Part::kNode) {
      if (const Progress p = collect(thorough); p != Progress::kDone) return p;
      const Slice mine = slice(span_.mine);
      const std::size_t bytes = has_slice_alone() ? mine.end - mine.begin : spec_.result_bytes;
      if (result_ == 0 && bytes > journal::kInlineBytes) result_ = allocate(bytes);
      if (gathers()) {
        spec_.reduction != nullptr ? fold_members(result()) : place(result());
        return Progress::kDone;
      }
      if (!is_sliced()) {
        fold(result(), {0, spec_.result_bytes});
        return Progress::kDone;
      }
      give_slice(mine);
      part_ = Part::kSlice;
      next_ = 0;
    }
    if (!gets_result()) {
      result_ = 0;
      return Progress::kDone;
    }
    if (const Progress p = collect(thorough); p != Progress::kDone) return p;
    if (early_ != nullptr) result_ = list_given(ops_.host, span_, kNobody, allocate);
    return Progress::kDone;
  }
  std::uint64_t value() const { return result_; }
  // Whether the result lies at spec.early. In the journal it lies in pieces then.
  bool is_early() const { return early_ != nullptr; }

 private:
  // Larger results are exchanged as a reduce-scatter and an allgather among the leaders, so that
  // each leader combines one slice. Smaller ones take one exchange, and each leader combines all of
  // it.
  static constexpr std::size_t kDirectBytes = 4 * 1024;
  using Slice = engine::Slice;

  Division division() const {
    if (!is_sliced()) return {};
    return {.element_bytes = static_cast<std::uint32_t>(spec_.reduction->element_bytes)};
  }
  bool is_sliced() const { return !gathers() && spec_.result_bytes > kDirectBytes; }
  Slice slice(std::uint32_t k) const {
    return engine::slice_for(k, span_.nodes, spec_.result_bytes, division());
  }
  // Whether members of this node get the result.
  bool gets_result() const { return spec_.only == kNobody || span_.node[spec_.only] == span_.mine; }
  // Whether the result of a sliced reduction lies nowhere as a whole in this rank's memory.
  bool has_slice_alone() const { return early_ != nullptr || (is_sliced() && !gets_result()); }
  std::byte* result() {
    return spec_.result_bytes > journal::kInlineBytes ? journal::own_bytes(ops_.host, result_)
                                                      : reinterpret_cast<std::byte*>(&result_);
  }
  // Where a member's block lies among all of them.
  struct Block {
    std::size_t at, bytes;
  };
  Block block(std::uint32_t i) const {
    if (spec_.blocks == nullptr) return {i * spec_.input_bytes, spec_.input_bytes};
    return {spec_.blocks[i], spec_.blocks[i + 1] - spec_.blocks[i]};
  }

  // Collects what the other nodes give, and copies slices to their places.
  Progress collect(bool thorough) {
    for (; next_ < span_.nodes; ++next_) {
      const std::uint32_t k = next_;
      if (k == span_.mine) continue;
      const bool whole = part_ == Part::kNode;
      const Slice of_it = whole ? Slice{0, part_bytes(k)} : slice(k);
      const std::size_t bytes = of_it.end - of_it.begin;
      Departed& d = span_.given[k];
      const std::uint32_t leader = span_.leader(k, departures_.sequence());
      const Progress p = departures_.look(leader, part_, bytes, thorough, &d);
      if (p == Progress::kPending && !whole && early_ != nullptr && !lending_.is_lent()) {
        const journal::Ahead ahead = departures_.ahead(leader, part_);
        if (ahead.at != 0) lending_.begin_ahead(ahead, early_ + of_it.begin, bytes);
      }
      if (p != Progress::kDone) return p;
      if (!whole) take_slice(d, of_it);
    }
    return Progress::kDone;
  }
  void take_slice(const Departed& d, Slice s) {
    const std::byte* from = departures_.bytes_of(d);
    const std::size_t bytes = s.end - s.begin;
    if (early_ == nullptr) return copy_payload(result() + s.begin, from, bytes);
    std::byte* const to = early_ + s.begin;
    lending_.for_rest(d.value, 0, bytes, d.incarnation, [&](std::size_t begin, std::size_t end) {
      copy_payload(to + begin, from + begin, end - begin);
    });
    lending_.end();
  }
  // Copies all blocks to where they belong.
  void place(std::byte* to) const {
    for (std::uint32_t k = 0; k < span_.nodes; ++k) {
      const std::byte* from = departures_.bytes_of(span_.given[k]);
      for (std::uint32_t i = span_.begin[k]; i < span_.begin[k + 1]; ++i) {
        const Block b = block(span_.member[i]);
        copy_payload(to + b.at, from, b.bytes);
        from += b.bytes;
      }
    }
  }
  // Combines the contributions of all members.
  void fold_members(std::byte* out) const {
    const auto contribution = [&](std::uint32_t i) {
      return departures_.bytes_of(span_.given[span_.node[i]]) + span_.place[i] * spec_.input_bytes;
    };
    engine::fold_parts(*spec_.reduction, c_.fold_order(false), c_.members.size, spec_.input_bytes,
                       out, ops_.fold_memory, ops_.scratch, contribution);
  }
  // Combines bytes [begin, end) of all nodes' parts, to `out`.
  void fold(std::byte* out, Slice s) const {
    const auto part = [&](std::uint32_t k) {
      const bool is_input = is_input_ && k == span_.mine;
      return (is_input ? static_cast<const std::byte*>(spec_.input)
                       : departures_.bytes_of(span_.given[k])) +
             s.begin;
    };
    engine::fold_parts(*spec_.reduction, span_.order, span_.nodes, s.end - s.begin, out,
                       ops_.fold_memory, ops_.scratch, part);
  }
  // Combines this node's slice, unless that was given before, and gives it.
  void give_slice(Slice mine) {
    const std::size_t bytes = mine.end - mine.begin;
    std::byte* const out = early_ != nullptr   ? early_ + mine.begin
                           : has_slice_alone() ? result()
                                               : result() + mine.begin;
    if (const auto before = departures_.given(Part::kSlice, fingerprint_)) {
      copy_payload(out, departures_.bytes_of(*before), bytes);
      span_.given[span_.mine] = *before;
      return;
    }
    fold(out, mine);
    std::uint64_t value = has_slice_alone() ? result_ : result_ + mine.begin;
    Division to_readers;
    if (spec_.only != kNobody) to_readers.readers = Division::only(span_.node[spec_.only]);
    if (bytes <= journal::kInlineBytes) {
      journal::copy_inline(&value, out, bytes);
    } else if (early_ != nullptr) {
      departures_.put(Part::kSlice, value, out, bytes, to_readers);
    }
    departures_.give(Part::kSlice, value, bytes, fingerprint_, to_readers);
    span_.given[span_.mine].value = value;
    span_.given[span_.mine].bytes = bytes;
  }

  Departures<H> departures_;
  Operations<H>& ops_;
  Comm<H>& c_;
  Span<H>& span_;
  const ReplicatedSpec& spec_;
  std::uint32_t fingerprint_ = 0;
  std::uint32_t next_ = 0;  // the node that is collected next
  Part part_ = Part::kNode;
  std::uint64_t result_ = 0;  // as in Record
  bool is_input_ = false;     // this node's part is the input
  // The program's buffer for the result of a sliced reduction; null: it cannot be written yet.
  std::byte* early_ = nullptr;
  journal::Lending<H> lending_;
};

}  // namespace rejoin::recovery
