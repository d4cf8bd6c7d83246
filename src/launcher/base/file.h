// Small files and descriptors.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/base/result.h"

namespace rejoin::launcher {

// Closes its descriptor. -1: holds none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  // It is the caller's from now on.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Returns the contents of a file of unknown size (/proc, /sys); empty if it cannot be read.
std::string read_small_file(const std::string& path);

// Writes all bytes. Returns false on failure, with errno set.
bool write_all(int fd, const void* data, std::size_t bytes);
// Makes the file or directory durable. Returns false on failure, with errno set.
bool sync_path(const std::string& path);

// A file mapped for reading.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();
  std::string_view bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::string_view bytes) : bytes_(bytes) {}
  std::string_view bytes_;
};

// "No such file or directory" and the like.
std::string error_text(int error);

}  // namespace rejoin::launcher
