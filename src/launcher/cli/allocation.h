// The hosts that a batch system has given to the job in which ftrun runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/base/grammar.h"
#include "launcher/base/result.h"

namespace rejoin::launcher {

struct Allocation {
  std::string source;            // where its hosts are named, for errors
  std::vector<HostSlots> hosts;  // each with a number of slots
  std::string remote_shell;      // that the batch system has; empty: none
};

// Reads HYDRA_HOST_FILE, OMPI_MCA_orte_default_hostfile, SLURM_JOB_NODELIST with
// SLURM_TASKS_PER_NODE, PBS_NODEFILE and LSB_DJOB_HOSTFILE; the first that is set counts. Nothing:
// none is. Errors: what it names cannot be read; Slurm's scontrol is missing, or it has several
// hosts and does not name them. Exit code kExitUsage.
Result<std::optional<Allocation>> find_allocation();

// The hosts of a file with a host in each line. `option`: that names the file, for errors.
Result<std::vector<HostSlots>> read_host_file(const std::string& option, const std::string& path);

}  // namespace rejoin::launcher
