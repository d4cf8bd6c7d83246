#include "launcher/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

namespace rejoin::launcher {

std::string read_small_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = read(file.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  // With O_NONBLOCK, a fifo without a writer is refused without waiting for one.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info = {};
  if (!file.open() || fstat(file.get(), &info) != 0) {
    return Error{"cannot read " + path + ": " + error_text(errno)};
  }
  if (!S_ISREG(info.st_mode)) return Error{"cannot read " + path + ": it is not a regular file"};
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return MappedFile(std::string_view());
  void* p = mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (p == MAP_FAILED) return Error{"cannot map " + path + ": " + error_text(errno)};
  return MappedFile(std::string_view(static_cast<const char*>(p), size));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

std::string error_text(int error) { return strerror(error); }

bool write_all(int fd, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = write(fd, from, std::min<std::size_t>(bytes, 1 << 20));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    from += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool sync_path(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file.open() && fsync(file.get()) == 0;
}

}  // namespace rejoin::launcher
