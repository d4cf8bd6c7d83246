#include "launcher/output/rank_input.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace rejoin::launcher {

void RankInput::open(Descriptor pipe, std::uint64_t mark) {
  watch_.reset();
  read_end_.reset();
  pipe_ = std::move(pipe);
  input_.restart(mark);
  watch_ = Loop::Watch(loop_, pipe_.get(), 0, [this](std::uint32_t happened) {
    if ((happened & EPOLLERR) != 0) {
      close();  // rank 0 has closed its standard input
    } else {
      write();
    }
  });
  write();
}

RankInput::Ends RankInput::take_pipe() {
  watch_.reset();
  const auto again = [](const Descriptor& end, int flags) {
    const std::string path = "/proc/self/fd/" + std::to_string(end.get());
    return Descriptor(::open(path.c_str(), flags | O_NONBLOCK | O_CLOEXEC));
  };
  Ends ends;
  ends.write_end = std::move(pipe_);
  if (read_end_.open()) ends.write_end = again(read_end_, O_WRONLY);
  if (!ends.write_end.open()) return ends;
  ends.read_end = again(ends.write_end, O_RDONLY);
  char unread[4096];
  while (ends.read_end.open() && ::read(ends.read_end.get(), unread, sizeof unread) > 0) {
  }
  fcntl(ends.read_end.get(), F_SETFL, 0);
  return ends;
}

void RankInput::mark(std::uint64_t mark, int in_pipe) {
  // The rank may have counted before the last bytes were written, so they are counted again here.
  const Descriptor& look = pipe_.open() ? pipe_ : read_end_;
  if (look.open() && ioctl(look.get(), FIONREAD, &in_pipe) != 0) in_pipe = 0;
  input_.mark(mark, static_cast<std::size_t>(std::max(in_pipe, 0)));
}

void RankInput::close() {
  watch_.reset();
  pipe_.reset();
  input_.reader_ended();
}

void RankInput::append(std::string_view bytes, bool end) {
  asked_ = false;
  input_.append(bytes);
  if (end) input_.source_ended();
  write();
}

void RankInput::write() {
  while (pipe_.open() && !input_.pending().empty()) {
    const ssize_t n = ::write(pipe_.get(), input_.pending().data(), input_.pending().size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) input_.reader_ended();
    if (n < 0) break;
    input_.given(static_cast<std::size_t>(n));
  }
  if (!pipe_.open()) return;
  if (input_.finished()) {
    const std::string end = "/proc/self/fd/" + std::to_string(pipe_.get());
    read_end_ = Descriptor(::open(end.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    close();
    return;
  }
  // Without EPOLLOUT the watch only shows that the rank has closed its end.
  watch_.want(input_.pending().empty() ? 0u : EPOLLOUT);
  if (input_.wants_more() && !std::exchange(asked_, true)) wanted_();
}

}  // namespace rejoin::launcher
