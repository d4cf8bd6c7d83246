// One channel operation: a collective whose members get different bytes. Its steps are messages;
// each message is accepted by (sender, sequence), never by generation: one that was sent before
// somebody else's death is still good, and one that is sent again is recognised and dropped.
//
// A receiver's record of message k of a channel is its `consumed` word: messages of one channel are
// taken in order, so a count says all. The record of the operation itself, published by finish(),
// says that it is over.
#pragma once

#include <cstdio>

#include "recovery/basic_rank.h"

namespace rejoin::recovery {

template <class Host>
class BasicRank<Host>::Operation {
 public:
  // `input`, `input_bytes`: my contribution, for the fingerprint only.
  Operation(BasicRank& rank, Comm& comm, const Call& call, const void* input,
            std::size_t input_bytes)
      : rank_(rank), comm_(comm), entered_(rank.enter(comm, call, true)), status_(entered_.status) {
    print_ = input_bytes > 0 ? hash_bytes(input, input_bytes) : 0;
    if (status_ != Status::kOk || entered_.record == nullptr) return;
    rank_.check_replay(comm_, entered_, call, print_);
    if (entered_.asked_again) {
      again_ = rank_.arena_.template make_array<std::uint64_t>(comm_.members.size);
      if (again_ == nullptr) rank_.out_of_memory();
    }
    if (entered_.record->call & engine::kFailed) {
      std::snprintf(rank_.error_, sizeof rank_.error_, "the members disagree about this operation");
      status_ = Status::kMismatch;
    }
  }
  ~Operation() { rank_.arena_.release(again_, comm_.members.size * sizeof *again_); }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  std::uint32_t size() const { return comm_.members.size; }
  std::uint32_t me() const { return comm_.members.rank; }

  // kOk until something went wrong; from then on send and receive do nothing.
  Status status() const { return status_; }

  // Posts one message. Never blocks. `peer`: rank in the communicator, not mine.
  void send(std::uint32_t peer, const void* data, std::size_t bytes);

  // Waits for the next message of `peer` in this operation. *data: its bytes in the sender's store
  // (or in this object until the next receive). False: status() says why.
  bool receive(std::uint32_t peer, std::size_t max_bytes, const std::byte** data,
               std::size_t* bytes);

  // Publishes the record. Call it exactly once, last.
  Status finish() {
    rank_.kill_point(Moment::kInside);
    const bool entered =
        entered_.status == Status::kOk && entered_.record == nullptr && comm_.members.size > 1;
    if (entered && comm_.records.tail() == entered_.sequence) {
      rank_.commit(comm_, entered_, print_, 0, false);
    }
    rank_.leave(status_);
    return status_;
  }

 private:
  engine::Log& channel(std::uint32_t from, std::uint32_t to) {
    std::byte* base = rank_.host_.base();
    return reinterpret_cast<engine::Log*>(base + engine::region_of(base, from)->channels)[to];
  }
  bool has_finished(std::uint32_t peer) {
    engine::ContextBlock* b = engine::block_of(rank_.host_.base(), comm_.members, peer);
    return b != nullptr && b->records.tail.load(std::memory_order_acquire) > entered_.sequence;
  }
  // REQUIRES has_finished(peer).
  std::uint32_t call_of(std::uint32_t peer) {
    const Record& r = *engine::log_at<Record>(
        rank_.host_.base(), comm_.members.block[peer]->records, entered_.sequence);
    return r.call & ~engine::kFailed;
  }
  std::atomic<std::uint64_t>& consumed(std::uint32_t by, std::uint32_t from) {
    std::byte* base = rank_.host_.base();
    return reinterpret_cast<std::atomic<std::uint64_t>*>(
        base + engine::region_of(base, by)->consumed)[from];
  }
  // A sender waits for nobody - but entries that go round must have been read.
  void await_consumer(std::uint32_t to, std::uint64_t k) {
    engine::wait_until(rank_.host_, [&](bool) {
      rank_.host_.step(Step::kLook);
      return consumed(to, rank_.rank()).load(std::memory_order_acquire) + engine::kReadersWithin >
             k;
    });
  }
  // The next message of this operation of the set-up, which was received then.
  std::uint64_t find_again(std::uint32_t peer, engine::Log& log) {
    std::uint64_t& next = again_[peer];
    for (;; ++next) {
      const auto* e = engine::log_at<engine::ChannelEntry>(rank_.host_.base(), log, next);
      if (e->context == comm_.members.context && e->sequence == entered_.sequence) return next++;
    }
  }
  void resend(const engine::ChannelEntry& posted, std::uint32_t to, std::size_t bytes,
              std::uint32_t hash);

