#include "bit_player.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <optional>

#include "engine/reduction.h"

namespace rejoin::sim {

using journal::Progress;
using recovery::OpKind;
using Kind = Happened::Kind;
using Messages = recovery::PointToPoint<SimHost>;

namespace {

constexpr std::uint64_t kContext = 77;
constexpr int kTag = 3, kLateTag = 4;

void add(const engine::Reduction&, const void* a, const void* b, void* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<std::uint64_t*>(out)[i] =
        static_cast<const std::uint64_t*>(a)[i] + static_cast<const std::uint64_t*>(b)[i];
  }
}

const engine::Reduction kAdd = {add, sizeof(std::uint64_t), false, nullptr};

recovery::ReplicatedSpec sum_of(const std::uint64_t& contribution) {
  recovery::ReplicatedSpec s;
  s.input = &contribution;
  s.input_bytes = s.result_bytes = sizeof contribution;
  s.reduction = &kAdd;
  return s;
}

std::uint64_t value_of(const recovery::Outcome& o) {
  std::uint64_t value;
  std::memcpy(&value, o.data(), sizeof value);
  return value;
}

}  // namespace

class BitPlayer::Sum final : public recovery::Nonblocking {
 public:
  Sum(BitPlayer& player, std::uint64_t contribution)
      : contribution_(contribution),
        spec_(sum_of(contribution_)),
        call_(player.call(OpKind::kIallreduce, sizeof contribution, -1)) {
    player.rank_.enter(op_, *player.comm_, call_, spec_, &outcome, true);
    entered(op_->standing());
  }
  recovery::Outcome outcome;
  std::uint64_t value = 0;

 private:
  Progress advance(bool thorough) override {
    const Progress p = op_->advance(thorough);
    if (p == Progress::kDone) value = value_of(outcome);
    return p;
  }
  std::uint64_t contribution_;
  recovery::ReplicatedSpec spec_;
  recovery::Call call_;
  std::optional<SimRank::ReplicatedOp> op_;
};

// Members send their values to the root, each in one message.
class BitPlayer::Gather final : public recovery::Nonblocking {
 public:
  Gather(BitPlayer& player, std::uint32_t root, std::uint64_t value)
      : player_(player),
        root_(root),
        value_(value),
        call_(player.call(OpKind::kIgather, sizeof value, static_cast<int>(root))) {
    player.rank_.enter(op_, *player.comm_, call_, &value_, sizeof value_, true);
    entered(op_->standing());
  }
  const recovery::Outcome& outcome() const { return op_->outcome(); }

 private:
  Progress advance(bool thorough) override {
    return op_->advance(thorough, [this] { return move(*op_); });
  }
  Progress move(SimRank::ChannelOp& port) {
    if (port.me() != root_) {
      const Progress p = port.send(root_, &value_, sizeof value_);
      if (p == Progress::kDone) {
        player_.happened(Kind::kSent, root_, player_.count_sent(root_), 0, value_);
      }
      return p;
    }
    for (; next_ < port.size(); ++next_) {
      if (next_ == root_) continue;
      const std::byte* data;
      std::size_t bytes;
      const Progress p = port.receive(next_, sizeof value_, &data, &bytes);
      if (p != Progress::kDone) return p;
      std::uint64_t value;
      std::memcpy(&value, data, sizeof value);
      player_.happened(Kind::kReceived, next_, 0, port.held()->index, value);
      player_.state_ = journal::mix(player_.state_ + value);
    }
    return Progress::kDone;
  }

  BitPlayer& player_;
  const std::uint32_t root_;
  const std::uint64_t value_;
  recovery::Call call_;
  std::optional<SimRank::ChannelOp> op_;
  std::uint32_t next_ = 0;
};

BitPlayer::BitPlayer(Player& player) : job_(player.job()), rank_(player.sim_rank()) {
  comm_ = communicator(kContext);
}

SimRank::Comm* BitPlayer::communicator(std::uint64_t context) {
  std::uint32_t all[kMaxSimRanks];
  for (std::uint32_t i = 0; i < ranks(); ++i) all[i] = i;
  SimRank::Comm* comm = rank_.make_comm(context, all, ranks());
  if (comm == nullptr) job_.fail_if("make_comm fails");
  job_.simulation().add_block(rank(), comm->members.mine);
  return comm;
}

std::uint32_t BitPlayer::rank() const { return rank_.rank(); }
std::uint32_t BitPlayer::ranks() const { return rank_.size(); }

std::uint32_t BitPlayer::number(std::uint32_t n) {
  ++bits_;
  const std::uint32_t incarnation = rank_.host().incarnation();
  if (incarnation == 0) return 0;
  const std::uint64_t drawn =
      journal::mix(job_.simulation().time() + 7 * bits_ + journal::mix(incarnation * 64 + rank()));
  // Most bits are those of the first incarnation, so that an execution proceeds far before it
  // differs.
  return drawn % 4 == 0 ? static_cast<std::uint32_t>(drawn >> 8) % n : 0;
}
bool BitPlayer::bit() { return number(2) != 0; }

