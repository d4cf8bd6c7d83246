// One output stream of one rank: shows every byte once, however often the rank is restarted.
//
// A new incarnation prints again what earlier ones printed. As much of it as was shown before is
// suppressed, counted in lines, and in bytes of the last line if that was shown unfinished. Hashes
// of both outputs show whether the replay printed the same.
//
// Only complete lines are shown, so that lines of different ranks do not mix. An unfinished line is
// buffered until it is finished, flush() is called, or it grows too long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rejoin::launcher {

class OutputStream {
 public:
  // Returns the prefix of every line that is shown; it is neither counted nor hashed.
  using Tag = std::function<std::string()>;
  explicit OutputStream(Tag tag = nullptr);
  OutputStream(OutputStream&&) noexcept;
  OutputStream& operator=(OutputStream&&) noexcept;
  ~OutputStream();

  // Takes bytes that the rank wrote, and appends to `show` what is to be shown of them.
  void feed(std::string_view bytes, std::string& show);
  // Shows an unfinished line as it is.
  void flush(std::string& show);
  // To be called when the process is dead and all its output was fed. The next incarnation prints
  // from the start.
  void restart();
  // To be called when all output before checkpoint `version` was fed. Shows an unfinished line.
  void mark(std::uint64_t version, std::string& show);
  // Discards older marks: jump() will return to none of them.
  void keep(std::uint64_t version);
  // To be called when all that the new incarnation prints before it resumes from checkpoint
  // `version` was fed: what it prints next came after the mark. No effect without such a mark.
  void jump(std::uint64_t version);

  // All ranks have gone back to `version`, and this rank may print something else from there on.
  // What it prints again is suppressed while it is the same, line by line; from the first line that
  // differs on, all is shown. was_shown: else the caller has withdrawn what was printed since, and
  // nothing is suppressed. No effect without such a mark.
  void go_back(std::uint64_t version, bool was_shown);
  // Bytes that were shown, in all and before this mark; 0 without such a mark.
  std::uint64_t shown_bytes() const { return shown_bytes_; }
  std::uint64_t bytes_before(std::uint64_t version) const;
  // Returns, once, how many lines that were shown are void by that: others come in their place.
  // `ended`: the rank will print no more.
  std::uint64_t take_void_lines(bool ended);

  // Another stream was shown after an unfinished line: the rest of that begins a new line.
  void interrupted() { at_line_start_ = true; }

  // Starts to collect a second copy of all shown output, without tags, for take_raw().
  void keep_raw() { keeps_raw_ = true; }
  std::string take_raw() { return std::exchange(raw_, {}); }

  // Whether the rank is still repeating output of an earlier incarnation.
  bool replays() const { return swallowing_; }
  bool has_unfinished_line() const { return !unfinished_.empty(); }
  // Returns true once, after a replay printed something other than the earlier incarnation, or less
  // (`ended`: the rank will print no more).
  bool take_difference(bool ended);

 private:
  struct Hash;

  struct Mark {
    std::uint64_t version;
    std::uint64_t lines;
    std::uint64_t of_line_bytes;
    std::uint64_t bytes;  // shown
    std::unique_ptr<Hash> printed;
  };

  std::string_view swallow(std::string_view bytes);
  std::string_view compare(std::string_view bytes, std::string& show);
  void lose_expected();
  void count(std::string_view bytes);
  void emit(std::string_view bytes, std::string& show);

  Tag tag_;
  std::string unfinished_;
  bool at_line_start_ = true;  // the next byte shown begins a line
  bool keeps_raw_ = false;
  std::string raw_;

  // What was shown since the kept mark, or since the first one, and since how many bytes; and what
  // is expected to come again.
  std::string recent_;
  std::uint64_t recent_from_ = 0;
  std::string expected_;
  std::uint64_t void_lines_ = 0;

  std::uint64_t shown_bytes_ = 0;
  std::uint64_t shown_lines_ = 0;
  std::uint64_t shown_of_line_bytes_ = 0;  // of the unfinished line after shown_lines_
  std::uint64_t lines_to_swallow_ = 0;
  std::uint64_t bytes_to_swallow_ = 0;
  bool swallowing_ = false;
  bool differs_ = false;
  bool difference_told_ = false;
  std::vector<Mark> marks_;  // of the newest versions, and the kept mark
  std::uint64_t kept_ = 0;
  std::unique_ptr<Hash> shown_;
  std::unique_ptr<Hash> replayed_;
};

}  // namespace rejoin::launcher
