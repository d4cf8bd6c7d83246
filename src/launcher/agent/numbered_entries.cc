#include "launcher/agent/numbered_entries.h"

#include <errno.h>
#include <stdio.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "launcher/base/file.h"

namespace rejoin::launcher {

std::vector<std::uint64_t> NumberedEntries::numbers(const std::string& suffix) const {
  const std::string prefix = kind_ + "-";
  std::vector<std::uint64_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    const std::string name = entry.path().filename();
    const bool ours = name.size() > prefix.size() + suffix.size() && name.starts_with(prefix) &&
                      name.ends_with(suffix);
    if (!ours) continue;
    const char* end = name.data() + name.size() - suffix.size();
    std::uint64_t number = 0;
    const auto [at, fault] = std::from_chars(name.data() + prefix.size(), end, number);
    if (at == end && fault == std::errc{}) found.push_back(number);
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

std::string NumberedEntries::path_of(std::uint64_t number) const {
  char digits[32];
  snprintf(digits, sizeof digits, "%0*llu", digits_, static_cast<unsigned long long>(number));
  return directory_ + "/" + kind_ + "-" + digits + ".rejoin";
}

bool NumberedEntries::put_in_place(std::uint64_t number) const {
  return rename(part_of(number).c_str(), path_of(number).c_str()) == 0 && sync_path(directory_);
}

bool NumberedEntries::withdraw(std::uint64_t number) const {
  return rename(path_of(number).c_str(), part_of(number).c_str()) == 0;
}

std::optional<Error> NumberedEntries::remove(std::uint64_t number) const {
  const std::string part = part_of(number);
  if (!withdraw(number)) return Error{path_of(number) + ": " + error_text(errno)};
  std::error_code error;
  std::filesystem::remove_all(part, error);
  if (error) return Error{part + ": " + error.message()};
  return {};
}

std::optional<Error> NumberedEntries::remove_all() const {
  for (const std::uint64_t number : numbers()) {
    if (const auto error = remove(number)) return error;
  }
  remove_parts();
  if (!sync_path(directory_)) return Error{directory_ + ": " + error_text(errno)};
  return {};
}

void NumberedEntries::remove_part(std::uint64_t number) const {
  std::error_code error;
  std::filesystem::remove_all(part_of(number), error);
}

void NumberedEntries::remove_parts() const {
  for (const std::uint64_t number : numbers(".rejoin.part")) remove_part(number);
}

void NumberedEntries::remove_old(std::uint64_t newest, std::size_t kept) const {
  for (const std::uint64_t number : numbers()) {
    if (number > newest) continue;
    if (kept == 0) {
      remove(number);
    } else {
      --kept;
    }
  }
}

}  // namespace rejoin::launcher
