// Standard input of rank 0: what came so far, written into its pipe, again for each incarnation.
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
  // `wanted`: the rank has been given all that came so far, and still reads.
  RankInput(Loop& loop, std::function<void()> wanted) : loop_(loop), wanted_(std::move(wanted)) {}

  // The next incarnation's pipe: the write end, nonblocking. With a mark: it goes on from there.
  void open(Descriptor pipe, std::uint64_t mark = 0);
  // The ends of its pipe, emptied, for open(): others hold it, too. Not open: the rank reads no
  // more.
  struct Ends {
    Descriptor read_end, write_end;
  };
  Ends take_pipe();
  // The rank waits: what it has taken of its input so far lies before this mark, for its image.
  // in_pipe: what the rank finds in its end.
  void mark(std::uint64_t mark, int in_pipe);
  // open() will go on from this one, the newest.
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
  Descriptor read_end_;  // of a pipe whose write end is closed; to see how much is in it
  Loop::Watch watch_;
  bool asked_ = false;  // wanted() was called, and nothing came yet
};

}  // namespace rejoin::launcher
