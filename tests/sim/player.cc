#include "player.h"

#include <algorithm>
#include <cstring>

#include "engine/collectives.h"
#include "engine/plan.h"
#include "journal/contexts.h"

namespace rejoin::sim {

using engine::Block;
using engine::Reduction;
using journal::Progress;
using recovery::OpKind;
using recovery::ReplicatedSpec;
using recovery::Status;

namespace {

constexpr std::size_t kBufferBytes = std::size_t{32} << 20;
constexpr std::uint64_t kBootstrapSite = 0x5000;

std::uint32_t mix32(std::uint32_t a, std::uint32_t b) {
  std::uint32_t h = (a * 31 + b) * 0x9e3779b1u;
  return h ^ h >> 15;
}

Element combined(const Element& a, const Element& b) {
  return {a.oldest < b.oldest ? a.oldest : b.oldest, a.newest > b.newest ? a.newest : b.newest,
          mix32(a.hash, b.hash)};
}

}  // namespace

Player::Player(Job& job, SimRank& rank, std::byte* memory)
    : job_(job),
      rank_(rank),
      memory_(memory),
      used_(kKeptBytes),
      state_(rank.rank() * 0x1234567u + 99),
      counts_(reinterpret_cast<Count*>(memory)),
      restored_counts_(counts_ + kMaxCounts) {
  std::memset(static_cast<void*>(counts_), 0, kKeptBytes);
}

void* Player::allocate(std::size_t bytes) {
  void* p = memory_ + used_;
  used_ += (bytes + 63) / 64 * 64;
  if (used_ > kBufferBytes) job_.fail_if("the program's buffers are too small");
  return p;
}

Player::Buffer Player::buffer(std::size_t count) {
  return {static_cast<Element*>(allocate(count * sizeof(Element))), count};
}

void Player::fill(const Buffer& b, std::uint64_t salt, std::uint16_t generation) {
  // In the bootstrap phase the contribution is the same in every incarnation, whatever the state
  // has become since.
  const std::uint64_t from = in_bootstrap_phase_
                                 ? journal::mix(bootstrap_state_ + bootstrap_operations_)
                                 : journal::mix(state() + operations_);
  const std::uint64_t seed = journal::mix(from ^ journal::mix(salt + rank() * 64));
  const auto low = static_cast<std::uint32_t>(seed);
  for (std::size_t i = 0; i < b.count; ++i) {
    b.data[i] = {generation, generation, mix32(low, static_cast<std::uint32_t>(i))};
  }
}

// by_incarnation: the contribution may differ between incarnations if the run is tagged.
Player::Buffer Player::contribution(const Comm& c, std::size_t count, bool by_incarnation,
                                    std::uint16_t label) {
  const Buffer b = buffer(count);
  // A rank that is alone gets its own contribution back: nothing is recorded.
  const bool tagged = by_incarnation && job_.tagged() && c.size() > 1 && !in_bootstrap_phase_;
  fill(b, tagged ? 1000 + incarnation() : 0, tagged ? 0 : label);
  return b;
}

void Player::retag() {
  if (retagged_comm_ == nullptr) return;
  fill(retagged_, 2000 + incarnation() * 64 + ++attempts_,
       static_cast<std::uint16_t>(retagged_comm_->comm->generation));
}

// The program's operator: other ranks may run, and this rank may die, in the middle of it.
void Player::combine(const Reduction& self, const void* a, const void* b, void* out,
                     std::size_t count) {
  auto* player = static_cast<Player*>(const_cast<void*>(self.context));
  const auto* x = static_cast<const Element*>(a);
  const auto* y = static_cast<const Element*>(b);
  auto* z = static_cast<Element*>(out);
  SimHost& host = player->rank_.host();
  const std::uint64_t before = self.user ? hash_of_bytes(a, count * sizeof(Element)) : 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i == count / 2) host.operate();
    // The operator may compute anything. On bytes that no rank contributed it could as well crash.
    const bool alike = x[i].oldest == x[i].newest && x[i].oldest == y[i].oldest;
    if (self.user && !(alike && x[i].oldest == y[i].newest)) {
      player->job_.fail_if("operand: a user operator is given what no member contributed to this");
    }
    z[i] = combined(x[i], y[i]);
  }
  if (self.user && before != hash_of_bytes(a, count * sizeof(Element))) {
    player->job_.fail_if("an operand of a user operator changes while it is read");
  }
}

Reduction Player::reduction(bool user) {
  return {&Player::combine, sizeof(Element), user, this, !user};
}

recovery::Call Player::call(const Comm& of, OpKind kind, std::size_t bytes, int root) const {
  recovery::Call c = {};
  c.signature.kind = static_cast<std::uint16_t>(kind);
  c.signature.root = root;
  c.signature.bytes = bytes;
  // The call site is the same at all members: a program has loops, and the same code on every rank.
  const std::uint64_t site = site_ != 0            ? site_
                             : in_bootstrap_phase_ ? kBootstrapSite + 16 * of.count->asked
                                                   : 0x1000 + 16 * (of.count->number % 8);
  c.site = reinterpret_cast<const void*>(site);
  return c;
}

