// One output stream of one rank: every byte shown once, however often the rank is started again.
//
// A replacement prints again what its predecessors printed. It is counted in lines, and in bytes of
// the last line if that was shown unfinished; as much as was shown is swallowed. A hash over both
// tells whether the replay printed the same.
//
// Whole lines are shown at once, so that lines of different ranks do not mix. An unfinished line is
// kept back until it is finished, flush() is called, or it grows too long.
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
  // What `tag` returns is put before every line that is shown; not counted, not hashed.
  using Tag = std::function<std::string()>;
  explicit OutputStream(Tag tag = nullptr);
  OutputStream(OutputStream&&) noexcept;
  OutputStream& operator=(OutputStream&&) noexcept;
  ~OutputStream();

  // Bytes that the rank wrote; what is to be shown of them is appended to `show`.
  void feed(std::string_view bytes, std::string& show);
  // Shows an unfinished line as it is.
  void flush(std::string& show);
  // The process is dead and all that it wrote was fed. Its replacement begins from the start.
  void restart();
  // All that the process prints before checkpoint `version` was fed. An unfinished line is shown.
  void mark(std::uint64_t version, std::string& show);
  // jump() goes back to no mark that is older than this one.
  void keep(std::uint64_t version);
  // All that the replacement prints before it goes on behind checkpoint `version` was fed: what it
  // prints next is what came after the mark. Nothing if there is no such mark.
  void jump(std::uint64_t version);

  // Something else was shown behind an unfinished line: what is left of it begins a line again.
  void interrupted() { at_line_start_ = true; }

  // From now on, also what is shown without tags, for take_raw().
  void keep_raw() { keeps_raw_ = true; }
  std::string take_raw() { return std::exchange(raw_, {}); }

  // Whether it still prints what its predecessor did.
  bool replays() const { return swallowing_; }
  bool has_unfinished_line() const { return !unfinished_.empty(); }
  // True once, after a replay printed something else than its predecessor, or less (`ended`: the
  // rank will print no more).
  bool take_difference(bool ended);

 private:
  struct Hash;

  struct Mark {
    std::uint64_t version;
    std::uint64_t lines;
    std::uint64_t of_line_bytes;
    std::unique_ptr<Hash> printed;
  };

  std::string_view swallow(std::string_view bytes);
  void emit(std::string_view bytes, std::string& show);

  Tag tag_;
  std::string unfinished_;
  bool at_line_start_ = true;  // of what was shown
  bool keeps_raw_ = false;
  std::string raw_;

  std::uint64_t shown_lines_ = 0;
  std::uint64_t shown_of_line_bytes_ = 0;  // of the line after those
  std::uint64_t lines_to_swallow_ = 0;
  std::uint64_t bytes_to_swallow_ = 0;
  bool swallowing_ = false;
  bool differs_ = false;
  bool difference_told_ = false;
  std::vector<Mark> marks_;  // of the newest versions, and the one that is kept
  std::uint64_t kept_ = 0;
  std::unique_ptr<Hash> shown_;
  std::unique_ptr<Hash> replayed_;
};

}  // namespace rejoin::launcher
