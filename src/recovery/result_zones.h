// When zones of results are reused, once the journal is full. PROTOCOL.md, "When the journal is
// full".
#pragma once

#include <cstddef>
#include <cstdint>

#include "journal/peer_view.h"
#include "journal/region.h"
#include "journal/rules.h"
#include "recovery/communicators.h"

namespace rejoin::recovery {

template <journal::Host H>
class ResultZones {
 public:
  ResultZones(H& host, journal::Region<H>& region, Communicators<H>& comms,
              const journal::PeerView& peers)
      : host_(host), region_(region), comms_(comms), peers_(peers) {}

  // Whether results lie in zones that are reused.
  bool are_reused() const { return region_.retention().reuses_what_was_read(); }

  // Called when this rank has completed a blocking operation that every member has entered.
  void close_behind(Comm<H>& c, std::uint64_t sequence) {
    if (are_reused() && c.members.size == peers_.ranks()) [[unlikely]]
      close(c, sequence);
  }

  // Called by the root of a blocking broadcast, and by a leader that gives a slice of one: they do
  // not wait for the others otherwise.
  // Returns whether it may store this many bytes: no reader may still be in what is reused for
  // them.
  bool has_room(Comm<H>& c, std::uint64_t sequence, std::size_t bytes) {
    if (!are_reused()) [[likely]]
      return true;
    // Results of other communicators lie in the same zones, so all ranks have to be past them.
    if (c.members.size != peers_.ranks()) return true;
    // The first operation of this communicator since zones were closed: those may hold the results
    // of the operation before this one.
    if (c.zones_closed != closed_) {
      if (closed_ == 1 || !journal::breaks(host_, Rule::kZonesInTurn)) note(c, sequence);
      return true;
    }
    // A member with a record of an operation may still be reading its bytes; a member with a record
    // of the next one is not.
    if (sequence <= c.zones_closed_at + 1 || region_.zones().has_room(bytes)) return true;
    if (orders_may_differ(c)) return true;
    if (!comms_.all_within(c, sequence, 1)) return false;
    close(c, sequence);
    return true;
  }

 private:
  [[gnu::noinline]] void close(Comm<H>& c, std::uint64_t sequence) {
    if (orders_may_differ(c)) return;
    ++closed_;
    note(c, sequence);
    region_.zones().end_interval();
  }
  void note(Comm<H>& c, std::uint64_t sequence) {
    c.zones_closed = closed_;
    c.zones_closed_at = sequence;
  }
  // Whether several threads of a member have called MPI: one may be behind in one communicator
  // while another goes on in the next. Such a thread shows it before its first operation; if it is
  // on another host, the supervisor knows that it may come.
  bool orders_may_differ(const Comm<H>& c) {
    if (!differ_) differ_ = !peers_.recycles_results();
    for (std::uint32_t i = 0; i < c.members.size && !differ_; ++i) {
      differ_ = peers_.calls_from_several_threads(c.members.world[i]);
    }
    return differ_;
  }

  H& host_;
  journal::Region<H>& region_;
  Communicators<H>& comms_;
  const journal::PeerView& peers_;
  std::uint64_t closed_ = 1;  // counted up when zones are closed
  bool differ_ = false;
};

}  // namespace rejoin::recovery
