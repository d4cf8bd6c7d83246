// A connection between the relays of two nodes: a thread for each direction carries out the steps
// of Source and Sink. Neither ever waits for the other, so a relay that cannot send goes on
// receiving.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "journal/layout.h"
#include "relay/frames.h"
#include "relay/sink.h"
#include "relay/source.h"

namespace rejoin::relay {

class Link {
 public:
  // `fd`: a connection with the relay of node `peer`, which has been greeted; it is closed.
  Link(std::byte* base, std::uint32_t node, std::uint32_t peer, int fd);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  // Ends the connection.
  ~Link();

  // Returns when the connection has ended. False: the other relay has sent what no relay sends.
  bool receive();
  // Makes receive() return. May be called by any thread.
  void cut();

 private:
  void send();
  bool flush(class Output& out);
  bool sleep(Output& out, bool* sent);
  bool take(const Head& head, const std::byte* body);
  bool receive_payload(std::byte* to, std::size_t bytes);
  void announce(std::uint8_t asleep);
  void ring_all();

  std::byte* base_;
  const std::uint32_t peer_;
  const int fd_;
  std::vector<std::uint32_t> mine_, theirs_;  // ranks
  Sink sink_;
  Source source_;
  std::mutex mutex_;      // of what both threads use
  bool has_all_ = false;  // the other side has said how far its copies reach
  bool cut_ = false;
  std::thread sender_;
};

}  // namespace rejoin::relay
