#include "launcher/cli/hosts.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
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

// The hosts of which agents join; none: another program's options give them.
Result<Hosts> hosts_that_join(const RawProgram& raw) {
  const bool is_named = !raw.hosts.empty() || !raw.host_file.empty();
  if (!is_named && raw.nodes.empty()) return Hosts{};
  if (is_named && raw.nodes.empty()) return hosts_of(raw);
  if (is_named) {
    return Error{"--nodes and a list of hosts both say which hosts join; give only one of them",
                 kExitUsage};
  }
  const auto nodes = parse_number("--nodes", raw.nodes, "number of hosts", 1, journal::kMaxRanks);
  if (!nodes.ok()) return nodes.error();
  if (raw.on_each_host.empty()) {
    return Error{"--nodes " + raw.nodes + ": give the number of ranks on each host with --npernode",
                 kExitUsage};
  }
  Hosts hosts{"--nodes " + raw.nodes};
  hosts.list.resize(nodes.value());
  return hosts;
}

// A host that is named several times has all those slots.
std::vector<HostSlots> merged(const std::vector<HostSlots>& list) {
  std::vector<HostSlots> hosts;
  for (const HostSlots& host : list) {
    if (host.name.empty()) {
      hosts.push_back({"", host.slots.value_or(1)});
      continue;
    }
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

// What goes through the remote shell has to be encrypted, too. Any command may be a script, so only
// those are refused of which it is known.
std::optional<Error> check_remote_shell(const RunOptions& options) {
  if (!options.encrypt || options.agents_join()) return {};
  std::string shell;
  std::istringstream(options.remote_shell) >> shell;
  shell.erase(0, shell.rfind('/') + 1);
  constexpr std::string_view kClear[] = {"srun",    "rsh",       "remsh", "rexec",
                                         "blaunch", "pbs_tmrsh", "lsrun", "pbsdsh"};
  if (std::find(std::begin(kClear), std::end(kClear), shell) == std::end(kClear)) return {};
  return Error{"--encrypt: " + shell +
                   ", which would carry the job's orders and secret, does not encrypt; give "
                   "--remote-shell 'ssh -o BatchMode=yes', or let agents join (--listen)",
               kExitUsage};
}

}  // namespace

Result<std::uint64_t> parse_ranks(const std::string& option, const std::string& text) {
  return parse_number(option, text, "number of ranks", 1, journal::kMaxRanks);
}

std::optional<Error> read_hosts(const RawProgram& raw, bool join, ProgramOptions& program) {
  auto hosts = join ? hosts_that_join(raw) : hosts_of(raw);
  if (!hosts.ok()) return hosts.error();
  std::vector<HostSlots>& list = hosts.value().list;
  const std::string own = own_name();
  const bool all_here =
      list.empty() || (!join && std::all_of(list.begin(), list.end(), [&](const HostSlots& h) {
        return is_this_host(h.name, own);
      }));
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
    program.fills_hosts = raw.ranks.empty();
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
  if (hosts.empty() && options.agents_join()) {
    return Error{
        "--listen: say which hosts are to join: -H a:4,b:4, or --nodes 2 --npernode 4 for any two",
        kExitUsage};
  }
  if (hosts.empty()) {
    options.spare_hosts.assign(options.spares, "");
    return {};
  }
  if (std::any_of(options.programs.begin(), options.programs.end(),
                  [](const ProgramOptions& p) { return p.names_this_host; })) {
    return Error{"the programs of a job run on the same hosts: give one list of them, or the same",
                 kExitUsage};
  }
  if (!options.layout.empty()) {
    return Error{"--layout lays out nodes on this machine; with other hosts, they are the nodes",
                 kExitUsage};
  }
  if (options.spares >= hosts.size()) {
    return Error{"--spares " + std::to_string(options.spares) + ": the list has only " +
                     std::to_string(hosts.size()) + " hosts, and some of them have to run ranks",
                 kExitUsage};
  }
  for (std::uint32_t i = options.spares; i > 0; --i) {
    const HostSlots& spare = hosts[hosts.size() - i];
    options.spare_hosts.push_back(spare.name);
    for (ProgramOptions& program : options.programs) {
      if (program.fills_hosts) *program.ranks -= *spare.slots;
    }
  }
  hosts.resize(hosts.size() - options.spares);
  std::uint32_t left = options.ranks();
  const std::uint32_t at_once = options.by_node() ? 1 : left;
  std::vector<std::uint32_t> here(hosts.size());
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const std::uint32_t these = std::min({left, at_once, *hosts[i].slots - here[i]});
      here[i] += these;
      left -= these;
      more |= these > 0;
    }
  }
  for (std::size_t i = 0; i < hosts.size() && here[i] > 0; ++i) {
    options.layout.push_back(here[i]);
    options.hosts.push_back(hosts[i].name);
  }
  if (left > 0) {
    return Error{"the job has " + std::to_string(options.ranks()) + " ranks, " +
                     std::to_string(left) + " more than its hosts are to run; write HOST:RANKS",
                 kExitUsage};
  }
  options.between_nodes = BetweenNodes::kSockets;
  if (options.remote_shell.empty()) options.remote_shell = options.programs[0].remote_shell;
  if (options.remote_shell.empty()) options.remote_shell = "ssh -o BatchMode=yes";
  return check_remote_shell(options);
}

std::optional<Error> check_survival(const RunOptions& options) {
  if (!options.survive_host) return {};
  if (options.layout.size() < 2 || !options.has_agents()) {
    return Error{
        "--survive host needs a job on several hosts: -H a:4,b:4, or --layout 4,4 "
        "--between-nodes sockets to try it on this machine",
        kExitUsage};
  }
  if (!options.snapshots.on() || !options.restart) {
    return Error{
        "--survive host needs snapshots, and restarts; leave out --snapshots off and "
        "--no-restart",
        kExitUsage};
  }
  if (options.on_divergence != OnDivergence::kRollBack) {
    return Error{
        "with --survive host all ranks must be able to go back: leave out "
        "--on-divergence",
        kExitUsage};
  }
  if (options.output.commits) {
    return Error{"--survive host does not go together with --commit-output yet", kExitUsage};
  }
  return {};
}

}  // namespace rejoin::launcher
