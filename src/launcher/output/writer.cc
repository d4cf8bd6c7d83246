#include "launcher/output/writer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>

namespace rejoin::launcher {
namespace {

// The descriptor may be shared with other programs, so it stays blocking, and is polled first.
bool has_room(int fd) {
  pollfd p = {fd, POLLOUT, 0};
  return poll(&p, 1, 0) == 1;
}

}  // namespace

int Writer::write_some() {
  while (error_ == 0 && waiting_bytes() > 0 && has_room(fd_)) {
    // A pipe that polls as writable has room for this much.
    const std::size_t n = std::min<std::size_t>(waiting_bytes(), PIPE_BUF);
    const ssize_t wrote = write(fd_, queue_.data() + written_, n);
    if (wrote < 0 && (errno == EINTR || errno == EAGAIN)) break;
    if (wrote < 0) error_ = errno;
    if (wrote > 0) written_ += static_cast<std::size_t>(wrote);
  }
  if (error_ != 0 || waiting_bytes() == 0) {
    queue_.clear();
    written_ = 0;
  } else if (written_ > queue_.size() / 2) {
    queue_.erase(0, written_);
    written_ = 0;
  }
  return error_;
}

}  // namespace rejoin::launcher
