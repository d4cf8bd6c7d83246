#include "launcher/agent/checked_files.h"

#define XXH_INLINE_ALL
#include <errno.h>
#include <fcntl.h>
#include <xxhash.h>

#include <filesystem>
#include <vector>

namespace rejoin::launcher {

Checksum checksum_of(std::string_view bytes) {
  return {bytes.size(), XXH3_64bits(bytes.data(), bytes.size())};
}

ssize_t read_piece(int fd, char* to, std::size_t bytes) {
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t n = read(fd, to + got, bytes - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  return static_cast<ssize_t>(got);
}

std::optional<Checksum> checksum_of_file(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return {};
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  std::vector<char> piece(kReadPieceBytes);
  Checksum sum;
  for (ssize_t n; (n = read_piece(file.get(), piece.data(), piece.size())) != 0;) {
    if (n < 0) return {};
    XXH3_64bits_update(&state, piece.data(), static_cast<std::size_t>(n));
    sum.bytes += static_cast<std::uint64_t>(n);
  }
  sum.sum = XXH3_64bits_digest(&state);
  return sum;
}

NewFile::NewFile(const std::string& path, int existing, mode_t mode)
    : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | existing, mode)) {
  note(file_.open());
}

bool NewFile::add(const void* data, std::size_t bytes) {
  if (!good() || !note(write_all(file_.get(), data, bytes))) return false;
  bytes_ += bytes;
  return true;
}

bool NewFile::sync() {
  if (good() && note(fsync(file_.get()) == 0)) return true;
  errno = error_;
  return false;
}

bool NewFile::note(bool good) {
  if (!good) error_ = errno;
  return good;
}

int make_directory(const std::string& path) {
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::absolute(path, error);
  if (error) return error.value();
  if (std::filesystem::is_directory(directory, error)) return 0;
  if (std::filesystem::exists(directory, error)) return ENOTDIR;
  const std::string above = directory.parent_path();
  if (const int failed = make_directory(above)) return failed;
  std::filesystem::create_directory(directory, error);
  if (error) return error.value();
  sync_path(above);  // it may be a directory that this user may write but not read
  return 0;
}

}  // namespace rejoin::launcher
