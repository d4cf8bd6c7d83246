#include "launcher/agent/machine.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "launcher/agent/binding_hwloc.h"
#include "launcher/base/file.h"

namespace rejoin::launcher {
namespace {

// Returns the path of this process in a hierarchy of /proc/self/cgroup; "" names that of version 2.
std::string group_path(std::string_view controller) {
  const std::string text = read_small_file("/proc/self/cgroup");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second != std::string_view::npos &&
        line.substr(first + 1, second - first - 1) == controller) {
      return std::string(line.substr(second + 1));
    }
    at = end + 1;
  }
  return {};
}

std::optional<std::uint64_t> to_number(const std::string& text) {
  char* end = nullptr;
  const unsigned long long value = strtoull(text.c_str(), &end, 10);
  if (end == text.c_str()) return {};
  return value;
}

// The number after `key` in a file of "key value" lines.
std::optional<std::uint64_t> value_of(const std::string& text, const std::string& key) {
  std::size_t at = 0;
  while ((at = text.find(key, at)) != std::string::npos) {
    const bool line_start = at == 0 || text[at - 1] == '\n';
    at += key.size();
    if (line_start) return to_number(text.substr(at));
  }
  return {};
}

// Calls visit(directory) for this process's group and the groups around it, up to the root. Inside
// a container its own group is often mounted as the root.
template <class Visit>
void for_each_group(const std::string& mount, std::string path, Visit visit) {
  for (;;) {
    visit(mount + path);
    if (path.empty() || path == "/") return;
    path.resize(path.rfind('/'));
  }
}

std::uint64_t group_memory_limit_bytes() {
  std::uint64_t limit = UINT64_MAX;
  const auto look = [&limit](const std::string& file) {
    if (const auto bytes = to_number(read_small_file(file)))
      limit = std::min<std::uint64_t>(limit, *bytes);
  };
  for_each_group("/sys/fs/cgroup", group_path(""),
                 [&](const std::string& directory) { look(directory + "/memory.max"); });
  for_each_group("/sys/fs/cgroup/memory", group_path("memory"),
                 [&](const std::string& directory) { look(directory + "/memory.limit_in_bytes"); });
  return limit;
}

double group_processor_quota() {
  double quota = 1e9;
  for_each_group("/sys/fs/cgroup", group_path(""), [&](const std::string& directory) {
    const std::string text = read_small_file(directory + "/cpu.max");
    const auto most = to_number(text);
    const auto period = most ? to_number(text.substr(text.find(' ') + 1)) : std::nullopt;
    if (period && *period > 0) {
      quota = std::min(quota, static_cast<double>(*most) / static_cast<double>(*period));
    }
  });
  return quota;
}

}  // namespace

std::uint32_t usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  const double quota = std::ceil(group_processor_quota());
  return static_cast<std::uint32_t>(std::max(1.0, std::min<double>(allowed, quota)));
}

bool is_memory_uniform() {
  // A list of ranges, such as 0-1,3. Without the file there is one node.
  const std::string nodes = read_small_file("/sys/devices/system/node/has_memory");
  return nodes.find_first_of(",-") == std::string::npos;
}

std::uint64_t default_journal_limit_bytes(const std::string& directory) {
  struct statvfs disk = {};
  if (!directory.empty() && statvfs(directory.c_str(), &disk) == 0) {
    return std::max<std::uint64_t>(disk.f_bavail * disk.f_frsize / 2, 1);
  }
  const auto free_kib = value_of(read_small_file("/proc/meminfo"), "MemAvailable:");
  const std::uint64_t free_bytes = free_kib ? *free_kib * 1024
                                            : static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                                  static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(free_bytes, group_memory_limit_bytes()) / 2;
}

std::uint64_t out_of_memory_kills() {
  std::uint64_t kills = 0;
  bool told = false;
  const auto look = [&](const std::string& file) {
    const auto count = value_of(read_small_file(file), "oom_kill ");
    if (!count) return;
    told = true;
    kills = std::max(kills, *count);
  };
  look("/sys/fs/cgroup" + group_path("") + "/memory.events");
  look("/sys/fs/cgroup/memory" + group_path("memory") + "/memory.oom_control");
  if (!told) look("/proc/vmstat");
  return kills;
}

std::vector<std::uint32_t> processors_for_threads(const std::vector<std::uint32_t>& threads,
                                                  std::uint32_t processors) {
  const auto ranks = static_cast<std::uint32_t>(threads.size());
  if (ranks == 0 || ranks > processors) return {};
  std::vector<std::uint32_t> counts(ranks);
  std::uint32_t all = 0;
  // One more in turn for each rank that wants more.
  for (bool given = true; given;) {
    given = false;
    for (std::uint32_t r = 0; r < ranks && all < processors; ++r) {
      if (counts[r] >= std::max(threads[r], 1u)) continue;
      ++counts[r];
      ++all;
      given = true;
    }
  }
  return 2 * all <= processors ? std::vector<std::uint32_t>() : counts;
}

std::vector<cpu_set_t> processors_for_threads(const std::vector<std::uint32_t>& threads) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  if (threads.size() > usable_processors()) return {};  // by the control group's quota
  return processors_each(
      processors_for_threads(threads, static_cast<std::uint32_t>(CPU_COUNT(&allowed))));
}

std::vector<cpu_set_t> processors_each(const std::vector<std::uint32_t>& counts) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  std::vector<cpu_set_t> sets;
  int cpu = 0;
  for (const std::uint32_t count : counts) {
    sets.emplace_back();
    CPU_ZERO(&sets.back());
    for (std::uint32_t i = 0; i < count; ++cpu) {
      if (cpu == CPU_SETSIZE) return {};
      if (!CPU_ISSET(cpu, &allowed)) continue;
      CPU_SET(cpu, &sets.back());
      ++i;
    }
  }
  return sets;
}

namespace {

const char* hwloc_name(Binding binding) {
  switch (binding) {
    case Binding::kHwThread:
      return "pu";
    case Binding::kL1:
      return "l1cache";
    case Binding::kL2:
      return "l2cache";
    case Binding::kL3:
      return "l3cache";
    case Binding::kNuma:
      return "numanode";
    case Binding::kSocket:
      return "package";
    default:
      return "core";
  }
}

}  // namespace

Result<std::vector<cpu_set_t>> bind_ranks(const std::string& library_directory, Binding binding,
                                          std::uint32_t ranks) {
  const std::string path = library_directory + "/librejoin_binding.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Error{std::string("--bind-to needs hwloc: ") + dlerror()};
  const auto bind =
      reinterpret_cast<decltype(&rejoin_bind_ranks)>(dlsym(library, "rejoin_bind_ranks"));
  std::vector<cpu_set_t> sets(ranks);
  if (bind == nullptr || bind(hwloc_name(binding), ranks, sets.data()) != 0) {
    return Error{"--bind-to: hwloc does not know this machine's processors; use --bind-to none"};
  }
  return sets;
}

}  // namespace rejoin::launcher
