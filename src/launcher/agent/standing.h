// Prints the position of every rank, for a user with a hanging job: --timeout and SIGUSR1.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rejoin::launcher {

struct Standing {
  pid_t pid;          // 0: ended
  std::string where;  // "in Allreduce #12 at solver.c:3::main"
};

// Writes state, position and stacks of all ranks to descriptor 2, grouped if they are the same.
// Uses eu-stack or gdb, if there is one, else /proc. Calls where(rank) when the rank's stack has
// been read. Takes at most a few seconds. Needs a process of its own, because it starts programs
// and waits.
void print_standing(const std::vector<Standing>& ranks,
                    const std::function<std::string(std::uint32_t)>& where);

}  // namespace rejoin::launcher