  BasicRank& rank_;
  Comm& comm_;
  const Entered entered_;
  Status status_;
  std::uint32_t print_ = 0;
  std::uint64_t small_ = 0;
  std::uint64_t* again_ = nullptr;  // [size] where to look on
};

template <class Host>
void BasicRank<Host>::Operation::send(std::uint32_t peer, const void* data, std::size_t bytes) {
  if (status_ != Status::kOk || entered_.asked_again) return;  // sent then
  const std::uint32_t to = comm_.members.world[peer];
  engine::Log& log = channel(rank_.rank(), to);
  auto& writer = rank_.channel_writer_[to];
  if (!rank_.channel_open_[to]) {
    rank_.channel_open_[to] = true;
    if (!rank_.region_.back(reinterpret_cast<std::byte*>(&log) - rank_.host_.base(), sizeof log)) {
      rank_.out_of_memory();
    }
    writer = engine::LogWriter<engine::ChannelEntry, Host>(rank_.host_, rank_.region_, log);
    if (rank_.restored_ != nullptr) rank_.forget_messages(to, rank_.line());
  }
  const std::uint64_t k = rank_.sent_[to]++;
  const std::uint32_t hash = hash_bytes(data, bytes);
  if (k < writer.tail()) return resend(*writer.at(k), to, bytes, hash);
  if (rank_.region_.recycling()) await_consumer(to, k);
  rank_.host_.step(Step::kPayload);
  const std::uint64_t value = rank_.store(data, bytes);
  engine::ChannelEntry* e = writer.next();
  if (e == nullptr) rank_.out_of_memory();
  *e = {comm_.members.context, entered_.sequence, entered_.call, hash, bytes, value};
  rank_.host_.step(Step::kPost);
  writer.publish();
  engine::ring_sleepers(rank_.host_, &to, 1);
}

// The message is posted already, by a former life: it must be the same.
template <class Host>
void BasicRank<Host>::Operation::resend(const engine::ChannelEntry& posted, std::uint32_t to,
                                        std::size_t bytes, std::uint32_t hash) {
  const bool same_place =
      posted.context == comm_.members.context && posted.sequence == entered_.sequence;
  if (same_place && posted.bytes == bytes && posted.hash == hash) return;
  char now[160], text[512];
  rank_.describe(now, sizeof now, rank_.rank(), entered_.call);
  std::snprintf(
      text, sizeof text,
      "operation %llu of rank %u, %s: its replay sends rank %u %llu bytes that are not the "
      "%llu bytes sent before. The program does not do the same again when it receives the "
      "same; see docs/fault-model.md",
      static_cast<unsigned long long>(rank_.ordinal_), rank_.rank(), now, to,
      static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(posted.bytes));
  if (!same_place || posted.bytes != bytes || rank_.header_->stop_on_divergence) {
    rank_.diverged(text);
  }
  if (!rank_.warned_fingerprint_) rank_.notice(text);
  rank_.warned_fingerprint_ = true;
}

template <class Host>
bool BasicRank<Host>::Operation::receive(std::uint32_t peer, std::size_t max_bytes,
                                         const std::byte** data, std::size_t* bytes) {
  if (status_ != Status::kOk) return false;
  std::byte* base = rank_.host_.base();
  const std::uint32_t from = comm_.members.world[peer];
  engine::Log& log = channel(from, rank_.rank());
  const std::uint64_t k = entered_.asked_again ? find_again(peer, log) : rank_.received_[from]++;
  std::uint32_t other = kNobody, other_call = kNobody;
  engine::wait_until(rank_.host_, [&](bool thorough) {
    // Who has a record of this operation has sent all that it sends: so the record is read first.
    const bool finished = thorough && has_finished(peer);
    rank_.host_.step(Step::kReceive);
    if (log.tail.load(std::memory_order_acquire) > k) return true;
    if (finished) {
      other = peer;
      other_call = call_of(peer);
    } else if (thorough) {
      other = rank_.disagreeing_member(comm_, entered_, &other_call);
    }
    return other != kNobody;
  });
  if (other != kNobody) {
    status_ = rank_.mismatch(comm_, entered_, other, other_call);
    return false;
  }
  const engine::ChannelEntry e = *engine::log_at<engine::ChannelEntry>(base, log, k);
  const engine::CallEntry* theirs =
      engine::log_at<engine::CallEntry>(base, engine::region_of(base, from)->calls, e.call);
  if (e.context != comm_.members.context || e.sequence != entered_.sequence ||
      theirs->hash != entered_.signature_hash) {
    status_ = rank_.mismatch(comm_, entered_, peer, e.call);
    return false;
  }
  std::atomic<std::uint64_t>& mine = consumed(rank_.rank(), from);
  if (mine.load(std::memory_order_relaxed) <= k) {
    rank_.host_.step(Step::kConsumed);
    mine.store(k + 1, std::memory_order_release);
    if (rank_.header_->limit_reached.load(std::memory_order_relaxed) != 0) {
      engine::ring_sleepers(rank_.host_, &from, 1);  // a sender may wait for this
    }
  }
  if (e.bytes > max_bytes) {
    char here[160];
    rank_.describe(here, sizeof here, rank_.rank(), entered_.call);
    std::snprintf(rank_.error_, sizeof rank_.error_,
                  "%s: rank %u sends %llu bytes, more than the %llu that rank %u receives", here,
                  from, static_cast<unsigned long long>(e.bytes),
                  static_cast<unsigned long long>(max_bytes), rank_.rank());
    status_ = Status::kTruncated;
    return false;
  }
  *bytes = e.bytes;
  if (e.bytes <= engine::kInlineBytes) {
    small_ = e.value;
    *data = reinterpret_cast<const std::byte*>(&small_);
  } else {
    *data = base + e.value;
  }
  return true;
}

}  // namespace rejoin::recovery
