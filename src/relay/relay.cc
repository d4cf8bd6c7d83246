#include "relay/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "relay/link.h"

namespace rejoin::relay {

using journal::kRelayStores;
using journal::RelayState;
using journal::Step;

namespace {

constexpr int kConnectMs = 2'000;
constexpr std::uint64_t kPauseNs = 20'000'000;
constexpr std::uint64_t kPatienceNs = 200'000'000;  // with a relay that should connect again
constexpr std::uint64_t kTellAfterNs = 5'000'000'000;
constexpr std::size_t kMostStrangers = 8;  // connections that have not proved anything yet

// Looks between two sleeps. A relay shares its processor with ranks.
constexpr unsigned kLooks = 20;
// The same with libfabric on a processor of its own, after something was carried.
constexpr unsigned kLooksOfItsOwn = 20'000;
constexpr int kDozeMs = 1;       // while ranks do its work
constexpr int kBusyMs = 1;       // while another process drives a link
constexpr int kSleepMs = 5;      // bounds how late records arrive, which ranks do not send at once
constexpr int kPositionsMs = 2;  // after so long without anything new, positions are sent
constexpr std::uint64_t kPositionsEveryNs = 100'000'000;

void pause_for(std::uint64_t ns) {
  const timespec pause = {0, static_cast<long>(ns)};
  nanosleep(&pause, nullptr);
}

class Relay {
 public:
  explicit Relay(const Plan& plan);
  [[noreturn]] void run();

 private:
  struct Peer {
    std::uint32_t node = 0;
    Link* link = nullptr;
    int fd = -1;
    SocketWire socket = SocketWire();  // `fd`
    std::unique_ptr<FabricConnection> fabric = nullptr;
    Wire* wire = nullptr;     // one of the two
    std::uint32_t steps = 0;  // of the link, when it was last looked at
    bool blocked = false;     // the socket has no room
  };
  struct Arrived {
    std::uint32_t node;
    int fd;  // -1: it is none
    bool has_connected;
    Digest key;
  };

  Arrived welcome(int fd, std::uint32_t node);
  bool is_connected(std::uint32_t node);
  void connect(std::uint32_t node);
  void keep_connected(std::uint32_t node);
  void accept_all();
  void hear_bell();
  void give(const Arrived& arrived);
  void wake();

  void take_over(Peer& peer);
  void welcome_arrived();
  void begin(Peer& peer, const Arrived& arrived);
  void tell_why(Peer& peer);
  void forget(Peer& peer);
  static void close_connection(Peer& peer);
  void end(Peer& peer);
  bool look(Peer& peer, bool with_positions);
  bool ranks_drive();
  void say(RelayState state);
  bool any_asleep() const;
  bool doze();
  bool sleep(int ms, bool with_sockets);

  const Plan& plan_;
  int event_;
  std::deque<Peer> peers_;
  std::vector<std::uint32_t> mine_;  // ranks
  bool has_told_of_fabric_ = false;

