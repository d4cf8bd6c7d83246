#include "relay/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "wire/random.h"

namespace rejoin::relay {
namespace {

constexpr char kProtocol[8] = {'R', 'E', 'J', 'O', 'I', 'N', 'R', '4'};
constexpr std::size_t kNonceBytes = 32;
constexpr std::uint64_t kGreetingNs = 2'000'000'000;

struct Greeting {
  char protocol[8];
  std::uint64_t job;
  std::uint32_t node;
  std::uint32_t timeline;
  std::uint8_t nonce[kNonceBytes];
};

bool send_all(int fd, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

// Waits until all bytes have come, but not longer than until `end_ns`.
bool receive_all(int fd, void* data, std::size_t bytes, std::uint64_t end_ns) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const std::uint64_t now = now_ns();
    pollfd ready = {fd, POLLIN, 0};
    const int left_ms = now < end_ns ? static_cast<int>((end_ns - now) / 1'000'000) : 0;
    if (poll(&ready, 1, left_ms) == 0) return false;
    const ssize_t n = recv(fd, at, bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

// The side that proves comes first, so that a proof cannot be sent back to its sender. It says
// whether it has connected: else a stranger could connect to two nodes, pass each one's proof on to
// the other, and be taken for both.
Digest proof(const Authenticate& authenticate, const Greeting& prover, const Greeting& other,
             bool connects) {
  struct {
    Greeting prover, other;
    std::uint64_t connects;
  } const what = {prover, other, connects};
  return authenticate(&what, sizeof what);
}

// The side that has connected comes first. No proof is of so many bytes.
Digest key_of(const Authenticate& authenticate, const Greeting& connects, const Greeting& accepts) {
  struct {
    char label[16] = "encryption key";
    Greeting both[2];
  } of;
  of.both[0] = connects;
  of.both[1] = accepts;
  return authenticate(&of, sizeof of);
}

// Takes the same time whatever the bytes are.
bool same(const Digest& a, const Digest& b) {
  std::uint8_t differs = 0;
  for (std::size_t i = 0; i < kDigestBytes; ++i) differs |= a[i] ^ b[i];
  return differs == 0;
}

int connect_one(const addrinfo& to, int patience_ms) {
  const int fd =
      socket(to.ai_family, to.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, to.ai_protocol);
  if (fd < 0) return -1;
  int error = connect(fd, to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd ready = {fd, POLLOUT, 0};
    socklen_t size = sizeof error;
    if (poll(&ready, 1, patience_ms) <= 0) {
      error = ETIMEDOUT;
    } else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = errno;
    }
  }
  if (error == 0 && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0) return fd;
  close(fd);
  errno = error;
  return -1;
}

}  // namespace

std::uint64_t now_ns() {
  timespec t = {};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

int listen_at_any_port(bool for_others, std::uint16_t* port) {
  // One socket for both versions of the protocol, where the machine has IPv6.
  int fd = for_others ? socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
  sockaddr_in6 six = {};
  six.sin6_family = AF_INET6;
  const int off = 0;
  if (fd >= 0) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&six), sizeof six) != 0) {
    if (fd >= 0) close(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in four = {};
    four.sin_family = AF_INET;
    if (!for_others) four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&four), sizeof four) != 0) {
      if (fd >= 0) close(fd);
      return -1;
    }
  }
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  if (listen(fd, 64) != 0 || getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    close(fd);
    return -1;
  }
  *port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                            : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
  return fd;
}

int connect_to(const Address& address, int patience_ms, std::string* why) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    *why = gai_strerror(error);
    return -1;
  }
  int fd = -1;
  for (const addrinfo* a = found; a != nullptr && fd < 0; a = a->ai_next) {
    fd = connect_one(*a, patience_ms);
    if (fd < 0) *why = strerror(errno);
  }
  freeaddrinfo(found);
  return fd;
}

void send_at_once(int fd, int silent_s) {
  const int on = 1, idle_s = silent_s / 3, probes = 3, interval_s = (silent_s - idle_s) / probes;
  const int silence_ms = silent_s * 1000;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
}

std::optional<Other> greet(int fd, const Ends& ends, const Authenticate& authenticate) {
  const std::uint64_t end_ns = now_ns() + kGreetingNs;
  Greeting mine = {}, theirs = {};
  std::copy_n(kProtocol, sizeof kProtocol, mine.protocol);
  mine.job = ends.job;
  mine.node = ends.mine;
  mine.timeline = ends.timeline;
  if (!wire::fill_random(mine.nonce, sizeof mine.nonce)) return std::nullopt;
  if (!send_all(fd, &mine, sizeof mine) || !receive_all(fd, &theirs, sizeof theirs, end_ns)) {
    return std::nullopt;
  }
  if (memcmp(theirs.protocol, kProtocol, sizeof kProtocol) != 0 || theirs.job != ends.job ||
      theirs.timeline != ends.timeline || theirs.node == ends.mine ||
      (ends.theirs != kAnyNode && theirs.node != ends.theirs)) {
    return std::nullopt;
  }
  const bool accepted = ends.theirs == kAnyNode;
  const Digest my_proof = proof(authenticate, mine, theirs, !accepted);
  Digest their_proof;
  if (!send_all(fd, my_proof.data(), kDigestBytes) ||
      !receive_all(fd, their_proof.data(), kDigestBytes, end_ns) ||
      !same(their_proof, proof(authenticate, theirs, mine, accepted))) {
    return std::nullopt;
  }
  send_at_once(fd, 15);
  // Ranks send in bursts with pauses between them. BBR, where it is the system's choice, takes the
  // pauses for a slow network, and needs twice the time for 1 MiB over loopback.
  constexpr char kCubic[] = "cubic";
  setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kCubic, sizeof kCubic - 1);
  return Other{theirs.node,
               key_of(authenticate, accepted ? theirs : mine, accepted ? mine : theirs)};
}

}  // namespace rejoin::relay
