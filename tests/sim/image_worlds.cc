// Programs whose ranks are frozen as images now and then, and go on from these images.
#include "player.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

using Comm = Player::Comm;

const std::vector<Probe> kWakes = {Probe::kWoken, Probe::kReplayed, Probe::kHalfWritten};

void mixed(Player& p) {
  Comm all = p.everyone();
  for (std::uint32_t i = 0; i < 8; ++i) {
    p.allreduce(all, 1 + i % 3);
    p.bcast(all, i % p.ranks(), 40);
    p.send(all, (p.rank() + 1) % p.ranks(), 7, 20);
    p.recv(all, static_cast<int>((p.rank() + p.ranks() - 1) % p.ranks()), 7);
    p.alltoall(all, 6);
  }
}

// There is enough payload for zones to be reused many times.
void payload(Player& p) {
  Comm all = p.everyone();
  for (std::uint32_t i = 0; i < 40; ++i) {
    p.bcast(all, i % 2, 300);
    p.allreduce(all, 64);
    if (i % 3 == 0) p.message(all, 1, 0, 200);
  }
}

// There is enough payload to fill the journal if ranks did not wait for their images.
void limited(Player& p) {
  Comm all = p.everyone();
  for (std::uint32_t i = 0; i < 70; ++i) {
    p.bcast(all, i % 2, 10000);
    if (i % 3 == 0) p.allreduce(all, 3000);
    if (i % 7 == 0) p.message(all, 1, 0, 200);
  }
}

// Rank 0 fills the journal. Rank 1 has no images, so after a death it replays everything that it
// has received since the start.
void filled(Player& p) {
  Comm all = p.everyone();
  for (std::uint32_t i = 0; i < 80; ++i) {
    p.bcast(all, 0, 500);
    for (int k = 0; k < 3; ++k) p.message(all, 0, 1, 1500);
    if (i % 25 == 0) p.bcast(all, 1, 10);
  }
}

// Rank 0 contributes to a reduction and broadcasts what rank 1 reads only later. If it dies then,
// its next incarnation completes the reduction first, and closes the zone in which the broadcasts
// lie.
void shown_ahead(Player& p) {
  Comm all = p.everyone(), other = p.everyone(1);
  const auto delay = [&](int times) {
    for (int i = 0; i < times && p.rank() == 1; ++i) {
      p.send(all, 1, 9, 1);
      p.recv(all, 1, 9);
    }
  };
  for (int i = 0; i < 5; ++i) {
    Player::Pending sum, next;
    delay(6);
    p.begin_allreduce(all, &sum, 40);
    p.begin_allreduce(all, &next, 250);
    delay(40);
    for (int k = 0; k < 5 + i % 2; ++k) p.bcast(other, 0, 140);
    p.wait(&sum);
    p.wait(&next);
  }
}

// Rank 1 receives a broadcast, which was begun before the journal was full, only when rank 2 has
// entered the operation in front of it.
void begun_before(Player& p) {
  Comm all = p.everyone(), other = p.everyone(1), alone = p.comm({2}, 2);
  Player::Pending gather, bcast, nothing;
  const auto begin = [&] {
    p.begin_gather(other, &gather, 1, 2);
    p.begin_bcast(other, &bcast, 0, 2000);
  };
  if (p.rank() != 2) begin();
  if (p.rank() == 2) p.begin_barrier(alone, &nothing);
  for (std::uint32_t i = 0; i < 120; ++i) {
    p.bcast(all, i % 2, i < 60 ? 3000 : 2000);
    p.allreduce(all, 3000);
  }
  if (p.rank() == 2) begin();
  p.wait(&gather);
  p.wait(&bcast);
  if (p.rank() == 2) p.wait(&nothing);
}

