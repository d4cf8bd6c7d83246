// Standard input of rank 0: stored for the rank's next incarnation, which reads it from the start.
//
// More is read from the source only when the rank has been given all that was read, so a rank that
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
  // The rank reads no more: it has closed its end, or ended well.
  void reader_ended() { reader_ended_ = true; }
  void restart(std::uint64_t mark = 0) {
    given_ = 0;
    reader_ended_ = false;
    if (mark == kept_mark_.mark) given_ = kept_mark_.taken;
  }
  // The rank has read all but `in_pipe` bytes of what it was given: what it has read is before this
  // mark.
  void mark(std::uint64_t mark, std::size_t in_pipe) {
    newest_mark_ = {mark, given_ - std::min(given_, in_pipe)};
  }
  // restart() will go back to this mark, the newest, and to no other.
  void keep(std::uint64_t mark) {
    if (newest_mark_.mark == mark) kept_mark_ = newest_mark_;
  }

  // The input after the kept mark; begun(): whether there was any input at all.
  std::string_view behind_kept() const { return std::string_view(kept_).substr(kept_mark_.taken); }
  bool begun() const { return !kept_.empty(); }
  bool source_has_ended() const { return source_ended_; }
  // Restores the input of a job that has ended: `behind` comes after `mark`, which is kept.
  void resume(std::string_view behind, bool source_ended, std::uint64_t mark) {
    kept_ = behind;
    source_ended_ = source_ended;
    kept_mark_ = {mark, 0};
  }

  bool wants_more() const { return !source_ended_ && !reader_ended_ && given_ == kept_.size(); }
  // The rank's end of the pipe should see the end of the file now.
  bool finished() const { return reader_ended_ || (source_ended_ && given_ == kept_.size()); }

 private:
  struct Mark {
    std::uint64_t mark = 0;
    std::size_t taken = 0;
  };

  Mark newest_mark_;
  Mark kept_mark_;
  std::string kept_;
  std::size_t given_ = 0;
  bool source_ended_ = false;
  bool reader_ended_ = false;
};

}  // namespace rejoin::launcher
