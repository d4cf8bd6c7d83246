#include "launcher/cli/mapping.h"

#include <algorithm>

namespace rejoin::launcher {

std::optional<Error> read_mapping(RawProgram& raw, std::vector<std::string>& notices) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= raw.mapping.size();) {
    const std::size_t end = std::min(raw.mapping.find_first_of(":,", at), raw.mapping.size());
    parts.push_back(raw.mapping.substr(at, end - at));
    at = end + 1;
  }
  const bool on_node = parts.size() >= 3 && parts[0] == "ppr" && parts[2] == "node";
  if (on_node) {
    raw.on_each_host = parts[1];
    raw.on_each_host_option = "--map-by " + raw.mapping + ":";
  }
  if (parts[0] == "ppr" && !on_node && raw.ranks.empty()) {
    return Error{"--map-by " + raw.mapping + ": give the number of ranks with -n", kExitUsage};
  }
  raw.by_node = parts[0] == "node";
  std::size_t read = on_node ? 3 : 1;
  for (const std::string& part : parts) {
    if (!part.starts_with("pe=") && !part.starts_with("PE=")) continue;
    raw.processors_each = part.substr(3);
    raw.processors_option = "--map-by " + raw.mapping + ": pe";
    ++read;
  }
  // "slot" is what is done anyway.
  const bool whole = on_node || ((raw.by_node || parts[0] == "slot") && read == parts.size());
  if (!whole) {
    notices.push_back("--map-by " + raw.mapping +
                      (raw.processors_each.empty() ? "" : " except pe") +
                      " has no effect: ranks of one host are numbered in their order; --bind-to "
                      "sets their processors");
  }
  return {};
}

}  // namespace rejoin::launcher
