// link_drivers ROUNDS: the connection between two nodes, driven by several threads at a time, as
// ranks and relays drive it. Two ranks of node 0 count in words that node 1 reads; threads of both
// nodes send and receive. Now and then a driver dies: it never gives the link back, and the relay,
// which finds that out by the rank's next incarnation, begins another connection. At the end node 1
// has the counts. Under ThreadSanitizer this shows that one driver at a time uses the state of a
// link.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "journal/layout.h"
#include "relay/link.h"

namespace {

using namespace rejoin;
using relay::Link;

relay::Wire* open_in(relay::SocketWire& wire, const relay::Connection& c) {
  wire = relay::SocketWire(c.fd);
  return c.fd < 0 ? nullptr : &wire;
}

constexpr std::uint32_t kRanks = 4;  // 0 and 1 on node 0, 2 and 3 on node 1
constexpr std::uint32_t kReader = 2;
constexpr std::uint64_t kDiesEvery = 5000;

[[noreturn]] void fail(const char* why) {
  fprintf(stderr, "link_drivers: %s\n", why);
  _exit(1);
}

std::byte* make_segment() {
  const std::uint64_t regions = journal::segment_bytes_for(kRanks, 0);
  const std::uint64_t bytes = regions + 2 * relay::kLinkBytes;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) fail("no memory");
  auto* base = static_cast<std::byte*>(p);
  journal::format_segment(base, kRanks, 1, 0, 2);
  journal::SegmentHeader* h = journal::header_of(base);
  h->has_relay = 1;
  h->links = regions;
  h->link_bytes = relay::kLinkBytes;
  h->segment_bytes = bytes;
  for (std::uint32_t r = 0; r < kRanks; ++r) journal::control_of(base, r)->node = r / 2;
  return base;
}

class Nodes {
 public:
  Nodes() : base_{make_segment(), make_segment()} { connect(); }

  std::byte* base(std::uint32_t node) const { return base_[node]; }
  Link& link(std::uint32_t node) const { return Link::of(base_[node], 1 - node); }

  // Either does what there is to do for a node, or begins another connection.
  void look(std::uint32_t node) {
    Link& link = this->link(node);
    const relay::Driver driver = link.driver();
    if (driver != Link::kNobody && driver != relay::kRelay && is_dead(node, driver))
      return connect();
    relay::SocketWire wire;
    const auto open = [&](const relay::Connection& c) { return open_in(wire, c); };
    if (link.run(relay::kRelay, relay::What::kSendAndReceive, open).ended) connect();
  }

 private:
  bool is_dead(std::uint32_t node, relay::Driver driver) const {
    const auto rank = static_cast<std::uint32_t>(driver - 1);
    const auto now = journal::control_of(base_[node], rank)->incarnation.load();
    return driver != relay::driver_of(rank, now);
  }
  void take_over(std::uint32_t node) {
    for (;;) {
      const relay::Driver driver = link(node).driver();
      const bool is_free =
          driver == Link::kNobody || (driver != relay::kRelay && is_dead(node, driver));
      if (is_free && link(node).take(driver, relay::kRelay)) return;
      std::this_thread::yield();
    }
  }
  void connect() {
    const std::lock_guard lock(mutex_);
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) fail("no sockets");
    for (std::uint32_t node = 0; node < 2; ++node) take_over(node);
    for (std::uint32_t node = 0; node < 2; ++node) {
      link(node).begin(base_[node], node, 1 - node, {getpid(), fds[node], ++cookie_, 0});
      if (fds_[node] >= 0) close(fds_[node]);
      fds_[node] = fds[node];
    }
    for (std::uint32_t node = 0; node < 2; ++node) link(node).give_back();
    ++connections;
  }

  std::array<std::byte*, 2> base_;
  std::mutex mutex_;
  std::array<int, 2> fds_ = {-1, -1};
  std::uint64_t cookie_ = 0;

 public:
  std::atomic<unsigned> connections{0};
};

// A rank of node 0.
void count(Nodes& nodes, std::uint32_t rank, std::uint64_t rounds) {
  std::byte* base = nodes.base(0);
  auto& word = journal::consumed_of(base, rank)[kReader];
  auto& incarnation = journal::control_of(base, rank)->incarnation;
  Link& link = nodes.link(0);
  for (std::uint64_t i = 1; i <= rounds; ++i) {
    word.store(journal::kRelayStores, journal::Step::kSame, i);
    const relay::Driver me = relay::driver_of(rank, incarnation.load());
    if (i % kDiesEvery == 0) {
      while (!link.take(Link::kNobody, me)) std::this_thread::yield();
      incarnation.store(journal::kAgentStores, journal::Step::kSame, incarnation.load() + 1);
      continue;
    }
    link.note();
    relay::SocketWire wire;
    static_cast<void>(link.run(me, relay::What::kSend,
                               [&](const relay::Connection& c) { return open_in(wire, c); }));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t rounds = argc > 1 ? strtoull(argv[1], nullptr, 10) : 0;
  if (rounds == 0) {
    fprintf(stderr, "usage: link_drivers ROUNDS\n");
    return 2;
  }
  Nodes nodes;
  std::atomic<bool> over{false};
  std::vector<std::thread> relays, ranks;
  for (const std::uint32_t node : {0u, 1u, 1u}) {  // two threads of node 1: a relay and a rank
    relays.emplace_back([&nodes, &over, node] {
      while (!over) nodes.look(node);
    });
  }
  for (const std::uint32_t rank : {0u, 1u}) {
    ranks.emplace_back([&nodes, rank, rounds] { count(nodes, rank, rounds); });
  }
  for (std::thread& t : ranks) t.join();
  for (const std::uint32_t rank : {0u, 1u}) {
    const auto& copy = journal::consumed_of(nodes.base(1), rank)[kReader];
    while (copy.load() < rounds) std::this_thread::yield();  // the test has a limit
    if (copy.load() != rounds) fail("a count that was never published");
  }
  over = true;
  for (std::thread& t : relays) t.join();
  printf("%llu counts, %u connections\n", static_cast<unsigned long long>(rounds),
         nodes.connections.load());
  if (rounds >= 2 * kDiesEvery && nodes.connections < 2) fail("no driver died");
  return 0;
}
