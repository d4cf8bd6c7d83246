// The checkpoints of a player: its models, load and checkpoint.
#include <cstring>

#include "journal/contexts.h"
#include "player.h"

namespace rejoin::sim {

using recovery::OpKind;
using recovery::Status;

namespace {

constexpr std::uint64_t kCheckpointSite = 0x7000;

// The models. Global := GlobalHead noise; Local := LocalHead sent[ranks] received[ranks]
// Count[kMaxCounts] noise.
struct GlobalHead {
  std::uint64_t version;
  std::uint64_t common;
};
struct LocalHead {
  std::uint64_t version;
  std::uint64_t state;
  std::uint64_t operations;
  std::uint64_t questions;
};

// Models of different sizes, whose memory is reused.
std::size_t noise_of(std::uint64_t v) { return 16 + v % 3 * 24; }

}  // namespace

void Player::write_models(std::uint64_t v, Buffer* global, Buffer* local) {
  const std::size_t words = ranks() * sizeof(std::uint64_t);
  const std::size_t counts = kMaxCounts * sizeof(Count);
  const std::size_t noise = noise_of(v) + v * growth_;
  *global = buffer(sizeof(GlobalHead) / sizeof(Element) + noise);
  *local = buffer((sizeof(LocalHead) + words + counts) / sizeof(Element) + 1 + noise);
  for (std::size_t i = 0; i < global->count; ++i) {
    global->data[i] = {0, 0, static_cast<std::uint32_t>(journal::mix(common_ + v + i))};
  }
  for (std::size_t i = 0; i < local->count; ++i) {
    local->data[i] = {0, 0, static_cast<std::uint32_t>(journal::mix(state_ + i))};
  }
  const GlobalHead head = {v, common_};
  std::memcpy(static_cast<void*>(global->data), &head, sizeof head);
  const LocalHead mine = {v, state_, operations_, questions_};
  auto* to = reinterpret_cast<std::byte*>(local->data);
  std::memcpy(to, &mine, sizeof mine);
  std::memcpy(to += sizeof mine, sent_, words);
  std::memcpy(to + words, counts_, counts);
}

void Player::read_models() {
  const std::size_t words = ranks() * sizeof(std::uint64_t);
  GlobalHead head;
  LocalHead mine;
  std::memcpy(&head, loaded_.global, sizeof head);
  std::memcpy(&mine, loaded_.local, sizeof mine);
  common_ = head.common;
  state_ = mine.state;
  operations_ = mine.operations;
  questions_ = mine.questions;
  const std::byte* from = loaded_.local + sizeof mine;
  std::memcpy(sent_, from, words);
  std::memcpy(static_cast<void*>(restored_counts_), from + words, kMaxCounts * sizeof(Count));
  for (std::size_t i = 0; i < kMaxCounts; ++i) {
    restored_counts_[i].asked = 0;
    for (std::size_t k = 0; k < kMaxCounts; ++k) {
      const Count& then = restored_counts_[k];
      if (then.context != 0 && then.context == counts_[i].context)
        counts_[i] = {then.context, then.next, then.number, then.bootstrap, 0};
    }
  }
}

std::uint64_t Player::load() {
  Oracle& oracle = job_.oracle();
  const std::uint64_t committed = oracle.committed();
  rank_.host().about_to(SimHost::Doing::kLoading);
  const Status s = rank_.load(&loaded_);
  rank_.host().about_to(SimHost::Doing::kNothing);
  if (s != Status::kOk) job_.fail_if(rank_.last_error());
  job_.simulation().note(rank_.host(), "loads version", loaded_.version, 0);
  job_.fail_if(oracle.loaded(rank(), committed, loaded_));
  bootstrap_state_ = journal::mix(state_ + 5);
  in_bootstrap_phase_ = true;
  restored_ = loaded_.version != 0;
  for (std::size_t i = 0; i < kMaxCounts; ++i) counts_[i].bootstrap = counts_[i].number;
  if (!restored_) return 0;
  job_.hit(Probe::kRestored);
  loaded_hash_ = hash_of_bytes(loaded_.global, loaded_.global_bytes) +
                 hash_of_bytes(loaded_.local, loaded_.local_bytes);
  read_models();
  return loaded_.version;
}

// What load() returned is valid until the second checkpoint from there.
void Player::check_loaded() {
  if (!restored_ || rank_.version() > loaded_.version + 1) return;
  const std::uint64_t now = hash_of_bytes(loaded_.global, loaded_.global_bytes) +
                            hash_of_bytes(loaded_.local, loaded_.local_bytes);
  if (now != loaded_hash_) job_.fail_if("checkpoints: a model that was loaded changes too early");
}

Status Player::checkpoint(Comm& world) { return checkpoint(world, 0); }

void Player::checkpoint_lazily(Comm& world, std::uint64_t every) {
  const std::uint64_t v = rank_.version() + 1;
  if (rank_.is_written(v)) {
    checkpoint(world, v - v % every + every);
    return;
  }
  job_.simulation().note(rank_.host(), "passes checkpoint", v, 0);
  job_.fail_if(job_.oracle().comes_to(rank(), v, journal::mix(state() + operations_)));
  recovery::Call at = call(world, OpKind::kCheckpoint, 0, -1);
  at.site = reinterpret_cast<const void*>(kCheckpointSite);
  rank_.pass_checkpoint(*world.comm, at);
}

// next: 0, or the checkpoint is a lazy one and `next` is the next version to be written.
Status Player::checkpoint(Comm& world, std::uint64_t next) {
  Oracle& oracle = job_.oracle();
  const std::uint64_t v = rank_.version() + 1;
  in_bootstrap_phase_ = false;
  check_loaded();
  Buffer global, local;
  write_models(v, &global, &local);
  if (oracle.prepared(rank()) >= v) job_.hit(Probe::kPreparedBefore);
  job_.fail_if(oracle.saves(
      rank(), v, journal::mix(state() + operations_),
      {hash_of_bytes(global.data, global.bytes()), hash_of_bytes(local.data, local.bytes())},
      counts_, kMaxCounts));
  job_.simulation().note(rank_.host(), "makes checkpoint", v, 0);
  recovery::Models m;
  m.compared = next == 0;
  if (rank() == 0) m.next = next != 0 ? next : v + 1 + v % 2;  // with lazy checkpoints
  if (m.compared || rank() == 0) {
    m.global = global.data;
    m.global_bytes = global.bytes();
  }
  m.local = local.data;
  m.local_bytes = local.bytes();
  recovery::Call at = call(world, OpKind::kCheckpoint, 0, -1);
  at.site = reinterpret_cast<const void*>(kCheckpointSite);
  rank_.host().about_to(SimHost::Doing::kCheckpointing);
  const Status s = rank_.checkpoint(*world.comm, at, m);
  rank_.host().about_to(SimHost::Doing::kNothing);
  if (s != Status::kOk) {
    if (job_.world().disagreement == Disagreement::kNone) job_.fail_if(rank_.last_error());
    job_.hit(Probe::kToldAtCheckpoint);
    used_ = kKeptBytes;
    return s;
  }
  std::memset(static_cast<void*>(global.data), 0xa5, global.bytes());
  std::memset(static_cast<void*>(local.data), 0x5a, local.bytes());
  job_.fail_if(oracle.saved(rank(), v));
  used_ = kKeptBytes;
  return s;
}

}  // namespace rejoin::sim
