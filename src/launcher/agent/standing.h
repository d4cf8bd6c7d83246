// Finds out where the ranks of a host stand, for a user with a hanging job: --timeout and SIGUSR1.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "launcher/base/record.h"

namespace rejoin::launcher {

// Completes `found`, of which rank, pid and `where` are set, by the state and the stacks of its
// processes, and by a remark. Uses eu-stack or gdb, if there is one, else /proc. Calls where(rank)
// when the rank's stack has been read. Takes at most a few seconds. Needs a process of its own,
// because it starts programs and waits.
void find_stacks(StoodOnHost& found, const std::function<std::string(std::uint32_t)>& where);

}  // namespace rejoin::launcher
