// Operations whose members get different bytes. Everything about their messages is passed to the
// oracle.
#include <array>
#include <cstring>
#include <optional>

#include "engine/collectives.h"
#include "player.h"

namespace rejoin::sim {

using engine::Block;
using engine::Reduction;
using journal::Progress;
using recovery::OpKind;
using recovery::Status;

namespace {

// The next incarnation of a sender of blocks of that many elements writes no rest of a message, so
// its contribution may be another one.
bool is_posted_whole(std::size_t count) {
  return count * sizeof(Element) <= journal::Writing<SimHost>::kPieceBytes;
}

}  // namespace

// A ChannelOp whose messages are passed to the oracle.
class SimPort {
 public:
  SimPort(Player& player, Player::Comm& comm, SimRank::ChannelOp& operation)
      : player_(player), job_(player.job_), comm_(comm), operation_(operation) {}

  std::uint32_t size() const { return operation_.size(); }
  std::uint32_t me() const { return operation_.me(); }

  Progress send(std::uint32_t peer, const void* data, std::size_t bytes,
                engine::Sent sent = engine::Sent::kStored) {
    const std::uint32_t from = player_.rank(), to = comm_.group->members[peer];
    const std::uint64_t k = player_.sent_[to];
    const bool fresh = job_.oracle().offered(from, to, k, hash_of_bytes(data, bytes));
    const std::uint64_t posts = job_.posts(from);
    const Progress p = operation_.send(peer, data, bytes, sent);
    if (p != Progress::kDone) return p;
    ++player_.sent_[to];
    job_.fail_if(job_.oracle().posted(from, to, k));
    if (fresh == (job_.posts(from) == posts))
      job_.fail_if("messages: one is posted twice, or never");
    if (!fresh) job_.hit(Probe::kResent);
    return p;
  }

  Progress receive(std::uint32_t peer, std::size_t max_bytes, const std::byte** data,
                   std::size_t* bytes, std::byte* place = nullptr) {
    const Progress p = operation_.receive(peer, max_bytes, data, bytes, place);
    if (p != Progress::kDone) return p;
    const std::uint32_t from = comm_.group->members[peer], to = player_.rank();
    const std::uint64_t hash = hash_of_bytes(*data, *bytes);
    player_.messages_ = journal::mix(player_.messages_ + hash);
    bool again = false;
    job_.fail_if(job_.oracle().received(from, to, operation_.held()->index, hash, &again));
    if (again) job_.hit(Probe::kReceivedAgain);
    if (!is_in_journal(player_.rank_.host(), *operation_.held())) {
      job_.fail_if("a message is received before it is stored");
    }
    return p;
  }

