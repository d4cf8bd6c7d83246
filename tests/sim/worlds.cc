#include "worlds.h"

#include <cstdio>
#include <initializer_list>
#include <utility>

#include "player.h"

namespace rejoin::sim {
namespace {

// Counts of elements (8 bytes) for each way to bring a contribution and a result.
constexpr std::size_t kInlineCount = 1;         // in the slot; the result in the record itself
constexpr std::size_t kSlotCount = 4;           // the most that a slot holds
constexpr std::size_t kStagedCount = 5;         // through staging, every member reads all of it
constexpr std::size_t kSlicedCount = 2100;      // through one extent, from 2 ranks on
constexpr std::size_t kPipelinedCount = 66000;  // three chunks: staging buffers are reused
constexpr std::size_t kTwoChunksCount = 8400;   // two chunks of a gathered block
constexpr std::size_t kChunksCount = 8200;      // a broadcast in three chunks
constexpr std::size_t kScatteredCount = 33001;  // that among three nodes is scattered

using Comm = Player::Comm;

// Situations that single deaths must reach in worlds with attempts, in addition to the world's own.
const std::vector<Probe> kAttempts = {Probe::kReplayed,       Probe::kAdoptedEntering,
                                      Probe::kAdoptedWaiting, Probe::kAttemptAgain,
                                      Probe::kSlept,          Probe::kRung,
                                      Probe::kDiedAsleep,     Probe::kHalfWritten};
const std::vector<Probe> kMessages = {Probe::kReplayed, Probe::kResent, Probe::kReceivedAgain,
                                      Probe::kSlept,    Probe::kRung,   Probe::kHalfWritten};

class Worlds {
 public:
  void add(World w, std::vector<Probe> must_reach, std::initializer_list<Probe> and_also = {}) {
    w.must_reach = std::move(must_reach);
    w.must_reach.insert(w.must_reach.end(), and_also);
    all_.push_back(std::move(w));
  }
  std::vector<World> take() { return std::move(all_); }

