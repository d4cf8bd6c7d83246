// What all files of --checkpoint-dir have in common: they are written aside, synced and only then
// put in place (numbered_entries.h), and their bytes are read with the checksums that were written
// with them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/base/file.h"

namespace rejoin::launcher {

// The length and the sum of some bytes, as files contain it.
struct Checksum {
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;  // XXH3

  bool operator==(const Checksum&) const = default;
};
Checksum checksum_of(std::string_view bytes);
inline Checksum checksum_of(const void* data, std::size_t bytes) {
  return checksum_of({static_cast<const char*>(data), bytes});
}
// Large files are read in pieces of this size.
inline constexpr std::size_t kReadPieceBytes = 1 << 20;
// Reads a file without mapping it. Nothing: it cannot be read, with errno set.
std::optional<Checksum> checksum_of_file(const std::string& path);
// Reads up to `bytes` bytes of a file, fewer at its end only. -1: failure, with errno set.
ssize_t read_piece(int fd, char* to, std::size_t bytes);

// A file that is written once, from its beginning to its end. The first error is remembered, and
// nothing is written after it.
class NewFile {
 public:
  // Creates the file. `existing`: what is done with a file that is there: O_TRUNC: it is
  // overwritten; O_EXCL: that is an error.
  NewFile(const std::string& path, int existing, mode_t mode);

  bool add(const void* data, std::size_t bytes);
  bool add(std::string_view bytes) { return add(bytes.data(), bytes.size()); }
  // Makes the bytes durable. Returns false if anything has failed since the file was created, with
  // errno set to the first error.
  bool sync();

  bool good() const { return error_ == 0; }
  int error() const { return error_; }  // the first one; 0: none
  std::uint64_t bytes() const { return bytes_; }

 private:
  bool note(bool good);

  Descriptor file_;
  int error_ = 0;
  std::uint64_t bytes_ = 0;
};

// Creates a directory, with those above it, and makes their names durable. Returns the error, or 0.
int make_directory(const std::string& path);

}  // namespace rejoin::launcher
