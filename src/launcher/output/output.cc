#include "launcher/output/output.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <utility>

namespace rejoin::launcher {
namespace {

constexpr std::size_t kLongestLineBytes = 64 * 1024;

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
  marks_.push_back({version, shown_lines_, shown_of_line_bytes_, std::make_unique<Hash>(*shown_)});
}

void OutputStream::keep(std::uint64_t version) {
  const auto kept = std::find_if(marks_.begin(), marks_.end(),
                                 [version](const Mark& m) { return m.version == version; });
  if (kept == marks_.end()) return;
  marks_.erase(marks_.begin(), kept);
  kept_ = version;
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

void OutputStream::emit(std::string_view bytes, std::string& show) {
  if (bytes.empty()) return;
  shown_->add(bytes);
  if (keeps_raw_) raw_ += bytes;
  const std::size_t newline = bytes.rfind('\n');
  shown_lines_ += static_cast<std::uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
  if (newline == std::string_view::npos) {
    shown_of_line_bytes_ += bytes.size();
  } else {
    shown_of_line_bytes_ = bytes.size() - newline - 1;
  }
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
