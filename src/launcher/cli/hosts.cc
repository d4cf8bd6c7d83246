#include "launcher/cli/hosts.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "launcher/base/grammar.h"
#include "launcher/cli/allocation.h"

namespace rejoin::launcher {
namespace {

std::string own_name() {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

struct Hosts {
  std::string option;  // and its value
  std::vector<HostSlots> list = {};
  bool is_allocated = false;  // a batch system has named them, and not the user
  std::string remote_shell = {};
};

Result<Hosts> read_file(const std::string& path) {
  Hosts hosts{"--hostfile " + path};
  auto list = read_host_file(hosts.option, path);
  if (!list.ok()) return list.error();
  hosts.list = std::move(list.value());
  return hosts;
}

Result<Hosts> allocated() {
  auto found = find_allocation();
  if (!found.ok()) return found.error();
  if (!found.value()) return Hosts{};
  Allocation& all = *found.value();
  if (all.hosts.size() < 2) return Hosts{};
  return Hosts{all.source, std::move(all.hosts), true, all.remote_shell};
}

Result<Hosts> read_list(const std::string& text) {
  Hosts hosts{"--host " + text};
  auto list = hosts_of_list(text);
  if (!list) {
    return Error{hosts.option +
                     ": is not a list of hosts; write HOST:RANKS,HOST:RANKS, for example "
                     "localhost:4, or a:4,b:4",
                 kExitUsage};
  }
  hosts.list = std::move(*list);
  return hosts;
}

Result<Hosts> hosts_of(const RawProgram& raw) {
  if (raw.hosts.empty() && raw.host_file.empty()) return allocated();
  if (!raw.hosts.empty() && !raw.host_file.empty()) {
    return Error{"--host and --hostfile both name hosts; give only one of them", kExitUsage};
  }
  return raw.hosts.empty() ? read_file(raw.host_file) : read_list(raw.hosts);
}

// A host that is named several times has all those slots.
std::vector<HostSlots> merged(const std::vector<HostSlots>& list) {
  std::vector<HostSlots> hosts;
  for (const HostSlots& host : list) {
    const auto same = std::find_if(hosts.begin(), hosts.end(),
                                   [&](const HostSlots& h) { return h.name == host.name; });
    if (same == hosts.end()) {
      hosts.push_back({host.name, host.slots.value_or(1)});
    } else {
      *same->slots += host.slots.value_or(1);
    }
  }
  return hosts;
}

// The ranks that the option allows; nothing: any number, as for "localhost".
std::optional<std::uint64_t> slots_of(const std::vector<HostSlots>& list) {
  if (list.size() == 1 && !list[0].slots) return {};
  std::uint64_t slots = 0;
  for (const HostSlots& host : list) slots += host.slots.value_or(1);
  return slots;
}

}  // namespace

Result<std::uint64_t> parse_ranks(const std::string& option, const std::string& text) {
  return parse_number(option, text, "number of ranks", 1, journal::kMaxRanks);
}

std::optional<Error> read_hosts(const RawProgram& raw, ProgramOptions& program) {
  auto hosts = hosts_of(raw);
  if (!hosts.ok()) return hosts.error();
  std::vector<HostSlots>& list = hosts.value().list;
  const std::string own = own_name();
  const bool all_here = std::all_of(list.begin(), list.end(),
                                    [&](const HostSlots& h) { return is_this_host(h.name, own); });
  // Without options, a job on this host alone has any number of ranks.
  if (hosts.value().is_allocated && all_here) hosts.value() = Hosts{};
  std::optional<std::uint64_t> slots;
  if (!list.empty()) slots = slots_of(list);
  if (!all_here) {
    // Other hosts would take "localhost" for themselves.
    for (HostSlots& host : list) {
      if (is_this_host(host.name, own)) host.name = own;
    }
    list = merged(list);
    slots = slots_of(list);
  }
  program.names_this_host = all_here && !list.empty();
  if (!raw.on_each_host.empty()) {
    const auto each = parse_ranks(raw.on_each_host_option, raw.on_each_host);
    if (!each.ok()) return each.error();
    const std::uint64_t wanted = each.value() * (all_here ? 1 : list.size());
    const bool fits = !slots || wanted <= *slots ||
                      std::none_of(list.begin(), list.end(), [](auto& h) { return h.slots > 1; });
    if (!fits) {
      return Error{raw.on_each_host_option + " " + raw.on_each_host + " are more ranks than " +
                       hosts.value().option + " allows",
                   kExitUsage};
    }
    for (HostSlots& host : list) host.slots = static_cast<std::uint32_t>(each.value());
    slots = wanted;
  }
  if (slots) {
    if (*slots == 0 || *slots > journal::kMaxRanks) {
      return Error{hosts.value().option + ": a job has 1 to " + std::to_string(journal::kMaxRanks) +
                       " ranks",
                   kExitUsage};
    }
    program.ranks = static_cast<std::uint32_t>(*slots);
  }
  if (!raw.ranks.empty()) {
    const auto ranks = parse_ranks(raw.ranks_option, raw.ranks);
    if (!ranks.ok()) return ranks.error();
    if (slots && ranks.value() > *slots) {
      const std::string& option = hosts.value().option;
      return Error{
          raw.ranks_option + " " + raw.ranks + " are more ranks than the " +
              std::to_string(*slots) + " that " +
              (option.empty() ? raw.on_each_host_option +
                                    " allows on one host (the number of hosts, srun's -N, is "
                                    "--nodes)"
                              : option + " allows; write HOST:RANKS"),
          kExitUsage};
    }
    program.ranks = static_cast<std::uint32_t>(ranks.value());
  }
  if (all_here) return {};
  program.hosts = std::move(list);
  program.remote_shell = hosts.value().remote_shell;
  return {};
}

std::optional<Error> fill_hosts(RunOptions& options) {
  std::vector<HostSlots> hosts;
  for (const ProgramOptions& program : options.programs) {
    if (program.hosts.empty()) continue;
    if (hosts.empty()) hosts = program.hosts;
    if (program.hosts != hosts) {
      return Error{
          "the programs of a job run on the same hosts: give one list of them, or the same",
          kExitUsage};
    }
  }
  if (hosts.empty()) return {};
  if (std::any_of(options.programs.begin(), options.programs.end(),
                  [](const ProgramOptions& p) { return p.names_this_host; })) {
    return Error{"the programs of a job run on the same hosts: give one list of them, or the same",
                 kExitUsage};
  }
  if (!options.layout.empty()) {
    return Error{"--layout lays out nodes on this machine; with other hosts, they are the nodes",
                 kExitUsage};
  }
  std::uint32_t left = options.ranks();
  for (const HostSlots& host : hosts) {
    const std::uint32_t here = std::min(left, *host.slots);
    if (here == 0) break;
    options.layout.push_back(here);
    options.hosts.push_back(host.name);
    left -= here;
  }
  if (left > 0) {
    return Error{"the job has " + std::to_string(options.ranks()) + " ranks, " +
                     std::to_string(left) + " more than its hosts are to run; write HOST:RANKS",
                 kExitUsage};
  }
  options.between_nodes = BetweenNodes::kSockets;
  if (options.remote_shell.empty()) options.remote_shell = options.programs[0].remote_shell;
  if (options.remote_shell.empty()) options.remote_shell = "ssh -o BatchMode=yes";
  return {};
}

}  // namespace rejoin::launcher