 private:
  Player& player_;
  Job& job_;
  Player::Comm& comm_;
  SimRank::ChannelOp& operation_;
};

// own_in_outcome: this rank contributes the same in every incarnation, so all of `out` must be the
// same.
template <class Algorithm>
Status Player::channel(Comm& c, OpKind kind, int root, const Buffer& in, const Buffer& out,
                       bool own_in_outcome, Algorithm&& algorithm) {
  if (replays_bootstrap() && c.size() > 1) {
    job_.fail_if("a program repeats what gives every rank something else");
  }
  std::memset(static_cast<void*>(out.data), 0, out.bytes());
  begin(c, false, false);
  std::optional<SimRank::ChannelOp> entered;
  rank_.enter(entered, *c.comm, call(c, kind, in.bytes(), root), in.data, in.bytes(), false);
  SimRank::ChannelOp& operation = *entered;
  SimPort port(*this, c, operation);
  rank_.wait_for(operation, [&](bool thorough) {
    return operation.advance(thorough, [&] { return algorithm.advance(port); });
  });
  const recovery::Outcome& o = operation.outcome();
  const bool failed = o.status != Status::kOk;
  job_.end_operation(rank_.host(), failed);
  if (failed && job_.world().disagreement == Disagreement::kNone) {
    job_.fail_if(rank_.last_error());
  }
  std::uint64_t hash = failed ? 1 : messages_ | 1;
  if (!failed && (own_in_outcome || !job_.tagged())) {
    hash = journal::mix(hash + hash_of_bytes(out.data, out.bytes())) | 1;
  }
  const Given g = given(c, o);
  if (job_.world().disagreement != Disagreement::kSomewhere) {
    job_.fail_if(
        job_.oracle().returned_channel(*c.group, g.sequence, g.number, c.me, failed, hash));
  }
  job_.simulation().note(rank_.host(), "has its part of operation", g.sequence, hash);
  end(c, g, hash, false);
  return o.status;
}

Status Player::reduce(Comm& c, std::uint32_t root, std::size_t count) {
  if (c.comm == nullptr) return Status::kOk;
  const auto* span = c.comm->span;
  if (span != nullptr && engine::is_reduced_by_nodes(c.size() - span->members_of(span->node[root]),
                                                     count * sizeof(Element))) {
    const Reduction r = reduction(false);
    return replicated(c, OpKind::kReduce, static_cast<int>(root), contribution(c, count, true),
                      count, &r, nullptr, c.me == root);
  }
  const Buffer in = contribution(c, count, false);
  const Buffer out = buffer(c.me == root ? count : 0);
  const Buffer more = buffer(c.me == root && job_.world().nodes > 1 ? 2 * count : 0);
  const Reduction r = reduction(false);
  return channel(
      c, OpKind::kReduce, static_cast<int>(root), in, out, true,
      engine::Reduce(root, in.data, in.bytes(), r, out.data, nullptr,
                     c.comm->fold_order(r.commutative), reinterpret_cast<std::byte*>(more.data)));
}

Status Player::gather(Comm& c, std::uint32_t root, std::size_t count) {
  if (c.comm == nullptr) return Status::kOk;
  const Buffer in = contribution(c, count, is_posted_whole(count));
  const Buffer out = buffer(c.me == root ? count * c.size() : 0);
  const auto place = [&](std::uint32_t i) {
    return Block{reinterpret_cast<std::byte*>(out.data + i * count), in.bytes()};
  };
  return channel(c, OpKind::kGather, static_cast<int>(root), in, out, false,
                 engine::Gather(root, in.data, in.bytes(), place));
}

Status Player::scatter(Comm& c, std::uint32_t root, std::size_t count) {
  if (c.comm == nullptr) return Status::kOk;
  Buffer in = contribution(c, c.me == root ? count * c.size() : count, is_posted_whole(count));
  const Buffer out = buffer(count);
  Buffer signature = in;
  signature.count = count;
  const auto place = [&](std::uint32_t i) {
    return Block{reinterpret_cast<std::byte*>(in.data + i * count), out.bytes()};
  };
  return channel(
      c, OpKind::kScatter, static_cast<int>(root), signature, out, false,
      engine::Scatter(root, Block{reinterpret_cast<std::byte*>(out.data), out.bytes()}, place));
}

Status Player::alltoall(Comm& c, std::size_t count) {
  if (c.comm == nullptr) return Status::kOk;
  const Buffer in = contribution(c, count * c.size(), is_posted_whole(count));
  const Buffer out = buffer(count * c.size());
  const auto block = [count](const Buffer& b) {
    return [&b, count](std::uint32_t i) {
      return Block{reinterpret_cast<std::byte*>(b.data + i * count), count * sizeof(Element)};
    };
  };
  return channel(c, OpKind::kAlltoall, -1, in, out, false,
                 engine::Alltoall(block(in), block(out), true));
}

Status Player::neighbours(Comm& c, std::size_t count) {
  if (c.comm == nullptr) return Status::kOk;
  const std::uint32_t n = c.size(), next = (c.me + 1) % n, before = (c.me + n - 1) % n;
  const std::array<std::uint32_t, 4> targets = {next, next, before, c.me};
  const std::array<std::uint32_t, 4> sources = {before, before, next, c.me};
  const Buffer in = contribution(c, count * targets.size(), true);
  const Buffer out = buffer(count * sources.size());
  const std::size_t bytes = count * sizeof(Element);
  const auto send = [&](std::size_t i) {
    return Block{reinterpret_cast<std::byte*>(in.data + i * count), bytes};
  };
  struct {
    Element* to;
    std::size_t bytes;
    std::size_t room(std::size_t) const { return bytes; }
    void put(std::size_t i, const std::byte* data, std::size_t size) const {
      std::memcpy(reinterpret_cast<std::byte*>(to) + i * bytes, data, size);
    }
  } const receive = {out.data, bytes};
  return channel(c, OpKind::kNeighborAlltoall, -1, in, out, false,
                 engine::Exchange(targets, send, sources, receive));
}

Status Player::scan(Comm& c, std::size_t count) { return scan(c, count, false); }
Status Player::exscan(Comm& c, std::size_t count) { return scan(c, count, true); }

Status Player::scan(Comm& c, std::size_t count, bool exclusive) {
  if (c.comm == nullptr) return Status::kOk;
  const Buffer in = contribution(c, count, false), out = buffer(count);
  const Reduction r = reduction(false);
  const std::size_t bytes = engine::Scan::memory_bytes(in.bytes(), r, exclusive);
  const Buffer memory = buffer(bytes / sizeof(Element));
  return channel(c, exclusive ? OpKind::kExscan : OpKind::kScan, -1, in, out, true,
                 engine::Scan(in.data, in.bytes(), r, out.data, exclusive,
                              reinterpret_cast<std::byte*>(memory.data)));
}

namespace {

struct OneMessage {
  std::uint32_t from, to;
  const void* data;
  std::size_t bytes;
  void* out;

  template <class Port>
  Progress advance(Port& port) {
    if (port.me() == from) return port.send(to, data, bytes);
    if (port.me() != to) return Progress::kDone;
    const std::byte* got = nullptr;
    std::size_t got_bytes = 0;
    const Progress p = port.receive(from, bytes, &got, &got_bytes);
    if (p == Progress::kDone && got_bytes > 0) std::memcpy(out, got, got_bytes);
    return p;
  }
};

struct Echo {
  OneMessage there, back;
  bool is_there = false;

  template <class Port>
  Progress advance(Port& port) {
    const Progress p = is_there ? Progress::kDone : there.advance(port);
    if (p != Progress::kDone) return p;
    is_there = true;
    return back.advance(port);
  }
};

}  // namespace

Status Player::echo(Comm& c, std::uint32_t from, std::uint32_t to, std::size_t count) {
  if (c.comm == nullptr) return Status::kOk;
  const Buffer in = contribution(c, count, is_posted_whole(count));
  const Buffer out = buffer(c.me == from || c.me == to ? count : 0);
  return channel(
      c, OpKind::kGatherv, static_cast<int>(to), in, out, false,
      Echo{{from, to, in.data, in.bytes(), out.data}, {to, from, in.data, in.bytes(), out.data}});
}

Status Player::message(Comm& c, std::uint32_t from, std::uint32_t to, std::size_t count) {
  if (c.comm == nullptr) return Status::kOk;
  const Buffer in = contribution(c, count, is_posted_whole(count));
  const Buffer out = buffer(c.me == to ? count : 0);
  return channel(c, OpKind::kGatherv, static_cast<int>(to), in, out, false,
                 OneMessage{from, to, in.data, in.bytes(), out.data});
}

}  // namespace rejoin::sim