  std::mutex mutex_;  // of what follows
  std::condition_variable ended_;
  std::vector<Arrived> arrived_;
  std::vector<bool> connected_;  // by node
  std::size_t strangers_ = 0;
};

Relay::Relay(const Plan& plan)
    : plan_(plan), event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), connected_(plan.nodes.size()) {
  if (event_ < 0) _exit(kExitSystem);
  for (std::uint32_t n = 0; n < plan.nodes.size(); ++n) {
    if (n == plan.node) continue;
    peers_.push_back({n, &Link::of(plan.base, n)});
  }
  for (std::uint32_t r = 0; r < journal::header_of(plan.base)->ranks; ++r) {
    if (journal::control_of(plan.base, r)->node == plan.node) mine_.push_back(r);
  }
}

// --- Connections, by threads of their own

void Relay::wake() {
  const std::uint64_t one = 1;
  if (write(event_, &one, sizeof one) < 0 && errno != EAGAIN) _exit(kExitSystem);
}

void Relay::give(const Arrived& arrived) {
  const std::lock_guard lock(mutex_);
  arrived_.push_back(arrived);
  connected_[arrived.node] = true;
  wake();
}

// Returns the node at the other end and what the link uses, or -1. Takes the socket. `node`: that
// is to be there; kAnyNode: one that has connected.
Relay::Arrived Relay::welcome(int fd, std::uint32_t node) {
  const auto other = greet(fd, {plan_.job, plan_.timeline, plan_.node, node}, plan_.authenticate);
  const bool has_connected = node == kAnyNode;
  const bool good = other && other->node < plan_.nodes.size();
  if (!good) {
    close(fd);
    return {node, -1, has_connected, {}};
  }
  const int link = plan_.encrypt ? plan_.encrypt(fd, has_connected, other->key) : fd;
  return {other->node, link, has_connected, other->key};
}

// Connects to a node with a lower number, again whenever the connection has ended.
void Relay::keep_connected(std::uint32_t node) {
  for (;;) {
    connect(node);
    const std::uint64_t began_ns = now_ns();
    {
      std::unique_lock lock(mutex_);
      ended_.wait(lock, [&] { return !connected_[node]; });
    }
    if (now_ns() - began_ns < kPauseNs) pause_for(kPauseNs);  // it may end at once again
  }
}

bool Relay::is_connected(std::uint32_t node) {
  const std::lock_guard lock(mutex_);
  return connected_[node];
}

void Relay::connect(std::uint32_t node) {
  const Address& address = plan_.nodes[node];
  std::uint64_t told_at_ns = now_ns() + kTellAfterNs;  // 0: it has been told
  while (!is_connected(node)) {
    std::string why;
    const int fd = connect_to(address, kConnectMs, &why);
    if (fd >= 0) why = "it has another secret, does not encrypt as this node does, or is no relay";
    const Arrived arrived = fd >= 0 ? welcome(fd, node) : Arrived{node, -1, false, {}};
    if (arrived.fd >= 0) return give(arrived);
    if (told_at_ns != 0 && now_ns() > told_at_ns) {
      told_at_ns = 0;
      fprintf(
          stderr,
          "rejoin: node %u cannot connect to node %u at %s, port %u: %s; the job waits for it\n",
          plan_.node, node, address.host.c_str(), address.port, why.c_str());
    }
    pause_for(kPauseNs);
  }
}

void Relay::accept_all() {
  for (;;) {
    const int fd = accept4(plan_.listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno != EINTR) pause_for(kPauseNs);
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      if (strangers_ == kMostStrangers) {
        close(fd);
        continue;
      }
      ++strangers_;
    }
    const auto leaves = [this] {
      const std::lock_guard lock(mutex_);
      --strangers_;
    };
    try {
      std::thread([this, fd, leaves] {
        const Arrived arrived = welcome(fd, kAnyNode);
        leaves();
        if (arrived.fd >= 0) give(arrived);
      }).detach();
    } catch (const std::system_error&) {  // the limit of processes; it connects again
      close(fd);
      leaves();
    }
  }
}

void Relay::hear_bell() {
  auto& bell = journal::header_of(plan_.base)->relay_bell;
  for (;;) {
    if (bell.load() == 0) {
      syscall(SYS_futex, bell.address(), FUTEX_WAIT, 0, nullptr, nullptr, 0);
      continue;
    }
    bell.store(kRelayStores, Step::kSame, 0, std::memory_order_seq_cst);
    wake();
  }
}

// --- The main thread

// Becomes the driver of a link: when the one that drives it now has done its step, or is found to
// be dead. A former relay has ended before this one was started.
void Relay::take_over(Peer& peer) {
  constexpr std::uint64_t kLookNs = 50'000;
  for (;;) {
    const Driver driver = peer.link->driver();
    const auto rank = static_cast<std::uint32_t>(driver - 1);
    const bool is_free = driver == Link::kNobody || driver == kRelay;
    const bool is_dead =
        !is_free &&
        driver != driver_of(rank, journal::control_of(plan_.base, rank)->incarnation.load());
    if ((is_free || is_dead) && peer.link->take(driver, kRelay)) return;
    pause_for(kLookNs);
  }
}

// A new connection takes the place of the former one with that node, whose relay has connected
// again.
void Relay::welcome_arrived() {
  std::vector<Arrived> arrived;
  {
    const std::lock_guard lock(mutex_);
    arrived.swap(arrived_);
  }
  for (const Arrived& a : arrived) {
    Peer& peer = *std::find_if(peers_.begin(), peers_.end(),
                               [&](const Peer& p) { return p.node == a.node; });
    take_over(peer);
    if (peer.fd >= 0) close_connection(peer);
    begin(peer, a);
    peer.link->give_back();
  }
}

