// Where every rank stands, for a person whose job hangs: --timeout and SIGUSR1.
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

// Writes state, position and stacks of all ranks to descriptor 2, those that stand together once.
// Asks eu-stack or gdb, if there is one, else /proc. where(rank) is called when the rank's stack
// has been read. Takes at most a few seconds. For a process of its own: it starts programs
// and waits.
void print_standing(const std::vector<Standing>& ranks,
                    const std::function<std::string(std::uint32_t)>& where);

}  // namespace rejoin::launcher
