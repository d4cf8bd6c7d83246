#include "relay/relay.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "relay/link.h"

namespace rejoin::relay {
namespace {

constexpr int kConnectMs = 2'000;
constexpr long kPauseNs = 20'000'000;
constexpr std::uint64_t kTellAfterNs = 5'000'000'000;
constexpr std::size_t kMostStrangers = 8;  // connections that have not proved anything yet

// The newest connection with each node that connects to this one.
class Accepted {
 public:
  explicit Accepted(const Plan& plan) : plan_(plan), peers_(plan.nodes.size()) {}

  // Takes the place of the former connection with that node, whose relay has connected again. The
  // copies have one writer: the former link has written its last byte before this one says how far
  // they reach.
  void take(std::uint32_t node, int fd) {
    Peer& peer = peers_[node];
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(peer.mutex);
      number = ++peer.newest;
      if (peer.link != nullptr) peer.link->cut();
    }
    const std::lock_guard turn(peer.turn);
    Link link(plan_.base, plan_.node, node, fd);
    {
      const std::lock_guard lock(peer.mutex);
      peer.link = &link;
      if (number != peer.newest) link.cut();
    }
    if (!link.receive()) _exit(kExitProtocol);
    const std::lock_guard lock(peer.mutex);
    peer.link = nullptr;
  }
  // Whether another connection may be greeted now.
  bool enter() {
    const std::lock_guard lock(mutex_);
    if (strangers_ == kMostStrangers) return false;
    ++strangers_;
    return true;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    --strangers_;
  }

 private:
  const Plan& plan_;
  struct Peer {
    std::mutex turn;           // held while its connection lasts
    std::mutex mutex;          // of the rest
    std::uint64_t newest = 0;  // number of the newest connection
    Link* link = nullptr;
  };
  std::deque<Peer> peers_;
  std::mutex mutex_;  // of strangers_
  std::size_t strangers_ = 0;
};

// Connects to a node with a lower number, again whenever the connection has ended.
void keep_connected(const Plan& plan, std::uint32_t node) {
  const Address& address = plan.nodes[node];
  std::uint64_t told_at_ns = now_ns() + kTellAfterNs;  // 0: it has been told
  for (;;) {
    std::string why = "it has another secret, or is no relay";
    const int fd = connect_to(address, kConnectMs, &why);
    if (fd >= 0 && greet(fd, {plan.job, plan.node, node}, plan.authenticate)) {
      Link link(plan.base, plan.node, node, fd);
      if (!link.receive()) _exit(kExitProtocol);
      told_at_ns = now_ns() + kTellAfterNs;
      continue;
    }
    if (told_at_ns != 0 && now_ns() > told_at_ns) {
      told_at_ns = 0;
      fprintf(
          stderr,
          "rejoin: node %u cannot connect to node %u at %s, port %u: %s; the job waits for it\n",
          plan.node, node, address.host.c_str(), address.port, why.c_str());
    }
    if (fd >= 0) close(fd);
    const timespec pause = {0, kPauseNs};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace

void run(const Plan& plan) {
  for (std::uint32_t node = 0; node < plan.node; ++node) {
    std::thread([&plan, node] { keep_connected(plan, node); }).detach();
  }
  Accepted accepted(plan);
  for (;;) {
    const int fd = accept4(plan.listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) {
      const timespec pause = {0, kPauseNs};
      if (errno != EINTR) nanosleep(&pause, nullptr);
      continue;
    }
    if (!accepted.enter()) {
      close(fd);
      continue;
    }
    std::thread([&plan, &accepted, fd] {
      const auto node = greet(fd, {plan.job, plan.node, kAnyNode}, plan.authenticate);
      accepted.leave();
      const bool good = node && *node > plan.node && *node < plan.nodes.size();
      good ? accepted.take(*node, fd) : static_cast<void>(close(fd));
    }).detach();
  }
}

}  // namespace rejoin::relay
