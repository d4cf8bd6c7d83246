// What carries the bytes of a link to the relay of another node, and those of that relay here, in
// order. Nothing blocks. Used by one thread of one process at a time.
#pragma once

#include <sys/uio.h>

#include <cstddef>

namespace rejoin::relay {

class Wire {
 public:
  // Takes bytes from the beginning of all these pieces, as many as there is room for, and returns
  // their number; 0: none now; -EFAULT: a piece cannot be read; else negative: the connection has
  // ended. `more`: the rest of what is being sent follows at once.
  virtual long send(const iovec* pieces, std::size_t count, bool more) = 0;
  // Returns how many bytes have been written to `to`; 0: none have come; -EFAULT: `to` cannot be
  // written; else negative: the connection has ended.
  virtual long receive(std::byte* to, std::size_t bytes) = 0;

 protected:
  ~Wire() = default;
};

// A connected stream socket, which stays its owner's.
class SocketWire final : public Wire {
 public:
  explicit SocketWire(int fd = -1) : fd_(fd) {}
  long send(const iovec* pieces, std::size_t count, bool more) override;
  long receive(std::byte* to, std::size_t bytes) override;

 private:
  int fd_;
};

}  // namespace rejoin::relay