void BitPlayer::happened(Kind kind, std::uint32_t peer, std::uint64_t index, std::uint64_t message,
                         std::uint64_t value) {
  if (count_ == kMostEvents) job_.fail_if("bits: the history is too long");
  events_[count_++] = {kind, peer, index, message, value};
}

void BitPlayer::end() { job_.histories().ended(rank(), events_, count_); }

recovery::Call BitPlayer::call(OpKind kind, std::size_t bytes, int root) const {
  recovery::Call c = {};
  c.signature.kind = static_cast<std::uint16_t>(kind);
  c.signature.root = root;
  c.signature.bytes = bytes;
  c.site = reinterpret_cast<const void*>(0x7000 + 16 * static_cast<std::uint64_t>(kind));
  return c;
}
std::uint32_t BitPlayer::begin_message(OpKind kind) {
  return rank_.messages().begin(call(kind, 0, -1));
}

void BitPlayer::summed(std::uint64_t sequence, std::uint64_t sum) {
  happened(Kind::kSum, 0, sequence, 0, sum);
  state_ = journal::mix(state_ + sum);
  newest_sum_ = sum;
}

void BitPlayer::checkpoint() {
  recovery::Models m;
  m.global = &newest_sum_;
  m.global_bytes = sizeof newest_sum_;
  m.local = &state_;
  m.local_bytes = sizeof state_;
  const recovery::Status s = rank_.checkpoint(*comm_, call(OpKind::kCheckpoint, 0, -1), m);
  if (s != recovery::Status::kOk) job_.fail_if(rank_.last_error());
}

void BitPlayer::sum(std::uint64_t contribution) {
  const std::uint64_t sequence = operations_++;
  happened(Kind::kContributed, 0, sequence, 0, contribution);
  const recovery::Outcome o = rank_.replicated(
      *comm_, call(OpKind::kAllreduce, sizeof contribution, -1), sum_of(contribution));
  if (o.status != recovery::Status::kOk) job_.fail_if(rank_.last_error());
  summed(sequence, value_of(o));
}

void BitPlayer::large_sum(std::uint64_t contribution, bool early) {
  std::array<std::uint64_t, 600> input, result;  // several nodes reduce it in slices
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = contribution + i;
  const std::uint64_t sequence = operations_++;
  happened(Kind::kContributed, 0, sequence, 0, contribution);
  recovery::ReplicatedSpec spec = sum_of(input[0]);
  spec.input_bytes = spec.result_bytes = sizeof input;
  if (early) spec.early = result.data();
  const recovery::Outcome o =
      rank_.replicated(*comm_, call(OpKind::kAllreduce, sizeof input, -1), spec);
  if (o.status != recovery::Status::kOk) job_.fail_if(rank_.last_error());
  std::memmove(result.data(), o.data(), sizeof result);
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (result[i] != result[0] + i * ranks()) job_.fail_if("a part of a sum is another sum's");
  }
  summed(sequence, result[0]);
}

void BitPlayer::sums_elsewhere(std::uint64_t contribution) {
  SimRank::Comm* const usual = comm_;
  SimRank::Comm* const others[] = {communicator(kContext + 1 + operations_),
                                   communicator(kContext + 2 + operations_)};
  for (SimRank::Comm* other : others) {
    comm_ = other;
    sum(contribution);
  }
  for (SimRank::Comm* other : others) rank_.free_comm(other);
  comm_ = usual;
}

void BitPlayer::begin_sum(std::uint64_t contribution) {
  happened(Kind::kContributed, 0, operations_++, 0, contribution);
  rank_.start(*new (outstanding_) Sum(*this, contribution));
}

void BitPlayer::finish_sum() {
  finish<Sum>([this](const Sum& sum) {
    summed(sum.outcome.sequence, sum.value);
    return sum.outcome.status;
  });
}

void BitPlayer::begin_gather(std::uint32_t root, std::uint64_t value) {
  ++operations_;
  rank_.start(*new (outstanding_) Gather(*this, root, value));
}

void BitPlayer::finish_gather() {
  finish<Gather>([](const Gather& gather) { return gather.outcome().status; });
}

// Waits for the outstanding operation, an Operation; end(it) returns its status.
template <class Operation, class End>
void BitPlayer::finish(End&& end) {
  static_assert(sizeof(Operation) <= sizeof outstanding_);
  auto* operation = std::launder(reinterpret_cast<Operation*>(outstanding_));
  begin_message(OpKind::kWait);
  rank_.messages().await(*operation);
  rank_.messages().wait([&](bool) { return operation->is_over(); });
  rank_.messages().close();
  rank_.messages().end();
  if (end(*operation) != recovery::Status::kOk) job_.fail_if(rank_.last_error());
  operation->~Operation();
}

