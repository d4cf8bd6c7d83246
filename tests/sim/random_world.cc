#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <utility>

#include "engine/transport/sim/random.h"
#include "player.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

using engine::SimRandom;

enum class Kind : std::uint8_t {
  kAllreduce,
  kBarrier,
  kBcast,
  kAllgather,
  kAllgatherv,
  kReduce,
  kGather,
  kScatter,
  kAlltoall,
  kScan,
  kExscan,
  kMessage,
  kSend,     // a message from a to b, received at once
  kPost,     // a message from a to b, received some lines later; both requests are outstanding
  kCollect,  // a message from every rank to a, which receives them from any source
  kRemake,   // the communicator is freed, and created again with another id
  kBegin,    // a nonblocking Allreduce, completed some lines later; this kind and the next only in
             // swarms
  kAsk,      // a message from a to b, which tests for it a few times before it goes on
  kCount,
};
constexpr const char* kKindNames[] = {"allreduce", "barrier", "bcast",   "allgather", "allgatherv",
                                      "reduce",    "gather",  "scatter", "alltoall",  "scan",
                                      "exscan",    "message", "send",    "post",      "collect",
                                      "remake",    "begin",   "ask"};
static_assert(std::size(kKindNames) == static_cast<std::size_t>(Kind::kCount));
constexpr std::uint32_t bit(Kind kind) { return 1u << static_cast<unsigned>(kind); }
constexpr std::uint32_t kAlways = bit(Kind::kBegin) - 1;  // the kinds of random:RANKS:SEED

struct Line {
  Kind kind;
  std::uint32_t group;
  std::uint32_t a, b;  // members
  std::size_t count;
  How how;
};

// With checkpoints, lines[0..bootstrap) come before the load, each incarnation executes the lines
// up to `iterations` again, and of the other lines `per_version` come before each checkpoint, and
// the last lines after all of them.
struct Program {
  std::vector<std::vector<std::uint32_t>> groups;
  std::vector<Line> lines;
  bool checkpoints = false;
  bool unordered = false;
  std::size_t bootstrap = 0, iterations = 0;
  // The groups from this one on are created in the bootstrap phase instead of before it.
  std::size_t late_groups = 0;
  std::size_t versions = 0, per_version = 0;
  std::uint64_t lazily = 0;   // one checkpoint in this many is written; 0: all are written
  std::uint64_t wrapper = 0;  // the call site of the bootstrap phase
  std::size_t marked = 0;  // one in this many operations of the bootstrap phase has a key; 0: none
};

// The requests of the last few lines that had some.
struct Outstanding {
  static constexpr std::size_t kMost = 3;
  Player::Pending slot[kMost];
  std::size_t used = 0;

  Player::Pending& next(Player& p) {
    Player::Pending& free = slot[used++ % kMost];
    p.wait(&free);
    return free;
  }
  void wait_all(Player& p) {
    for (std::size_t i = 0; i < kMost; ++i) p.wait(&slot[(used + i) % kMost]);
  }
};

constexpr std::size_t kGroups = 6;  // the maximum; fixed, because a player owns no memory

std::vector<std::uint32_t> random_group(std::uint32_t ranks, SimRandom& random) {
  std::vector<std::uint32_t> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  for (std::uint32_t i = ranks; i > 1; --i) std::swap(all[i - 1], all[random.below(i)]);
  const std::uint32_t most = std::min<std::uint32_t>(ranks, random.one_in(3) ? ranks : 6);
  all.resize(1 + random.below(most));
  return all;
}

std::size_t random_count(std::uint32_t members, bool small, SimRandom& random) {
  switch (random.below(small ? 6 : 9)) {
    case 0:
      return 1;
    case 1:
      return random.below(5);
    case 2:
      return 5 + random.below(40);
    case 3:
      return 1;
    case 4:
      return 4;
    case 5:
      return members > 12 ? 5 : 2100 / members + random.below(60);
    case 6:
      return members > 32 ? 3 : 300 + random.below(3000);
    case 7:
      return members > 8 || !random.one_in(4) ? 0 : 33000 + random.below(40000);
    default:
      return 2 + random.below(30);
  }
}

