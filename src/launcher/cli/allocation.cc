#include "launcher/cli/allocation.h"

#include <stdio.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

namespace rejoin::launcher {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

// A step with one task for each agent. It shares all that the job has, is bound to no processor,
// and does not end the job when a host is lost. Without --unbuffered only whole lines come through.
constexpr char kSrun[] =
    "srun --overlap --nodes=1 --ntasks=1 --unbuffered --cpu-bind=none --mpi=none "
    "--kill-on-bad-exit=0 --no-kill --nodelist";

std::string variable(const char* name) {
  const char* value = getenv(name);
  return value != nullptr ? value : "";
}

// Slurm's list has ranges in brackets, which its own command expands.
Result<std::vector<std::string>> names_of_slurm(const std::string& list) {
  const std::string command = "scontrol show hostnames " + shell_word(list);
  const auto close = [](FILE* file) { pclose(file); };
  const std::unique_ptr<FILE, decltype(close)> output(popen(command.c_str(), "r"), close);
  std::vector<std::string> names;
  char line[512];
  while (output && fgets(line, sizeof line, output.get()) != nullptr) {
    names.emplace_back(line, strcspn(line, "\n"));
  }
  if (!names.empty()) return names;
  return Error{"SLURM_JOB_NODELIST=" + list +
                   ": \"scontrol show hostnames\" does not name its hosts; name them with --host",
               kExitUsage};
}

Result<Allocation> slurms(const std::string& list) {
  Allocation found{"SLURM_JOB_NODELIST=" + list, {}, kSrun};
  if (list.find_first_of(",[") == std::string::npos) {  // one host; a container has no scontrol
    found.hosts.push_back({list, 1});
    return found;
  }
  const auto names = names_of_slurm(list);
  if (!names.ok()) return names.error();
  const std::string tasks = variable("SLURM_TASKS_PER_NODE");
  const auto slots = tasks_of_slurm(tasks);
  if (!slots || slots->size() != names.value().size()) {
    return Error{found.source + " has " + std::to_string(names.value().size()) +
                     " hosts, for which SLURM_TASKS_PER_NODE=" + tasks +
                     " gives no numbers of ranks; name them with --host a:4,b:4",
                 kExitUsage};
  }
  for (std::size_t i = 0; i < slots->size(); ++i) {
    found.hosts.push_back({names.value()[i], (*slots)[i]});
  }
  return found;
}

}  // namespace

Result<std::vector<HostSlots>> read_host_file(const std::string& option, const std::string& path) {
  std::ifstream file(path);
  std::string text(kMostBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return Error{option + ": cannot be read (" + std::strerror(errno) + ")", kExitUsage};
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() == kMostBytes) return Error{option + ": is not a list of hosts", kExitUsage};
  auto list = hosts_of_file(text);
  if (!list.ok()) return Error{option + list.error().text, kExitUsage};
  return list;
}

Result<std::optional<Allocation>> find_allocation() {
  // Set by the operators of clusters of pods, for MPICH's and Open MPI's launchers.
  for (const char* name : {"HYDRA_HOST_FILE", "OMPI_MCA_orte_default_hostfile",
                           "SLURM_JOB_NODELIST", "PBS_NODEFILE", "LSB_DJOB_HOSTFILE"}) {
    const std::string value = variable(name);
    if (value.empty()) continue;
    if (std::strcmp(name, "SLURM_JOB_NODELIST") == 0) {
      auto found = slurms(value);
      if (!found.ok()) return found.error();
      return std::optional(std::move(found.value()));
    }
    const std::string source = std::string(name) + "=" + value;
    auto hosts = read_host_file(source, value);
    if (!hosts.ok()) return hosts.error();
    return std::optional(Allocation{source, std::move(hosts.value()), {}});
  }
  for (const char* name : {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}) {
    const std::string nodes = variable(name);
    if (strtoul(nodes.c_str(), nullptr, 10) <= 1) continue;
    return Error{
        std::string(name) + "=" + nodes +
            ", but SLURM_JOB_NODELIST does not name these hosts; name them with --host, or "
            "--host localhost:RANKS for a job on this one",
        kExitUsage};
  }
  return std::optional<Allocation>();
}

}  // namespace rejoin::launcher
