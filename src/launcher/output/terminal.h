// The standard output and standard error of the job. Writing never blocks, except at the job's end.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "launcher/base/loop.h"
#include "launcher/output/writer.h"

namespace rejoin::launcher {

// Formats ftrun's own lines for standard error; each ends with a newline. On a terminal they are
// wrapped at 100 columns, or at the terminal's width if that is less, and coloured unless NO_COLOR
// is set or TERM is dumb. Elsewhere they are returned unchanged.
std::string message_for_terminal(const std::string& lines);
// Wraps `line` at spaces into lines of at most `columns` characters, with an indent from the second
// on. Longer words are not broken.
std::string wrapped(const std::string& line, std::size_t columns);

class Terminal {
 public:
  struct Calls {
    // A stream's reader has fallen behind, or has caught up.
    std::function<void(int stream, bool hold)> hold;
    // Standard output cannot be written any more; once.
    std::function<void(int error)> lost;
  };
  Terminal(Loop& loop, Calls calls);

  void add(int stream, std::string_view bytes) { streams_[stream].writer.queue() += bytes; }
  // Writes what can be written without waiting.
  void write();
  // Waits until all is written, the reader is gone, or enough() returns true, which is called when
  // `descriptor` is readable.
  void flush(int descriptor, const std::function<bool()>& enough);

 private:
  struct Stream {
    Writer writer;
    Loop::Watch watch;
    bool held = false;
  };
  void write(int stream);

  const Calls calls_;
  Stream streams_[2];
  bool lost_ = false;
};

}  // namespace rejoin::launcher
