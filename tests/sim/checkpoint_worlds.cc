// Programs that load, set up, iterate and make checkpoints.
#include <initializer_list>
#include <utility>

#include "player.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

using Comm = Player::Comm;

constexpr std::uint64_t kWrapper = 0x9000;  // the call site of calls through one function

const std::vector<Probe> kRestores = {Probe::kReplayed, Probe::kRestored, Probe::kSlept,
                                      Probe::kRung, Probe::kHalfWritten};

std::vector<Probe> with(std::vector<Probe> probes, std::initializer_list<Probe> more) {
  probes.insert(probes.end(), more);
  return probes;
}

// Runs the iterations `from` to `to`, with a checkpoint after each.
template <class Iteration>
void iterate(Player& p, Comm& all, std::uint64_t from, std::uint64_t to, Iteration&& iteration) {
  p.end_bootstrap_phase();
  for (std::uint64_t v = from; v < to; ++v) {
    iteration(v);
    p.checkpoint(all);
  }
}

void three(Player& p) {
  Comm all = p.everyone();
  p.allreduce(all, 1);
  p.bcast(all, 1, 4);
  iterate(p, all, p.load(), 3, [&](std::uint64_t v) {
    p.allreduce(all, 5 + v);
    p.bcast(all, static_cast<std::uint32_t>(v % 3), 6);
  });
  p.allreduce(all, 2);
}

void two(Player& p) {
  Comm all = p.everyone();
  p.bcast(all, 0, 3);
  iterate(p, all, p.load(), 5, [&](std::uint64_t) { p.allreduce(all, 5); });
}

// There is mostly no operation between one checkpoint and the next.
void bare(Player& p) {
  Comm all = p.everyone();
  iterate(p, all, p.load(), 5, [&](std::uint64_t v) {
    if (v == 2) p.allgather(all, 2);
  });
}

// The case of rabit: a rank replays operations before it is live.
void bootstrap(Player& p) {
  Comm all = p.everyone();
  p.allreduce(all, 1);
  const std::uint64_t from = p.load();
  p.allreduce(all, 1);
  p.call_through(kWrapper);
  for (const std::size_t count : {3, 1, 3}) p.allreduce(all, count);
  p.call_through(0);
  p.bcast(all, 2, 7);
  p.end_bootstrap_phase();
  if (from == 0) p.gather(all, 1, 2);
  iterate(p, all, from, 3, [&](std::uint64_t v) { p.allreduce(all, 1 + v); });
}

// One function makes the calls of the bootstrap phase and of the iterations.
void wrapper(Player& p) {
  Comm all = p.everyone();
  const std::uint64_t from = p.load();
  p.call_through(kWrapper);
  p.mark(17);
  p.allreduce(all, 1);
  p.end_bootstrap_phase();
  if (from == 0) p.allreduce(all, 1);
  iterate(p, all, from, 3, [&](std::uint64_t) {
    p.allreduce(all, 1);
    p.bcast(all, 0, 1);
  });
}

// The operations after the load in every incarnation are not marked, and the iterations call from
// other places.
void unproven_repeated(Player& p) {
  Comm all = p.everyone();
  const std::uint64_t from = p.load();
  p.end_bootstrap_phase();
  p.call_through(kWrapper);
  p.allreduce(all, 2);
  p.call_through(0x9100);
  for (std::uint64_t v = from; v < 4; ++v) {
    p.allreduce(all, 2);
    p.checkpoint(all);
  }
  p.call_through(0x9500);
  p.barrier(all);  // this barrier stands for MPI_Finalize
}

// A broadcast of the first iteration is repeated in a later one, where its root calls from another
// place.
void unproven_roles(Player& p) {
  Comm all = p.everyone();
  const std::uint64_t from = p.load();
  p.end_bootstrap_phase();
  for (std::uint64_t v = from; v < 4; ++v) {
    if (v % 3 == 0) {
      p.call_through(p.rank() != 0 ? kWrapper + 8 * p.rank() : v == 0 ? 0x9200 : 0x9300);
      p.bcast(all, 0, 3);
    }
    p.call_through(0x9400);
    p.allreduce(all, 2);
    p.checkpoint(all);
  }
  p.call_through(0x9500);
  p.barrier(all);  // this barrier stands for MPI_Finalize
}

void communicators(Player& p) {
  Comm all = p.everyone(), left = p.comm({0, 2});
  p.allreduce(left, 5);
  const std::uint64_t from = p.load();
  Comm right = p.comm({2, 1}), brief = p.comm({1, 0}, 8);
  p.allreduce(right, 2);
  p.bcast(brief, 1, 9);
  p.free(brief);
  iterate(p, all, from, 3, [&](std::uint64_t v) {
    Comm once = p.comm({1, 0}, 10 + v);
    p.allreduce(once, 3);
    p.free(once);
    p.message(left, 1, 0, 2);
    p.allreduce(right, 6);
  });
}

// The blocks of freed communicators are reused for others with as many members, and with fewer,
// which must find nothing in them.
void reclaimed(Player& p) {
  Comm all = p.everyone();
  iterate(p, all, p.load(), 7, [&](std::uint64_t v) {
    Comm once = p.comm({2, 0, 1}, 10 + v), pair = p.comm({1, 0}, 30 + v);
    p.allreduce(once, 1);
    p.allreduce(pair, 2);
    p.bcast(once, static_cast<std::uint32_t>(v % 3), 9);
    p.free(once);
    p.free(pair);
  });
}

// In some iterations no member uses the communicators of the bootstrap phase.
void seldom(Player& p) {
  Comm all = p.everyone();
  const std::uint64_t from = p.load();
  Comm pair = p.comm({1, 0});
  p.allreduce(pair, 2);
  p.end_bootstrap_phase();
  if (from == 0) p.gather(pair, 0, 1);
  iterate(p, all, from, 4, [&](std::uint64_t v) {
    p.allreduce(all, 1);
    if (v == 2) p.allreduce(pair, 3);
  });
}

