// Nonblocking collectives: entered here, judged where they complete, and visible to the program
// when it tests them.
#include <algorithm>
#include <cstring>
#include <new>
#include <optional>

#include "engine/collectives.h"
#include "player.h"

namespace rejoin::sim {

using engine::Block;
using journal::Progress;
using recovery::OpKind;
using recovery::Status;

namespace {

// They lie behind the buffers of operations that are complete when they return.
constexpr std::size_t kAreaBegin = std::size_t{32} << 20;
constexpr std::size_t kAreaBytes = std::size_t{512} << 10;  // number of elements of one collective

}  // namespace

// A collective that was begun. Its buffers follow it.
class SimCollective final : public recovery::Nonblocking {
 public:
  SimCollective(Player& player, Player::Comm& comm, OpKind kind, int root)
      : player_(player),
        comm_(comm),
        call_(player.call(comm, kind, 0, root)),
        sequence_(comm.count->next),
        number_(comm.count->number),
        reduction_(player.reduction(false)) {}

  Player::Buffer buffer(std::size_t elements) {
    auto* data = reinterpret_cast<Element*>(reinterpret_cast<std::byte*>(this) + used_);
    used_ += (elements * sizeof(Element) + 63) / 64 * 64;
    if (used_ > kAreaBytes) player_.job_.fail_if("too large for a nonblocking collective");
    player_.most_of_area_ = std::max(player_.most_of_area_, used_);
    return {data, elements};
  }
  // This rank's contribution; tagged if another incarnation may contribute something else.
  Player::Buffer contribution(std::size_t elements, bool by_incarnation) {
    const Player::Buffer drawn = player_.contribution(comm_, elements, by_incarnation);
    in_ = buffer(elements);
    if (elements > 0) std::memcpy(static_cast<void*>(in_.data), drawn.data, drawn.bytes());
    return in_;
  }

  recovery::ReplicatedSpec spec;  // only one of these two is used
  using Advance = Progress (*)(SimCollective&);
  Advance advance_messages = nullptr;
  Player::Buffer out;
  std::size_t count = 0;
  void use_reduction(bool user) {
    reduction_ = player_.reduction(user);
    spec.reduction = &reduction_;
  }
  std::optional<engine::ScanAtOnce> scan;
  // Memory for an algorithm over Blocks.
  struct Blocks {
    Element* data;
    std::size_t count;
    Block operator()(std::uint32_t i) const {
      return {reinterpret_cast<std::byte*>(data + i * count), count * sizeof(Element)};
    }
  };
  std::optional<engine::Alltoall<Blocks, Blocks>> alltoall;
  std::optional<engine::Gather<Blocks>> gather;

  void enter(SimRank& rank) {
    call_.signature.bytes = count * sizeof(Element);
    if (advance_messages == nullptr) {
      rank.enter(replicated_, *comm_.comm, call_, spec, &outcome_, true);
      entered(replicated_->standing());
    } else {
      rank.enter(messages_, *comm_.comm, call_, in_.data, in_.bytes(), true);
      entered(messages_->standing());
    }
  }

  // --- The port of a channel operation

  std::uint32_t size() const { return messages_->size(); }
  std::uint32_t me() const { return messages_->me(); }
  Progress send(std::uint32_t peer, const void* data, std::size_t bytes,
                engine::Sent sent = engine::Sent::kStored) {
    const Progress p = messages_->send(peer, data, bytes, sent);
    if (p == Progress::kDone) ++player_.sent_[comm_.group->members[peer]];
    return p;
  }
  Progress receive(std::uint32_t peer, std::size_t most, const std::byte** data, std::size_t* bytes,
                   std::byte* place = nullptr) {
    return messages_->receive(peer, most, data, bytes, place);
  }

  const engine::Reduction& reduction() const { return reduction_; }
  std::uint64_t hash() const { return hash_; }

 private:
  Progress advance(bool thorough) override {
    Progress p;
    if (messages_) {
      p = messages_->advance(thorough, [&] { return advance_messages(*this); });
      outcome_ = messages_->outcome();
    } else {
      p = replicated_->advance(thorough);
    }
    if (p == Progress::kPending) return p;
    judge(p == Progress::kFailed);
    replicated_.reset();
    messages_.reset();
    return p;
  }

  void judge(bool failed) {
    Job& job = player_.job_;
    if (failed && job.world().disagreement == Disagreement::kNone) {
      job.fail_if(player_.rank_.last_error());
    }
    if (outcome_.sequence != sequence_) job.fail_if("a nonblocking operation is another one");
    if (failed) job.hit(Probe::kMismatch);
    Oracle& oracle = job.oracle();
    // Operations of a single member are not recorded, so its sequence numbers differ between
    // incarnations.
    const std::uint64_t place = comm_.size() == 1 ? number_ : sequence_;
    if (messages_) {
      hash_ = failed ? 1 : hash_of_bytes(out.data, out.bytes());
      job.fail_if(oracle.returned_channel(*comm_.group, place, number_, comm_.me, failed, hash_));
      return;
    }
    const std::size_t bytes = spec.result_bytes;
    const bool bcast = recovery::is_broadcast(call_.signature);
    hash_ = failed ? 1 : hash_of_bytes(outcome_.data(), bytes);
    job.fail_if(oracle.returned_replicated(*comm_.group, place, number_, comm_.me, failed, !bcast,
                                           outcome_.data(), bytes));
  }

