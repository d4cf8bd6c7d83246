// Programs with several collectives outstanding at once.
#include "player.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

using Comm = Player::Comm;
using Pending = Player::Pending;

constexpr std::size_t kStaged = 40;    // too large for a slot
constexpr std::size_t kSliced = 2100;  // sliced, through one extent
constexpr int kPolls = 20;  // limit of a polling loop, which a scheduler might let run for ever

// Several collectives on one communicator and on another one, which odd ranks enter first;
// completed from the newest to the oldest.
void run_outstanding(Player& p) {
  Comm all = p.everyone(), other = p.everyone(1);
  Pending q[8];
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 2; ++k) {
      const bool first = (p.rank() + static_cast<std::uint32_t>(k)) % 2 == 0;
      Comm& c = first ? all : other;
      Pending* at = &q[2 * i + (first ? 0 : 1)];
      if (i == 0) p.begin_allreduce(c, at, kStaged);
      if (i == 1) p.begin_bcast(c, at, first ? 0 : 1, 1);
      if (i == 2) p.begin_allreduce(c, at, 1);
      if (i == 3) p.begin_barrier(c, at);
    }
  }
  for (int i = 8; i-- > 0;) p.wait(&q[i]);
  p.allreduce(all, 2);
}

// Two MPI_Iallreduce, completed out of order at one member only. A death may occur between
// beginning and waiting, where the member has other operations.
void run_out_of_order(Player& p) {
  Comm all = p.everyone(), pair = p.comm({0, 1}, 3);
  Pending first, second;
  p.begin_allreduce(all, &first, 1);
  p.begin_allreduce(all, &second, kStaged);
  p.allreduce(pair, 1);
  p.wait(p.rank() == 1 ? &second : &first);
  p.barrier(pair);
  p.wait(p.rank() == 1 ? &first : &second);
  p.bcast(all, 2, 1);
}

// A rank that waits for a message, or in a blocking collective, advances its other operations.
void run_progress(Player& p) {
  Comm all = p.everyone(), other = p.everyone(1);
  Pending q, r;
  p.begin_allreduce(all, &q, kStaged);
  if (p.rank() == 0) {
    p.recv(all, 1, 1);
  } else {
    p.wait(&q);
    if (p.rank() == 1) p.send(all, 0, 1, 1);
  }
  if (p.rank() == 0) p.wait(&q);
  p.begin_allgather(all, &q, 3);
  p.begin_bcast(all, &r, 1, 2);
  if (p.rank() == 2) p.wait(&r);
  p.barrier(other);
  if (p.rank() != 2) p.wait(&r);
  p.wait(&q);
}

// Collectives whose members get different bytes, between messages to the same ranks; the outcomes
// of tests of their requests are recorded.
void run_messages(Player& p) {
  Comm all = p.everyone();
  const std::uint32_t n = p.ranks(), next = (p.rank() + 1) % n;
  const int before = static_cast<int>((p.rank() + n - 1) % n);
  Pending q[4];
  p.begin_scan(all, &q[0], 2);
  p.test(&q[0]);
  p.send(all, next, 1, 1);
  p.begin_alltoall(all, &q[1], 1);
  p.irecv(all, &q[2], before, 1);
  p.begin_gather(all, &q[3], 1, 2);
  p.send(all, next, 2, 1);
  int indices[4];
  int left = q[0].kind == Pending::kNone ? 3 : 4;
  for (int i = 0; i < kPolls && left > 1; ++i) left -= p.test_some(q, 4, indices);
  for (; left > 0; --left) p.wait_any(q, 4);
  p.recv(all, before, 2);
  p.allreduce(all, 1);
}

// More operations than slots, each of several steps.
void run_queue(Player& p) {
  Comm all = p.everyone();
  Pending q[5];
  for (Pending& one : q) p.begin_allreduce(all, &one, &one == &q[2] ? kSliced : 3);
  for (int i : {3, 0, 4, 1, 2}) p.wait(&q[i]);
}

// Checkpoints between them.
void run_checkpoints(Player& p) {
  Comm all = p.everyone(), other = p.everyone(1);
  std::uint64_t v = p.load();
  p.end_bootstrap_phase();
  for (; v < 3; ++v) {
    Pending q, r;
    p.begin_allreduce(all, &q, kStaged);
    p.begin_allgather(other, &r, 2);
    p.wait(&r);
    p.wait(&q);
    p.checkpoint(all);
  }
}

// The journal is full, so no rank may die any more, and memory is reused as soon as all ranks have
// entered a later operation. Rank 1 cannot receive the broadcast before the gather is complete,
// which rank 2 enters last.
void run_limit(Player& p) {
  Comm all = p.everyone(), other = p.everyone(1);
  for (int i = 0; i < 40; ++i) {
    Pending gather, bcast;
    for (const bool now : {p.rank() != 2, p.rank() == 2}) {
      if (now) {
        p.begin_gather(other, &gather, 1, 2);
        p.begin_bcast(other, &bcast, 0, kSliced);
      }
      if (now == (p.rank() != 2)) {
        for (int k = 0; k < 4; ++k) p.allreduce(all, 20000);
      }
    }
    p.wait(&gather);
    p.wait(&bcast);
  }
}

// Each member waits for the other, and their contributions do not reveal it.
void run_disagree(Player& p) {
  Comm all = p.everyone();
  Pending q;
  p.begin_allreduce(all, &q, 1);
  p.wait(&q);
  p.begin_bcast(all, &q, 1 - p.rank(), 1);
  p.wait(&q);
}

// The disagreement is found while the operation before it is still open.
void run_unmatched(Player& p) {
  Comm all = p.everyone();
  Pending first, second;
  p.begin_gather(all, &first, 0, 1);
  if (p.rank() == 0) {
    p.begin_alltoall(all, &second, 1);
  } else {
    p.begin_gather(all, &second, 0, 1);
  }
  p.wait(&second);
  p.wait(&first);
}

}  // namespace

std::vector<World> nonblocking_worlds() {
  std::vector<World> worlds;
  const auto add = [&](const char* name, std::uint32_t ranks, void (*body)(Player&),
                       std::vector<Probe> must_reach = {Probe::kSlept, Probe::kRung}) {
    World w = {name, ranks, body};
    w.must_reach = std::move(must_reach);
    worlds.push_back(std::move(w));
    return &worlds.back();
  };
  add("outstanding", 3, run_outstanding);
  add("outstanding-two", 3, run_out_of_order);
  add("outstanding-progress", 3, run_progress);
  add("outstanding-messages", 3, run_messages)->unordered = true;
  add("outstanding-queue", 3, run_queue);
  add("outstanding-checkpoints", 2, run_checkpoints, {Probe::kRestored})->checkpoints = true;
  add("outstanding-limit", 3, run_limit, {})->journal_limit_bytes = 4 << 20;
  add("outstanding-disagree", 2, run_disagree, {Probe::kMismatch})->disagreement =
      Disagreement::kEverywhere;
  add("outstanding-unmatched", 3, run_unmatched, {Probe::kMismatch})->disagreement =
      Disagreement::kEverywhere;
  return worlds;
}

}  // namespace rejoin::sim
