#include "launcher/output/terminal.h"

#include <poll.h>
#include <sys/epoll.h>

#include <utility>

namespace rejoin::launcher {
namespace {

constexpr std::size_t kMostWaitingBytes = 4 << 20;  // then ranks wait for our reader

}  // namespace

Terminal::Terminal(Loop& loop, Calls calls)
    : calls_(std::move(calls)), streams_{{Writer(1), {}}, {Writer(2), {}}} {
  for (int s = 0; s < 2; ++s) {
    Stream& stream = streams_[s];
    stream.watch =
        Loop::Watch(loop, stream.writer.fd(), EPOLLOUT, [this, s](std::uint32_t) { write(s); });
    stream.watch.pause();
  }
}

void Terminal::write() {
  for (int s = 0; s < 2; ++s) write(s);
}

void Terminal::write(int s) {
  Stream& stream = streams_[s];
  const int error = stream.writer.write_some();
  if (stream.writer.waiting_bytes() > 0) {
    stream.watch.want(EPOLLOUT);
  } else {
    stream.watch.pause();
  }
  const bool hold = stream.writer.waiting_bytes() > kMostWaitingBytes;
  if (std::exchange(stream.held, hold) != hold) calls_.hold(s, hold);
  if (s == 0 && error != 0 && !std::exchange(lost_, true)) calls_.lost(error);
}

void Terminal::flush(int descriptor, const std::function<bool()>& enough) {
  for (Stream& stream : streams_) {
    while (stream.writer.write_some() == 0 && stream.writer.waiting_bytes() > 0) {
      pollfd p[2] = {{stream.writer.fd(), POLLOUT, 0}, {descriptor, POLLIN, 0}};
      poll(p, 2, -1);
      if ((p[1].revents & POLLIN) != 0 && enough()) return;
    }
  }
}

}  // namespace rejoin::launcher
