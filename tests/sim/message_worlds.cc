// Programs that send messages between two ranks.
#include "player.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

using Comm = Player::Comm;
using Pending = Player::Pending;

const std::vector<Probe> kReached = {Probe::kResent, Probe::kReceivedAgain, Probe::kSlept,
                                     Probe::kRung};

// The limit of a polling loop, which a scheduler might let run for ever.
constexpr int kPolls = 40;

// Receives with sources, tags out of order, a synchronous send, and a message to the rank itself.
void run_named(Player& p) {
  Comm all = p.everyone(), other = p.everyone(1);
  const std::uint32_t n = p.ranks(), next = (p.rank() + 1) % n;
  const int before = static_cast<int>((p.rank() + n - 1) % n);
  Pending in[3], out;
  p.irecv(all, &in[0], before, 2);
  p.irecv(all, &in[1], before, -1);
  p.irecv(other, &in[2], before, 2);
  p.send(all, next, 1, 1);
  p.send(other, next, 2, 3);
  p.isend(all, &out, next, 2, 40, true);
  p.wait(&in[0]);
  p.send(all, p.rank(), 5, 2);
  p.wait(&in[2]);
  p.wait(&out);
  p.recv(all, static_cast<int>(p.rank()), 5);
  p.wait(&in[1]);
  p.allreduce(all, 1);
}

// Messages that are read while they are written.
void run_large(Player& p) {
  constexpr std::size_t kThreePieces = 2 * 64 * 1024 / sizeof(Element) + 100;
  Comm all = p.everyone();
  const std::uint32_t n = p.ranks(), next = (p.rank() + 1) % n;
  const int before = static_cast<int>((p.rank() + n - 1) % n);
  Pending in, out;
  p.irecv(all, &in, before, 1);
  p.isend(all, &out, next, 1, kThreePieces, p.rank() == 1);
  p.wait(&in);
  p.wait(&out);
  p.send(all, next, 2, kThreePieces);
  p.recv(all, before, 2);
}

// Each rank's message is read while its own is written.
void run_exchanged(Player& p) {
  constexpr std::size_t kThreePieces = 2 * 16 * 1024 / sizeof(Element) + 100;
  Comm all = p.everyone();
  const std::uint32_t n = p.ranks(), next = (p.rank() + 1) % n;
  for (int i = 0; i < 3; ++i) {
    p.sendrecv(all, next, static_cast<int>((p.rank() + n - 1) % n), i, kThreePieces);
  }
}

// The same in collectives.
void run_blocks(Player& p) {
  constexpr std::size_t kThreePieces = 2 * 16 * 1024 / sizeof(Element) + 100;
  Comm all = p.everyone();
  p.alltoall(all, kThreePieces);
  p.gather(all, 1, kThreePieces);
  p.scatter(all, 0, kThreePieces);
  p.alltoall(all, kThreePieces);
  p.neighbours(all, kThreePieces);
}

// Messages in pieces, there and back, whose receivers lend their buffers.
void run_lent(Player& p) {
  constexpr std::size_t kThreePieces = 2 * 128 * 1024 / sizeof(Element) + 100;
  Comm all = p.everyone();
  for (int i = 0; i < 4; ++i) {
    const int from = i % 2;
    if (static_cast<int>(p.rank()) != from) p.recv(all, from, i);
    if (static_cast<int>(p.rank()) == from) p.send(all, 1 - p.rank(), i, kThreePieces);
  }
}

// Synchronous sends along a ring.
void run_ring(Player& p) {
  Comm all = p.everyone();
  const std::uint32_t n = p.ranks();
  const int before = static_cast<int>((p.rank() + n - 1) % n);
  for (int i = 0; i < 3; ++i) {
    if (p.rank() == 0) p.ssend(all, 1, i, 2);
    p.recv(all, before, i);
    if (p.rank() != 0) p.ssend(all, (p.rank() + 1) % n, i, 2);
  }
}

