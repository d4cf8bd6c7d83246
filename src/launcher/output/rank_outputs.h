// Reads the output of a host's ranks from their pipes and passes it on: complete lines, each once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/base/file.h"
#include "launcher/base/loop.h"
#include "launcher/base/options.h"
#include "launcher/output/output.h"
#include "launcher/output/rank_files.h"

namespace rejoin::launcher {

class RankOutputs {
 public:
  // What a rank has printed: without tags, and behind how many bytes of the same stream.
  struct Printed {
    std::uint32_t rank;
    int stream;
    std::uint64_t begin;
    std::string bytes;  // empty unless keeps_raw
  };
  struct Calls {
    // Shows output. `stream`: 0 or 1, standard output or standard error.
    std::function<void(int stream, std::string bytes, const Printed& of)> show;
    bool keeps_raw =
        false;  // fills Printed::bytes, and calls show() also if nothing is to be shown
    // Whether what is read now may have been printed after the rank's program had died.
    std::function<bool(std::uint32_t rank)> is_late;
    // After await_end(): no process holds the rank's output open any more, or one has for too long.
    std::function<void(std::uint32_t rank)> ended;
    // The rank's replay printed something else than the first time, or less; once for each stream.
    std::function<void(std::uint32_t rank, int stream)> differs;
    // All ranks have gone back, and the rank prints other lines than the last `lines` that it had
    // printed; called before the first of them is shown.
    std::function<void(std::uint32_t rank, int stream, std::uint64_t lines)> is_void;
    // Whether all ranks may go back to a moment before now, so that what they print may become
    // void.
    std::function<bool()> may_be_void;
    // The files of --output-filename cannot be written any more.
    std::function<void(std::uint32_t rank, int error)> lost;
  };

  RankOutputs(Loop& loop, std::uint32_t ranks, const OutputOptions& options, Calls calls);

  // Takes the nonblocking read ends of the next incarnation's pipes.
  void open(std::uint32_t rank, Descriptor out, Descriptor err);
  // Reads what is left in a dead process's pipes, and closes them.
  void drain(std::uint32_t rank);
  // Like drain(), without closing the pipes.
  void read_all(std::uint32_t rank);
  // Returns our end of a pipe, for open(). Not open: the other end was closed.
  Descriptor take_pipe(std::uint32_t rank, int stream);
  // Calls ended() when the pipes are closed, or after a while.
  void await_end(std::uint32_t rank);
  // wire::MessageType::kMark: the rank waits, so the pipes hold all that it has printed. False: the
  // rank still repeats earlier output; nothing is marked.
  bool mark(std::uint32_t rank, std::uint64_t value);
  // jump() and make_void() will return to no older mark.
  void keep(std::uint32_t rank, std::uint64_t value);
  // The pipes given to open() are of a woken image, which prints what comes after this mark.
  void jump(std::uint32_t rank, std::uint64_t value);
  // Bytes that the rank has printed before this mark; 0 without such a mark.
  std::uint64_t bytes_before(std::uint32_t rank, int stream, std::uint64_t value) const {
    return ranks_[rank]->stream[stream]->lines.bytes_before(value);
  }
  // The rank goes on from a mark at which another host has been, which had shown these bytes since.
  void resume(std::uint32_t rank, std::uint64_t value, const std::string (&printed)[2]);
  // All ranks have gone back to this mark, and no process of this one is left. The pipes are
  // opened, and jump() called, later.
  void make_void(std::uint32_t rank, std::uint64_t value);
  // Stops reading this stream from ranks, because the job's reader is slow, or continues.
  void hold(int stream, bool hold);
  // The same for both, because the connection to the supervisor is slow.
  void hold_all(bool hold);
  // Shows late output if the rank's end was no death, or drops it if the rank will print it again.
  void show_late(std::uint32_t rank);
  void forget_late(std::uint32_t rank);
  // --commit-output: shows what was withheld, unless it may still become void.
  void show_withheld();
  // No rank prints any more. `check`: reports ranks that did not repeat all earlier output.
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
  struct Shown {
    std::uint32_t rank;
    int stream;
    std::uint64_t end;  // of the stream's bytes, with these
    std::string bytes, raw;
  };
  struct Rank {
    explicit Rank(Loop& loop, std::function<void()> over) : linger(loop, std::move(over)) {}
    std::unique_ptr<Stream> stream[2];
    Loop::Timer linger;  // set while the output's end is awaited
  };

  // True if there was something to read.
  bool read(std::uint32_t rank, int stream, bool to_the_end);
  void show_stale_line(std::uint32_t rank, int stream);
  void flush(std::uint32_t rank, int stream);
  // For which reasons a stream is not read; bits.
  enum Holder : unsigned { kReader = 1, kConnection = 2 };
  void hold_stream(int stream, Holder by, bool holds);
  void tell_difference(std::uint32_t rank, int stream, bool ended);
  void tell_void(std::uint32_t rank, int stream, bool ended);
  void check_ended(std::uint32_t rank, bool too_long);
  void show(std::uint32_t rank, int stream, std::string bytes);
  void show_withheld(std::uint32_t rank, std::uint64_t value);
  void pass_on(const Shown& shown);
  Stream& at(std::uint32_t rank, int stream) { return *ranks_[rank]->stream[stream]; }

  Loop& loop_;
  const OutputOptions options_;
  const Calls calls_;
  std::optional<RankFiles> files_;
  // For each stream of ftrun, the rank stream shown last, if its last line is unfinished.
  OutputStream* unfinished_[2] = {nullptr, nullptr};
  unsigned held_[2] = {0, 0};   // by which Holders
  std::deque<Shown> withheld_;  // --commit-output: what may become void, in the order of printing
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace rejoin::launcher
