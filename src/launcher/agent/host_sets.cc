#include "launcher/agent/host_sets.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

namespace rejoin::launcher {
namespace {

// Returns what is missing of the set, or an empty string.
std::string read_parts(const std::string& directory, std::uint32_t hosts, std::uint64_t number,
                       HostSet* set) {
  std::uint64_t job = 0;
  for (std::uint32_t host = 0; host < hosts; ++host) {
    const auto part = image_set_at(directory_of_host(directory, host), number);
    if (!part.ok()) return part.error().text;
    const ImageSet& of = part.value();
    if (host == 0) {
      job = of.job;
      *set = {number, of.incarnation, of.cut_at_s, of.input_ended};
    }
    if (of.job != job) return of.path + " is of another job than the part of host 0";
    set->incarnation = std::max(set->incarnation, of.incarnation);
    set->cut_at_s = std::min(set->cut_at_s, of.cut_at_s);
  }
  return {};
}

}  // namespace

std::string directory_of_host(const std::string& directory, std::uint32_t host) {
  return directory + "/host-" + std::to_string(host);
}

bool holds_host_sets(const std::string& directory) {
  std::error_code error;
  for (std::uint32_t host = 0;; ++host) {
    const std::string part = directory_of_host(directory, host);
    if (!std::filesystem::is_directory(part, error)) return false;
    if (holds_image_sets(part)) return true;
  }
}

Result<HostSet> newest_host_set(const std::string& directory, std::uint32_t hosts,
                                std::vector<std::string>& notices) {
  for (const std::uint64_t number : image_sets_at(directory_of_host(directory, 0))) {
    HostSet set = {};
    const std::string fault = read_parts(directory, hosts, number, &set);
    if (fault.empty()) return set;
    notices.push_back(fault + "; looking for an older set");
  }
  return Error{"--resume: " + directory + " has no set of images of which all " +
               std::to_string(hosts) + (hosts == 1 ? " host has" : " hosts have") +
               " written their parts"};
}

}  // namespace rejoin::launcher