// Rank 0 receives from any source, with several receives posted at a time; its replies depend on
// the order.
void run_any(Player& p) {
  Comm all = p.everyone();
  const int n = static_cast<int>(p.ranks());
  if (p.rank() == 0) {
    Pending in[2];
    for (int round = 0; round < 2; ++round) {
      p.irecv(all, &in[0], -1, round);
      p.irecv(all, &in[1], -1, -1);
      p.wait(&in[1]);
      p.wait(&in[0]);
      for (int i = 3; i < n; ++i) p.recv(all, -1, round);
      for (int i = 1; i < n; ++i) p.send(all, static_cast<std::uint32_t>(i), 7, 1);
    }
  } else {
    for (int round = 0; round < 2; ++round) {
      p.send(all, 0, round, 1);
      p.recv(all, 0, 7);
    }
  }
  p.barrier(all);
}

// Polling, waiting for any of several requests, and probing; then the message that was probed is
// received.
void run_asking(Player& p) {
  Comm all = p.everyone();
  const int n = static_cast<int>(p.ranks());
  if (p.rank() == 0) {
    Pending in[4];
    for (int i = 1; i < n; ++i) p.irecv(all, &in[i], i, 1);
    for (int i = 1; i < n; ++i) p.wait_any(&in[1], n - 1);
    for (int more = n - 1; more > 0; --more) {
      int tag = 0;
      const int from = p.probe(all, -1, 2, &tag);
      p.recv(all, from, tag);
    }
    for (int i = 1; i < n; ++i) p.irecv(all, &in[i], -1, 3);
    int indices[3];
    int left = n - 1;
    for (int i = 0; i < kPolls && left > 0; ++i) left -= p.test_some(&in[1], n - 1, indices);
    for (; left > 0; --left) p.wait_any(&in[1], n - 1);
    for (int i = 1; i < n; ++i) p.send(all, static_cast<std::uint32_t>(i), 4, 1);
  } else {
    for (int tag = 1; tag <= 3; ++tag) p.send(all, 0, tag, static_cast<std::size_t>(tag));
    Pending in;
    p.irecv(all, &in, 0, 4);
    bool over = false;
    for (int i = 0; i < kPolls && !over; ++i) over = p.test(&in);
    if (!over) p.wait(&in);
  }
  if (p.rank() == 1) p.send(all, 2, 6, 1);
  if (p.rank() == 2) {
    for (int i = 0; i < kPolls && !p.iprobe(all, 1, -1); ++i) {
    }
    p.recv(all, 1, 6);
  }
}

// A rank that only tests whether its synchronous send is complete receives the message itself.
void run_to_oneself(Player& p) {
  Comm all = p.everyone();
  for (int i = 0; i < 3; ++i) {
    Pending receive, send;
    p.irecv(all, &receive, static_cast<int>(p.rank()), 1);
    p.isend(all, &send, p.rank(), 1, 3, true);
    while (!p.test(&send)) {
    }
    p.wait(&receive);
    p.barrier(all);
  }
}

// A receive is cancelled while its message may be on its way; in that case the next receive gets
// the message.
void run_cancelled(Player& p) {
  Comm all = p.everyone();
  if (p.rank() == 0) {
    for (int i = 0; i < 3; ++i) {
      Pending in;
      p.irecv(all, &in, i == 1 ? -1 : 1, i);
      if (!p.cancel(&in))
        p.wait(&in);
      else
        p.recv(all, 1, i);
      p.send(all, 1, 9, 1);
    }
  } else if (p.rank() == 1) {
    for (int i = 0; i < 3; ++i) {
      p.send(all, 0, i, 2);
      p.recv(all, 0, 9);
    }
  } else {
    for (int i = 0; i < 8; ++i) {  // these are never sent
      Pending in;
      p.irecv(all, &in, i % 2 == 0 ? -1 : 0, 77);
      p.cancel(&in);
    }
  }
  p.allreduce(all, 1);
}

// Several messages of one tag are unexpected, from any source and from one source; messages that
// were sent after them are received earlier.
void run_in_order(Player& p) {
  Comm all = p.everyone();
  const int n = static_cast<int>(p.ranks());
  if (p.rank() != 0) {
    for (int i = 0; i < 3; ++i) p.send(all, 0, 1, static_cast<std::size_t>(i + 1));
    p.send(all, 0, 2, 1);
    p.barrier(all);
    return;
  }
  p.barrier(all);
  for (int i = 1; i < n; ++i) p.recv(all, i, 2);
  for (int i = 1; i < n; ++i) p.recv(all, i, 1);
  for (int i = 1; i < n; ++i) p.recv(all, -1, 1);
  for (int i = 1; i < n; ++i) p.recv(all, -1, -1);
}

