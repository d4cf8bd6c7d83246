#include "launcher/output/terminal.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace rejoin::launcher {
namespace {

constexpr std::size_t kMostWaitingBytes = 4 << 20;  // with more, ranks wait for ftrun's reader

// Returns the number of UTF-8 characters. All are taken to be one column wide.
std::size_t width_of(const std::string& text) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins));
}

std::size_t columns_of_terminal() {
  constexpr std::size_t kMost = 100, kLeast = 40;
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kMost;
  return std::clamp<std::size_t>(size.ws_col, kLeast, kMost);
}

bool is_coloured() {
  const char* none = getenv("NO_COLOR");
  const char* term = getenv("TERM");
  return (none == nullptr || *none == '\0') && term != nullptr && strcmp(term, "dumb") != 0;
}

}  // namespace

std::string wrapped(const std::string& line, std::size_t columns) {
  if (width_of(line) <= columns) return line;
  const std::size_t first = line.find_first_not_of(' ');
  std::string all = line.substr(0, std::min(first, line.size()));
  std::istringstream words(line);
  std::size_t width = all.size();
  bool begun = false;
  for (std::string word; words >> word; begun = true) {
    const bool fits = width + 1 + width_of(word) <= columns;
    const std::string before = !begun ? "" : fits ? " " : "\n    ";
    width = (fits ? width : 0) + before.size() - (begun && !fits ? 1 : 0) + width_of(word);
    all += before + word;
  }
  return all;
}

std::string message_for_terminal(const std::string& lines) {
  static const bool is_terminal = isatty(STDERR_FILENO) == 1;
  if (!is_terminal) return lines;
  std::istringstream source(lines);
  std::string all;
  for (std::string line; std::getline(source, line);) {
    const std::string text = wrapped(line, columns_of_terminal());
    all += (is_coloured() ? "\033[33m" + text + "\033[0m" : text) + "\n";
  }
  return all;
}

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
