// Streams in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>

#include "rabit/internal/utils.h"
#include "rabit/serializable.h"

namespace rabit {
namespace utils {

typedef dmlc::SeekStream SeekStream;

// A stream over memory of fixed size that the caller owns. Reads at its end are short. A write past
// it is an error of the program, for which utils::Assert ends the process.
struct MemoryFixSizeBuffer : public SeekStream {
 public:
  // Seek(SeekEnd) goes to the end.
  static constexpr std::size_t SeekEnd = std::numeric_limits<std::size_t>::max();

  MemoryFixSizeBuffer(void* buffer, std::size_t size)
      : buffer_(static_cast<char*>(buffer)), size_(size), position_(0) {}

  using SeekStream::Read;
  using SeekStream::Write;
  std::size_t Read(void* data, std::size_t size) override {
    size = std::min(size, size_ - position_);
    if (size != 0) std::memcpy(data, buffer_ + position_, size);
    position_ += size;
    return size;
  }
  void Write(const void* data, std::size_t size) override {
    Assert(size <= size_ - position_, "write of %zu bytes at %zu, past the end of a buffer of %zu",
           size, position_, size_);
    if (size != 0) std::memcpy(buffer_ + position_, data, size);
    position_ += size;
  }
  void Seek(std::size_t position) override {
    if (position == std::numeric_limits<std::size_t>::max()) position = size_;
    Assert(position <= size_, "seek to %zu, past the end of a buffer of %zu", position, size_);
    position_ = position;
  }
  std::size_t Tell() override { return position_; }
  virtual bool AtEnd() const { return position_ == size_; }

 private:
  char* buffer_;
  std::size_t size_;
  std::size_t position_;
};

// A stream over a string that the caller owns; grows as it is written.
struct MemoryBufferStream : public SeekStream {
 public:
  explicit MemoryBufferStream(std::string* buffer) : buffer_(buffer), position_(0) {}

  using SeekStream::Read;
  using SeekStream::Write;
  std::size_t Read(void* data, std::size_t size) override {
    Assert(position_ <= buffer_->size(), "read at %zu, past the end of a buffer of %zu", position_,
           buffer_->size());
    size = std::min(size, buffer_->size() - position_);
    if (size != 0) std::memcpy(data, buffer_->data() + position_, size);
    position_ += size;
    return size;
  }
  void Write(const void* data, std::size_t size) override {
    if (size == 0) return;
    if (position_ + size > buffer_->size()) buffer_->resize(position_ + size);
    std::memcpy(&(*buffer_)[position_], data, size);
    position_ += size;
  }
  void Seek(std::size_t position) override { position_ = position; }
  std::size_t Tell() override { return position_; }
  virtual bool AtEnd() const { return position_ == buffer_->size(); }

 private:
  std::string* buffer_;
  std::size_t position_;
};

}  // namespace utils
}  // namespace rabit