// Rank 1 receives messages only long after the journal has become full.
void received_late(Player& p) {
  Comm all = p.everyone();
  constexpr std::uint32_t kSent = 20, kRounds = 120;
  for (std::uint32_t i = 0; i < kRounds; ++i) {
    if (p.rank() == 0 && i < kSent) p.send(all, 1, static_cast<int>(i), 3000);
    p.bcast(all, i % 2, 3000);
    p.allreduce(all, 3000);
    if (p.rank() == 1 && i + kSent >= kRounds) p.recv(all, 0, static_cast<int>(kRounds - 1 - i));
  }
}

// The journal becomes full while a restarted rank repeats what it has done since its image, for
// which it needs messages that its predecessor has received. Their sender waits for no rank, and
// posts enough messages to reuse their entries.
void owed(Player& p) {
  Comm all = p.everyone();
  const auto message = [&](std::size_t count) {
    if (p.rank() == 0) p.send(all, 1, 1, count);
    if (p.rank() == 1) p.recv(all, 0, 1);
  };
  for (int i = 0; i < 10; ++i) {
    p.bcast(all, 0, 1);
    message(1);
  }
  // From here on rank 1 makes no other image, because the agent requests none.
  Comm pair = p.comm({0, 1}, 1);
  Player::Pending sum;
  if (p.rank() == 1) p.begin_allreduce(pair, &sum, 1);
  for (int i = 0; i < 200; ++i) p.bcast(all, 0, 1);
  for (int i = 0; i < 240; ++i) message(1);
  message(450'000);  // fills the journal
  for (int i = 0; i < 300; ++i) message(1);
  if (p.rank() == 0) p.begin_allreduce(pair, &sum, 1);
  p.wait(&sum);
}

// There are enough operations for logs to wrap.
void many(Player& p) {
  Comm all = p.everyone();
  for (std::uint32_t i = 0; i < 500; ++i) {
    p.bcast(all, i / 100 % 2, 1);
    if (i % 50 == 0) p.allreduce(all, 1);
  }
}

// There are enough messages for channels to wrap: a sender that goes back sends messages again that
// are not in the channel any more.
void messages(Player& p) {
  Comm all = p.everyone();
  for (std::uint32_t i = 0; i < 700; ++i) {
    if (p.rank() == 0) p.send(all, 1, static_cast<int>(i % 7), 1);
    if (p.rank() == 1) p.recv(all, 0, static_cast<int>(i % 7));
    if (i % 40 == 0) p.bcast(all, 1, 1);
  }
}

// Large messages, whose receivers lend their buffers if the ranks are on different nodes.
void lent(Player& p) {
  constexpr std::size_t kThreePieces = 2 * 128 * 1024 / sizeof(Element) + 100;
  Comm all = p.everyone();
  for (int i = 0; i < 8; ++i) {
    const int from = i % 2;
    if (static_cast<int>(p.rank()) != from) p.recv(all, from, i);
    if (static_cast<int>(p.rank()) == from) p.send(all, 1 - p.rank(), i, kThreePieces);
  }
}

// A rank sends far ahead of its receiver: messages that are not received are retained, whatever
// image their sender has.
void ahead(Player& p) {
  Comm all = p.everyone();
  for (std::uint32_t i = 0; i < 12; ++i) {
    if (p.rank() == 0) {
      for (int k = 0; k < 6; ++k) p.send(all, 1, k, 50);
    }
    p.bcast(all, 0, 8);
    if (p.rank() == 1 && i % 4 == 3) {
      for (int k = 0; k < 24; ++k) p.recv(all, 0, k % 6);
    }
  }
}

// Requests are open when images are made: receives that are posted, synchronous sends that are not
// matched, and collectives, for which no image is made.
void open(Player& p) {
  Comm all = p.everyone();
  const std::uint32_t other = 1 - p.rank();
  for (std::uint32_t i = 0; i < 6; ++i) {
    Player::Pending receive, sent, sum;
    p.irecv(all, &receive, static_cast<int>(other), 3);
    p.isend(all, &sent, other, 3, 10, true);
    p.bcast(all, i % 2, 30);
    if (i % 2 == 0) p.begin_allreduce(all, &sum, 4);
    p.send(all, other, 4, 5);
    p.recv(all, static_cast<int>(other), 4);
    p.wait(&receive);
    p.wait(&sent);
    if (i % 2 == 0) p.wait(&sum);
  }
}

// A rank calls MPI_Test and MPI_Cancel after a collective that is not complete. An incarnation that
// is live in that collective may still replay the outcomes of its predecessor.
void asking(Player& p) {
  Comm all = p.everyone();
  for (std::uint32_t i = 0; i < 8; ++i) {
    Player::Pending sum, in, never;
    p.begin_allreduce(all, &sum, 2);
    if (p.rank() == 0) {
      p.irecv(all, &in, 1, 3);
      bool over = false;
      for (int k = 0; k < 6 && !over; ++k) over = p.test(&in);
      p.irecv(all, &never, 1, 77);
      p.cancel(&never);
      if (!over) p.wait(&in);
    } else {
      p.send(all, 0, 3, 4);
    }
    p.wait(&sum);
    p.bcast(all, i % 2, 10);
  }
}

// A receive is cancelled long after it was posted, and its message is sent only then: it goes to
// the next receive, also if there is an image in between.
void cancelled(Player& p) {
  Comm all = p.everyone();
  for (int i = 0; i < 5; ++i) {
    Player::Pending in;
    if (p.rank() == 0) p.irecv(all, &in, i % 2 == 0 ? 1 : -1, i);
    p.allreduce(all, 2);
    p.bcast(all, 1, 8);
    if (p.rank() == 0) {
      p.cancel(&in);
      p.send(all, 1, 9, 1);
      p.recv(all, 1, i);
    } else {
      p.recv(all, 0, 9);
      p.send(all, 0, i, 2);
    }
  }
}

// Communicators are created and freed; their blocks are reused behind the images.
void communicators(Player& p) {
  Comm all = p.everyone();
  for (std::uint32_t i = 0; i < 10; ++i) {
    Comm pair = p.comm({0, 1}, i + 1);
    p.allreduce(pair, 2);
    p.bcast(pair, i % 2, 40);
    p.free(pair);
    p.allreduce(all, 3);
  }
}

// Results depend on which message comes first, and are the same after a death.
void wildcards(Player& p) {
  Comm all = p.everyone();
  for (std::uint32_t i = 0; i < 8; ++i) {
    if (p.rank() == 0) {
      p.recv(all, -1, -1);
      p.recv(all, -1, 5);
    } else {
      p.send(all, 0, 5, 3);
    }
    if (i % 3 == 2) p.bcast(all, 0, 4);
  }
}

// A receive of any source stays open while so many others come that their places are reused.
void open_for_long(Player& p) {
  Comm all = p.everyone();
  Player::Pending open;
  if (p.rank() == 0) p.irecv(all, &open, -1, 9);
  for (int i = 0; i < 700; ++i) {
    if (p.rank() == 0) p.recv(all, -1, 5);
    if (p.rank() == 1) p.send(all, 0, 5, 1);
  }
  if (p.rank() == 1) p.send(all, 0, 9, 2);
  if (p.rank() == 0) p.wait(&open);
  p.barrier(all);
}

// Two nodes with two ranks each.
void apart(Player& p) {
  Comm all = p.everyone(), some = p.comm({3, 0, 2});
  for (std::uint32_t i = 0; i < 3; ++i) {
    p.allreduce(all, 1);
    p.bcast(some, i % 3, 4);
    p.allreduce(some, i % 2 == 0 ? 600 : 5, {.user = true});
    Player::Pending first, second;
    p.begin_allreduce(all, &first, 5);
    p.begin_allgather(all, &second, 2);
    p.wait(&second);
    p.bcast(all, i % 4, 700);
    p.wait(&first);
  }
}

// Results in pieces, on two nodes: one with two ranks, one with one.
void pieces(Player& p) {
  Comm all = p.everyone();
  for (std::uint32_t i = 0; i < 6; ++i) {
    p.allreduce(all, 600, {.early = p.rank() != i % 3});
    p.bcast(all, i % 3, 600, {.early = p.rank() != (i + 1) % 3});
    p.allreduce(all, 1);
  }
}

// Broadcasts of which three nodes give slices to each other, and reductions to one of them.
void scattered(Player& p) {
  Comm all = p.everyone();
  for (std::uint32_t i = 0; i < 6; ++i) {
    p.bcast(all, i % 3, 33001, {.early = p.rank() != (i + 1) % 3});
    p.reduce(all, i % 3, 17000);
    p.allreduce(all, 1);
  }
}

// Images are made while messages are written, whose receivers have them when they are made.
void exchanged(Player& p) {
  constexpr std::size_t kThreePieces = 2 * 16 * 1024 / sizeof(Element) + 100;
  Comm all = p.everyone();
  const std::uint32_t other = 1 - p.rank();
  for (int i = 0; i < 12; ++i) {
    p.sendrecv(all, other, static_cast<int>(other), i, kThreePieces);
    p.alltoall(all, kThreePieces);
  }
}

}  // namespace

