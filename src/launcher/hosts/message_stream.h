// Orders and reports over a pair of descriptors: pipes of a child process, or of a remote shell; or
// over a socket, encrypted. Each message is preceded by its size, 4 bytes, the lowest first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/base/file.h"
#include "launcher/base/loop.h"
#include "launcher/hosts/tls.h"

namespace rejoin::launcher {

class MessageStream {
 public:
  // No message is larger.
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;

  struct Calls {
    std::function<void(std::string_view message)> message;
    // The stream has ended, or the other side has sent something else: `why` is the predicate of a
    // sentence about it. Nothing follows.
    std::function<void(const std::string& why)> ended;
    // Everything was sent; may be empty.
    std::function<void()> drained = {};
  };

  // Both descriptors become non-blocking.
  MessageStream(Loop& loop, Descriptor in, Descriptor out, Calls calls);
  // Over a connected socket, which `tls` uses, too. Until the other side has proved that it knows
  // the secret, nothing is stored of what it sends.
  MessageStream(Loop& loop, Descriptor socket, std::unique_ptr<Tls> tls, Calls calls);
  // Others are called from now on. Not to be called by one of `calls`.
  void hand_to(Calls calls) { calls_ = std::move(calls); }
  // Sends a message, in the background. Dropped if the stream has ended.
  void send(const std::string& message);
  // Bytes that wait to be sent.
  std::size_t backlog() const { return unsent_.size() - sent_; }
  // Waits until everything was sent, or cannot be.
  void flush();
  // Tells the other side that nothing follows.
  void close_output();
  // Ends a connection in both directions: this side sees its end, and so does the other one.
  void cut();
  // Waits until the other side has closed the connection, or until that time. What it still sends
  // is dropped. `until_ns`: on the monotonic clock.
  void await_end(std::uint64_t until_ns);

 private:
  ssize_t read_some(char* to, std::size_t bytes);
  ssize_t write_some();
  void read();
  void write();
  void end(const std::string& why);

  Descriptor in_, out_;
  std::unique_ptr<Tls> tls_;  // null: what is sent is not encrypted
  Calls calls_;
  std::string received_;  // what has come of the next message
  std::string unsent_;
  std::size_t sent_ = 0;  // of unsent_
  bool ended_ = false;
  Loop::Watch read_watch_, write_watch_;
};

}  // namespace rejoin::launcher
