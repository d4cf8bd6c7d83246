// Programs that load and make checkpoints in jobs that could have images: the kind of recovery
// points (images or versions) is decided early or late, by an image or by the first checkpoint.
#include <initializer_list>

#include "player.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

using Comm = Player::Comm;

constexpr std::uint64_t kWrapper = 0x9000;  // the call site of calls through one function

// The set-up is not marked, and is done on first use, through the function that the iterations use;
// the root and the others call from two places. Only with images can it not be confused with the
// iterations.
void unmarked(Player& p) {
  Comm all = p.everyone();
  p.allreduce(all, 1);
  const std::uint64_t from = p.load();
  p.end_bootstrap_phase();
  for (std::uint64_t v = from; v < 4; ++v) {
    p.call_through(kWrapper);
    if (v == from) p.allreduce(all, 2);
    p.call_through(p.rank() == v % 3 ? 0x9100 : 0x9200);
    p.bcast(all, static_cast<std::uint32_t>(v % 3), 6);
    p.call_through(kWrapper);
    p.allreduce(all, 2);
    p.checkpoint(all);
  }
  p.call_through(0);
  p.allreduce(all, 3);
}

// The operations that every incarnation repeats are marked, which is right in a job of either kind.
// There are many operations before the load, and enough after it for zones to be reused.
void marked(Player& p) {
  Comm all = p.everyone(), pair = p.comm({0, 2});
  for (std::uint32_t i = 0; i < 4; ++i) p.bcast(all, i % 3, 300);
  p.message(pair, 0, 1, 200);
  const std::uint64_t from = p.load();
  p.allreduce(all, 40);
  p.bcast(all, 1, 200);
  p.end_bootstrap_phase();
  for (std::uint64_t v = from; v < 5; ++v) {
    p.allreduce(all, 5 + v);
    for (std::uint32_t i = 0; i < 4; ++i) p.bcast(all, i % 3, 300);
    p.message(pair, v % 2, 1 - v % 2, 150);
    p.checkpoint(all);
  }
}

// Small enough for every pair of deaths.
void brief(Player& p) {
  Comm all = p.everyone();
  const std::uint64_t from = p.load();
  p.allreduce(all, 1);
  p.end_bootstrap_phase();
  for (std::uint64_t v = from; v < 2; ++v) {
    p.bcast(all, static_cast<std::uint32_t>(v % 2), 3);
    p.checkpoint(all);
  }
  p.allreduce(all, 1);
}

// Requests are open when checkpoints are made, and communicators outlive them. One rank waits for a
// request before a checkpoint, and the other one has to advance it inside the checkpoint.
void untidy(Player& p) {
  Comm all = p.everyone();
  const std::uint64_t from = p.load();
  p.end_bootstrap_phase();
  Comm* late = nullptr;
  Comm pairs[4];
  for (std::uint64_t v = from; v < 4; ++v) {
    Player::Pending in, sum;
    pairs[v] = p.comm({0, 1}, 20 + v);
    p.begin_allreduce(all, &sum, 3);
    if (p.rank() == 0) p.irecv(all, &in, 1, 3);
    if (p.rank() == 1) p.ssend(all, 0, 3, 5);
    if (p.rank() == 1 && v % 2 == 1) p.wait(&sum);
    p.checkpoint(all);
    if (p.rank() == 0) p.wait(&in);
    if (p.rank() == 0 || v % 2 == 0) p.wait(&sum);
    p.allreduce(pairs[v], 3);
    if (late != nullptr) p.bcast(*late, 0, 4);
    if (late != nullptr) p.free(*late);
    late = &pairs[v];
  }
  p.allreduce(*late, 1);
}

// Checkpoints are frequent enough for versions to overtake the writer of files.
void written(Player& p) {
  Comm all = p.everyone();
  const std::uint64_t from = p.load();
  p.end_bootstrap_phase();
  for (std::uint64_t v = from; v < 24; ++v) {
    if (v % 4 == 0) p.allreduce(all, 2);
    p.bcast(all, v % 2, 40);
    p.checkpoint(all);
  }
}

// The program has no load.
void counted(Player& p) {
  Comm all = p.everyone();
  for (std::uint64_t v = 0; v < 4; ++v) {
    p.allreduce(all, 2);
    p.bcast(all, static_cast<std::uint32_t>(v % 3), 30);
    p.checkpoint(all);
  }
  p.allreduce(all, 1);
}

}  // namespace

std::vector<World> recovery_point_worlds() {
  std::vector<World> worlds;
  const auto add = [&worlds](const char* name, std::uint32_t ranks, std::uint64_t every,
                             std::uint64_t unfrozen, void (*body)(Player&),
                             std::initializer_list<Probe> must_reach) {
    World w{name, ranks, body};
    w.snapshot_every_turns = every;
    w.unfrozen = unfrozen;
    w.must_reach = {Probe::kReplayed, Probe::kHalfWritten};
    for (const Probe probe : must_reach) w.must_reach.push_back(probe);
    w.checkpoints = true;
    worlds.push_back(w);
  };
  // The first checkpoint decides for images, or an image that exists before it does.
  add("points-late", 3, 700, 0, unmarked, {Probe::kImagesByCheckpoint});
  add("points-early", 3, 40, 0, unmarked, {Probe::kImagesFirst, Probe::kWoken});
  add("points-images", 3, 120, 0, marked, {Probe::kWoken, Probe::kImagesFirst});
  add("points-brief", 2, 60, 0, brief, {Probe::kImagesByCheckpoint, Probe::kImagesFirst});
  add("points-lazy", 3, 150, 0, make_lazy_checkpoints, {Probe::kWoken, Probe::kImagesByCheckpoint});
  add("points-untidy", 2, 90, 0, untidy, {Probe::kWoken, Probe::kImagesByCheckpoint});
  add("points-written", 2, 90, 0, written, {Probe::kWoken, Probe::kVersionInFile});
  worlds.back().writes_versions = true;
  // No image exists in time: a rank that dies begins at main.
  add("points-main", 3, 1 << 20, 0, marked, {Probe::kImagesByCheckpoint});
  add("points-counted", 3, 120, 0, counted, {Probe::kWoken});
  // No image of rank 1 is possible, so the decision is for versions, unless an image of another
  // rank exists before.
  add("points-versions", 3, 2000, 2, marked, {Probe::kVersionsDecided, Probe::kRestored});
  add("points-either", 3, 800, 2, marked,
      {Probe::kVersionsDecided, Probe::kImagesFirst, Probe::kRestored, Probe::kWoken});
  add("points-brief-either", 2, 50, 2, brief, {Probe::kVersionsDecided, Probe::kImagesFirst});
  add("points-lazy-either", 3, 70, 2, make_lazy_checkpoints,
      {Probe::kVersionsDecided, Probe::kImagesFirst});
  // No process could begin at the first checkpoint either, so the decision is for images.
  add("points-neither", 2, 200, 2, untidy, {Probe::kImagesByCheckpoint});
  add("points-counted-neither", 3, 300, 2, counted, {Probe::kImagesByCheckpoint});
  return worlds;
}

}  // namespace rejoin::sim
