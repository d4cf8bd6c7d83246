#include "launcher/hosts/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <string_view>

#include "launcher/base/file.h"

namespace rejoin::launcher {
namespace {

constexpr std::size_t kLeast = 32, kMost = 4096;  // characters

std::string mode_text(mode_t mode) {
  char text[8];
  snprintf(text, sizeof text, "%04o", mode & 07777);
  return text;
}

bool is_read_only(int fd) {
  struct statvfs system = {};
  return fstatvfs(fd, &system) == 0 && (system.f_flag & ST_RDONLY) != 0;
}

}  // namespace

Result<std::string> read_secret(const std::string& path) {
  const std::string what = "the secret file " + path;
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info = {};
  if (!file.open() || fstat(file.get(), &info) != 0) {
    return Error{what + ": " + error_text(errno) +
                 "; make it with: (umask 077; openssl rand -hex 32 > " + path + ")"};
  }
  if (!S_ISREG(info.st_mode)) return Error{what + " is not a file"};
  const bool is_roots = info.st_uid == 0;
  if (info.st_uid != geteuid() && !is_roots) {
    return Error{what + " belongs to another user; use one of your own"};
  }
  const bool is_shared = (info.st_mode & (S_IRWXG | S_IRWXO)) != 0;
  if (is_shared && !(is_roots && is_read_only(file.get()))) {
    return Error{what + " is not for its owner only (mode " + mode_text(info.st_mode) +
                 "); write: chmod 600 " + path};
  }
  char buffer[kMost + 1];
  const ssize_t n = read(file.get(), buffer, sizeof buffer);
  if (n < 0) return Error{what + ": " + error_text(errno)};
  std::string_view text(buffer, static_cast<std::size_t>(n));
  text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  if (text.size() >= kLeast && text.size() <= kMost) return std::string(text);
  return Error{what + " has " + std::to_string(text.size()) + " characters, and a secret has " +
               std::to_string(kLeast) + " to " + std::to_string(kMost) +
               "; make one with: openssl rand -hex 32"};
}

std::optional<Error> make_secret(const std::string& path, const std::string& secret) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const std::string text = std::string(secret).append(1, '\n');
  if (file.open() && write_all(file.get(), text.data(), text.size())) return {};
  return Error{"cannot write the secret to " + path + ": " + error_text(errno) +
               "; give one with --secret-file"};
}

}  // namespace rejoin::launcher
