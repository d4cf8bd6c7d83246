// What ftrun tells the agents of hosts about their job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/host_plan.h"
#include "launcher/hosts/agents.h"
#include "launcher/supervisor/supervisor_core.h"

namespace rejoin::launcher {

// For the agents of all hosts: what this process was given, and what it has found out. `arguments`:
// of ftrun; resumed: the set from which the job goes on.
Order order_of_plan(const HostPlan& plan, const std::vector<std::string>& arguments,
                    const std::optional<HostSet>& resumed = {});
// For the agent that takes the place of a lost one. `order`: of the plan; `printed`: what its ranks
// have printed since the set, by rank and stream.
Order order_of_part(Order order, const Action::Replace& replace,
                    const std::vector<std::string>& printed);

}  // namespace rejoin::launcher
