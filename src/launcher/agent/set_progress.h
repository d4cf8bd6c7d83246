// Which images of a set have been written: pure.
//
//   an image of the set      leaves it by
//   kAsked                   writing() -> kWriting
//   kWriting                 ended() with 0 -> kWritten
//
// Anything else gives the set up: the images of a set belong together.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "launcher/supervisor/record.h"

namespace rejoin::launcher {

class SetProgress {
 public:
  // Each image, by rank, has been asked. REQUIRES !open().
  void begin(std::uint64_t number, std::vector<std::int64_t> images) {
    number_ = number;
    open_ = true;
    fault_.clear();
    parts_.clear();
    for (const std::int64_t image : images) parts_.push_back({State::kAsked, image, 0});
  }
  // It is over, however.
  void end() { open_ = false; }

  bool open() const { return open_; }
  std::uint64_t number() const { return number_; }
  // This image has been asked, and has not cloned itself yet: it must live until then.
  bool awaits(std::int64_t image) const {
    for (const Part& p : parts_) {
      if (open_ && p.image == image && p.state == State::kAsked) return true;
    }
    return false;
  }
  bool whole() const {
    for (const Part& p : parts_) {
      if (p.state != State::kWritten) return false;
    }
    return open_ && fault_.empty();
  }
  // Why it will never be whole; empty: it may be.
  const std::string& fault() const { return fault_; }

  // The rank's image has cloned itself; 0: it could not.
  void writing(std::uint32_t rank, std::int64_t clone) {
    if (!open_ || parts_[rank].state != State::kAsked) return;
    parts_[rank].state = State::kWriting;
    parts_[rank].clone = clone;
    if (clone == 0) fail("an image could not be cloned to be written");
  }
  // A process has ended. Whatever else it was, if it was an image that was asked, or a clone.
  void ended(std::int64_t pid, const Cause& cause) {
    for (Part& p : parts_) {
      if (p.state == State::kAsked && p.image == pid) fail("an image died before it was written");
      if (p.state != State::kWriting || p.clone != pid) continue;
      const bool well = cause.kind == Cause::Kind::kExit && cause.value == 0;
      if (well) p.state = State::kWritten;
      if (!well) fail("a process that wrote an image died (" + to_text(cause) + ")");
    }
  }
  // With a reason of its own.
  void fail(const std::string& why) {
    if (fault_.empty()) fault_ = why;
  }

 private:
  enum class State { kAsked, kWriting, kWritten };
  struct Part {
    State state;
    std::int64_t image;
    std::int64_t clone;
  };

  bool open_ = false;
  std::uint64_t number_ = 0;
  std::vector<Part> parts_;
  std::string fault_;
};

}  // namespace rejoin::launcher