// kinds: the kinds that the program may have, one bit each.
Program random_program(std::uint32_t ranks, std::uint64_t seed, bool small,
                       std::uint32_t kinds = kAlways) {
  SimRandom random(seed * 0x5851f42d4c957f2d + ranks);
  Program program;
  program.groups.emplace_back(ranks);
  std::iota(program.groups[0].begin(), program.groups[0].end(), 0);
  const std::size_t groups = 1 + random.below(small ? 3 : kGroups);
  while (program.groups.size() < groups) program.groups.push_back(random_group(ranks, random));
  const std::uint32_t lines = small ? 2 + random.below(4) : 5 + random.below(ranks > 16 ? 10 : 30);
  while (program.lines.size() < lines) {
    Line l = {};
    const Kind end = kinds == kAlways ? Kind::kBegin : Kind::kCount;
    l.kind = static_cast<Kind>(random.below(static_cast<unsigned>(end)));
    if (random.one_in(3)) l.kind = Kind::kAllreduce;
    if ((kinds & bit(l.kind)) == 0) continue;
    l.group = random.below(groups);
    const auto members = static_cast<std::uint32_t>(program.groups[l.group].size());
    if (l.kind == Kind::kMessage && members == 1) continue;
    program.unordered |= l.kind == Kind::kCollect || l.kind == Kind::kAsk;
    // Too many messages for what it would test.
    if (l.kind == Kind::kAlltoall && members > 64) continue;
    l.a = random.below(members);
    l.b = members > 1 ? (l.a + 1 + random.below(members - 1)) % members : 0;
    l.count = random_count(members, small, random);
    // A block for every rank takes n times the room.
    if (l.kind != Kind::kAllreduce && l.kind != Kind::kBcast && l.count > 5000)
      l.count = 5000 / members;
    const bool in_pieces = l.kind == Kind::kSend || l.kind == Kind::kPost;
    if (in_pieces && random.one_in(6)) l.count = 9000 + random.below(9000);
    if (l.kind == Kind::kBegin) l.count = std::min<std::size_t>(l.count, 300);
    l.how = {random.one_in(4), random.one_in(3)};
    program.lines.push_back(l);
  }
  return program;
}

void add_checkpoints(Program& program, SimRandom& random, bool small) {
  const std::size_t lines = program.lines.size();
  program.checkpoints = true;
  program.bootstrap = random.below(lines / 3 + 1);
  program.iterations = program.bootstrap + random.below(lines / 3 + 1);
  program.late_groups = 1 + random.below(program.groups.size());
  program.per_version = random.below(small ? 3 : 5);
  program.versions = 1 + random.below(small ? 3 : 6);
  if (random.one_in(3)) program.lazily = 2 + random.below(3);
  if (random.one_in(3)) program.wrapper = 0x9000;
  if (random.one_in(3)) program.marked = 1 + random.below(3);
}

bool is_replicated(Kind k) { return k <= Kind::kAllgatherv; }

// There are few tags, so that order matters; receives from any source use other tags.
constexpr int kTags = 2, kCollected = 7;

void send_and_receive(Player& p, Player::Comm& c, const Line& l) {
  const int tag = static_cast<int>(l.count % kTags);
  const bool synchronous = !l.how.user && l.a != l.b;
  if (c.me == l.a) synchronous ? p.ssend(c, l.b, tag, l.count) : p.send(c, l.b, tag, l.count);
  if (c.me == l.b) p.recv(c, static_cast<int>(l.a), tag);
}

void post(Player& p, Player::Comm& c, const Line& l, Outstanding* open) {
  const int tag = static_cast<int>(l.count % kTags);
  if (c.me == l.b) p.irecv(c, &open->next(p), static_cast<int>(l.a), tag);
  if (c.me == l.a) p.isend(c, &open->next(p), l.b, tag, l.count, !l.how.early);
}

void ask(Player& p, Player::Comm& c, const Line& l, Outstanding* open) {
  const int tag = static_cast<int>(l.count % kTags);
  if (c.me == l.b) {
    Player::Pending& in = open->next(p);
    p.irecv(c, &in, static_cast<int>(l.a), tag);
    for (int i = 0; i < 4 && !p.test(&in); ++i) {
    }
  }
  if (c.me == l.a) p.send(c, l.b, tag, l.count);
}

void collect(Player& p, Player::Comm& c, const Line& l) {
  p.send(c, l.a, kCollected, l.count);
  for (std::uint32_t i = 0; c.me == l.a && i < c.size(); ++i) p.recv(c, -1, kCollected);
}

