#include "launcher/cli/hosts.h"

#include <limits.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "launcher/base/grammar.h"

namespace rejoin::launcher {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 16;

Result<std::string> ranks_of(const std::string& option, const std::string& hosts,
                             const std::string& how) {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof name - 1);
  const auto slots = slots_of(hosts, name);
  if (!slots) {
    return Error{option + ": ftrun supports one host only so far, this one: write " + how,
                 kExitUsage};
  }
  return *slots > 0 ? std::to_string(*slots) : "";
}

}  // namespace

Result<std::string> ranks_of_list(const std::string& hosts) {
  if (hosts.empty()) return std::string();
  return ranks_of("--host " + hosts, hosts, "localhost, or localhost:N");
}

Result<std::string> ranks_of_file(const std::string& path) {
  if (path.empty()) return std::string();
  const std::string option = "--hostfile " + path;
  std::ifstream file(path);
  std::string text(kMostBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return Error{option + ": cannot be read (" + std::strerror(errno) + ")", kExitUsage};
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() == kMostBytes) return Error{option + ": is not a list of hosts", kExitUsage};
  return ranks_of(option, hosts_of_file(text), "lines of localhost, or localhost slots=N");
}

}  // namespace rejoin::launcher
