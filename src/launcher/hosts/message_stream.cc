#include "launcher/hosts/message_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

namespace rejoin::launcher {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;

std::uint32_t size_at(const std::string& bytes) {
  std::uint32_t size = 0;
  for (int i = 3; i >= 0; --i) size = size << 8 | static_cast<unsigned char>(bytes[i]);
  return size;
}

}  // namespace

MessageStream::MessageStream(Loop& loop, Descriptor in, Descriptor out, Calls calls)
    : in_(std::move(in)), out_(std::move(out)), calls_(std::move(calls)) {
  for (const Descriptor* d : {&in_, &out_}) {
    fcntl(d->get(), F_SETFL, fcntl(d->get(), F_GETFL) | O_NONBLOCK);
  }
  read_watch_ = Loop::Watch(loop, in_.get(), EPOLLIN, [this](std::uint32_t) { read(); });
  write_watch_ = Loop::Watch(loop, out_.get(), 0, [this](std::uint32_t) { write(); });
  write_watch_.pause();
}

// A loop watches a descriptor once, so writing has a descriptor of its own. Within braces, the
// socket is duplicated before it is moved.
MessageStream::MessageStream(Loop& loop, Descriptor socket, std::unique_ptr<Tls> tls, Calls calls)
    : MessageStream{loop, Descriptor(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0)), std::move(socket),
                    std::move(calls)} {
  tls_ = std::move(tls);
}

void MessageStream::send(const std::string& message) {
  if (ended_ || !out_.open()) return;
  for (int i = 0; i < 4; ++i) unsent_ += static_cast<char>(message.size() >> 8 * i & 0xff);
  unsent_ += message;
  write();
}

void MessageStream::write() {
  while (sent_ < unsent_.size()) {
    const ssize_t n = write_some();
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) {
      sent_ = unsent_.size();  // the other descriptor tells its end
      if (tls_) cut();
    }
    if (n < 0) break;
    sent_ += static_cast<std::size_t>(n);
  }
  if (sent_ > unsent_.size() / 2) unsent_.erase(0, std::exchange(sent_, 0));
  unsent_.empty() ? write_watch_.pause() : write_watch_.want(EPOLLOUT);
  if (unsent_.empty() && calls_.drained) calls_.drained();
}

void MessageStream::flush() {
  while (!ended_ && !unsent_.empty()) {
    pollfd ready = {out_.get(), POLLOUT, 0};
    poll(&ready, 1, -1);
    write();
  }
}

ssize_t MessageStream::write_some() {
  const char* const from = unsent_.data() + sent_;
  const std::size_t bytes = unsent_.size() - sent_;
  return tls_ ? tls_->write(from, bytes) : ::write(out_.get(), from, bytes);
}

ssize_t MessageStream::read_some(char* to, std::size_t bytes) {
  return tls_ ? tls_->read(to, bytes) : ::read(in_.get(), to, bytes);
}

void MessageStream::close_output() {
  write_watch_.reset();
  if (tls_ && out_.open()) {
    tls_->end();
    shutdown(in_.get(), SHUT_WR);
    return;
  }
  out_.reset();
}

void MessageStream::cut() { shutdown(in_.get(), SHUT_RDWR); }

void MessageStream::await_end(std::uint64_t until_ns) {
  read_watch_.reset();
  char dropped[4096];
  for (std::uint64_t now_ns; (now_ns = monotonic_ns()) < until_ns;) {
    pollfd ready = {in_.get(), POLLIN, 0};
    poll(&ready, 1, static_cast<int>((until_ns - now_ns) / 1'000'000) + 1);
    const ssize_t n = ::read(in_.get(), dropped, sizeof dropped);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return;
  }
}

void MessageStream::read() {
  char buffer[kReadBytes];
  const ssize_t n = read_some(buffer, sizeof buffer);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n == 0) return end("has closed its connection");
  if (n < 0 && tls_ && errno == EPROTO) return end(tls_->why());
  if (n < 0) return end(std::string("cannot be read: ") + error_text(errno));
  received_.append(buffer, static_cast<std::size_t>(n));
  constexpr std::size_t kSizeBytes = 4;
  std::size_t at = 0;
  while (received_.size() - at >= kSizeBytes) {
    const std::uint32_t size = size_at(received_.substr(at, kSizeBytes));
    if (size > kMostBytes) return end("has sent something that is no message of Rejoin");
    if (received_.size() - at - kSizeBytes < size) break;
    calls_.message(std::string_view(received_).substr(at + kSizeBytes, size));
    at += kSizeBytes + size;
  }
  received_.erase(0, at);
}

void MessageStream::end(const std::string& why) {
  ended_ = true;
  read_watch_.reset();
  write_watch_.reset();
  calls_.ended(why);
}

}  // namespace rejoin::launcher
