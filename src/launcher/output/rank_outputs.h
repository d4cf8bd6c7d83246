// What the ranks of a host print, read from their pipes and passed on: every line whole, and once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/base/file.h"
#include "launcher/base/loop.h"
#include "launcher/output/output.h"
#include "launcher/output/output_options.h"
#include "launcher/output/rank_files.h"

namespace rejoin::launcher {

class RankOutputs {
 public:
  struct Calls {
    // What is to be shown. `stream`: 0 or 1, standard output or standard error.
    std::function<void(int stream, std::string bytes)> show;
    // Whether what is read now may have been printed after the rank's program had died.
    std::function<bool(std::uint32_t rank)> is_late;
    // await_end(): nobody holds the rank's output any more, or has for too long.
    std::function<void(std::uint32_t rank)> ended;
    // Its replay printed something else than it did the first time, or less; once a stream.
    std::function<void(std::uint32_t rank, int stream)> differs;
    // Its files cannot be written any more.
    std::function<void(std::uint32_t rank, int error)> lost;
  };

  RankOutputs(Loop& loop, std::uint32_t ranks, const OutputOptions& options, Calls calls);

  // The next incarnation's pipes: read ends, nonblocking.
  void open(std::uint32_t rank, Descriptor out, Descriptor err);
  // The process is dead: reads what is left in its pipes, and closes them.
  void drain(std::uint32_t rank);
  // The same, without closing it.
  void read_all(std::uint32_t rank);
  // Our end, for open(). Not open: the other end was closed.
  Descriptor take_pipe(std::uint32_t rank, int stream);
  // Calls ended() when they are closed, or after a while.
  void await_end(std::uint32_t rank);
  // wire::MessageType::kMark: the rank waits, so what is in its pipes is what it has printed.
  // False: it still prints what its predecessor did; nothing is marked.
  bool mark(std::uint32_t rank, std::uint64_t value);
  // jump() will go back to no older mark.
  void keep(std::uint32_t rank, std::uint64_t value);
  // open() gave the pipes of a woken image: it goes on behind this mark.
  void jump(std::uint32_t rank, std::uint64_t value);
  // Whoever reads this stream of the job is slow: ranks shall wait, too.
  void hold(int stream, bool hold);
  // What was late is shown (the rank's end was no death), or is not (it will print it again).
  void show_late(std::uint32_t rank);
  void forget_late(std::uint32_t rank);
  // No rank prints any more. `check`: whether all of them had to print what their predecessors did.
  void finish(bool check);

 private:
  struct Stream {
    explicit Stream(Loop& loop, std::function<void()> pause) : stale(loop, std::move(pause)) {}
    Descriptor pipe;
    Loop::Watch watch;
    OutputStream lines;
    std::string late;
    Loop::Timer stale;  // set while there is an unfinished line
  };
  struct Rank {
    explicit Rank(Loop& loop, std::function<void()> over) : linger(loop, std::move(over)) {}
    std::unique_ptr<Stream> stream[2];
    Loop::Timer linger;  // set while its end is awaited
  };

  // True if there was something to read.
  bool read(std::uint32_t rank, int stream, bool to_the_end);
  void show_stale_line(std::uint32_t rank, int stream);
  void flush(std::uint32_t rank, int stream);
  void hold_stream(int stream, bool hold);
  void tell_difference(std::uint32_t rank, int stream, bool ended);
  void check_ended(std::uint32_t rank, bool too_long);
  void show(std::uint32_t rank, int stream, std::string bytes);
  Stream& at(std::uint32_t rank, int stream) { return *ranks_[rank]->stream[stream]; }

  Loop& loop_;
  const OutputOptions options_;
  const Calls calls_;
  std::optional<RankFiles> files_;
  // Whose line was shown last by a stream of ours, without its end.
  OutputStream* unfinished_[2] = {nullptr, nullptr};
  bool held_[2] = {false, false};
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace rejoin::launcher