 private:
  std::vector<World> all_;
};

void add_small(Worlds& worlds) {
  worlds.add({"mix", 3,
              [](Player& p) {  // model: S1a
                Comm all = p.everyone(), left = p.comm({0, 2}), right = p.comm({2, 1});
                p.allreduce(all, kInlineCount);
                p.bcast(all, 0, kSlotCount);
                p.message(left, 0, 1, 3);
                p.message(right, 0, 1, 1);
                p.allreduce(all, kStagedCount);
              }},
             kAttempts, {Probe::kResent, Probe::kReceivedAgain, Probe::kOverwritten});
  worlds.add({"two", 2,
              [](Player& p) {  // model: S1c
                Comm all = p.everyone();
                p.allreduce(all, kInlineCount);
                p.message(all, 0, 1, 2);
                p.bcast(all, 0, 3);
                p.message(all, 1, 0, 1);
                p.allreduce(all, kInlineCount);
                p.bcast(all, 1, 1);
              }},
             kAttempts, {Probe::kResent, Probe::kReceivedAgain});
  worlds.add({"broadcasts", 3,
              [](Player& p) {  // model: S1b, S9
                Comm all = p.everyone();
                p.bcast(all, 0, kInlineCount);
                p.bcast(all, 1, 40);
                p.bcast(all, 2, kSlotCount, {.early = true});
                p.bcast(all, 2, 0);
              }},
             {Probe::kReplayed, Probe::kSlept, Probe::kRung, Probe::kExitedAsked});
  // The root is ahead: its slots are reused while others still read them.
  worlds.add({"ahead", 3,
              [](Player& p) {
                Comm all = p.everyone();
                p.allreduce(all, kStagedCount);
                p.bcast(all, 0, 1);
                p.bcast(all, 0, 6);
                p.bcast(all, 0, 1);
                p.allreduce(all, kSlotCount);
                p.allreduce(all, kStagedCount);
              }},
             kAttempts, {Probe::kOverwritten});
  worlds.add({"barriers", 3,
              [](Player& p) {
                Comm all = p.everyone();
                p.barrier(all);
                p.allgather(all, 1);
                p.barrier(all);
                p.allgather(all, 9);
                p.allgatherv(all, 2);
                p.allreduce(all, 0);
              }},
             kAttempts, {Probe::kOverwritten});
  // Two communicators share a rank's staging.
  worlds.add({"staging", 3,
              [](Player& p) {
                Comm all = p.everyone(), pair = p.comm({1, 0}), other = p.comm({1, 2});
                p.allreduce(all, kStagedCount);
                p.allreduce(pair, kStagedCount);
                p.allreduce(other, 30);
                p.allreduce(pair, 7);
                p.allgather(all, 17);
                p.allreduce(all, 6, {.user = true});
              }},
             kAttempts, {Probe::kOverwritten});
}

void add_large(Worlds& worlds) {
  worlds.add({"sliced", 3,
              [](Player& p) {  // model: S8
                Comm all = p.everyone();
                p.allreduce(all, kSlicedCount, {.early = true});
                p.allreduce(all, kInlineCount);
                p.allreduce(all, kSlicedCount + 3, {.user = true});
                p.allgather(all, kSlicedCount);
              }},
             kAttempts, {Probe::kProgressLost, Probe::kOverwritten});
  worlds.add({"pipelined", 3,
              [](Player& p) {
                Comm all = p.everyone();
                p.allreduce(all, kPipelinedCount);
                p.allreduce(all, kStagedCount);
              }},
             kAttempts, {Probe::kProgressLost});
  // The others copy the chunks that the root publishes before a record exists. The root uses the
  // slots of the reduction for that while others still read them; they then find a record.
  World chunks = {"chunks", 3, [](Player& p) {
                    Comm all = p.everyone();
                    p.allreduce(all, kInlineCount);
                    p.bcast(all, 1, kChunksCount, {.early = true});
                    p.bcast(all, 1, kChunksCount);
                    p.bcast(all, 0, kChunksCount, {.early = p.rank() == 2});
                    p.allreduce(all, kInlineCount);
                  }};
  World chunks_read = chunks;
  chunks.reads_directly = false;
  worlds.add(std::move(chunks), kAttempts,
             {Probe::kHeadStart, Probe::kHeadStartLost, Probe::kExitedAsked});
  // They read its buffer.
  chunks_read.name = "chunks-read";
  worlds.add(std::move(chunks_read), kAttempts, {Probe::kHeadStart, Probe::kExitedAsked});
  worlds.add({"gathers", 4,
              [](Player& p) {
                Comm all = p.everyone();
                p.allgatherv(all, kSlicedCount, {.early = true});
                p.allgather(all, 3);
                p.allgather(all, kSlicedCount, {.early = p.rank() % 2 == 1});
              }},
             kAttempts, {Probe::kProgressLost});
  // Chunks of a block are copied while its member writes the next.
  worlds.add({"gathers-in-chunks", 3,
              [](Player& p) {
                Comm all = p.everyone();
                p.allgatherv(all, kTwoChunksCount, {.early = true});
                p.allreduce(all, kInlineCount);
              }},
             kAttempts, {Probe::kProgressLost});
  // Blocks are read where they are, and their memory is used again behind each operation.
  worlds.add({"gathers-read", 3,
              [](Player& p) {
                Comm all = p.everyone();
                for (int i = 0; i < 2; ++i) p.allgather(all, kTwoChunksCount, {.early = true});
              }},
             kAttempts, {Probe::kProgressLost});
  worlds.add({"leader", 24,
              [](Player& p) {  // model: S10
                Comm all = p.everyone();
                p.allreduce(all, kInlineCount);
                p.allreduce(all, kSlotCount);
                p.barrier(all);
              }},
             {Probe::kFollowed, Probe::kAdoptedEntering, Probe::kAttemptAgain, Probe::kReplayed});
}

void add_channels(Worlds& worlds) {
  worlds.add({"channels", 3,
              [](Player& p) {
                Comm all = p.everyone();
                p.reduce(all, 1, 3);
                p.gather(all, 0, 2);
                p.scatter(all, 2, 1);
                p.alltoall(all, 3);
                p.scan(all, 2);
                p.exscan(all, 1);
              }},
             kMessages);
  worlds.add({"neighbours", 3,
              [](Player& p) {
                Comm all = p.everyone(), pair = p.comm({2, 0});
                p.neighbours(all, 2);
                p.neighbours(pair, 20);
                p.gather(all, 1, 1);
              }},
             kMessages);
  worlds.add({"echo", 2,
              [](Player& p) {
                Comm all = p.everyone();
                for (std::uint32_t i = 0; i < 4; ++i) p.echo(all, i % 2, 1 - i % 2, 1 + i);
              }},
             {Probe::kResent, Probe::kReceivedAgain});
  worlds.add({"channels-mixed", 4,
              [](Player& p) {
                Comm all = p.everyone(), odd = p.comm({3, 1}), three = p.comm({0, 3, 2}, 5);
                p.alltoall(all, 1);
                p.allreduce(odd, kInlineCount);
                p.reduce(three, 0, 20);
                p.scan(all, 1);
                p.gather(odd, 1, 1);
                p.bcast(all, 3, 2);
              }},
             kMessages, {Probe::kAdoptedEntering, Probe::kAttemptAgain});
}

void add_communicators(Worlds& worlds) {
  worlds.add({"overlap", 4,
              [](Player& p) {  // model: S2a, S12
                Comm w = p.comm({0, 1, 2}), x = p.comm({0, 3}), s = p.comm({1, 0});
                p.allreduce(s, kInlineCount);
                p.bcast(x, 0, 2);
                p.allreduce(w, kInlineCount);
                p.message(x, 0, 1, 1);
                p.message(w, 1, 2, 1);
                p.allreduce(w, kStagedCount);
              }},
             kAttempts, {Probe::kResent});
  worlds.add({"crossing", 3,
              [](Player& p) {  // model: S2b, S2c
                Comm w = p.comm({0, 1, 2}), x = p.comm({1, 2}), s = p.comm({2, 0});
                p.allreduce(x, kInlineCount);
                p.allreduce(s, kInlineCount);
                p.allreduce(w, kSlotCount);
                p.bcast(w, 0, 1);
              }},
             kAttempts);
  // Each pair of communicators shares one rank.
  worlds.add({"cycle", 3,
              [](Player& p) {
                Comm a = p.comm({0, 1}), b = p.comm({1, 2}), c = p.comm({2, 0});
                for (std::size_t round = 0; round < 2; ++round) {
                  p.allreduce(a, kInlineCount);
                  p.allreduce(b, kSlotCount + round);
                  p.allreduce(c, kInlineCount);
                }
              }},
             kAttempts);
  // Every rank is root in one communicator and waits in the next: no order is common to all.
  worlds.add({"ring-of-roots", 3,
              [](Player& p) {
                Comm c[3] = {p.comm({0, 1}), p.comm({1, 2}), p.comm({2, 0})};
                const std::uint32_t me = p.rank();
                p.bcast(c[me], 0, 2);
                p.bcast(c[(me + 2) % 3], 0, 2);
                p.allreduce(c[0], kInlineCount);
                p.allreduce(c[1], kInlineCount);
                p.allreduce(c[2], kInlineCount);
              }},
             kAttempts);
  // Rank 0 leaves (and frees) first; rank 2 is the last to enter the operation that the others have
  // completed.
  worlds.add({"leaves", 3,
              [](Player& p) {
                Comm all = p.everyone(), late = p.comm({1, 2});
                p.allreduce(all, kSlotCount);
                p.bcast(all, 0, 20);
                p.free(all);
                p.allreduce(late, kInlineCount);
                p.message(late, 0, 1, 2);
              }},
             kAttempts, {Probe::kExitedAsked, Probe::kResent});
  worlds.add({"remade", 3,
              [](Player& p) {
                Comm all = p.everyone();
                for (std::uint64_t i = 1; i < 4; ++i) {
                  Comm again = p.comm({2, 0, 1}, i);
                  p.allreduce(again, kInlineCount);
                  p.free(again);
                  p.allreduce(all, i * 3);
                }
              }},
             kAttempts);
  worlds.add({"alone", 2,
              [](Player& p) {
                Comm self0 = p.comm({0}), self1 = p.comm({1}), all = p.everyone();
                p.allreduce(self0, 3);
                p.scan(self1, 1);
                p.bcast(self1, 0, 2);
                p.allreduce(all, kInlineCount);
                p.gather(self0, 0, 1);
                p.barrier(self0);
                p.allreduce(all, kInlineCount);
              }},
             kAttempts);
  worlds.add({"five", 5,
              [](Player& p) {
                Comm all = p.everyone(), some = p.comm({4, 1, 3});
                p.allreduce(all, kInlineCount);
                p.allreduce(some, kStagedCount);
                p.bcast(all, 3, 5);
                p.reduce(some, 1, 1);
                p.allreduce(all, 500);
              }},
             kAttempts, {Probe::kProgressLost});
  // Three ranks on one node, two on the other.
  World nodes = {"nodes", 5, [](Player& p) {
                   Comm all = p.everyone(), some = p.comm({4, 1, 3, 0});
                   p.allreduce(all, kInlineCount);
                   p.allreduce(all, kSlotCount, {.user = true});
                   p.allreduce(some, kStagedCount);
                   p.allreduce(all, kStagedCount, {.user = true});
                   p.allreduce(some, kSlicedCount);
                   p.allreduce(all, kSlicedCount, {.user = true});
                   p.reduce(all, 3, kStagedCount);
                   Player::Pending first, second;
                   p.begin_allreduce(all, &first, kStagedCount);
                   p.begin_allreduce(all, &second, kStagedCount);
                   p.wait(&second);
                   p.wait(&first);
                   p.barrier(all);
                 }};
  nodes.nodes = 2;
  worlds.add(nodes, kAttempts);
  World apart = {"apart", 5, [](Player& p) {
                   Comm all = p.everyone(), some = p.comm({4, 1, 3, 0});
                   p.allreduce(all, kInlineCount);
                   p.bcast(all, 3, 5);
                   p.allreduce(some, kStagedCount, {.user = true});
                   p.bcast(some, 1, 1);
                   p.allreduce(all, kSlicedCount);
                   p.allgather(all, kSlotCount);
                   p.allgather(some, kStagedCount);
                   p.reduce(all, 3, kStagedCount);
                   Player::Pending first, second;
                   p.begin_allreduce(all, &first, kStagedCount);
                   p.begin_allreduce(all, &second, kInlineCount);
                   p.wait(&second);
                   p.wait(&first);
                   p.barrier(all);
                 }};
  apart.nodes = 2;
  apart.apart = true;
  worlds.add(apart, kAttempts);
  // One node has a single member, so its part needs no attempt.
  World alone = {"apart-alone", 3, [](Player& p) {
                   Comm all = p.everyone();
                   p.allreduce(all, kInlineCount);
                   p.bcast(all, 1, 2);
                   p.allreduce(all, kSlicedCount);
                   p.bcast(all, 2, kStagedCount);
                   Player::Pending first, second;
                   p.begin_allreduce(all, &first, kSlotCount);
                   p.begin_allreduce(all, &second, kSlotCount);
                   p.wait(&second);
                   p.wait(&first);
                   p.allgather(all, 2);
                 }};
  alone.nodes = 2;
  alone.apart = true;
  worlds.add(alone, kAttempts);
  // Reductions whose results stay in pieces, and broadcasts that stay where the root has stored
  // them. Some members adopt those, with a buffer of the caller and without.
  World pieces = {"apart-pieces", 3, [](Player& p) {
                    Comm all = p.everyone();
                    for (std::uint32_t i = 0; i < 3; ++i) {
                      p.allreduce(all, kSlicedCount, {.early = p.rank() != i});
                      p.bcast(all, i, kSlicedCount, {.early = p.rank() != (i + 1) % 3});
                    }
                    p.barrier(all);
                  }};
  pieces.nodes = 2;
  pieces.apart = true;
  worlds.add(pieces, kAttempts);
  // Large broadcasts and rooted reductions among three nodes, of which one has two members: their
  // leaders give slices to each other, or to one of them.
  World scattered = {"apart-scattered", 4, [](Player& p) {
                       Comm all = p.everyone(), some = p.comm({2, 0, 1});
                       for (std::uint32_t i = 0; i < 3; ++i) {
                         p.bcast(all, i, kScatteredCount, {.early = p.rank() != (i + 1) % 4});
                         p.bcast(some, i, kScatteredCount, {.early = true});
                       }
                       p.allreduce(all, 1);
                     }};
  scattered.nodes = 3;
  scattered.apart = true;
  worlds.add(scattered, kAttempts);
  World rooted = {"apart-rooted", 4, [](Player& p) {
                    Comm all = p.everyone(), some = p.comm({2, 0, 1});
                    for (std::uint32_t i = 0; i < 4; ++i) {
                      p.reduce(all, i, kChunksCount);
                      p.reduce(some, i % 3, 2 * kChunksCount);
                    }
                    p.barrier(all);
                  }};
  rooted.nodes = 3;
  rooted.apart = true;
  worlds.add(rooted, kAttempts);
}

void add_kills(Worlds& worlds) {
  World killed = {"killed", 3, [](Player& p) {
                    Comm all = p.everyone();
                    p.allreduce(all, kInlineCount);
                    p.bcast(all, 1, 4);
                    p.alltoall(all, 1);
                    p.allreduce(all, kStagedCount);
                  }};
  killed.kills = {{0, 0, 1, journal::Moment::kBefore}, {1, 0, 2, journal::Moment::kInside},
                  {2, 0, 3, journal::Moment::kInside}, {0, 1, 3, journal::Moment::kAfter},
                  {0, 2, 4, journal::Moment::kInside}, {1, 1, 4, journal::Moment::kAfter}};
  worlds.add(killed, {});
}

const std::vector<Probe> kDisagreements = {Probe::kMismatch, Probe::kMismatchReplayed};

void add_disagreements(Worlds& worlds) {
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
  worlds.add(kind, kDisagreements);
  World length = {"disagree-length", 3, [](Player& p) {
                    Comm all = p.everyone();
                    p.allreduce(all, p.rank() == 2 ? 5 : 2100);
                    p.allreduce(all, 1);
                  }};
  length.disagreement = Disagreement::kEverywhere;
  worlds.add(length, kDisagreements);
  World root = {"disagree-root", 2, [](Player& p) {  // each waits for the other
                  Comm all = p.everyone();
                  p.bcast(all, 1 - p.rank(), 1);
                }};
  root.disagreement = Disagreement::kEverywhere;
  worlds.add(root, kDisagreements);
  World roots = {"disagree-roots", 3, [](Player& p) {  // two members consider themselves the root
                   Comm all = p.everyone();
                   p.bcast(all, p.rank() == 1 ? 1 : 0, 1);
                   p.allreduce(all, 1);
                 }};
  roots.disagreement = Disagreement::kSomewhere;
  worlds.add(roots, kDisagreements);
  World leaders = {"disagree-scattered", 4, [](Player& p) {  // a leader waits for another one
                     Comm all = p.everyone();
                     if (p.rank() == 1) {
                       p.allreduce(all, 1);
                     } else {
                       p.bcast(all, 0, kScatteredCount);
                     }
                     p.allreduce(all, 1);
                   }};
  leaders.disagreement = Disagreement::kSomewhere;
  leaders.nodes = 3;
  leaders.apart = true;
  worlds.add(leaders, kDisagreements);
  World absent = {"disagree-checkpoint-scattered", 3, [](Player& p) {
                    Comm all = p.everyone();
                    p.load();
                    p.end_bootstrap_phase();
                    if (p.rank() == 1) {
                      p.checkpoint(all);
                    } else {
                      p.bcast(all, 0, kScatteredCount);
                    }
                  }};
  absent.disagreement = Disagreement::kSomewhere;
  absent.nodes = 3;
  absent.apart = true;
  worlds.add(absent, {Probe::kMismatch});
  World channel = {"disagree-channel", 2, [](Player& p) {
                     Comm all = p.everyone();
                     if (p.rank() == 0) {
                       p.reduce(all, 0, 1);
                     } else {
                       p.bcast(all, 0, 1);
                     }
                   }};
  channel.disagreement = Disagreement::kEverywhere;
  worlds.add(channel, kDisagreements);
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
  worlds.add(sender, kDisagreements);
  World leader = {"disagree-leader", 24, [](Player& p) {
                    Comm all = p.everyone();
                    if (p.rank() == 5) {
                      p.barrier(all);
                    } else {
                      p.allreduce(all, 1);
                    }
                  }};
  leader.disagreement = Disagreement::kEverywhere;
  worlds.add(leader, kDisagreements);
  World once = {"disagree-once", 3, [](Player& p) {
                  Comm all = p.everyone();
                  p.allreduce(all, 1);
                  p.told(p.rank() == 1 ? p.barrier(all) : p.allreduce(all, 1));
                  for (std::uint32_t i = 0; i < 3; ++i) {
                    p.goes_on(p.allreduce(all, 2));
                    p.goes_on(p.alltoall(all, 1));
                  }
                }};
  once.disagreement = Disagreement::kEverywhere;
  worlds.add(once, kDisagreements);
  // Whichever rank detects it first, all ranks get the error, and then meet in an operation without
  // disagreement.
  World checkpoint = {"disagree-checkpoint", 3, [](Player& p) {
                        Comm all = p.everyone(), aside = p.everyone(1);
                        p.load();
                        p.end_bootstrap_phase();
                        const bool makes_it = p.rank() == 0;
                        if (makes_it) p.told(p.checkpoint(all));
                        p.told(makes_it ? p.barrier(all) : p.allreduce(all, 1));
                        p.barrier(aside);
                      }};
  checkpoint.disagreement = Disagreement::kEverywhere;
  worlds.add(checkpoint, {Probe::kMismatch, Probe::kMismatchReplayed, Probe::kToldAtCheckpoint});
}

void add_far(Worlds& worlds) {
  World far = {"far", 3, [](Player& p) {  // senders wait for receivers
                 Comm all = p.everyone();
                 for (std::uint32_t i = 0; i < 5; ++i) p.bcast(all, 0, 1 + i);
                 for (std::uint32_t i = 0; i < 5; ++i) p.scatter(all, 0, 1 + i);
               }};
  far.ahead_bytes = 64;
  worlds.add(far, {Probe::kReplayed, Probe::kSlept, Probe::kRung, Probe::kDiedAsleep});
  // The root waits for a receiver that waits for it in a checkpoint.
  World disagree = {"disagree-far", 2, [](Player& p) {
                      Comm all = p.everyone();
                      const bool is_behind = p.load() > 0;
                      p.end_bootstrap_phase();
                      if (is_behind) return;
                      for (int i = 0; p.rank() == 0 && i < 5; ++i) {
                        if (p.scatter(all, 0, 1) != recovery::Status::kOk) break;
                      }
                      p.checkpoint(all);
                    }};
  disagree.disagreement = Disagreement::kSomewhere;
  disagree.ahead_bytes = 64;
  worlds.add(disagree, {Probe::kMismatch});
}

void add_limit(Worlds& worlds) {
  World limit = {"limit", 3,
                 [](Player& p) {  // the journal is full and its memory is recycled, so no rank may
                                  // die any more
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
  limit.most_journal_bytes = 8 << 20;
  worlds.add(limit, {});

  World broadcasts = {"limit-broadcasts", 3,
                      [](Player& p) {  // no rank except a root ever waits for all others
                        Comm all = p.everyone();
                        for (std::size_t i = 0; i < 900; ++i) p.bcast(all, 0, 4000);
                        for (std::size_t i = 0; i < 40; ++i) p.bcast(all, 1, 30000);
                        for (std::size_t i = 0; i < 900; ++i) p.bcast(all, i % 3, 4000);
                      }};
  broadcasts.journal_limit_bytes = 4 << 20;
  broadcasts.most_journal_bytes = 8 << 20;
  worlds.add(broadcasts, {});

  World slices = {"limit-scattered", 3, [](Player& p) {  // nor does a leader that gives its slice
                    Comm all = p.everyone();
                    for (std::size_t i = 0; i < 150; ++i) p.bcast(all, 0, kScatteredCount);
                  }};
  slices.nodes = 3;
  slices.apart = true;
  slices.journal_limit_bytes = 8 << 20;
  slices.most_journal_bytes = 16 << 20;
  worlds.add(slices, {});

  World turns = {"limit-broadcasts-in-turn", 2,
                 [](Player& p) {  // roots close zones, whichever communicator did it before
                   Comm all = p.everyone(), twin = p.comm({1, 0});
                   for (std::size_t i = 0; i < 400; ++i) p.allreduce(twin, 1000);
                   for (std::size_t i = 0; i < 1500; ++i) p.bcast(all, 0, 4000);
                   for (std::size_t i = 0; i < 1500; ++i) p.bcast(i % 2 == 0 ? twin : all, 0, 4000);
                 }};
  turns.journal_limit_bytes = 4 << 20;
  turns.most_journal_bytes = 8 << 20;
  worlds.add(turns, {});
}

}  // namespace

const std::vector<World>& named_worlds() {
  static const std::vector<World> all = [] {
    Worlds worlds;
    add_small(worlds);
    add_large(worlds);
    add_channels(worlds);
    add_communicators(worlds);
    add_kills(worlds);
    add_disagreements(worlds);
    add_far(worlds);
    add_limit(worlds);
    for (World& w : message_worlds()) {
      std::vector<Probe> must_reach = w.must_reach;
      worlds.add(std::move(w), std::move(must_reach));
    }
    for (World& w : nonblocking_worlds()) {
      std::vector<Probe> must_reach = w.must_reach;
      worlds.add(std::move(w), std::move(must_reach));
    }
    for (World& w : image_worlds()) {
      std::vector<Probe> must_reach = w.must_reach;
      worlds.add(std::move(w), std::move(must_reach));
    }
    for (World& w : checkpoint_worlds()) {
      std::vector<Probe> must_reach = w.must_reach;
      worlds.add(std::move(w), std::move(must_reach));
    }
    for (World& w : recovery_point_worlds()) {
      std::vector<Probe> must_reach = w.must_reach;
      worlds.add(std::move(w), std::move(must_reach));
    }
    return worlds.take();
  }();
  return all;
}

bool find_world(const std::string& name, World* world) {
  constexpr std::string_view kSegments = "segments:";
  if (name.starts_with(kSegments)) {
    if (!find_world("apart:" + name.substr(kSegments.size()), world)) return false;
    world->name = name;
    world->segments = true;
    return true;
  }
  constexpr std::string_view kApart = "apart:";
  if (name.starts_with(kApart)) {
    if (!find_world(name.substr(kApart.size()), world)) return false;
    world->name = name;
    world->nodes = std::max(world->nodes, 2u);
    world->apart = true;
    world->never_full = false;  // results lie in the journal several times
    return true;
  }
  for (const World& w : more_checkpoint_worlds()) {
    if (w.name == name) *world = w;
    if (w.name == name) return true;
  }
  for (const World& w : named_worlds()) {
    if (w.name != name) continue;
    *world = w;
    return true;
  }
  for (const World& w : bit_worlds()) {
    if (w.name != name) continue;
    *world = w;
    return true;
  }
  unsigned ranks;
  unsigned long long seed;
  if (std::sscanf(name.c_str(), "swarm:%llu", &seed) == 1) {
    *world = swarm_world(seed);
    return true;
  }
  const bool large = std::sscanf(name.c_str(), "random:%u:%llu", &ranks, &seed) == 2;
  if (!large && std::sscanf(name.c_str(), "small:%u:%llu", &ranks, &seed) != 2) return false;
  if (ranks < 1 || ranks > kMaxSimRanks) return false;
  *world = random_world(ranks, seed, !large);
  return true;
}

}  // namespace rejoin::sim