std::vector<World> image_worlds() {
  std::vector<World> worlds;
  const auto add = [&worlds](const char* name, std::uint32_t ranks, std::uint64_t every,
                             void (*body)(Player&)) {
    World w{name, ranks, body};
    w.snapshot_every_turns = every;
    w.must_reach = kWakes;
    worlds.push_back(w);
  };
  add("images", 3, 60, mixed);
  const auto on_nodes_apart = [&worlds] {
    worlds.back().nodes = 2;
    worlds.back().apart = true;
  };
  add("images-apart", 4, 100, apart);
  on_nodes_apart();
  add("images-pieces", 3, 100, pieces);
  on_nodes_apart();
  add("images-scattered", 3, 100, scattered);
  on_nodes_apart();
  worlds.back().nodes = 3;
  add("images-payload", 2, 150, payload);
  add("images-many", 2, 400, many);
  add("images-apart-many", 2, 400, many);
  on_nodes_apart();
  add("images-limit", 2, 1'000'000'000, limited);  // images are made only when a rank asks for them
  worlds.back().journal_limit_bytes = 3072 << 10;
  worlds.back().never_full = true;
  // One rank has no images, so the journal becomes full, sometimes while a rank is catching up.
  add("images-full", 2, 150, filled);
  worlds.back().journal_limit_bytes = 3072 << 10;
  worlds.back().unfrozen = 2;
  worlds.back().must_reach = {Probe::kWoken, Probe::kEndedFull};
  add("images-received-late", 2, 1'000'000'000, received_late);
  worlds.back().journal_limit_bytes = 1024 << 10;
  worlds.back().unfrozen = 2;
  worlds.back().must_reach = {Probe::kEndedFull};
  add("images-begun-before", 3, 1'000'000'000, begun_before);
  worlds.back().journal_limit_bytes = 1024 << 10;
  worlds.back().unfrozen = 2;
  worlds.back().must_reach = {Probe::kEndedFull};
  add("images-shown-ahead", 2, 150, shown_ahead);
  add("images-owed", 2, 1'000'000, owed);
  worlds.back().journal_limit_bytes = 3072 << 10;
  worlds.back().must_reach = {Probe::kEndedFull};
  add("images-messages", 2, 300, messages);
  add("images-ahead", 2, 80, ahead);
  add("images-exchanged", 2, 40, exchanged);
  add("images-lent", 2, 60, lent);
  worlds.back().must_reach = {Probe::kWoken, Probe::kReceivedAgain};
  // The sender goes back to main, and its receivers have images: the messages that it sends again
  // are not in the channels.
  add("images-of-others", 2, 150, messages);
  worlds.back().unfrozen = 1;
  add("images-open", 2, 60, open);
  add("images-asking", 2, 25, asking);
  worlds.back().unordered = true;
  add("images-cancelled", 2, 25, cancelled);
  add("images-communicators", 3, 90, communicators);
  add("images-wildcards", 3, 60, wildcards);
  worlds.back().unordered = true;
  add("images-open-for-long", 2, 400, open_for_long);
  return worlds;
}

}  // namespace rejoin::sim
