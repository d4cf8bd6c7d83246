// What a rank reaches of the segment as itself. Everything else it reads through PeerView, or
// inside one operation through AttemptMemory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "journal/contexts.h"
#include "journal/host.h"
#include "journal/layout.h"
#include "journal/log.h"
#include "journal/not_kept.h"
#include "journal/rules.h"

namespace rejoin::journal {

// The facts of the job.
template <class H>
const SegmentHeader* job_of(const H& host) {
  return header_of(host.base());
}
template <class H>
RankControl* own_control(H& host) {
  return control_of(host.base(), host.rank());
}
template <class H>
const AnyWord<std::uint64_t>& own_set_wanted(const H& host) {
  return set_wanted_on(host.base(), host.rank());
}
template <class H>
RegionHead* own_region(H& host) {
  return region_of(host.base(), host.rank());
}
// Bytes in this rank's region: payload, models, labels, lists.
template <class H>
std::byte* own_bytes(H& host, Offset at) {
  return host.base() + at;
}
// REQUIRES that the context's nodes share only messages.
template <class H>
Log* own_departures(H& host, const ContextBlock& block) {
  return reinterpret_cast<Log*>(host.base() + block.departures);
}
template <class H>
ContextBlock* own_block(H& host, std::uint64_t context) {
  return find_block(host.base(), host.rank(), context);
}
// Calls visit(block) for each context that is not reclaimed. O(entries of all tables).
template <class H, class Visit>
void for_each_own_context(H& host, Visit&& visit) {
  for_each_context(host.base(), host.rank(), visit);
}
// Null: this rank has no such version, or image.
template <class H>
const Version* own_version(H& host, std::uint64_t number) {
  return find_version(host.base(), host.rank(), number);
}
template <class H>
const Image* own_image(H& host, std::uint64_t number) {
  return number == 0 ? nullptr : find_image(host.base(), host.rank(), number);
}
// Parts of this rank's marks: the cursor of a context (null: there is none), and messages sent to
// and received from each rank.
template <class H>
const Cursor* own_cursor(H& host, const Marks& marks, std::uint64_t context) {
  return cursor_of(host.base(), marks, context);
}
template <class H>
const std::uint64_t* own_sent(H& host, const Marks& marks) {
  return sent_of(host.base(), marks);
}
template <class H>
const std::uint64_t* own_received(H& host, const Marks& marks) {
  return received_of(host.base(), marks);
}
// How many messages of `from` this rank has received.
template <class H>
OwnerWord<std::uint64_t>& own_consumed(H& host, std::uint32_t from) {
  return consumed_of(host.base(), host.rank())[from];
}
// Which message of `from` this rank asks for again.
template <class H>
OwnerWord<std::uint64_t>& own_asked(H& host, std::uint32_t from) {
  return asked_of(host.base(), host.rank())[from];
}
// Shows the sender which receive of this rank its synchronous message was given to: matched_by().
template <class H>
void show_match(H& host, std::uint32_t from, std::uint64_t index, std::uint32_t by) {
  Log* channels = reinterpret_cast<Log*>(host.base() + region_of(host.base(), from)->channels);
  auto* entry = log_at<ChannelEntry>(host.base(), channels[host.rank()], index);
  entry->matched.store(host, Step::kMatched, by);
}
// The points at which processes of the job kill themselves. A rank writes to its own.
template <class H>
std::span<FaultPoint> fault_points(H& host) {
  SegmentHeader* h = header_of(host.base());
  return {h->fault, h->faults};
}

// Decides the kind of recovery point of the job, unless it is decided. Returns the decision that
// holds.
template <class H>
Return decide_return(H& host, Return decided) {
  auto& word = header_of(host.base())->goes_back_to;
  if (breaks(host, Rule::kFirstDecides)) {
    word.store(host, Step::kDecide, decided);
    return decided;
  }
  Return now = Return::kUndecided;
  return word.decide(host, Step::kDecide, &now, decided) ? decided : now;
}

}  // namespace rejoin::journal
