// Programs that are not deterministic: bits that are not recorded decide values and orders.
#include "bit_player.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

// A member contributes another number to a sum in each incarnation.
void sums(BitPlayer& p) {
  for (int i = 0; i < 3; ++i) p.sum(p.number(1000) + p.state());
}

// The bits decide the values that are sent and broadcast.
void messages(BitPlayer& p) {
  for (int i = 0; i < 3; ++i) {
    if (p.rank() == 0) p.send(1, p.number(1000) + p.state());
    if (p.rank() == 1) p.receive(0);
    if (p.rank() == 1) p.send(2, p.state());
    if (p.rank() == 2) p.receive(1);
    p.broadcast(0, p.number(1000) + p.state());
  }
  p.barrier();
}

// The bits decide what is broadcast to nodes that give slices of it to each other.
void large_broadcasts(BitPlayer& p) {
  for (std::uint32_t i = 0; i < 4; ++i) {
    p.large_broadcast(i % p.ranks(), p.number(1000) + p.state(), p.rank() % 2 == 0);
    p.sum(p.number(1000));
  }
}

// The same; one rank comes late, so that a set is made, all go back, and another one is made, while
// it has still to receive what the leader of its node has a record of.
void late_broadcasts(BitPlayer& p) {
  for (std::uint32_t i = 1; i < 4; ++i) {
    for (int k = 0; k < 80 && p.rank() == 6; ++k) p.asks(0);
    p.large_broadcast(i, p.number(1000) + p.state(), p.rank() == 6);
    p.sum(p.number(1000));
  }
}

// The bits decide the values that one rank gathers, while it waits for something else.
void gathers(BitPlayer& p) {
  for (std::uint32_t i = 0; i < 3; ++i) {
    p.begin_gather(i % p.ranks(), p.number(1000) + p.state());
    p.sum(p.number(1000));
    p.finish_gather();
  }
}

// The bits decide which rank receives a message.
void choice(BitPlayer& p) {
  if (p.rank() == 0) p.send(p.bit() ? 2 : 1, 5);
  p.barrier();
  if (p.rank() != 0 && p.asks(0)) p.receive(0);
  p.barrier();
}

// The bits decide which of two receives is posted first. In a run without deaths the other order is
// a deadlock: rank 1 continues when its message is matched, and only then does rank 2 send.
void receives(BitPlayer& p) {
  if (p.rank() == 0) {
    const bool other = p.bit();
    p.receive(other ? 2 : 1);
    p.receive(other ? 1 : 2);
  } else if (p.rank() == 1) {
    p.send_synchronously(0, 1);
    p.send(2, 1);
  } else {
    p.receive(1);
    p.send(0, 2);
  }
  p.barrier();
}

// The bits decide whether a rank sends or waits for a message. A rank that has seen the message
// does not send one.
void waits(BitPlayer& p) {
  if (p.rank() == 0) {
    if (!p.bit()) {
      p.send(1, 5);
    } else {
      p.receive(1);
    }
  } else {
    bool there = false;
    for (int i = 0; i < 30 && !there; ++i) there = p.asks(0);
    if (there) {
      p.receive(0);
    } else {
      p.send(0, 6);
    }
  }
  p.barrier();
}

// All of the above together, while sums are outstanding.
void rounds(BitPlayer& p, std::uint32_t count) {
  const std::uint32_t n = p.ranks(), next = (p.rank() + 1) % n;
  for (std::uint32_t i = 0; i < count; ++i) {
    p.begin_sum(p.number(50) + p.state());
    const bool first = p.bit();
    if (first) p.send(next, p.state());
    if (p.number(3) == 2) p.asks(next);
    if (!first) p.send(next, p.state());
    p.receive(p.rank() % 2 == 0 ? -1 : static_cast<int>((p.rank() + n - 1) % n));
    p.finish_sum();
    if (p.rank() == i % n) p.send_synchronously(next, p.number(9));
    if (p.rank() == (i + 1) % n) p.receive(static_cast<int>(i % n));
    p.broadcast(i % n, p.number(50) + p.state());
  }
  p.barrier();
}
void all(BitPlayer& p) { rounds(p, 4); }
void all_longer(BitPlayer& p) { rounds(p, 12); }

// Sums that several nodes reduce in slices, some of them to buffers that are offered.
void large_sums(BitPlayer& p) {
  for (std::uint32_t i = 0; i < 8; ++i) {
    p.large_sum(p.number(1000) + p.state(), p.rank() != i % 3);
    p.sum(p.number(1000));
  }
}

// The bits of rank 1 decide which rank sends the message for which rank 0 waits already.
void senders(BitPlayer& p) {
  bool sends = false;
  if (p.rank() == 0) {
    p.receive(-1);
  } else if (p.rank() == 1) {
    for (int i = 0; i < 4; ++i) p.asks(2);  // images are made here
    sends = p.bit();
    p.send(2, sends ? 0 : 1);
  } else {
    sends = p.receive(1) != 0;
  }
  if (sends) p.send(0, 7);
  p.sum(p.number(1000) + p.state());
}

