#include "launcher/agent/part_connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace rejoin::launcher {
namespace {

// Relays have a timeline of their own in their greeting, so none of them can be taken for this.
constexpr std::uint32_t kOfParts = ~std::uint32_t{0};
constexpr int kConnectMs = 5'000;
constexpr int kSilenceMs = 20'000;  // a connection that stands still for longer has ended
constexpr std::uint64_t kProofNs = 2'000'000'000;
constexpr std::size_t kPieceBytes = 1 << 18;

}  // namespace

PartConnection PartConnection::connect(const Identity& me, const Holder& to, std::string* why) {
  PartConnection made;
  made.own_ = Descriptor(relay::connect_to(to.address, kConnectMs, why));
  if (!made.own_.open()) return made;
  made.fd_ = made.own_.get();
  *why = "it does not answer as an agent of this job";
  return made.begin(me, to.host) ? std::move(made) : PartConnection();
}

PartConnection PartConnection::accept(const Identity& me, int socket) {
  PartConnection made;
  made.fd_ = socket;
  return made.begin(me, relay::kAnyNode) ? std::move(made) : PartConnection();
}

bool PartConnection::begin(const Identity& me, std::uint32_t theirs) {
  const auto other =
      relay::greet(fd_, {me.job, kOfParts, me.host, theirs}, me.credentials.authenticate);
  if (!other) return false;
  host_ = other->node;
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
  if (!me.credentials.tls) return true;
  const TlsSide side = theirs == relay::kAnyNode ? TlsSide::kAccepts : TlsSide::kConnects;
  tls_ = me.credentials.tls->open(fd_, side, TlsUse::kData,
                                  std::string(other->key.begin(), other->key.end()));
  return !prove_within(kProofNs, fd_, *tls_, nullptr);
}

// After EAGAIN. `what`: POLLIN or POLLOUT, without encryption.
bool PartConnection::await(short what) const {
  pollfd ready = {fd_, tls_ ? tls_->wants() : what, 0};
  const int n = poll(&ready, 1, kSilenceMs);
  if (n == 0) errno = ETIMEDOUT;
  return n > 0 || (n < 0 && errno == EINTR);
}

bool PartConnection::send(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = tls_ ? tls_->write(at, bytes) : ::send(fd_, at, bytes, MSG_NOSIGNAL);
    if (n < 0 && (errno == EINTR || (errno == EAGAIN && await(POLLOUT)))) continue;
    if (n < 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool PartConnection::send_file(int file, std::uint64_t bytes) {
  std::vector<char> piece(tls_ ? kPieceBytes : 0);
  while (bytes > 0) {
    const ssize_t n = tls_ ? read(file, piece.data(), std::min<std::uint64_t>(bytes, kPieceBytes))
                           : sendfile(fd_, file, nullptr, bytes);
    if (n < 0 && (errno == EINTR || (!tls_ && errno == EAGAIN && await(POLLOUT)))) continue;
    if (n == 0) errno = EIO;  // it is shorter than it was
    if (n <= 0 || (tls_ && !send(piece.data(), static_cast<std::size_t>(n)))) return false;
    bytes -= static_cast<std::uint64_t>(n);
  }
  return true;
}

bool PartConnection::receive(void* data, std::size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = tls_ ? tls_->read(at, bytes) : recv(fd_, at, bytes, 0);
    if (n < 0 && (errno == EINTR || (errno == EAGAIN && await(POLLIN)))) continue;
    if (n == 0) errno = ECONNRESET;
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace rejoin::launcher
