// When zones of results are reused, once the journal is full. PROTOCOL.md, "When the journal is
// full".
#pragma once

#include <cstddef>
#include <cstdint>

#include "journal/region.h"
#include "recovery/communicators.h"

namespace rejoin::recovery {

template <journal::Host H>
class ResultZones {
 public:
  // `ranks`: of the job.
  ResultZones(journal::Region<H>& region, Communicators<H>& comms, std::uint32_t ranks)
      : region_(region), comms_(comms), ranks_(ranks) {}

  // Whether results lie in zones that are reused.
  bool are_reused() const { return region_.retention().reuses_what_was_read(); }

  // Called when this rank has completed a blocking operation that every member has entered.
  void close_behind(const Comm<H>& c, std::uint64_t sequence) {
    if (are_reused() && c.members.size == ranks_) [[unlikely]]
      close(c, sequence);
  }

  // Called by the root of a blocking broadcast, which does not wait for the others otherwise.
  // Returns whether it may store this many bytes: no reader may still be in what is reused for
  // them.
  bool has_room(Comm<H>& c, std::uint64_t sequence, std::size_t bytes) {
    if (!are_reused()) [[likely]]
      return true;
    // Results of other communicators lie in the same zones, so all ranks have to be past them.
    if (c.members.size != ranks_) return true;
    // The zones that were closed when this rank began to reuse them may hold the results of the
    // operation before this one.
    if (closed_in_ == 0) {
      closed_in_ = c.members.context;
      closed_at_ = sequence;
      return true;
    }
    // A member with a record of an operation may still be reading its bytes; a member with a record
    // of the next one is not.
    const bool past = closed_in_ == c.members.context && sequence > closed_at_ + 1;
    if (!past || region_.zones().has_room(bytes)) return true;
    if (!comms_.all_within(c, sequence, 1)) return false;
    close(c, sequence);
    return true;
  }

 private:
  [[gnu::noinline]] void close(const Comm<H>& c, std::uint64_t sequence) {
    closed_in_ = c.members.context;
    closed_at_ = sequence;
    region_.zones().end_interval();
  }

  journal::Region<H>& region_;
  Communicators<H>& comms_;
  const std::uint32_t ranks_;
  // The newest operation that closed zones.
  std::uint64_t closed_in_ = 0;  // context; 0: there was none
  std::uint64_t closed_at_ = 0;  // sequence
};

}  // namespace rejoin::recovery
