// Writes the standard input so far into rank 0's pipe, again for each incarnation.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "launcher/base/file.h"
#include "launcher/base/loop.h"
#include "launcher/output/input.h"

namespace rejoin::launcher {

class RankInput {
 public:
  // `wanted` is called when the rank has been given all input so far, and still reads.
  RankInput(Loop& loop, std::function<void()> wanted) : loop_(loop), wanted_(std::move(wanted)) {}

  // `pipe`: the nonblocking write end of the next incarnation's pipe. With a mark, the incarnation
  // reads on from there.
  void open(Descriptor pipe, std::uint64_t mark = 0);
  // Empties the rank's pipe and returns its ends, for open(): a wrapper holds the pipe, too. Not
  // open: the rank reads no more.
  struct Ends {
    Descriptor read_end, write_end;
  };
  Ends take_pipe();
  // Sets the mark of an image while the rank waits: what it has read so far is before the mark.
  // in_pipe: unread bytes, by the rank's count.
  void mark(std::uint64_t mark, int in_pipe);
  // open() will continue from this mark, the newest.
  void keep(std::uint64_t mark) { input_.keep(mark); }
  const Input& input() const { return input_; }
  void resume(std::string_view behind, bool source_ended, std::uint64_t mark) {
    input_.resume(behind, source_ended, mark);
  }
  // The rank reads no more.
  void close();
  void append(std::string_view bytes, bool end);

 private:
  void write();

  Loop& loop_;
  std::function<void()> wanted_;
  Input input_;
  Descriptor pipe_;
  Descriptor read_end_;  // open once the write end is closed, to count the unread bytes
  Loop::Watch watch_;
  bool asked_ = false;  // wanted() was called, and there was no append() since
};

}  // namespace rejoin::launcher
