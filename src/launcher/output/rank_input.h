// Standard input of rank 0: what came so far, written into its pipe, again for each incarnation.
#pragma once

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

  // The next incarnation's pipe: the write end, nonblocking.
  void open(Descriptor pipe);
  // The rank reads no more.
  void close();
  void append(std::string_view bytes, bool end);

 private:
  void write();

  Loop& loop_;
  std::function<void()> wanted_;
  Input input_;
  Descriptor pipe_;
  Loop::Watch watch_;
  bool asked_ = false;  // wanted() was called, and nothing came yet
};

}  // namespace rejoin::launcher
