#include "launcher/output/output.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <utility>

namespace rejoin::launcher {
namespace {

constexpr std::size_t kLongestLineBytes = 64 * 1024;
// What was shown since the kept mark. What is longer is not compared when all ranks go back.
constexpr std::size_t kMostRecentBytes = 4 << 20;

}  // namespace

struct OutputStream::Hash {
  XXH3_state_t state;
  Hash() { reset(); }
  void reset() { XXH3_64bits_reset(&state); }
  void add(std::string_view bytes) { XXH3_64bits_update(&state, bytes.data(), bytes.size()); }
  std::uint64_t digest() const { return XXH3_64bits_digest(&state); }
};

OutputStream::OutputStream(Tag tag) : tag_(std::move(tag)), shown_(std::make_unique<Hash>()) {}
OutputStream::OutputStream(OutputStream&&) noexcept = default;
OutputStream& OutputStream::operator=(OutputStream&&) noexcept = default;
OutputStream::~OutputStream() = default;

void OutputStream::feed(std::string_view bytes, std::string& show) {
  if (swallowing_) bytes = swallow(bytes);
  if (!expected_.empty()) bytes = compare(bytes, show);
  if (bytes.empty()) return;
  const std::size_t newline = bytes.rfind('\n');
  const std::size_t whole = newline == std::string_view::npos ? 0 : newline + 1;
  if (whole > 0) {
    flush(show);
    emit(bytes.substr(0, whole), show);
  }
  unfinished_ += bytes.substr(whole);
  if (unfinished_.size() > kLongestLineBytes) flush(show);
}

void OutputStream::flush(std::string& show) {
  if (!expected_.empty() && expected_.starts_with(unfinished_)) return;
  lose_expected();
  emit(unfinished_, show);
  unfinished_.clear();
}

void OutputStream::restart() {
  // This was not shown yet, and the next incarnation prints it again.
  unfinished_.clear();
  lines_to_swallow_ = shown_lines_;
  bytes_to_swallow_ = shown_of_line_bytes_;
  swallowing_ = shown_lines_ + shown_of_line_bytes_ > 0;
  if (!swallowing_) return;
  if (!replayed_) replayed_ = std::make_unique<Hash>();
  replayed_->reset();
}

void OutputStream::mark(std::uint64_t version, std::string& show) {
  constexpr std::size_t kMostMarks = 6;  // more than the versions that a rank may return to
  flush(show);
  for (const Mark& m : marks_) {
    if (m.version == version) return;  // set by an earlier incarnation
  }
  if (swallowing_) return;  // the replay prints less than before; reported at the end
  if (marks_.size() == kMostMarks) {
    marks_.erase(marks_.begin() + (marks_.front().version == kept_ ? 1 : 0));
  }
  marks_.push_back(
      {version, shown_lines_, shown_of_line_bytes_, shown_bytes_, std::make_unique<Hash>(*shown_)});
}

void OutputStream::keep(std::uint64_t version) {
  const auto kept = std::find_if(marks_.begin(), marks_.end(),
                                 [version](const Mark& m) { return m.version == version; });
  if (kept == marks_.end()) return;
  marks_.erase(marks_.begin(), kept);
  kept_ = version;
  const std::uint64_t from = marks_.front().bytes;
  recent_.erase(0, std::min<std::uint64_t>(from - std::min(from, recent_from_), recent_.size()));
  recent_from_ = shown_bytes_ - recent_.size();
}

std::uint64_t OutputStream::bytes_before(std::uint64_t version) const {
  for (const Mark& m : marks_) {
    if (m.version == version) return m.bytes;
  }
  return 0;
}

void OutputStream::go_back(std::uint64_t version, bool was_shown) {
  const auto m = std::find_if(marks_.begin(), marks_.end(),
                              [version](const Mark& mark) { return mark.version == version; });
  if (m == marks_.end()) return;
  const bool whole = recent_from_ <= m->bytes;
  if (!whole && was_shown) {
    lose_expected();
    void_lines_ += shown_lines_ - m->lines;
  } else if (was_shown) {
    // What had not come again since the ranks went back before is still expected.
    expected_.insert(0, recent_, m->bytes - recent_from_);
  }
  recent_.resize(whole ? m->bytes - recent_from_ : 0);
  recent_from_ = m->bytes - recent_.size();
  shown_bytes_ = m->bytes;
  shown_lines_ = m->lines;
  shown_of_line_bytes_ = m->of_line_bytes;
  *shown_ = *m->printed;
  unfinished_.clear();
  swallowing_ = false;
  marks_.erase(m + 1, marks_.end());
}

std::uint64_t OutputStream::take_void_lines(bool ended) {
  if (ended) lose_expected();
  return std::exchange(void_lines_, 0);
}

// What is still expected does not come again.
void OutputStream::lose_expected() {
  if (expected_.empty()) return;
  void_lines_ += static_cast<std::uint64_t>(std::count(expected_.begin(), expected_.end(), '\n')) +
                 (expected_.back() == '\n' ? 0 : 1);
  expected_.clear();
}

// Suppresses whole lines that are expected. Returns what is to be shown; an unfinished line waits.
std::string_view OutputStream::compare(std::string_view bytes, std::string& show) {
  while (!expected_.empty() && !bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    unfinished_ += bytes.substr(0, newline == std::string_view::npos ? newline : newline + 1);
    bytes.remove_prefix(newline == std::string_view::npos ? bytes.size() : newline + 1);
    if (newline == std::string_view::npos) break;
    const std::string line = std::exchange(unfinished_, {});
    if (expected_.starts_with(line)) {
      count(line);
      expected_.erase(0, line.size());
    } else if (line.starts_with(expected_)) {  // it was shown unfinished
      const std::size_t shown = expected_.size();
      count(std::string_view(line).substr(0, shown));
      expected_.clear();
      emit(std::string_view(line).substr(shown), show);
    } else {
      lose_expected();
      emit(line, show);
    }
  }
  return bytes;
}

void OutputStream::jump(std::uint64_t version) {
  for (const Mark& m : marks_) {
    if (m.version != version) continue;
    lines_to_swallow_ = shown_lines_ - m.lines;
    bytes_to_swallow_ = shown_of_line_bytes_ - (lines_to_swallow_ == 0 ? m.of_line_bytes : 0);
    swallowing_ = lines_to_swallow_ + bytes_to_swallow_ > 0;
    if (!replayed_) replayed_ = std::make_unique<Hash>();
    *replayed_ = *m.printed;
    return;
  }
}

bool OutputStream::take_difference(bool ended) {
  if (!differs_ && !(ended && swallowing_)) return false;
  return !std::exchange(difference_told_, true);
}

// Removes from the front of `bytes` what was shown before. Returns the rest.
std::string_view OutputStream::swallow(std::string_view bytes) {
  while (swallowing_ && !bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    std::size_t take = newline == std::string_view::npos ? bytes.size() : newline + 1;
    if (lines_to_swallow_ == 0) take = std::min<std::size_t>(take, bytes_to_swallow_);
    const std::string_view taken = bytes.substr(0, take);
    replayed_->add(taken);
    if (lines_to_swallow_ > 0) {
      if (taken.back() == '\n') --lines_to_swallow_;
    } else {
      // If the line is shorter than the first time, its missing bytes do not count any more.
      bytes_to_swallow_ = taken.back() == '\n' ? 0 : bytes_to_swallow_ - take;
    }
    bytes.remove_prefix(take);
    if (lines_to_swallow_ == 0 && bytes_to_swallow_ == 0) {
      swallowing_ = false;
      differs_ = differs_ || replayed_->digest() != shown_->digest();
    }
  }
  return bytes;
}

// These bytes are shown, or were shown before.
void OutputStream::count(std::string_view bytes) {
  shown_->add(bytes);
  shown_bytes_ += bytes.size();
  if (!marks_.empty()) recent_ += bytes;  // one of them may be kept
  if (recent_.size() > kMostRecentBytes) recent_.clear();
  recent_from_ = shown_bytes_ - recent_.size();
  const std::size_t newline = bytes.rfind('\n');
  shown_lines_ += static_cast<std::uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
  if (newline == std::string_view::npos) {
    shown_of_line_bytes_ += bytes.size();
  } else {
    shown_of_line_bytes_ = bytes.size() - newline - 1;
  }
}

void OutputStream::emit(std::string_view bytes, std::string& show) {
  if (bytes.empty()) return;
  count(bytes);
  if (keeps_raw_) raw_ += bytes;
  if (!tag_) {
    show += bytes;
    return;
  }
  while (!bytes.empty()) {
    if (at_line_start_) show += tag_();
    const std::size_t end = std::min(bytes.find('\n'), bytes.size() - 1) + 1;
    show += bytes.substr(0, end);
    at_line_start_ = bytes[end - 1] == '\n';
    bytes.remove_prefix(end);
  }
}

}  // namespace rejoin::launcher
