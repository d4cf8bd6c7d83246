// Standard input of rank 0: kept for the rank's next incarnation, which reads it from the start.
//
// More is read from the source only when the rank has taken all that was read, so that a rank that
// does not read its input costs nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rejoin::launcher {

class Input {
 public:
  void append(std::string_view bytes) { kept_ += bytes; }
  void source_ended() { source_ended_ = true; }

  // What the current incarnation has not been given yet.
  std::string_view pending() const { return std::string_view(kept_).substr(given_); }
  void given(std::size_t bytes) { given_ += bytes; }
  // It reads no more (closed its end, or ended well).
  void reader_ended() { reader_ended_ = true; }
  void restart(std::uint64_t mark = 0) {
    given_ = 0;
    reader_ended_ = false;
    for (const Mark& m : marks_) {
      if (m.mark == mark) given_ = m.taken;
    }
  }
  // All but `in_pipe` bytes of what was given has been read: it lies before this mark. The newest
  // two are kept.
  void mark(std::uint64_t mark, std::size_t in_pipe) {
    marks_[0] = marks_[1];
    marks_[1] = {mark, given_ - std::min(given_, in_pipe)};
  }

  bool wants_more() const { return !source_ended_ && !reader_ended_ && given_ == kept_.size(); }
  // The rank's end of the pipe should see the end of the file now.
  bool finished() const { return reader_ended_ || (source_ended_ && given_ == kept_.size()); }

 private:
  struct Mark {
    std::uint64_t mark = 0;
    std::size_t taken = 0;
  };

  Mark marks_[2];
  std::string kept_;
  std::size_t given_ = 0;
  bool source_ended_ = false;
  bool reader_ended_ = false;
};

}  // namespace rejoin::launcher