// --- Communicators

Player::Comm Player::comm(const std::uint32_t* members, std::uint32_t size, std::uint64_t id) {
  const std::uint64_t context =
      journal::derive_context(7, id, hash_of_bytes(members, size * sizeof *members));
  Comm c;
  for (std::uint32_t i = 0; i < size; ++i) {
    if (members[i] != rank()) continue;
    c.group = &job_.oracle().group(context, members, size);
    c.me = i;
    c.count = count_of(context);
    c.comm = rank_.make_comm(context, members, size);
    if (c.comm == nullptr) job_.fail_if("make_comm fails");
    job_.oracle().made(*c.group, i, c.comm->members.mine);
    job_.simulation().add_block(rank(), c.comm->members.mine);
  }
  return c;
}

Player::Comm Player::comm(std::initializer_list<std::uint32_t> members, std::uint64_t id) {
  return comm(members.begin(), static_cast<std::uint32_t>(members.size()), id);
}

Player::Comm Player::everyone(std::uint64_t id) {
  std::uint32_t all[kMaxSimRanks];
  for (std::uint32_t i = 0; i < ranks(); ++i) all[i] = i;
  return comm(all, ranks(), id);
}

void Player::free(Comm& c) {
  if (c.comm == nullptr) return;
  rank_.free_comm(c.comm);
  c.comm = nullptr;
  *c.count = {};
}

// A new communicator.
Count* Player::count_of(std::uint64_t context) {
  Count* free =
      std::find_if(counts_, counts_ + kMaxCounts, [](const Count& c) { return c.context == 0; });
  if (free == counts_ + kMaxCounts) job_.fail_if("the program has too many communicators");
  *free = {context, 0, 0, 0, 0};
  for (std::size_t i = 0; i < kMaxCounts; ++i) {
    if (restored_counts_[i].context == context) *free = restored_counts_[i];
  }
  return free;
}

// --- Replicated-result operations

void Player::begin(Comm& c, bool bcast, bool follower) {
  // In a bootstrap replay the operation is entered only if it is executed once more.
  if (!replays_bootstrap()) job_.oracle().entered(*c.group, c.count->next, c.me);
  job_.begin_operation(rank_.host(), *c.group, c.count->next, bcast, follower);
  retagged_comm_ = nullptr;
  attempts_ = 0;
  messages_ = 0;
}

Player::Given Player::given(const Comm& c, const recovery::Outcome& outcome) {
  const Count& count = *c.count;
  Given g = {outcome.sequence, count.number, false};
  if (outcome.status != Status::kOk) return {count.next, count.number, false};
  if (c.size() == 1) {  // nothing is recorded, and every incarnation executes it
    if (replays_bootstrap()) g.number = count.bootstrap + count.asked;
    job_.oracle().entered(*c.group, g.number, c.me);
    return {g.number, g.number, false};
  }
  if (replays_bootstrap()) {
    g.number = count.bootstrap + count.asked;
    g.out_of_turn = g.sequence != count.next;
    if (g.sequence != g.number) job_.fail_if("bootstrap phase: it is given another operation");
    if (!g.out_of_turn) job_.oracle().entered(*c.group, g.sequence, c.me);
    job_.hit(Probe::kBootstrapReplay);
  } else if (g.sequence != count.next) {
    job_.fail_if("bootstrap phase: an operation of the iterations is taken for one");
  }
  return g;
}

void Player::end(Comm& c, const Given& g, std::uint64_t hash, bool common) {
  if (in_bootstrap_phase_) ++c.count->asked;
  if (!replays_bootstrap()) ++c.count->number;
  if (!g.out_of_turn) ++c.count->next;
  if (in_bootstrap_phase_) {
    bootstrap_state_ = journal::mix(bootstrap_state_ + hash);
    ++bootstrap_operations_;
  } else {
    state_ = journal::mix(state_ + hash);
    if (common && c.size() == ranks()) common_ = journal::mix(common_ + hash);
    ++operations_;
  }
  used_ = kKeptBytes;
}

Status Player::replicated(Comm& c, OpKind kind, int root, const Buffer& in, std::size_t count,
                          const Reduction* reduction, const std::size_t* blocks, bool early) {
  ReplicatedSpec u;
  u.input = in.data;
  u.input_bytes = in.bytes();
  u.result_bytes = count * sizeof(Element);
  u.reduction = reduction;
  u.blocks = blocks;
  if (kind == OpKind::kReduce) u.only = static_cast<std::uint32_t>(root);
  Buffer offered;
  if (early) {
    offered = buffer(count);
    std::memset(static_cast<void*>(offered.data), 0xee, offered.bytes());
    u.early = offered.data;
  }
  const std::size_t bytes = kind == OpKind::kAllgather ? in.bytes() : blocks ? 0 : u.result_bytes;
  const std::size_t judged =
      reduction != nullptr ? u.input_bytes : (u.result_bytes + c.size() - 1) / c.size();
  begin(c, kind == OpKind::kBcast,
        engine::algorithm_for(c.size(), judged) == engine::Algorithm::kLeader &&
            c.count->next % c.size() != c.me);
  // With other operations outstanding the attempt cannot be assigned to an operation.
  const bool alone = c.size() == 1 || outstanding_ > 0;
  if (job_.tagged() && kind != OpKind::kBcast && !alone && !in_bootstrap_phase_) {
    retagged_ = in;
    retagged_comm_ = &c;
  }
  recovery::Call at = call(c, kind, bytes, root);
  hint_.bootstrap = in_bootstrap_phase_;
  if (in_bootstrap_phase_) at.hint = &hint_;
  const recovery::Outcome o = rank_.replicated(*c.comm, at, u);
  retagged_comm_ = nullptr;
  hint_ = {};
  if (early && kind == OpKind::kBcast) probe_head_start(offered, o);
  return end_replicated(c, o, kind,
                        u.only == recovery::kNobody || u.only == c.me ? u.result_bytes : 0);
}

