// The messages that a rank has posted: one log for each receiver. Written by the sender only; other
// ranks read them through PeerView.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "journal/arena.h"
#include "journal/contexts.h"
#include "journal/direct.h"
#include "journal/host.h"
#include "journal/journal.h"
#include "journal/log.h"
#include "journal/own.h"
#include "journal/peer_view.h"
#include "journal/rules.h"
#include "journal/waiting.h"

namespace rejoin::journal {

template <Host H>
class Channels {
 public:
  // Bytes of a message that become visible together. Larger messages are read while being written.
  // The pieces of engine::kPieceBytes, into which collectives cut vectors, are whole messages.
  static constexpr std::uint64_t kPieceBytes = 16 * 1024;
  // Pieces that are carried to another node are larger: each takes system calls. Messages up to
  // kFarWholeBytes are whole.
  static constexpr std::uint64_t kFarWholeBytes = 64 * 1024;
  static constexpr std::uint64_t kFarPieceBytes = 128 * 1024;
  static constexpr std::uint64_t kLentPieceBytes = 256 * 1024;

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

  // Appends a message. m.written: for the rest of its bytes see write(). REQUIRES that tail(to) was
  // called before.
  ChannelEntry& post(std::uint32_t to, const Message& m) {
    LogWriter<ChannelEntry, H>& log = log_[to];
    // This word is read only now and then, because the receiver writes it with every message.
    if (region_.retention().reuses_what_was_read() && log.tail() % kTruncateEvery == 0) [[unlikely]]
      log.truncate(consumed_of(host_.base(), to)[host_.rank()].load(std::memory_order_acquire));
    ChannelEntry* e = log.next();
    if (e == nullptr) journal_.out_of_memory();
    e->context = m.context;
    e->key = m.key;
    e->call = m.call;
    e->hash = m.hash;
    e->bytes = m.bytes;
    e->value = m.value;
    e->type = m.type;
    e->matched.store(host_, Step::kSame, 0, std::memory_order_relaxed);
    e->written.store(host_, Step::kSame, m.written, std::memory_order_relaxed);
    // The receiver polls this word, so a message costs it one cache line.
    e->ready.store(host_, Step::kPost, log.tail() + 1);
    log.publish(Step::kPosted);
    ring(to);
    return *e;
  }
  // Writes the rest of a message's bytes, which the receiver may read meanwhile. A former
  // incarnation may have written some of them.
  void write(std::uint32_t to, ChannelEntry& e, const std::byte* data) {
    const bool near = host_.is_near(to);
    std::optional<OpenBuffer<H>> open;
    if (near && e.bytes <= DirectRead<H>::kMost) open.emplace(host_, to, journal_place(e), data);
    // Another node may have the bytes before the journal: they are sent from where they are.
    const Loan loan = {e.value, const_cast<std::byte*>(data), e.bytes};
    const bool lent = !near && host_.send_from(&loan);
    if (lent) ring(to);
    std::uint64_t at = e.written.load(std::memory_order_relaxed);
    while (at < e.bytes) {
      const bool is_read = open && open->is_read();
      const std::uint64_t most = is_read || lent ? kLentPieceBytes
                                 : near          ? kPieceBytes
                                                 : kFarPieceBytes;
      const std::uint64_t piece = std::min<std::uint64_t>(e.bytes - at, most);
      std::byte* place = host_.base() + e.value + at;
      host_.step(Step::kPayload);
      if (is_read) {  // no other process needs these bytes soon
        host_.plain_store();
        copy_past_cache(place, data + at, piece);
        _mm_sfence();
      } else if (near || lent) {
        host_.payload_stores().copy(place, data + at, piece);
      } else {  // it is read from the cache as it is sent
        copy_payload(place, data + at, piece);
      }
      e.written.store(host_, Step::kWritten, at += piece);
      if (!near && at < e.bytes) ring(to);
    }
    if (lent) host_.send_from(nullptr);
    ring(to);
  }  // waits for a receiver that reads `data`

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

  Offset journal_place(const ChannelEntry& e) const {
    return static_cast<Offset>(reinterpret_cast<const std::byte*>(&e) - host_.base());
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