void Relay::begin(Peer& peer, const Arrived& arrived) {
  Connection connection = {getpid(), arrived.fd, 0, plan_.timeline};
  socklen_t size = sizeof connection.cookie;
  if (getsockopt(arrived.fd, SOL_SOCKET, SO_COOKIE, &connection.cookie, &size) != 0) {
    _exit(kExitSystem);
  }
  peer.fd = arrived.fd;
  peer.socket = SocketWire(peer.fd);
  peer.wire = &peer.socket;
  if (plan_.fabric != nullptr) {
    FabricPlan plan;
    plan.socket = peer.fd;
    plan.base = plan_.base;
    plan.bytes = journal::header_of(plan_.base)->links;
    std::uint64_t secrets[2];  // of the side that has connected, and of the other one
    static_assert(sizeof secrets <= kDigestBytes);
    memcpy(secrets, arrived.key.data(), sizeof secrets);
    plan.mine = secrets[arrived.has_connected ? 1 : 0];
    plan.theirs = secrets[arrived.has_connected ? 0 : 1];
    plan.place = [link = peer.link](std::uint64_t at, std::uint32_t bytes) {
      return link->place(at, bytes);
    };
    std::string why;
    peer.fabric = plan_.fabric->connect(plan, &why);
    if (!peer.fabric) {
      if (!std::exchange(has_told_of_fabric_, true)) {
        fprintf(stderr,
                "rejoin: node %u cannot use libfabric to reach node %u: %s; the job waits for it\n",
                plan_.node, peer.node, why.c_str());
      }
      pause_for(kPauseNs);
      peer.link->end();
      forget(peer);
      return;
    }
    peer.wire = peer.fabric.get();
    connection.fd = -1;  // ranks cannot drive it
  }
  peer.link->begin(plan_.base, plan_.node, peer.node, connection);
}

void Relay::close_connection(Peer& peer) {
  peer.fabric.reset();
  // Processes of ranks may have this socket open, too.
  shutdown(peer.fd, SHUT_RDWR);
  close(peer.fd);
  peer.fd = -1;
}

// Says why a connection of libfabric has failed, if the other relay is there.
void Relay::tell_why(Peer& peer) {
  constexpr int kPatienceMs = 200;  // a provider may notice before the socket does
  if (!peer.fabric || peer.fabric->why().empty() || has_told_of_fabric_) return;
  pollfd ended = {peer.fd, POLLIN, 0};
  if (poll(&ended, 1, kPatienceMs) != 0) return;
  has_told_of_fabric_ = true;
  fprintf(stderr, "rejoin: node %u cannot use libfabric to reach node %u: %s; it tries again\n",
          plan_.node, peer.node, peer.fabric->why().c_str());
}

void Relay::end(Peer& peer) {
  tell_why(peer);
  take_over(peer);
  peer.link->end();
  peer.link->give_back();
  forget(peer);
}

// Another connection can be made.
void Relay::forget(Peer& peer) {
  close_connection(peer);
  const std::lock_guard lock(mutex_);
  // Another connection may have arrived meanwhile.
  connected_[peer.node] = std::any_of(arrived_.begin(), arrived_.end(),
                                      [&](const Arrived& a) { return a.node == peer.node; });
  ended_.notify_all();
}

// Returns whether there was anything to do.
bool Relay::look(Peer& peer, bool with_positions) {
  if (peer.fd < 0) return false;
  const Driver driver = peer.link->driver();
  if (driver != Link::kNobody) {
    const auto rank = static_cast<std::uint32_t>(driver - 1);
    if (driver != driver_of(rank, journal::control_of(plan_.base, rank)->incarnation.load())) {
      end(peer);  // it has died in a step
    }
    return false;
  }
  const Did did = peer.link->run(kRelay, What::kSendAndReceive, [&](const Connection&) {
    if (with_positions) peer.link->add_positions();
    return peer.wire;
  });
  peer.blocked = did.blocked;
  peer.steps = peer.link->steps();
  if (peer.link->ending() == Ending::kNone) return did.carried || did.left;
  if (peer.link->ending() == Ending::kRefused) _exit(kExitProtocol);
  end(peer);
  return true;
}

