#include "launcher/hosts/tunnel.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace rejoin::launcher {
namespace {

constexpr std::uint64_t kProofNs = 2'000'000'000;
constexpr std::size_t kRecordBytes = 16 * 1024;
constexpr std::size_t kBytes = 4 * kRecordBytes;  // that the thread holds, of each direction

// Bytes that have come at one end, and go to the other.
struct Way {
  std::vector<char> bytes = std::vector<char>(kBytes);
  std::size_t begin = 0, end = 0;

  bool is_empty() const { return begin == end; }
  const char* data() const { return bytes.data() + begin; }
  std::size_t size() const { return end - begin; }
};

// The two ends, and what they wait for.
class Tunnel {
 public:
  Tunnel(Descriptor clear, Descriptor socket, std::unique_ptr<Tls> tls)
      : clear_(std::move(clear)), socket_(std::move(socket)), tls_(std::move(tls)) {}

  // Until an end is closed.
  void run() {
    for (;;) {
      clear_waits_ = tls_waits_ = 0;
      const Did out = move_out(), in = move_in();
      if (out == Did::kEnded || in == Did::kEnded) break;
      if (out == Did::kMoved || in == Did::kMoved) continue;
      // An end that is not waited for must not wake this thread again and again.
      pollfd ready[] = {{clear_waits_ != 0 ? clear_.get() : -1, clear_waits_, 0},
                        {tls_waits_ != 0 ? socket_.get() : -1, tls_waits_, 0}};
      poll(ready, 2, -1);
    }
    tls_->end();
  }

 private:
  enum class Did { kNothing, kMoved, kEnded };

  // What a call has moved. EAGAIN: `waits` gets what it waits for.
  static Did did(ssize_t n, short& waits, short what) {
    if (n > 0) return Did::kMoved;
    if (n < 0 && errno == EINTR) return Did::kMoved;
    if (n == 0 || errno != EAGAIN) return Did::kEnded;
    waits = static_cast<short>(waits | what);
    return Did::kNothing;
  }

  // A way is filled when it is empty, and then emptied.
  Did move_out() {
    if (out_.is_empty()) {
      const ssize_t n = recv(clear_.get(), out_.bytes.data(), kBytes, MSG_DONTWAIT);
      filled(out_, n);
      if (n <= 0) return did(n, clear_waits_, POLLIN);
    }
    for (;;) {
      const ssize_t n = tls_->write(out_.data(), out_.size());
      if (n <= 0) return did(n, tls_waits_, tls_->wants());
      out_.begin += static_cast<std::size_t>(n);
      if (out_.is_empty()) return Did::kMoved;
    }
  }
  Did move_in() {
    if (in_.is_empty()) {
      const ssize_t n = read_records();
      if (n <= 0) return did(n, tls_waits_, tls_->wants());
    }
    const ssize_t n = send(clear_.get(), in_.data(), in_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) in_.begin += static_cast<std::size_t>(n);
    return did(n, clear_waits_, POLLOUT);
  }
  // Reads what there is, as far as whole records have room. Returns bytes, or what the first read
  // has returned.
  ssize_t read_records() {
    filled(in_, 0);
    for (;;) {
      const ssize_t n = tls_->read(in_.bytes.data() + in_.end, kBytes - in_.end);
      if (n <= 0 && in_.is_empty()) return n;
      if (n > 0) in_.end += static_cast<std::size_t>(n);
      if (n <= 0 || kBytes - in_.end < kRecordBytes) return static_cast<ssize_t>(in_.size());
    }
  }
  static void filled(Way& way, ssize_t n) {
    way.begin = 0;
    way.end = n > 0 ? static_cast<std::size_t>(n) : 0;
  }

  Descriptor clear_, socket_;
  std::unique_ptr<Tls> tls_;
  Way out_, in_;
  short clear_waits_ = 0, tls_waits_ = 0;
};

}  // namespace

Descriptor open_tunnel(Descriptor socket, const TlsLibrary& library, TlsSide side,
                       const std::string& secret) {
  auto tls = library.open(socket.get(), side, TlsUse::kData, secret);
  int ends[2];
  if (prove_within(kProofNs, socket.get(), *tls, nullptr) ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Descriptor();
  }
  Descriptor outer(ends[0]), inner(ends[1]);
  const int room = 1 << 20;  // the system's limit may be lower
  for (const int end : ends) setsockopt(end, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  try {
    std::thread([tunnel = Tunnel(std::move(inner), std::move(socket), std::move(tls))]() mutable {
      tunnel.run();
    }).detach();
  } catch (const std::system_error&) {  // the limit of processes
    return Descriptor();
  }
  return outer;
}

}  // namespace rejoin::launcher
