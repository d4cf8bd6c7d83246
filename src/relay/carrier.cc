#include "relay/carrier.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <utility>

#include "journal/system_call.h"

namespace rejoin::relay {

using journal::kRelayStores;
using journal::RelayState;
using journal::Step;

namespace {

void close_it(int fd) { journal::system_call(SYS_close, fd); }

// The program may have closed a descriptor of ours, and have opened another one in its place.
bool is_socket(int fd, std::uint64_t cookie) {
  std::uint64_t found = 0;
  socklen_t size = sizeof found;
  return journal::system_call(SYS_getsockopt, fd, SOL_SOCKET, SO_COOKIE,
                              reinterpret_cast<long>(&found), reinterpret_cast<long>(&size)) == 0 &&
         found == cookie;
}

bool is_process(int fd) { return journal::system_call(SYS_pidfd_send_signal, fd, 0) != -EBADF; }

// As recovery/attach.cc: above what programs count on. With a low limit on descriptors, at least
// above the standard ones: a program that has closed its output may still write to that number.
constexpr int kFirstDescriptor = 900;
int move_high(int fd) {
  auto high =
      static_cast<int>(journal::system_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, kFirstDescriptor));
  if (high < 0 && fd > 2) return fd;
  if (high < 0) high = static_cast<int>(journal::system_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3));
  close_it(fd);
  return high;
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
    if (n != own) nodes_.push_back({n});
  }
}

void RankCarrier::carry(std::uint32_t node) {
  for (Held& held : nodes_) {
    if (held.node != node) continue;
    Link& link = Link::of(base_, node);
    link.note();
    if (link.is_relays()) {
      if (!is_relay(RelayState::kLooks)) ring_relay();
      return;
    }
    const Did did = refused_ ? Did{.left = true} : run(held, What::kSend);
    if (did.ended || (did.left && held.fd < 0)) {
      ring_relay();  // this rank cannot go on with it
    } else {
      left_ |= did.left || did.blocked;
    }
    if (!looks_ && loans_.out == nullptr) waited();
  }
}

void RankCarrier::look() {
  if (refused_) return;
  looks_ = true;
  left_ = false;  // the steps below set it again if something is still left
  for (Held& held : nodes_) {
    if (Link::of(base_, held.node).is_relays()) continue;
    const Did did = run(held, What::kSendAndReceive);
    if (did.ended || (did.left && held.fd < 0)) {
      ring_relay();
    } else {
      left_ |= did.left || did.blocked;
    }
  }
}

void RankCarrier::waited() {
  looks_ = false;
  for (Held& held : nodes_) {
    if (held.fd < kFirstDescriptor) close_held(held);  // the program counts on such numbers
    held.is_known = false;
  }
  // A relay that dozes looks again within a few milliseconds, and the rank may wait before that.
  if (!std::exchange(left_, false) || is_relay(RelayState::kDozes)) return;
  ring_relay();
}

void RankCarrier::sleeps() {
  waited();
  if (!is_relay(RelayState::kDozes)) return;
  ring_relay();
}

bool RankCarrier::send_from(const journal::Loan* loan) {
  if (loan != nullptr && (refused_ || loans_.out != nullptr)) return false;
  loans_.out = loan;
  if (loan == nullptr && !looks_) waited();
  return true;
}

bool RankCarrier::receive_to(journal::Loan* loan) {
  if (loan != nullptr && (refused_ || loans_.in != nullptr)) return false;
  loans_.in = loan;
  return true;
}

journal::Ahead RankCarrier::ahead(std::uint32_t node, std::uint64_t key) {
  return Link::of(base_, node).ahead(key);
}

void RankCarrier::let_go() {
  waited();
  for (Held& held : nodes_) close_held(held);
  close_relay();
}

Did RankCarrier::run(Held& held, What what) {
  const Driver me = driver_of(
      rank_, journal::control_of(base_, rank_)->incarnation.load(std::memory_order_relaxed));
  Link& link = Link::of(base_, held.node);
  if (link.driver() == me) {
    link.abandon();
    loans_ = {};  // what was lent has been left, too
  }
  return link.run(
      me, what, [&](const Connection& c) { return open(held, c); }, loans_);
}

// The program may have closed it, and may have a file of its own by that number.
bool RankCarrier::is_ours(Held& held) {
  held.is_known = held.is_known || (held.fd >= 0 && is_socket(held.fd, held.cookie));
  return held.is_known;
}

void RankCarrier::close_held(Held& held) {
  if (is_ours(held)) close_it(held.fd);
  held = {held.node};
}

Wire* RankCarrier::open(Held& held, const Connection& connection) {
  if (held.cookie != connection.cookie || !is_ours(held)) {
    close_held(held);
    if (connection.cookie != 0) held.fd = socket_of(connection);
    held.cookie = connection.cookie;
    held.is_known = held.fd >= 0;
  }
  if (held.fd < 0) return nullptr;
  wire_ = SocketWire(held.fd);
  return &wire_;
}

int RankCarrier::socket_of(const Connection& connection) {
  if (connection.relay != relay_) {
    close_relay();
    relay_ = connection.relay;
  }
  for (int attempt = 0; attempt < 2 && !refused_; ++attempt) {
    if (relay_fd_ < 0) {
      const auto fd = static_cast<int>(journal::system_call(SYS_pidfd_open, relay_));
      refused_ = fd == -EPERM || fd == -ENOSYS;
      if (fd < 0) return -1;
      relay_fd_ = move_high(fd);
    }
    const long fd = journal::system_call(SYS_pidfd_getfd, relay_fd_, connection.fd);
    const bool is_file = fd >= 0;
    if (is_file && is_socket(static_cast<int>(fd), connection.cookie)) {
      return move_high(static_cast<int>(fd));
    }
    if (is_file) close_it(static_cast<int>(fd));
    refused_ = fd == -EPERM || fd == -ENOSYS;
    // Some kernels say EBADF, too, if the relay is ending.
    if (!is_file && (fd != -EBADF || is_process(relay_fd_))) return -1;
    relay_fd_ = -1;  // it is the program's, or was closed
  }
  return -1;
}

void RankCarrier::close_relay() {
  if (relay_fd_ >= 0 && is_process(relay_fd_)) close_it(relay_fd_);
  relay_fd_ = -1;
  relay_ = 0;
}

bool RankCarrier::is_relay(journal::RelayState state) const {
  return journal::header_of(base_)->relay_state.load(std::memory_order_seq_cst) == state;
}

void RankCarrier::ring_relay() {
  auto& bell = journal::header_of(base_)->relay_bell;
  bell.store(kRelayStores, Step::kSame, 1, std::memory_order_seq_cst);
  journal::system_call(SYS_futex, reinterpret_cast<long>(bell.address()), FUTEX_WAKE, 1);
}

}  // namespace rejoin::relay
