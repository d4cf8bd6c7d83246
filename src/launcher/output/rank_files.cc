#include "launcher/output/rank_files.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

namespace rejoin::launcher {
namespace {

std::string path_of(const std::string& directory, std::uint32_t rank, int stream) {
  return directory + "/rank." + std::to_string(rank) + (stream == 0 ? "/stdout" : "/stderr");
}

std::optional<Error> make_directory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return {};
  return Error{"--output-filename: cannot make the directory " + path + ": " + error.message()};
}

}  // namespace

std::optional<Error> RankFiles::prepare(const std::string& directory, const LocalRanks& ranks,
                                        bool goes_on) {
  const int how = O_WRONLY | O_CREAT | O_CLOEXEC | (goes_on ? 0 : O_TRUNC);
  for (const std::uint32_t rank : ranks) {
    if (const auto error = make_directory(directory + "/rank." + std::to_string(rank))) {
      return error;
    }
    for (int stream = 0; stream < 2; ++stream) {
      const std::string path = path_of(directory, rank, stream);
      const Descriptor file(open(path.c_str(), how, 0666));
      if (!file.open()) {
        return Error{"--output-filename: cannot write " + path + ": " + error_text(errno)};
      }
    }
  }
  return {};
}

int RankFiles::write(std::uint32_t rank, int stream, std::string_view bytes) {
  if (error_ != 0) return 0;
  const std::string path = path_of(directory_, rank, stream);
  const Descriptor file(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (!file.open()) return error_ = errno;
  while (!bytes.empty()) {
    const ssize_t n = ::write(file.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error_ = errno;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

}  // namespace rejoin::launcher
