// A queue in front of one of ftrun's own output descriptors: a slow reader does not block ftrun.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rejoin::launcher {

class Writer {
 public:
  explicit Writer(int fd) : fd_(fd) {}

  // The queue to which bytes are appended; write_some() writes them.
  std::string& queue() { return queue_; }
  std::size_t waiting_bytes() const { return queue_.size() - written_; }
  int fd() const { return fd_; }

  // Writes what can be written without waiting. Returns 0, or the errno for which nothing can be
  // written any more; the queue is then dropped, now and later.
  int write_some();

 private:
  int fd_;
  std::string queue_;
  std::size_t written_ = 0;
  int error_ = 0;
};

}  // namespace rejoin::launcher