void messages(Player& p) {
  Comm all = p.everyone(), pair = p.comm({2, 0});
  p.gather(all, 0, 1);
  const std::uint64_t from = p.load();
  p.end_bootstrap_phase();
  if (from == 0) p.scatter(all, 1, 2);
  iterate(p, all, from, 3, [&](std::uint64_t v) {
    p.alltoall(all, 1);
    p.message(pair, v % 2, 1 - v % 2, 4);
    p.reduce(all, 2, 3);
  });
}

// Members are at different operations when they make a checkpoint: roots and senders are past
// operations that others have not completed after it.
void crossing(Player& p) {
  Comm all = p.everyone(), pair = p.comm({0, 2});
  const std::uint64_t from = p.load();
  p.end_bootstrap_phase();
  const auto root = [](std::uint64_t v) { return static_cast<std::uint32_t>(v % 2); };
  const auto is_early = [&](std::uint64_t v) { return p.rank() == 2 * root(v); };
  const auto send = [&](std::uint64_t v) {
    p.bcast(pair, root(v), 12);
    p.message(pair, root(v), 1 - root(v), 6);
  };
  if (from > 0 && !is_early(from - 1)) send(from - 1);
  for (std::uint64_t v = from; v < 4; ++v) {
    p.allreduce(all, 3);
    if (is_early(v)) send(v);
    p.checkpoint(all);
    if (!is_early(v)) send(v);
  }
  p.allreduce(all, 2);
}

// Many records and messages follow a checkpoint, so logs wrap; and one member does not have those
// that were made just before it.
void wrapping(Player& p) {
  Comm all = p.everyone(), pair = p.comm({0, 2});
  const std::uint64_t from = p.load();
  p.end_bootstrap_phase();
  const auto behind = [&] {
    for (int i = 0; i < 3; ++i) p.bcast(pair, 0, 1);
    for (int i = 0; i < 3; ++i) p.message(pair, 0, 1, 4);
  };
  if (from > 0 && p.rank() == 2) behind();
  for (std::uint64_t v = from; v < 3; ++v) {
    for (int i = 0; i < (v == 2 ? 280 : 5); ++i) p.message(pair, 0, 1, 1);
    if (p.rank() == 0) behind();
    p.checkpoint(all);
    if (p.rank() == 2) behind();
  }
}

// Roots and senders have made the next checkpoint while others still receive what came before it.
void ahead(Player& p) {
  Comm all = p.everyone(), pair = p.comm({0, 2});
  iterate(p, all, p.load(), 4, [&](std::uint64_t v) {
    p.bcast(all, 0, 5 + v);
    p.bcast(all, 0, 12);
    p.message(pair, 0, 1, 6);
  });
  p.bcast(all, 0, 3);
}

void large(Player& p) {
  Comm all = p.everyone();
  iterate(p, all, p.load(), 4, [&](std::uint64_t v) {
    p.allreduce(all, 2100, {.early = v % 2 == 0});
    p.bcast(all, 1, 9000, {.early = v % 2 == 1});
  });
}

}  // namespace

void make_lazy_checkpoints(Player& p) {
  Comm all = p.everyone();
  const std::uint64_t from = p.load();
  p.end_bootstrap_phase();
  for (std::uint64_t v = from; v < 7; ++v) {
    p.allreduce(all, 1 + v);
    if (v % 2 == 0) p.message(all, 0, 1, 3);
    p.checkpoint_lazily(all, 3);
  }
  p.bcast(all, 2, 2);
}

std::vector<World> more_checkpoint_worlds() {
  World repeated = {"unproven-repeated", 3, unproven_repeated};
  World roles = {"unproven-roles", 3, unproven_roles};
  World wraps = {"wrapping", 3, wrapping};
  repeated.checkpoints = roles.checkpoints = wraps.checkpoints = true;
  return {repeated, roles, wraps};
}

std::vector<World> checkpoint_worlds() {
  const auto asked = with(kRestores, {Probe::kBootstrapReplay});
  std::vector<World> worlds;
  const auto add = [&](const char* name, std::uint32_t ranks, void (*body)(Player&),
                       std::vector<Probe> must_reach) {
    World w = {name, ranks, body};
    w.must_reach = std::move(must_reach);
    w.checkpoints = true;
    worlds.push_back(std::move(w));
  };
  add("checkpoints", 3, three, with(kRestores, {Probe::kPreparedBefore, Probe::kAdoptedEntering}));
  add("checkpoints-two", 2, two, with(kRestores, {Probe::kPreparedBefore}));
  add("checkpoints-bare", 3, bare, with(kRestores, {Probe::kPreparedBefore}));
  add("checkpoints-lazy", 3, make_lazy_checkpoints,
      with(kRestores, {Probe::kResent, Probe::kReceivedAgain}));
  add("checkpoints-bootstrap", 3, bootstrap, asked);
  add("checkpoints-wrapper", 3, wrapper, asked);
  add("checkpoints-communicators", 3, communicators, asked);
  add("checkpoints-reclaimed", 3, reclaimed, kRestores);
  add("checkpoints-seldom", 3, seldom, asked);
  add("checkpoints-messages", 3, messages,
      with(kRestores, {Probe::kResent, Probe::kReceivedAgain}));
  add("checkpoints-ahead", 3, ahead, kRestores);
  add("checkpoints-crossing", 3, crossing, kRestores);
  add("checkpoints-large", 2, large, kRestores);
  return worlds;
}

}  // namespace rejoin::sim
