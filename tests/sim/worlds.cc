#include "worlds.h"

#include <algorithm>
#include <cstdio>

#include "player.h"

namespace rejoin::sim {
namespace {

// Counts of elements (8 bytes) for each way to bring a contribution and a result.
constexpr std::size_t kInlineCount = 1;   // in the slot; the result in the record itself
constexpr std::size_t kSlotCount = 4;     // the most that a slot holds
constexpr std::size_t kStagedCount = 5;   // through staging, everybody reads all of it
constexpr std::size_t kSlicedCount = 2100;   // through one extent, from 2 ranks on
constexpr std::size_t kPipelinedCount = 66000;  // three chunks: staging halves are used again
constexpr std::size_t kPouredCount = 34000;     // a broadcast in three chunks

using Comm = Player::Comm;

std::vector<World> make_worlds() {
  std::vector<World> worlds;
  const auto add = [&worlds](World w) { worlds.push_back(std::move(w)); };

  add({"mix", 3, [](Player& p) {  // model: S1a
         Comm all = p.everyone(), left = p.comm({0, 2}), right = p.comm({2, 1});
         p.allreduce(all, kInlineCount);
         p.bcast(all, 0, kSlotCount);
         p.message(left, 0, 1, 3);
         p.message(right, 0, 1, 1);
         p.allreduce(all, kStagedCount);
       }});
  add({"two", 2, [](Player& p) {  // model: S1c
         Comm all = p.everyone();
         p.allreduce(all, kInlineCount);
         p.message(all, 0, 1, 2);
         p.bcast(all, 0, 3);
         p.message(all, 1, 0, 1);
         p.allreduce(all, kInlineCount);
         p.bcast(all, 1, 1);
       }});
  add({"broadcasts", 3, [](Player& p) {  // model: S1b, S9
         Comm all = p.everyone();
         p.bcast(all, 0, kInlineCount);
         p.bcast(all, 1, 40);
         p.bcast(all, 2, kSlotCount, {.early = true});
         p.bcast(all, 2, 0);
       }});
  // The root runs ahead: its slots are used again while others still read them.
  add({"ahead", 3, [](Player& p) {
         Comm all = p.everyone();
         p.allreduce(all, kStagedCount);
         p.bcast(all, 0, 1);
         p.bcast(all, 0, 6);
         p.bcast(all, 0, 1);
         p.allreduce(all, kSlotCount);
         p.allreduce(all, kStagedCount);
       }});
  add({"barriers", 3, [](Player& p) {
         Comm all = p.everyone();
         p.barrier(all);
         p.allgather(all, 1);
         p.barrier(all);
         p.allgather(all, 9);
         p.allgatherv(all, 2);
         p.allreduce(all, 0);
       }});
  // Two communicators share a rank's staging.
  add({"staging", 3, [](Player& p) {
         Comm all = p.everyone(), pair = p.comm({1, 0}), other = p.comm({1, 2});
         p.allreduce(all, kStagedCount);
         p.allreduce(pair, kStagedCount);
         p.allreduce(other, 30);
         p.allreduce(pair, 7);
         p.allgather(all, 17);
         p.allreduce(all, 6, {.user = true});
       }});
  add({"sliced", 3, [](Player& p) {  // model: S8
         Comm all = p.everyone();
         p.allreduce(all, kSlicedCount, {.early = true});
         p.allreduce(all, kInlineCount);
         p.allreduce(all, kSlicedCount + 3, {.user = true});
         p.allgather(all, kSlicedCount);
       }});
  add({"pipelined", 3, [](Player& p) {
         Comm all = p.everyone();
         p.allreduce(all, kPipelinedCount);
         p.allreduce(all, kStagedCount);
       }});
  // The others copy what the root pours before there is a record of it.
  add({"poured", 3, [](Player& p) {
         Comm all = p.everyone();
         p.bcast(all, 1, kPouredCount, {.early = true});
         p.bcast(all, 1, kPouredCount);
         p.bcast(all, 0, kPouredCount, {.early = p.rank() == 2});
         p.allreduce(all, kInlineCount);
       }});
  add({"gathers", 4, [](Player& p) {
         Comm all = p.everyone();
         p.allgatherv(all, kSlicedCount);
         p.allgather(all, 3);
         p.allgather(all, kSlicedCount);
       }});
  add({"leader", 24, [](Player& p) {  // model: S10
         Comm all = p.everyone();
         p.allreduce(all, kInlineCount);
         p.allreduce(all, kSlotCount);
         p.barrier(all);
       }});
  add({"channels", 3, [](Player& p) {
         Comm all = p.everyone();
         p.reduce(all, 1, 3);
         p.gather(all, 0, 2);
         p.scatter(all, 2, 1);
         p.alltoall(all, 3);
         p.scan(all, 2);
         p.exscan(all, 1);
       }});
  add({"channels-mixed", 4, [](Player& p) {
         Comm all = p.everyone(), odd = p.comm({3, 1}), three = p.comm({0, 3, 2}, 5);
         p.alltoall(all, 1);
         p.allreduce(odd, kInlineCount);
         p.reduce(three, 0, 20);
         p.scan(all, 1);
         p.gather(odd, 1, 1);
         p.bcast(all, 3, 2);
       }});
  add({"overlap", 4, [](Player& p) {  // model: S2a, S12
         Comm w = p.comm({0, 1, 2}), x = p.comm({0, 3}), s = p.comm({1, 0});
         p.allreduce(s, kInlineCount);
         p.bcast(x, 0, 2);
         p.allreduce(w, kInlineCount);
         p.message(x, 0, 1, 1);
         p.message(w, 1, 2, 1);
         p.allreduce(w, kStagedCount);
       }});
  add({"crossing", 3, [](Player& p) {  // model: S2b, S2c
         Comm w = p.comm({0, 1, 2}), x = p.comm({1, 2}), s = p.comm({2, 0});
         p.allreduce(x, kInlineCount);
         p.allreduce(s, kInlineCount);
         p.allreduce(w, kSlotCount);
         p.bcast(w, 0, 1);
       }});
  // Each pair of communicators shares one rank.
  add({"cycle", 3, [](Player& p) {
         Comm a = p.comm({0, 1}), b = p.comm({1, 2}), c = p.comm({2, 0});
         for (std::size_t round = 0; round < 2; ++round) {
           p.allreduce(a, kInlineCount);
           p.allreduce(b, kSlotCount + round);
           p.allreduce(c, kInlineCount);
         }
       }});
  // Every rank is root in one communicator and waits in the next: no order is common to all.
  add({"ring-of-roots", 3, [](Player& p) {
         Comm c[3] = {p.comm({0, 1}), p.comm({1, 2}), p.comm({2, 0})};
         const std::uint32_t me = p.rank();
         p.bcast(c[me], 0, 2);
         p.bcast(c[(me + 2) % 3], 0, 2);
         p.allreduce(c[0], kInlineCount);
         p.allreduce(c[1], kInlineCount);
         p.allreduce(c[2], kInlineCount);
       }});
  // Rank 0 leaves (and frees) first; rank 2 asks last for what the others had together.
  add({"leaves", 3, [](Player& p) {
         Comm all = p.everyone(), late = p.comm({1, 2});
         p.allreduce(all, kSlotCount);
         p.bcast(all, 0, 20);
         p.free(all);
         p.allreduce(late, kInlineCount);
         p.message(late, 0, 1, 2);
       }});
  add({"remade", 3, [](Player& p) {
         Comm all = p.everyone();
         for (std::uint64_t i = 1; i < 4; ++i) {
           Comm again = p.comm({2, 0, 1}, i);
           p.allreduce(again, kInlineCount);
           p.free(again);
           p.allreduce(all, i * 3);
         }
       }});
  add({"alone", 2, [](Player& p) {
         Comm self0 = p.comm({0}), self1 = p.comm({1}), all = p.everyone();
         p.allreduce(self0, 3);
         p.scan(self1, 1);
         p.bcast(self1, 0, 2);
         p.allreduce(all, kInlineCount);
         p.gather(self0, 0, 1);
         p.barrier(self0);
         p.allreduce(all, kInlineCount);
       }});
  add({"five", 5, [](Player& p) {
         Comm all = p.everyone(), some = p.comm({4, 1, 3});
         p.allreduce(all, kInlineCount);
         p.allreduce(some, kStagedCount);
         p.bcast(all, 3, 5);
         p.reduce(some, 1, 1);
         p.allreduce(all, 500);
       }});
  World killed = {"killed", 3, [](Player& p) {
                    Comm all = p.everyone();
                    p.allreduce(all, kInlineCount);
                    p.bcast(all, 1, 4);
                    p.alltoall(all, 1);
                    p.allreduce(all, kStagedCount);
                  }};
  killed.kills = {{0, 0, 1, engine::Moment::kBefore}, {1, 0, 2, engine::Moment::kInside},
                  {2, 0, 3, engine::Moment::kInside}, {0, 1, 3, engine::Moment::kAfter},
                  {0, 2, 4, engine::Moment::kInside}, {1, 1, 4, engine::Moment::kAfter}};
  add(killed);
  return worlds;
}

void add_disagreements(std::vector<World>& worlds) {
  World kind = {"disagree-kind", 3, [](Player& p) {
                  Comm all = p.everyone();
                  p.allreduce(all, 1);
                  if (p.rank() == 1) {
                    p.barrier(all);
                  } else {
                    p.allreduce(all, 1);
                  }
                }};
  kind.disagreement = Disagreement::kEverywhere;
  worlds.push_back(kind);
  World length = {"disagree-length", 3, [](Player& p) {
                    Comm all = p.everyone();
                    p.allreduce(all, p.rank() == 2 ? 5 : 2100);
                    p.allreduce(all, 1);
                  }};
  length.disagreement = Disagreement::kEverywhere;
  worlds.push_back(length);
  World root = {"disagree-root", 2, [](Player& p) {  // each waits for the other
                  Comm all = p.everyone();
                  p.bcast(all, 1 - p.rank(), 1);
                }};
  root.disagreement = Disagreement::kEverywhere;
  worlds.push_back(root);
  World roots = {"disagree-roots", 3, [](Player& p) {  // two think that it is they
                   Comm all = p.everyone();
                   p.bcast(all, p.rank() == 1 ? 1 : 0, 1);
                   p.allreduce(all, 1);
                 }};
  roots.disagreement = Disagreement::kSomewhere;
  worlds.push_back(roots);
  World channel = {"disagree-channel", 2, [](Player& p) {
                     Comm all = p.everyone();
                     if (p.rank() == 0) {
                       p.reduce(all, 0, 1);
                     } else {
                       p.bcast(all, 0, 1);
                     }
                   }};
  channel.disagreement = Disagreement::kEverywhere;
  worlds.push_back(channel);
  World sender = {"disagree-sender", 3, [](Player& p) {  // the sender does not wait
                    Comm all = p.everyone();
                    if (p.rank() == 0) {
                      p.reduce(all, 1, 1);
                    } else {
                      p.allreduce(all, 1);
                    }
                    p.allreduce(all, 1);
                  }};
  sender.disagreement = Disagreement::kSomewhere;
  worlds.push_back(sender);
  World leader = {"disagree-leader", 24, [](Player& p) {
                    Comm all = p.everyone();
                    if (p.rank() == 5) {
                      p.barrier(all);
                    } else {
                      p.allreduce(all, 1);
                    }
                  }};
  leader.disagreement = Disagreement::kEverywhere;
  worlds.push_back(leader);
}

void add_limit(std::vector<World>& worlds) {
  World limit = {"limit", 3, [](Player& p) {  // goes on in recycled memory; nobody may die any more
                   Comm all = p.everyone(), pair = p.comm({0, 2});
                   for (std::size_t i = 0; i < 1500; ++i) {
                     p.allreduce(all, 1 + i % 7);
                     p.bcast(all, static_cast<std::uint32_t>(i % 3), 4000);
                     p.message(pair, i % 2, 1 - i % 2, 3);
                     p.bcast(all, 0, 1);
                     p.bcast(all, 0, 2);
                   }
                 }};
  limit.journal_limit_bytes = 4 << 20;
  worlds.push_back(limit);
}

}  // namespace

const std::vector<World>& named_worlds() {
  static const std::vector<World> worlds = [] {
    std::vector<World> all = make_worlds();
    add_disagreements(all);
    add_limit(all);
    return all;
  }();
  return worlds;
}

bool find_world(const std::string& name, World* world) {
  for (const World& w : named_worlds()) {
    if (w.name != name) continue;
    *world = w;
    return true;
  }
  unsigned ranks;
  unsigned long long seed;
  const bool large = std::sscanf(name.c_str(), "random:%u:%llu", &ranks, &seed) == 2;
  if (!large && std::sscanf(name.c_str(), "small:%u:%llu", &ranks, &seed) != 2) return false;
  if (ranks < 1 || ranks > kMaxSimRanks) return false;
  *world = random_world(ranks, seed, !large);
  return true;
}

}  // namespace rejoin::sim
