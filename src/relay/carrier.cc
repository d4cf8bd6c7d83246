#include "relay/carrier.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace rejoin::relay {

using journal::kRelayStores;
using journal::Step;

namespace {

// Leaves errno as the program knows it.
class SavedErrno {
 public:
  SavedErrno() : saved_(errno) {}
  ~SavedErrno() { errno = saved_; }

 private:
  int saved_;
};

int close_it(int fd) { return static_cast<int>(syscall(SYS_close, fd)); }

// The program may have closed a descriptor of ours, and have opened another one in its place.
bool is_socket(int fd, std::uint64_t cookie) {
  std::uint64_t found = 0;
  socklen_t size = sizeof found;
  return syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_COOKIE, &found, &size) == 0 && found == cookie;
}

}  // namespace

RankCarrier::RankCarrier(std::byte* base, std::uint32_t rank, journal::Arena& arena)
    : base_(base), rank_(rank), nodes_(arena) {
  const std::uint32_t own = journal::control_of(base, rank)->node;
  std::uint32_t nodes = 0;
  for (std::uint32_t r = 0; r < journal::header_of(base)->ranks; ++r) {
    nodes = std::max(nodes, journal::control_of(base, r)->node + 1);
  }
  for (std::uint32_t n = 0; n < nodes; ++n) {
    if (n != own) nodes_.push_back({n, 0, -1});
  }
}

void RankCarrier::carry(std::uint32_t node) {
  const SavedErrno saved;
  for (Held& held : nodes_) {
    if (held.node != node) continue;
    Link::of(base_, node).note();
    const Did did = refused_ ? Did{.left = true} : run(held, What::kSend);
    left_ |= did.left || did.blocked || did.ended;
    if (!looks_) waited();
  }
}

void RankCarrier::look() {
  if (refused_) return;
  const SavedErrno saved;
  looks_ = true;
  left_ = false;  // it is found again
  for (Held& held : nodes_) {
    const Did did = run(held, What::kSendAndReceive);
    left_ |= did.left || did.blocked;
    if (did.ended) ring_relay();
  }
}

void RankCarrier::waited() {
  looks_ = false;
  for (Held& held : nodes_) {
    if (held.fd < 0) continue;
    const SavedErrno saved;
    close_it(held.fd);
    held = {held.node, 0, -1};
  }
  // A relay that dozes looks again within a few milliseconds, and the rank may wait before that.
  if (!std::exchange(left_, false) || relay_dozes()) return;
  const SavedErrno saved;
  ring_relay();
}

void RankCarrier::sleeps() {
  waited();
  if (!relay_dozes()) return;
  const SavedErrno saved;
  ring_relay();
}

void RankCarrier::let_go() {
  waited();
  close_relay();
}

Did RankCarrier::run(Held& held, What what) {
  const Driver me = driver_of(
      rank_, journal::control_of(base_, rank_)->incarnation.load(std::memory_order_relaxed));
  return Link::of(base_, held.node).run(me, what, [&](const Connection& c) {
    return open(held, c);
  });
}

int RankCarrier::open(Held& held, const Connection& connection) {
  if (held.cookie == connection.cookie && held.fd >= 0) return held.fd;
  if (held.fd >= 0) close_it(held.fd);
  held = {held.node, connection.cookie, socket_of(connection)};
  return held.fd;
}

int RankCarrier::socket_of(const Connection& connection) {
  if (connection.relay != relay_) {
    close_relay();
    relay_ = connection.relay;
  }
  for (int attempt = 0; attempt < 2 && !refused_; ++attempt) {
    if (relay_fd_ < 0) {
      constexpr int kFirstDescriptor = 900;  // as recovery/attach.cc: above what programs count on
      const int fd = static_cast<int>(syscall(SYS_pidfd_open, relay_, 0));
      if (fd < 0) return -1;
      relay_fd_ = fcntl(fd, F_DUPFD_CLOEXEC, kFirstDescriptor);
      if (relay_fd_ >= 0) close_it(fd);
      if (relay_fd_ < 0) relay_fd_ = fd;
    }
    const int fd = static_cast<int>(syscall(SYS_pidfd_getfd, relay_fd_, connection.fd, 0));
    if (fd >= 0 && is_socket(fd, connection.cookie)) return fd;
    if (fd < 0 && (errno == EPERM || errno == ENOSYS)) refused_ = true;
    if (fd >= 0) close_it(fd);
    if (fd >= 0 || errno == EBADF) relay_fd_ = -1;  // it is the program's, or closed
  }
  return -1;
}

void RankCarrier::close_relay() {
  if (relay_fd_ >= 0) close_it(relay_fd_);
  relay_fd_ = -1;
  relay_ = 0;
}

bool RankCarrier::relay_dozes() const {
  return journal::header_of(base_)->relay_dozes.load(std::memory_order_seq_cst) != 0;
}

void RankCarrier::ring_relay() {
  auto& bell = journal::header_of(base_)->relay_bell;
  bell.store(kRelayStores, Step::kSame, 1, std::memory_order_seq_cst);
  syscall(SYS_futex, bell.address(), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace rejoin::relay