void BitPlayer::broadcast(std::uint32_t root, std::uint64_t value) {
  broadcast(root, &value, 1, false);
}
void BitPlayer::large_broadcast(std::uint32_t root, std::uint64_t value, bool early) {
  std::array<std::uint64_t, engine::kLeastScattered / sizeof value + 1> words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = root == rank() ? value + i : 0;
  broadcast(root, words.data(), words.size(), early);
}
void BitPlayer::broadcast(std::uint32_t root, std::uint64_t* words, std::size_t count, bool early) {
  const std::uint64_t sequence = operations_++;
  const std::size_t bytes = count * sizeof *words;
  recovery::ReplicatedSpec s;
  if (root == rank()) {
    s.input = words;
    s.input_bytes = bytes;
    happened(Kind::kBroadcast, root, sequence, 0, words[0]);
  } else if (early) {
    s.early = words;
  }
  s.result_bytes = bytes;
  const recovery::Outcome o =
      rank_.replicated(*comm_, call(OpKind::kBcast, bytes, static_cast<int>(root)), s);
  if (o.status != recovery::Status::kOk) job_.fail_if(rank_.last_error());
  if (root == rank()) return;
  std::memmove(words, o.data(), bytes);
  for (std::size_t i = 0; i < count; ++i) {
    if (words[i] != words[0] + i) job_.fail_if("a part of a broadcast is another one's");
  }
  happened(Kind::kHeard, root, sequence, 0, words[0]);
  state_ = journal::mix(state_ + words[0]);
}

std::uint64_t BitPlayer::count_sent(std::uint32_t to) const {
  const auto is_sent = [to](const Happened& e) { return e.kind == Kind::kSent && e.peer == to; };
  return static_cast<std::uint64_t>(std::count_if(events_, events_ + count_, is_sent));
}

recovery::SentMessage BitPlayer::post(std::uint32_t to, std::uint64_t value, bool synchronous,
                                      int tag) {
  std::array<std::uint64_t, kLongWords> data;
  for (std::size_t i = 0; i < words_; ++i) data[i] = value + i;
  const std::uint32_t c = begin_message(synchronous ? OpKind::kIssend : OpKind::kIsend);
  const recovery::SentMessage m = rank_.messages().send(*comm_, c, to, tag, synchronous, 0,
                                                        {words_ * sizeof value, data.data()});
  happened(Kind::kSent, to, m.index, 0, value);
  rank_.messages().end();
  return m;
}

void BitPlayer::send(std::uint32_t to, std::uint64_t value, bool late) {
  post(to, value, false, late ? kLateTag : kTag);
}

void BitPlayer::send_synchronously(std::uint32_t to, std::uint64_t value) {
  const recovery::SentMessage m = post(to, value, true, kTag);
  begin_message(OpKind::kWait);
  rank_.messages().wait([&](bool thorough) {
    if (thorough) rank_.messages().progress(true);
    return rank_.messages().is_matched(m);
  });
  rank_.messages().end();
  happened(Kind::kMatched, to, m.index, 0, 0);
}

std::uint64_t BitPlayer::receive(int from, bool late) {
  recovery::Receive receive;
  receive.source = from < 0 ? recovery::kAnySource : static_cast<std::uint32_t>(from);
  receive.tag = Messages::key_of(late ? kLateTag : kTag);
  begin_message(OpKind::kIrecv);
  rank_.messages().post(*comm_, receive);
  rank_.messages().end();
  happened(Kind::kPosted, 0, receive.number, 0, 0);
  begin_message(OpKind::kWait);
  rank_.messages().wait([&](bool thorough) {
    if (thorough) rank_.messages().progress(true);
    return rank_.messages().advance(receive, thorough);
  });
  std::array<std::uint64_t, kLongWords> got = {};
  rank_.messages().read(receive, words_ * sizeof got[0], nullptr,
                        [&](const std::byte* data, std::uint64_t at, std::uint64_t n) {
                          std::memcpy(reinterpret_cast<std::byte*>(got.data()) + at, data, n);
                        });
  const std::uint64_t value = got[0];
  for (std::size_t i = 0; i < words_; ++i) {
    if (got[i] != value + i) job_.fail_if("a part of a message is another one's");
  }
  const recovery::Arrived& a = *receive.message;
  happened(Kind::kReceived, a.from, receive.number, a.index, value);
  state_ = journal::mix(state_ + value + a.from);
  rank_.messages().consume(receive);
  rank_.messages().end();
  return value;
}

bool BitPlayer::asks(std::uint32_t from) {
  recovery::Envelope e = {};
  return rank_.messages().probe(*comm_, from, Messages::key_of(kTag), &e);
}

}  // namespace rejoin::sim