  Player& player_;
  Player::Comm& comm_;
  recovery::Call call_;
  const std::uint64_t sequence_, number_;
  engine::Reduction reduction_;
  Player::Buffer in_;
  std::size_t used_ = (sizeof(SimCollective) + 63) / 64 * 64;
  recovery::Outcome outcome_;
  std::optional<SimRank::ReplicatedOp> replicated_;
  std::optional<SimRank::ChannelOp> messages_;
  std::uint64_t hash_ = 0;
};

// The collective that has just begun is not constructed yet. Others may be complete, but the
// program may still have to wait for them.
std::vector<std::span<std::byte>> Player::memory_in_use() const {
  std::vector<std::span<std::byte>> all = {{memory_, used_}};
  if (collectives_ == 0) return all;
  const std::uint64_t areas =
      outstanding_ > 0 ? std::min<std::uint64_t>(collectives_, kMostOutstanding) : 1;
  for (std::uint64_t i = 1; i <= areas; ++i) {
    const std::uint64_t area = (collectives_ - i) % kMostOutstanding;
    all.emplace_back(memory_ + kAreaBegin + area * kAreaBytes, most_of_area_);
  }
  return all;
}

SimCollective* Player::make_collective(Comm& c, OpKind kind, int root) {
  std::byte* at = memory_ + kAreaBegin + collectives_++ % kMostOutstanding * kAreaBytes;
  most_of_area_ = std::max(most_of_area_, sizeof(SimCollective));
  return new (at) SimCollective(*this, c, kind, root);
}

void Player::start(Comm& c, Pending* p, SimCollective* collective) {
  job_.oracle().entered(*c.group, c.size() == 1 ? c.count->number : c.count->next, c.me);
  job_.simulation().note(rank_.host(), "begins operation", c.count->next, c.group->context);
  collective->enter(rank_);
  rank_.start(*collective);
  ++outstanding_;
  ++c.count->next;
  ++c.count->number;
  ++operations_;
  used_ = kKeptBytes;
  p->kind = Pending::kCollective;
  p->comm = &c;
  p->collective = collective;
}

bool Player::is_over(const SimCollective& collective) { return collective.is_over(); }

void Player::show_awaited(const SimCollective& collective) { rank_.messages().await(collective); }

std::uint64_t Player::finish_collective(Pending* p) {
  rank_.messages().close();
  --outstanding_;
  const std::uint64_t hash = p->collective->hash();
  p->collective->~SimCollective();
  return hash;
}

void Player::begin_allreduce(Comm& c, Pending* p, std::size_t count, How how) {
  SimCollective* o = make_collective(c, OpKind::kIallreduce, -1);
  o->count = count;
  o->spec.input = o->contribution(count, true).data;
  o->spec.input_bytes = o->spec.result_bytes = count * sizeof(Element);
  o->use_reduction(how.user);
  if (how.early) o->spec.early = o->buffer(count).data;
  start(c, p, o);
}

void Player::begin_barrier(Comm& c, Pending* p) {
  start(c, p, make_collective(c, OpKind::kIbarrier, -1));
}

void Player::begin_bcast(Comm& c, Pending* p, std::uint32_t root, std::size_t count) {
  SimCollective* o = make_collective(c, OpKind::kIbcast, static_cast<int>(root));
  o->count = count;
  o->spec.result_bytes = count * sizeof(Element);
  if (c.me == root) {
    o->spec.input = o->contribution(count, true).data;
    o->spec.input_bytes = o->spec.result_bytes;
  }
  start(c, p, o);
}

void Player::begin_allgather(Comm& c, Pending* p, std::size_t count) {
  SimCollective* o = make_collective(c, OpKind::kIallgather, -1);
  o->count = count;
  o->spec.input = o->contribution(count, true).data;
  o->spec.input_bytes = count * sizeof(Element);
  o->spec.result_bytes = count * c.size() * sizeof(Element);
  start(c, p, o);
}

void Player::begin_gather(Comm& c, Pending* p, std::uint32_t root, std::size_t count) {
  SimCollective* o = make_collective(c, OpKind::kIgather, static_cast<int>(root));
  o->count = count;
  const Buffer in = o->contribution(count, false);
  o->out = o->buffer(c.me == root ? count * c.size() : 0);
  o->gather.emplace(root, in.data, in.bytes(), SimCollective::Blocks{o->out.data, count});
  o->advance_messages = [](SimCollective& self) { return self.gather->advance(self); };
  start(c, p, o);
}

void Player::begin_alltoall(Comm& c, Pending* p, std::size_t count) {
  SimCollective* o = make_collective(c, OpKind::kIalltoall, -1);
  o->count = count;
  const Buffer in = o->contribution(count * c.size(), false);
  o->out = o->buffer(count * c.size());
  o->alltoall.emplace(SimCollective::Blocks{in.data, count},
                      SimCollective::Blocks{o->out.data, count}, true);
  o->advance_messages = [](SimCollective& self) { return self.alltoall->advance(self); };
  start(c, p, o);
}

void Player::begin_scan(Comm& c, Pending* p, std::size_t count) {
  SimCollective* o = make_collective(c, OpKind::kIscan, -1);
  o->count = count;
  const Buffer in = o->contribution(count, false);
  o->out = o->buffer(count);
  const engine::Reduction& r = o->reduction();
  const Buffer memory =
      o->buffer(engine::ScanAtOnce::memory_bytes(in.bytes(), r, false) / sizeof(Element));
  o->scan.emplace(in.data, in.bytes(), r, o->out.data, false,
                  reinterpret_cast<std::byte*>(memory.data));
  o->advance_messages = [](SimCollective& self) { return self.scan->advance(self); };
  start(c, p, o);
}

}  // namespace rejoin::sim
