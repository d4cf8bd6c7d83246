// A large broadcast among three nodes or more: the root gives each of the other nodes a slice, and
// their leaders give theirs to each other. The result of a node is a list of slices that lie where
// they were given (journal/pieces.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "copy/copy.h"
#include "engine/division.h"
#include "journal/lending.h"
#include "recovery/node_exchange.h"
#include "recovery/operations.h"
#include "recovery/span.h"

namespace rejoin::recovery {

// The part of a leader whose node is not the root's.
template <journal::Host H>
class Scattered {
 public:
  Scattered(Operations<H>& ops, Comm<H>& comm, std::uint32_t root)
      : ops_(ops), span_(*comm.span), root_(root), lending_(ops.host) {}

  // What the root says of the bytes it gives.
  static Division of_root(const Span<H>& span, std::uint32_t root) {
    return {.element_bytes = kElement, .readers = Division::all_but(span.node[root])};
  }

  // Called when this process was woken, as the rank's next incarnation.
  void begin_again() {
    lending_.end();
    next_ = kRoot;
  }
  // Goes on as far as it can without waiting. kDone: value() is the record's. kFailed: the other
  // member is departures.other(). early: the program's buffer, which has the result then; or null.
  // allocate(bytes): memory of this rank's. may_take(): called before anything is taken; false:
  // this process was woken.
  template <class Allocate, class MayTake>
  Progress advance(Departures<H>& departures, std::size_t bytes, std::byte* early, bool thorough,
                   Allocate&& allocate, MayTake&& may_take) {
    if (next_ == kRoot) {
      const std::uint32_t root_node = span_.node[root_];
      journal::Departed& d = span_.given[root_node];
      const Progress p = departures.look(root_, journal::Part::kNode, bytes, thorough, &d);
      const Slice mine = slice(span_.mine, bytes);
      if (p == Progress::kPending) lend(departures, root_, journal::Part::kNode, early, mine);
      if (p != Progress::kDone) return p;
      if (!may_take()) return Progress::kPending;
      share(departures, d, mine, allocate);
      take(early, mine, d.value + mine.begin, d.incarnation);
      next_ = 0;
    }
    for (; next_ < span_.nodes; ++next_) {
      if (next_ == span_.mine || next_ == span_.node[root_]) continue;
      journal::Departed& d = span_.given[next_];
      const Slice theirs = slice(next_, bytes);
      const std::uint32_t from = leader(departures);
      const Progress p =
          departures.look(from, journal::Part::kSlice, theirs.end - theirs.begin, thorough, &d);
      if (p == Progress::kPending) lend(departures, from, journal::Part::kSlice, early, theirs);
      if (p != Progress::kDone) return p;
      take(early, theirs, d.value, d.incarnation);
    }
    value_ = list_given(ops_.host, span_, span_.node[root_], allocate);
    return Progress::kDone;
  }
  std::uint64_t value() const { return value_; }
  // How many bytes it has still to give.
  std::size_t to_give(std::size_t bytes) const {
    if (next_ != kRoot) return 0;
    const Slice mine = slice(span_.mine, bytes);
    return mine.end - mine.begin;
  }
  // The member that it waits for.
  std::uint32_t waits_for(const Departures<H>& departures) const {
    return next_ == kRoot ? root_ : leader(departures);
  }

 private:
  using Slice = engine::Slice;
  static constexpr std::uint32_t kElement = 1;
  static constexpr std::uint32_t kRoot = ~0u;

  std::uint32_t leader(const Departures<H>& departures) const {
    return span_.leader(next_, departures.sequence());
  }
  // The slice of node k, which is not the root's.
  Slice slice(std::uint32_t k, std::size_t bytes) const {
    return engine::slice_for(k, span_.nodes, bytes, of_root(span_, root_));
  }
  // Has a slice written to the program's buffer as it comes.
  void lend(Departures<H>& departures, std::uint32_t from, journal::Part part, std::byte* early,
            const Slice& s) {
    if (early == nullptr || lending_.is_lent()) return;
    const journal::Ahead ahead = departures.ahead(from, part);
    if (ahead.at != 0) lending_.begin_ahead(ahead, early + s.begin, s.end - s.begin);
  }
  // Copies what of a slice, which lies at `at`, is not in the program's buffer yet.
  void take(std::byte* early, const Slice& s, std::uint64_t at, std::uint32_t incarnation) {
    if (early == nullptr) return;
    const std::size_t bytes = s.end - s.begin;
    const std::byte* from = ops_.peers.payload(at, bytes).data();
    std::byte* const to = early + s.begin;
    lending_.for_rest(at, 0, bytes, incarnation, [&](std::size_t begin, std::size_t end) {
      copy_payload(to + begin, from + begin, end - begin);
    });
    lending_.end();
  }
  // Gives this node's slice to all nodes but the root's, unless that was done before.
  template <class Allocate>
  void share(Departures<H>& departures, const journal::Departed& d, const Slice& mine,
             Allocate&& allocate) {
    const Division division = {.readers = Division::all_but(span_.node[root_])};
    const std::size_t bytes = mine.end - mine.begin;
    if (const auto before = departures.given(journal::Part::kSlice, 0)) {
      span_.given[span_.mine] = *before;
      return;
    }
    const std::uint64_t value = allocate(bytes);
    departures.put(journal::Part::kSlice, value,
                   ops_.peers.payload(d.value + mine.begin, bytes).data(), bytes, division);
    departures.give(journal::Part::kSlice, value, bytes, 0, division);
    span_.given[span_.mine].value = value;
    span_.given[span_.mine].bytes = bytes;
  }
  Operations<H>& ops_;
  Span<H>& span_;
  const std::uint32_t root_;
  std::uint32_t next_ = kRoot;  // kRoot: waits for the root; else the node that is waited for
  std::uint64_t value_ = 0;
  journal::Lending<H> lending_;
};

}  // namespace rejoin::recovery
