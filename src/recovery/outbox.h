// Messages that this rank sends, of collectives and of point-to-point calls: how they are posted,
// how those that a former incarnation has posted are recognised and compared, and how far ahead of
// its receivers a sender may be. PROTOCOL.md, "Messages".
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "engine/broadcast.h"
#include "journal/arena.h"
#include "journal/channels.h"
#include "recovery/communicators.h"
#include "recovery/diagnostics.h"
#include "recovery/divergence.h"
#include "recovery/execution.h"

namespace rejoin::recovery {

template <journal::Host H>
class Outbox {
 public:
  // What a message says besides its bytes.
  struct Label {
    std::uint64_t context;
    std::uint64_t key;       // as in ChannelEntry
    std::uint32_t call;      // as in Record
    std::uint32_t type = 0;  // hash of the type signature; 0 = not compared
  };

  Outbox(H& host, journal::Arena& arena, const journal::PeerView& peers,
         journal::Journal<H>& journal, Communicators<H>& comms, const Execution<H>& execution,
         Diagnostics& diagnostics, Divergence<H>& divergence)
      : host_(host),
        peers_(peers),
        journal_(journal),
        comms_(comms),
        execution_(execution),
        diagnostics_(diagnostics),
        divergence_(divergence),
        channels_(host, arena, journal),
        sent_(arena.make_array<std::uint64_t>(channels_.ranks())) {}

  std::uint32_t ranks() const { return channels_.ranks(); }

  // --- Messages that a former incarnation has posted

  // Returns whether the next message to world rank `to` is one of those.
  [[gnu::always_inline]] bool is_posted(std::uint32_t to) {
    return sent_[to] < channels_.tail(to) && !journal::breaks(host_, Rule::kResendRecognised);
  }
  // REQUIRES is_posted(to). Compares the next message with the posted one instead of posting it,
  // and returns its number. `data`: its bytes, contiguous; used if the former incarnation died
  // while it wrote them.
  std::uint64_t repeat(std::uint32_t to, const Label& label, std::uint64_t bytes,
                       std::uint32_t hash, const void* data) {
    const std::uint64_t k = sent_[to]++;
    journal::ChannelEntry& posted = channels_.entry(to, k);
    compare(posted, to, label, bytes, hash);
    if (posted.written.load(std::memory_order_relaxed) < posted.bytes) [[unlikely]] {
      finish_writing();
      writing_.emplace(host_, to, posted, static_cast<const std::byte*>(data));
      finish_writing();
    }
    return k;
  }
  // Messages that a former incarnation has sent in this operation, before it learned of a
  // disagreement, are not sent again.
  void pass_over(const journal::Members& members, std::uint64_t sequence) {
    for (std::uint32_t i = 0; i < members.size; ++i) {
      const std::uint32_t to = members.world[i];
      std::uint64_t& k = sent_[to];
      for (const std::uint64_t shown = channels_.shown(to); k < shown; ++k) {
        const journal::ChannelEntry& m = channels_.entry(to, k);
        if (m.context != members.context || m.key != sequence) break;
      }
    }
  }
  // Returns how many messages to `to` former incarnations have posted and this one has not sent.
  std::uint64_t left_to_repeat(std::uint32_t to) {
    const std::uint64_t shown = channels_.shown(to);
    return shown > sent_[to] ? shown - sent_[to] : 0;
  }

  // --- New messages

  // Returns whether flow control lets this rank send a message of a collective to a member: the
  // member is not more operations behind than operations_ahead(). The distance counts operations,
  // not messages, because messages may lie there for any time between two calls. A member that was
  // too far behind has to halve the distance, so that its position is not read for every operation
  // afterwards. Nonblocking operations stop only when the journal is full. readable: its receiver
  // may read the bytes where they are.
  bool is_near(Comm<H>& c, std::uint64_t sequence, std::uint32_t member, std::size_t bytes,
               bool nonblocking, bool readable) {
    const bool wraps = journal_.region().retention().reuses_what_was_read();
    if (nonblocking && !wraps) return true;
    const bool may_read = readable && may_be_read(c.members.world[member], bytes);
    const std::uint64_t distance =
        engine::operations_ahead(host_, bytes * c.members.size, wraps, may_read);
    return comms_.all_within(c, sequence, distance) ||
           peers_.tail(c.members, member) + (distance + 1) / 2 > sequence;
  }

