#include <algorithm>
#include <memory>
#include <numeric>

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
  kRemake,  // the communicator is freed, and made again under another name
  kCount,
};

struct Line {
  Kind kind;
  std::uint32_t group;
  std::uint32_t a, b;  // members
  std::size_t count;
  How how;
};

struct Program {
  std::vector<std::vector<std::uint32_t>> groups;
  std::vector<Line> lines;
};

constexpr std::size_t kGroups = 6;  // at most; fixed, because a player owns no memory

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

Program random_program(std::uint32_t ranks, std::uint64_t seed, bool small) {
  SimRandom random(seed * 0x5851f42d4c957f2d + ranks);
  Program program;
  program.groups.emplace_back(ranks);
  std::iota(program.groups[0].begin(), program.groups[0].end(), 0);
  const std::size_t groups = 1 + random.below(small ? 3 : kGroups);
  while (program.groups.size() < groups) program.groups.push_back(random_group(ranks, random));
  const std::uint32_t lines = small ? 2 + random.below(4) : 5 + random.below(ranks > 16 ? 10 : 30);
  while (program.lines.size() < lines) {
    Line l = {};
    l.kind = static_cast<Kind>(random.below(static_cast<unsigned>(Kind::kCount)));
    if (random.one_in(3)) l.kind = Kind::kAllreduce;
    l.group = random.below(groups);
    const auto members = static_cast<std::uint32_t>(program.groups[l.group].size());
    if (l.kind == Kind::kMessage && members == 1) continue;
    if (l.kind == Kind::kAlltoall && members > 64) continue;  // too many messages to be worth it
    l.a = random.below(members);
    l.b = members > 1 ? (l.a + 1 + random.below(members - 1)) % members : 0;
    l.count = random_count(members, small, random);
    // A block for everybody takes n times the room.
    if (l.kind != Kind::kAllreduce && l.kind != Kind::kBcast && l.count > 5000)
      l.count = 5000 / members;
    l.how = {random.one_in(4), random.one_in(3)};
    program.lines.push_back(l);
  }
  return program;
}

void play(Player& p, Player::Comm& c, const Line& l) {
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
      p.allgather(c, l.count);
      break;
    case Kind::kAllgatherv:
      p.allgatherv(c, l.count);
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
  for (std::size_t g = 0; g < program.groups.size(); ++g) make(g, g);
  for (std::size_t i = 0; i < program.lines.size(); ++i) {
    const Line& l = program.lines[i];
    if (l.kind == Kind::kRemake) {
      p.free(comms[l.group]);
      make(l.group, 100 + i);
    } else {
      play(p, comms[l.group], l);
    }
  }
}

}  // namespace

World random_world(std::uint32_t ranks, std::uint64_t seed, bool small) {
  const auto program = std::make_shared<const Program>(random_program(ranks, seed, small));
  World world;
  world.name = (small ? "small:" : "random:") + std::to_string(ranks) + ":" + std::to_string(seed);
  world.ranks = ranks;
  world.body = [program](Player& p) { play_all(p, *program); };
  return world;
}

}  // namespace rejoin::sim
