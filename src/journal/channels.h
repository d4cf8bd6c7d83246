// The messages that a rank has posted: one log for each receiver. Written by the sender only; other
// ranks read them through PeerView.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "journal/arena.h"
#include "journal/contexts.h"
#include "journal/host.h"
#include "journal/journal.h"
#include "journal/log.h"
#include "journal/own.h"
#include "journal/peer_view.h"
#include "journal/rules.h"
#include "journal/waiting.h"
#include "journal/writing.h"

namespace rejoin::journal {

template <Host H>
class Channels {
 public:
  // `arena`: the rank's private memory.
  Channels(H& host, Arena& arena, Journal<H>& journal)
      : host_(host),
        ranks_(header_of(host.base())->ranks),
        journal_(journal),
        region_(journal.region()),
        log_(arena.make_array<LogWriter<ChannelEntry, H>>(ranks_)),
        open_(arena.make_array<bool>(ranks_)) {}

  std::uint32_t ranks() const { return ranks_; }

  // The number of messages for a rank, truncated ones included. Opens its log for post().
  std::uint64_t tail(std::uint32_t to) { return opened(to).tail(); }
  // The number of messages for a rank that it can see. Opens nothing.
  std::uint64_t shown(std::uint32_t to) { return open_[to] ? log_[to].tail() : shown(shared(to)); }
  // Messages with a lower number are truncated.
  std::uint64_t truncated_below(std::uint32_t to) { return opened(to).truncated_below(); }
  // REQUIRES truncated_below(to) <= k < tail(to). For this rank alone.
  ChannelEntry& entry(std::uint32_t to, std::uint64_t k) { return *opened(to).at(k); }

  // Appends a message. `rest`, if m.written is less than all: copies the bytes at `data` from the
  // beginning, which the receiver may read from now on. REQUIRES that tail(to) was called before.
  ChannelEntry& post(std::uint32_t to, const Message& m, std::optional<Writing<H>>* rest = nullptr,
                     const std::byte* data = nullptr) {
    LogWriter<ChannelEntry, H>& log = log_[to];
    // This word is read only now and then, because the receiver writes it with every message.
    if (region_.retention().reuses_what_was_read() && log.tail() % kTruncateEvery == 0) [[unlikely]]
      log.truncate(consumed_of(host_.base(), to)[host_.rank()].load(std::memory_order_acquire));
    ChannelEntry* e = log.next();
    if (e == nullptr) journal_.out_of_memory();
    Prefetch::fetch_ahead(reinterpret_cast<std::byte*>(e), sizeof *e, kAheadBytes);
    e->context = m.context;
    e->key = m.key;
    e->call = m.call;
    e->hash = m.hash;
    e->bytes = m.bytes;
    e->value = m.value;
    e->type = m.type;
    e->matched.store(host_, Step::kSame, 0, std::memory_order_relaxed);
    e->written.store(host_, Step::kSame, m.written, std::memory_order_relaxed);
    if (rest != nullptr) [[unlikely]]
      rest->emplace(host_, to, *e, data);
    // The receiver polls this word, so a message costs it one cache line.
    e->ready.store(host_, Step::kPost, log.tail() + 1);
    log.publish(Step::kPosted);
    ring(to);
    return *e;
  }
  // A message is truncated when the marks of its receiver and of its sender have passed it: a
  // sender that goes back in front of it sends it again, and the two are compared.
  void truncate() {
    const std::uint32_t me = host_.rank();
    for (std::uint32_t to = 0; to < ranks_; ++to) {
      if (!open_[to]) continue;
      std::uint64_t keep_from = log_[to].tail();
      if (!breaks(host_, Rule::kTruncateMessagesByReceiver)) {
        keep_from = std::min(keep_from, received_mark_of(host_, to, me));
      }
      if (!breaks(host_, Rule::kTruncateMessagesBySender)) {
        keep_from = std::min(keep_from, sent_mark_of(host_, me, to));
      }
      log_[to].truncate(keep_from);
    }
  }

  // Reads every cached cursor again.
  void rebase() {
    for (std::uint32_t to = 0; to < ranks_; ++to) {
      if (open_[to]) rebase(to);
    }
  }

 private:
  // The number of messages between two looks at how many the receiver has consumed. Used when the
  // journal is full and entries are reused.
  static constexpr std::uint64_t kTruncateEvery = 32;
  // The entry that is fetched into the cache while one is written is this far behind it. Entries
  // further on would be evicted, or the receiver would read them first.
  static constexpr std::size_t kAheadBytes = 3 * sizeof(ChannelEntry);

  LogWriter<ChannelEntry, H>& opened(std::uint32_t to) {
    if (!open_[to]) open(to);
    return log_[to];
  }
  void open(std::uint32_t to) {
    open_[to] = true;
    Log& log = shared(to);
    if (!region_.memory().back(reinterpret_cast<std::byte*>(&log) - host_.base(), sizeof(Log))) {
      journal_.out_of_memory();
    }
    log_[to] = LogWriter<ChannelEntry, H>(host_, region_, log, true);
    rebase(to);
  }

  Log& shared(std::uint32_t to) {
    return reinterpret_cast<Log*>(host_.base() + region_.head()->channels)[to];
  }
  // The tail of a channel. If a former incarnation died between the two words of a message, the
  // message counts: its receiver may have seen it.
  std::uint64_t shown(Log& log) {
    const std::uint64_t tail = log.tail.load(std::memory_order_relaxed);
    std::uint64_t run;
    const ChannelEntry* next = log_place<ChannelEntry>(host_.base(), log, tail, &run);
    const bool there = next != nullptr && next->ready.load(std::memory_order_relaxed) == tail + 1;
    return there ? tail + 1 : tail;
  }
  void rebase(std::uint32_t to) {
    Log& log = shared(to);
    log_[to].rebase();
    const std::uint64_t shown_messages = shown(log);
    if (shown_messages == log_[to].tail()) return;
    log.tail.store(host_, Step::kPosted, shown_messages);
    log_[to].rebase();
    // Behind the end of a page a receiver sees a message only by the tail (IncomingMessages::look).
    ring(to);
  }
  void ring(std::uint32_t to) {
    if (!breaks(host_, Rule::kRingAfterMessage)) ring_sleepers(host_, &to, 1);
  }

  H& host_;
  const std::uint32_t ranks_;
  Journal<H>& journal_;
  Region<H>& region_;
  LogWriter<ChannelEntry, H>* log_;  // [ranks]
  bool* open_;                       // [ranks]
};

}  // namespace rejoin::journal