// A sends to C, an unrelated B dies, and C receives. In addition, one side creates a communicator
// after the other side uses it.
void run_late(Player& p) {
  Comm all = p.everyone();
  if (p.rank() == 0) {
    Comm pair = p.comm({0, 2}, 5);
    p.send(pair, 1, 1, 6);
    p.send(all, 2, 2, 1);
  } else if (p.rank() == 2) {
    p.recv(all, 0, 2);
    Comm pair = p.comm({0, 2}, 5);
    p.recv(pair, 0, 1);
  } else {
    Comm own = p.comm({1}, 6);
    p.allreduce(own, 1);
  }
  p.allreduce(all, 2);
}

// Checkpoints while messages are on their way, were received out of order, or are not received yet.
void run_checkpoints(Player& p) {
  Comm all = p.everyone();
  const std::uint32_t n = p.ranks(), next = (p.rank() + 1) % n;
  const int before = static_cast<int>((p.rank() + n - 1) % n);
  std::uint64_t v = p.load();
  p.end_bootstrap_phase();
  for (; v < 4; ++v) {
    if (v > 0) p.recv(all, before, 1);  // sent before the checkpoint
    p.send(all, next, 2, 3);
    p.send(all, next, 1, 40);
    p.send(all, next, 3, 1);
    p.recv(all, before, 3);
    p.recv(all, -1, 2);
    p.allreduce(all, 1);
    p.checkpoint(all);
  }
  p.recv(all, before, 1);
}

// The journal is full and its memory is recycled, so no rank may die any more. Some messages remain
// unexpected for a long time, while the receiver receives others first, among them those of a
// collective.
void run_limit(Player& p) {
  constexpr int kRounds = 200, kLate = 16;
  Comm all = p.everyone();
  const std::uint32_t n = p.ranks(), next = (p.rank() + 1) % n;
  const int before = static_cast<int>((p.rank() + n - 1) % n);
  for (int i = 0; i < kRounds; ++i) {
    p.send(all, next, 1, 3000);
    p.send(all, next, 2, static_cast<std::size_t>(2 + i % 50));
    p.recv(all, before, 2);
    if (i % kLate == kLate - 1) {
      for (int k = 0; k < kLate; ++k) p.recv(all, before, 1);
    }
    p.message(all, 0, 1, 500);
    if (i % 50 == 0) p.barrier(all);
  }
  for (int k = 0; k < kRounds % kLate; ++k) p.recv(all, before, 1);
}

}  // namespace

std::vector<World> message_worlds() {
  std::vector<World> worlds;
  const auto add = [&](const char* name, std::uint32_t ranks, void (*body)(Player&), bool unordered,
                       bool checkpoints = false) {
    World w = {name, ranks, body};
    w.unordered = unordered;
    w.checkpoints = checkpoints;
    w.must_reach = checkpoints ? std::vector<Probe>{Probe::kRestored, Probe::kResent} : kReached;
    worlds.push_back(std::move(w));
  };
  add("messages", 3, run_named, false);
  add("messages-large", 3, run_large, false);
  add("messages-exchanged", 3, run_exchanged, false);
  add("messages-blocks", 3, run_blocks, false);
  worlds.back().must_reach = {Probe::kResent, Probe::kReceivedAgain};
  add("messages-lent", 2, run_lent, false);
  add("messages-ring", 3, run_ring, false);
  add("messages-any", 4, run_any, true);
  add("messages-asking", 4, run_asking, true);
  add("messages-to-oneself", 2, run_to_oneself, true);
  add("messages-cancelled", 3, run_cancelled, true);
  add("messages-in-order", 3, run_in_order, true);
  add("messages-late", 3, run_late, false);
  add("messages-checkpoints", 3, run_checkpoints, false, true);
  World limit = {"messages-limit", 3, run_limit};
  limit.journal_limit_bytes = 4 << 20;
  worlds.push_back(std::move(limit));
  return worlds;
}

}  // namespace rejoin::sim