// The bits decide in which order a rank receives two messages, whose senders wait for that.
void orders(BitPlayer& p) {
  if (p.rank() == 0) {
    for (int i = 0; i < 4; ++i) p.asks(1);  // images are made here
    const bool other = p.bit();
    p.receive(other ? 2 : 1);
    p.receive(other ? 1 : 2);
  } else {
    p.send_synchronously(0, p.rank());
  }
  p.sum(p.number(1000) + p.state());
}

// A message whose sender waits for its match is received before an older one of the same sender.
void overtaking(BitPlayer& p) {
  if (p.rank() == 1) p.send(0, p.number(1000) + p.state(), true);
  if (p.rank() == 1) p.send_synchronously(0, p.number(1000));
  if (p.rank() == 0) p.receive(1);
  for (int i = 0; i < 3; ++i) p.sum(p.number(1000));
  if (p.rank() == 0) p.receive(1, true);
}

// Payload is on its way, or was received out of order, when a set is made.
void long_messages(BitPlayer& p) {
  p.lengthen_messages();
  overtaking(p);
  messages(p);
}

// The bits decide what the models of checkpoints contain.
void checkpoints(BitPlayer& p) {
  p.sum(p.number(1000) + p.state());
  p.checkpoint();
  if (p.rank() == 0) p.send(1, p.number(1000) + p.state());
  if (p.rank() == 1) p.receive(0);
}

// Communicators come and go.
void communicators(BitPlayer& p) {
  p.sums_elsewhere(p.number(1000) + p.state());
  if (p.rank() == 0) p.send(1, p.state());
  if (p.rank() == 1) p.receive(0);
}

// The same as above, several times: sets are made in between.
template <void (*body)(BitPlayer&)>
void again(BitPlayer& p) {
  for (int i = 0; i < 6; ++i) body(p);
}

}  // namespace

std::vector<World> bit_worlds() {
  std::vector<World> worlds;
  const auto add = [&worlds](const char* name, std::uint32_t ranks, void (*body)(BitPlayer&)) {
    World w{name, ranks, [body](Player& player) {
              BitPlayer p(player);
              body(p);
              p.end();
            }};
    w.bits = true;
    worlds.push_back(w);
  };
  add("bits-sums", 2, sums);
  add("bits-messages", 3, messages);
  add("bits-choice", 3, choice);
  add("bits-receives", 3, receives);
  worlds.back().may_deadlock = true;
  add("bits-waits", 2, waits);
  add("bits-all", 3, all);
  add("bits-images", 3, all);
  worlds.back().snapshot_every_turns = 60;
  add("bits-images-of-others", 3, messages);
  worlds.back().snapshot_every_turns = 40;
  worlds.back().unfrozen = 1;
  // If a replay diverges, all ranks go back.
  const auto add_back = [&](const char* name, std::uint32_t ranks, std::uint64_t every,
                            void (*body)(BitPlayer&)) {
    add(name, ranks, body);
    worlds.back().snapshot_every_turns = every;
    worlds.back().goes_back = true;
  };
  add_back("back-sums", 2, 25, again<sums>);
  add_back("back-messages", 3, 40, again<messages>);
  const auto add_apart = [&](const char* name, std::uint32_t ranks, std::uint64_t every,
                             void (*body)(BitPlayer&)) {
    add_back(name, ranks, every, body);
    worlds.back().nodes = 2;
    worlds.back().apart = true;
  };
  add_apart("back-apart-sums", 3, 30, again<sums>);
  add_apart("back-apart", 3, 40, all_longer);
  add_apart("back-apart-pieces", 3, 40, large_sums);
  add_apart("back-apart-whole", 3, 40, large_broadcasts);
  add_apart("back-apart-scattered", 7, 60, large_broadcasts);
  worlds.back().nodes = 6;
  add_apart("back-apart-late", 7, 30, late_broadcasts);
  worlds.back().nodes = 6;
  add_back("back-gathers", 3, 25, again<gathers>);
  add_back("back-gathers-often", 4, 12, gathers);
  add_back("back-choice", 3, 30, choice);
  add_back("back-receives", 3, 30, again<receives>);
  worlds.back().may_deadlock = true;
  add_back("back-waits", 2, 25, waits);
  add_back("back-senders", 3, 40, again<senders>);
  add_back("back-orders", 3, 30, again<orders>);
  add_back("back-overtaking", 2, 20, again<overtaking>);
  add_back("back-long-messages", 3, 40, again<long_messages>);
  add_back("back-communicators", 3, 30, again<communicators>);
  add_back("back-checkpoints", 3, 25, again<checkpoints>);
  add_back("back-all", 3, 60, all_longer);
  add_back("back-often", 3, 20, all_longer);
  return worlds;
}

}  // namespace rejoin::sim