  // Begins the next message to `to` and returns its number. Its bytes are stored, then it is
  // posted. REQUIRES that is_posted(to) has just returned false.
  [[gnu::always_inline]] std::uint64_t begin(std::uint32_t to) {
    host_.step(Step::kPayload);
    return sent_[to]++;
  }
  // Returns the place of the bytes of the message that was begun last. Ends the job if there is
  // none.
  journal::Offset allocate(std::size_t bytes) { return journal_.allocate_message(bytes, sent_); }
  // Posts it. `value`: as in Record. `written` of its bytes are stored; the rest is copied from
  // `data` by write_some(), while the receiver reads.
  [[gnu::always_inline]] void post(std::uint32_t to, const Label& label, std::uint64_t bytes,
                                   std::uint32_t hash, std::uint64_t value, std::uint64_t written,
                                   const void* data) {
    const bool has_rest = written < bytes;
    if (has_rest) [[unlikely]]
      finish_writing();
    channels_.post(to,
                   {label.context, label.key, label.call, hash, bytes, value, written, label.type},
                   has_rest ? &writing_ : nullptr, static_cast<const std::byte*>(data));
  }
  // Copies some of the newest message's bytes to the journal. Returns whether all of them are
  // there; until then the bytes must not change.
  bool write_some() {
    if (!writing_) return true;
    if (!writing_->is_over()) writing_->advance();
    if (writing_->is_over()) writing_.reset();
    return !writing_;
  }
  bool is_writing() const { return writing_.has_value(); }
  [[gnu::noinline]] void finish_writing() {
    while (!write_some()) {
    }
  }
  // Returns whether the receiver of such a message may read the sender's buffer. The message is
  // then posted before its bytes are in the journal.
  bool may_be_read(std::uint32_t to, std::uint64_t bytes) const {
    return bytes > journal::Writing<H>::kPieceBytes && bytes <= journal::DirectRead<H>::kMost &&
           host_.is_near(to) && journal::may_open(host_);
  }

  // --- Messages that lie in the journal

  // Returns how many were posted to world rank `to` since the job began, truncated ones included.
  std::uint64_t posted(std::uint32_t to) { return channels_.tail(to); }
  // Returns whether a receive has matched synchronous message k.
  bool is_matched(std::uint32_t to, std::uint64_t k) {
    if (k < channels_.truncated_below(to)) return true;  // it was received
    return channels_.entry(to, k).matched.load(std::memory_order_acquire) != 0;
  }
  // Truncates messages that no rank needs any more.
  void truncate() { channels_.truncate(); }

  // --- Marks and images

  std::size_t bytes_of_cursors() const { return ranks() * sizeof *sent_; }
  // Writes how many messages this execution has sent to each rank.
  void save(void* to) const { std::memcpy(to, sent_, bytes_of_cursors()); }
  // Writes how many messages were sent to each rank, those of former incarnations included.
  void save_shown(std::uint64_t* to) {
    for (std::uint32_t i = 0; i < ranks(); ++i) to[i] = std::max(sent_[i], channels_.shown(i));
  }
  void restore(const journal::Marks& v) {
    std::memcpy(sent_, journal::own_sent(host_, v), bytes_of_cursors());
  }
  void rebase() { channels_.rebase(); }

 private:
  [[gnu::noinline]] void compare(const journal::ChannelEntry& posted, std::uint32_t to,
                                 const Label& label, std::uint64_t bytes, std::uint32_t hash) {
    if (journal::breaks(host_, Rule::kCompareResent)) return;
    const bool same_place = posted.context == label.context && posted.key == label.key;
    if (same_place && posted.bytes == bytes && posted.hash == hash) return;
    const char* text = diagnostics_.other_message(execution_.ordinal(), host_.rank(), label.call,
                                                  to, bytes, posted.bytes);
    if (!same_place || posted.bytes != bytes) host_.stop(text);
    divergence_.report(text);
  }

  H& host_;
  const journal::PeerView& peers_;
  journal::Journal<H>& journal_;
  Communicators<H>& comms_;
  const Execution<H>& execution_;
  Diagnostics& diagnostics_;
  Divergence<H>& divergence_;
  journal::Channels<H> channels_;
  std::uint64_t* sent_;  // [ranks] messages that this execution has sent to each
  std::optional<journal::Writing<H>> writing_;  // of the newest message, if bytes are missing
};

}  // namespace rejoin::recovery