// Whether ranks that wait have driven all links since the last look.
bool Relay::ranks_drive() {
  bool all = true, any = false;
  for (Peer& peer : peers_) {
    if (peer.fd < 0) continue;
    const std::uint32_t steps = peer.link->steps();
    all &= steps != peer.steps && peer.link->ending() == Ending::kNone;
    any = true;
    peer.steps = steps;
  }
  return any && all;
}

void Relay::say(RelayState state) {
  journal::header_of(plan_.base)
      ->relay_state.store(kRelayStores, Step::kSame, state, std::memory_order_seq_cst);
}

bool Relay::any_asleep() const {
  const journal::SegmentHeader* h = journal::header_of(plan_.base);
  return std::any_of(mine_.begin(), mine_.end(),
                     [&](std::uint32_t r) { return h->asleep[r].load() != 0; });
}

// Until the bell has rung, a connection has arrived or a socket is ready. Returns whether it was
// woken.
bool Relay::sleep(int ms, bool with_sockets) {
  std::vector<pollfd> all = {{event_, POLLIN, 0}};
  if (plan_.fabric != nullptr) say(RelayState::kWakes);
  for (const Peer& p : peers_) {
    if (p.fd < 0 || !with_sockets) continue;
    if (p.fabric) {
      const int most = p.link->is_pending() ? 0 : p.fabric->wait_for(all);
      if (most >= 0) ms = std::min(ms, most);
    } else if (p.link->driver() != Link::kNobody) {
      ms = std::min(ms, kBusyMs);
    } else {
      all.push_back({p.fd, static_cast<short>(p.blocked ? POLLIN | POLLOUT : POLLIN), 0});
    }
  }
  const bool woken = poll(all.data(), all.size(), ms) > 0;
  std::uint64_t count = 0;
  if (read(event_, &count, sizeof count) < 0 && errno != EAGAIN) _exit(kExitSystem);
  if (plan_.fabric != nullptr) say(RelayState::kLooks);
  return woken;
}

void Relay::run() {
  for (Peer& peer : peers_) {
    take_over(peer);
    // A rank may have a former relay's socket open, so that the other relay does not see that the
    // connection has ended, and does not connect again.
    if (peer.node > plan_.node && peer.link->had_connection(plan_.timeline)) {
      std::thread([this, node = peer.node] {
        do {
          pause_for(kPatienceNs);
          connect(node);
          pause_for(kPatienceNs);
        } while (!is_connected(node));
      }).detach();
    }
    peer.link->end();
    peer.link->give_back();
  }
  for (std::uint32_t node = 0; node < plan_.node; ++node) {
    std::thread([this, node] { keep_connected(node); }).detach();
  }
  std::thread([this] { accept_all(); }).detach();
  std::thread([this] { hear_bell(); }).detach();
  // A former relay may have ended while it dozed, or looked.
  say(plan_.fabric != nullptr ? RelayState::kLooks : RelayState::kWakes);
  const bool looks_long = plan_.fabric != nullptr && plan_.has_processor;
  std::uint64_t positions_ns = now_ns();
  bool is_idle = false, just_idle = false;
  for (unsigned looks = 0;;) {
    welcome_arrived();
    // Ranks that wait for long need positions, also where others are never idle.
    bool with_positions = now_ns() - positions_ns > kPositionsEveryNs;
    if (!with_positions && looks == 0 && ranks_drive() && !doze()) continue;
    with_positions |= std::exchange(just_idle, false);
    if (with_positions) positions_ns = now_ns();
    bool any = false;
    for (Peer& peer : peers_) any |= look(peer, with_positions);
    if (any) {
      looks = 0;
      is_idle &= with_positions;  // positions may be all that there was
    } else if (++looks < (is_idle || !looks_long ? kLooks : kLooksOfItsOwn)) {
      sched_yield();
    } else {
      looks = 0;
      const bool was_idle = is_idle;
      is_idle = !sleep(is_idle ? kSleepMs : kPositionsMs, true);
      just_idle = is_idle && !was_idle;
    }
  }
}

// While ranks do the work. Returns whether there is something for this process to do.
bool Relay::doze() {
  if (any_asleep()) return true;
  say(RelayState::kDozes);
  const bool woken = any_asleep() || sleep(kDozeMs, false);
  say(RelayState::kWakes);
  return woken;
}

}  // namespace

void run(const Plan& plan) {
  static Relay relay(plan);
  relay.run();
}

}  // namespace rejoin::relay