// In a broadcast only the copier of chunks writes to the offered buffer.
void Player::probe_head_start(const Buffer& early, const recovery::Outcome& o) {
  const auto* bytes = reinterpret_cast<const std::byte*>(early.data);
  if (o.data() == bytes) {
    job_.hit(Probe::kHeadStart);
  } else if (early.count > 0 && bytes[0] != std::byte{0xee}) {
    job_.hit(Probe::kHeadStartLost);
  }
}

Status Player::end_replicated(Comm& c, const recovery::Outcome& o, OpKind kind, std::size_t bytes) {
  const bool failed = o.status != Status::kOk;
  const std::byte* result = o.data();
  job_.end_operation(rank_.host(), failed);
  if (failed && job_.world().disagreement == Disagreement::kNone) {
    job_.fail_if(rank_.last_error());
  }
  if (!failed && bytes > 0 && kind != OpKind::kBcast) {
    const auto* e = reinterpret_cast<const Element*>(result);
    for (std::size_t i = 0; i < bytes / sizeof(Element); ++i) {
      if (e[i].oldest != e[0].oldest || e[i].newest != e[0].oldest) {
        job_.fail_if("mixed: an outcome is made of contributions to different attempts");
      }
    }
  }
  Oracle& oracle = job_.oracle();
  const Given g = given(c, o);
  const bool is_common = kind != OpKind::kReduce;  // all members get the same
  if (job_.world().disagreement != Disagreement::kSomewhere) {
    const bool synchronises = kind != OpKind::kBcast && !replays_bootstrap();
    job_.fail_if(is_common ? oracle.returned_replicated(*c.group, g.sequence, g.number, c.me,
                                                        failed, synchronises, result, bytes)
                           : oracle.returned_channel(*c.group, g.sequence, g.number, c.me, failed,
                                                     hash_of_bytes(result, bytes) | 1));
  }
  const std::uint64_t hash = failed ? 1 : hash_of_bytes(result, bytes);
  job_.simulation().note(rank_.host(), "has the outcome of operation", g.sequence, hash);
  end(c, g, hash, is_common);
  return o.status;
}

Status Player::allreduce(Comm& c, std::size_t count, How how) {
  if (c.comm == nullptr) return Status::kOk;
  const Reduction r = reduction(how.user);
  const auto label = static_cast<std::uint16_t>(
      how.user && !in_bootstrap_phase_ ? c.count->number % 60000 + 1 : 0);
  return replicated(c, OpKind::kAllreduce, -1, contribution(c, count, true, label), count, &r,
                    nullptr, how.early);
}

Status Player::barrier(Comm& c) {
  if (c.comm == nullptr) return Status::kOk;
  return replicated(c, OpKind::kBarrier, -1, Buffer(), 0, nullptr, nullptr, false);
}

Status Player::bcast(Comm& c, std::uint32_t root, std::size_t count, How how) {
  if (c.comm == nullptr) return Status::kOk;
  const Buffer in = c.me == root ? contribution(c, count, true) : Buffer();
  return replicated(c, OpKind::kBcast, static_cast<int>(root), in, count, nullptr, nullptr,
                    how.early && c.me != root);
}

Status Player::allgather(Comm& c, std::size_t count, How how) {
  if (c.comm == nullptr) return Status::kOk;
  return replicated(c, OpKind::kAllgather, -1, contribution(c, count, true), count * c.size(),
                    nullptr, nullptr, how.early);
}

Status Player::allgatherv(Comm& c, std::size_t count, How how) {
  if (c.comm == nullptr) return Status::kOk;
  auto* blocks = static_cast<std::size_t*>(allocate((c.size() + 1) * sizeof(std::size_t)));
  blocks[0] = 0;
  for (std::uint32_t i = 0; i < c.size(); ++i) {
    blocks[i + 1] = blocks[i] + (i % 3 == 1 ? 0 : count + i) * sizeof(Element);
  }
  const std::size_t mine = (blocks[c.me + 1] - blocks[c.me]) / sizeof(Element);
  return replicated(c, OpKind::kAllgatherv, -1, contribution(c, mine, true),
                    blocks[c.size()] / sizeof(Element), nullptr, blocks, how.early);
}

}  // namespace rejoin::sim