void play(Player& p, Player::Comm& c, const Line& l, Outstanding* open) {
  if (c.comm == nullptr) return;
  switch (l.kind) {
    case Kind::kAllreduce:
      p.allreduce(c, l.count, l.how);
      break;
    case Kind::kBarrier:
      p.barrier(c);
      break;
    case Kind::kBcast:
      p.bcast(c, l.a, l.count, {false, l.how.early});
      break;
    case Kind::kAllgather:
      p.allgather(c, l.count, {false, l.how.early});
      break;
    case Kind::kAllgatherv:
      p.allgatherv(c, l.count, {false, l.how.early});
      break;
    case Kind::kReduce:
      p.reduce(c, l.a, l.count);
      break;
    case Kind::kGather:
      p.gather(c, l.a, l.count);
      break;
    case Kind::kScatter:
      p.scatter(c, l.a, l.count);
      break;
    case Kind::kAlltoall:
      p.alltoall(c, l.count);
      break;
    case Kind::kScan:
      p.scan(c, l.count);
      break;
    case Kind::kExscan:
      p.exscan(c, l.count);
      break;
    case Kind::kMessage:
      p.message(c, l.a, l.b, l.count);
      break;
    case Kind::kSend:
      send_and_receive(p, c, l);
      break;
    case Kind::kPost:
      post(p, c, l, open);
      break;
    case Kind::kCollect:
      collect(p, c, l);
      break;
    case Kind::kBegin:
      p.begin_allreduce(c, &open->next(p), l.count);
      break;
    case Kind::kAsk:
      ask(p, c, l, open);
      break;
    case Kind::kRemake:
    case Kind::kCount:
      break;
  }
}

void play_all(Player& p, const Program& program) {
  Player::Comm comms[kGroups];
  const auto make = [&](std::size_t g, std::uint64_t id) {
    const auto& members = program.groups[g];
    comms[g] = p.comm(members.data(), static_cast<std::uint32_t>(members.size()), id);
  };
  Outstanding open;
  for (std::size_t g = 0; g < program.groups.size(); ++g) make(g, g);
  for (std::size_t i = 0; i < program.lines.size(); ++i) {
    const Line& l = program.lines[i];
    if (l.kind == Kind::kRemake) {
      open.wait_all(p);
      p.free(comms[l.group]);
      make(l.group, 100 + i);
    } else {
      play(p, comms[l.group], l, &open);
    }
  }
  open.wait_all(p);
}

// Like play_all(), but a communicator that is recreated exists only briefly, and lines before the
// load skip communicators that do not exist yet.
void play_checkpoints(Player& p, const Program& program) {
  Player::Comm comms[kGroups];
  Outstanding open;  // at a checkpoint no request may be outstanding
  const auto make = [&](std::size_t g, std::uint64_t id) {
    const auto& members = program.groups[g];
    return p.comm(members.data(), static_cast<std::uint32_t>(members.size()), id);
  };
  const auto run = [&](std::size_t i, std::size_t groups, std::uint64_t id) {
    const Line& l = program.lines[i];
    const bool there = l.group < groups;
    if (l.kind == Kind::kRemake) {
      Player::Comm brief = make(l.group, id);
      p.allreduce(brief, l.count);
      p.free(brief);
    } else if (there) {
      play(p, comms[l.group], l, &open);
    }
  };
  for (std::size_t g = 0; g < program.late_groups; ++g) comms[g] = make(g, g);
  for (std::size_t i = 0; i < program.bootstrap; ++i) run(i, program.late_groups, 100 + i);
  open.wait_all(p);
  const std::uint64_t from = p.load();
  const std::size_t groups = program.groups.size();
  for (std::size_t g = program.late_groups; g < groups; ++g) comms[g] = make(g, g);
  p.call_through(program.wrapper);
  const auto can_be_marked = [&](std::size_t i) {
    return is_replicated(program.lines[i].kind) || program.lines[i].kind == Kind::kRemake;
  };
  for (std::size_t i = program.bootstrap; i < program.iterations; ++i) {
    if (!can_be_marked(i)) continue;
    const Line& l = program.lines[i];
    const bool key = program.marked != 0 && i % program.marked == 0 && is_replicated(l.kind) &&
                     comms[l.group].comm != nullptr;
    if (key) p.mark(i % 2 == 0 ? 0 : 1000 + i);
    run(i, groups, 100 + i);
  }
  p.end_bootstrap_phase();
  p.call_through(0);
  // Operations whose members get different bytes cannot be marked: only the first incarnations
  // execute
  // them.
  for (std::size_t i = program.bootstrap; from == 0 && i < program.iterations; ++i) {
    if (!can_be_marked(i)) run(i, groups, 100 + i);
  }
  const std::size_t rest = program.lines.size() - program.iterations;
  for (std::uint64_t v = from; v < program.versions; ++v) {
    for (std::size_t k = 0; k < program.per_version && rest > 0; ++k) {
      run(program.iterations + (v * program.per_version + k) % rest, groups, 1000 + v * 100 + k);
    }
    open.wait_all(p);
    if (program.lazily != 0) {
      p.checkpoint_lazily(comms[0], program.lazily);
    } else {
      p.checkpoint(comms[0]);
    }
  }
  for (std::size_t i = program.iterations; i < program.lines.size(); ++i) run(i, groups, 90000 + i);
  open.wait_all(p);
}

World world_of(std::uint32_t ranks, Program&& drawn) {
  const auto program = std::make_shared<const Program>(std::move(drawn));
  World world;
  world.checkpoints = program->checkpoints;
  world.ranks = ranks;
  world.unordered = program->unordered;
  world.body = [program](Player& p) {
    program->checkpoints ? play_checkpoints(p, *program) : play_all(p, *program);
  };
  return world;
}

}  // namespace

World random_world(std::uint32_t ranks, std::uint64_t seed, bool small) {
  Program drawn = random_program(ranks, seed, small);
  SimRandom random(seed * 0x9e3779b97f4a7c15u + 77);
  if (random.one_in(3)) add_checkpoints(drawn, random, small);
  World world = world_of(ranks, std::move(drawn));
  world.name = (small ? "small:" : "random:") + std::to_string(ranks) + ":" + std::to_string(seed);
  if (seed % 2 == 1) world.ahead_bytes = 0;  // senders have to wait
  world.nodes = 1 + static_cast<std::uint32_t>(seed % 3);
  world.apart = seed % 4 >= 2;
  return world;
}

// Leaving out most kinds reaches states in which the remaining kinds meet more often.
World swarm_world(std::uint64_t seed) {
  constexpr std::uint64_t kPeriods[] = {30, 100, 300, 1000};
  constexpr std::size_t kAhead[] = {0, 64, 4 << 20};
  SimRandom random(seed * 0xbf58476d1ce4e5b9u + 11);
  std::uint32_t kinds = 0;
  for (unsigned k = 0; k < std::size(kKindNames); ++k) kinds |= random.below(2) << k;
  // A program of only these kinds could fail to terminate.
  if ((kinds & ~(bit(Kind::kMessage) | bit(Kind::kAlltoall))) == 0) kinds |= bit(Kind::kAllreduce);
  const std::uint32_t ranks = random.one_in(8) ? 8 + random.below(9) : 2 + random.below(5);
  Program drawn = random_program(ranks, seed, false, kinds);
  if (random.one_in(3)) add_checkpoints(drawn, random, false);
  World world = world_of(ranks, std::move(drawn));
  world.name = "swarm:" + std::to_string(seed);
  world.untagged = (kinds & bit(Kind::kBegin)) != 0;
  world.ahead_bytes = kAhead[random.below(std::size(kAhead))];
  world.nodes = 1 + random.below(3);
  std::string says = std::to_string(ranks) + " ranks on " + std::to_string(world.nodes) + " nodes,";
  for (unsigned k = 0; k < std::size(kKindNames); ++k) {
    if ((kinds >> k & 1) != 0) says += std::string(" ") + kKindNames[k];
  }
  if (world.checkpoints) says += ", checkpoints";
  if (random.one_in(2)) {
    world.snapshot_every_turns = kPeriods[random.below(std::size(kPeriods))];
    says += ", images every " + std::to_string(world.snapshot_every_turns) + " turns";
    if (random.one_in(4)) world.unfrozen = std::uint64_t{1} << random.below(ranks);
    if (world.unfrozen != 0) says += ", but of one rank";
    if (random.one_in(3)) world.journal_limit_bytes = 1 << 20;
    if (world.journal_limit_bytes != 0) says += ", a journal of 1 MiB";
  }
  world.apart = random.one_in(2);
  if (world.apart) says += ", nodes apart";
  world.says = says + ", " + std::to_string(world.ahead_bytes) + " bytes ahead";
  return world;
}

}  // namespace rejoin::sim
