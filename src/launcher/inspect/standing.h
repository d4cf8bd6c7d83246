// Where every rank stands, for a person whose job hangs: --timeout and SIGUSR1.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rejoin::launcher {

// Writes state, position and stacks of all ranks to descriptor 2, those that stand together once.
// Asks eu-stack or gdb, if there is one, else /proc. pids: by rank; 0: ended. where(rank): "in
// Allreduce #12 at solver.c:3::main"; asked before and after the stack is read. Takes at most a few
// seconds. For a process of its own: it starts programs and waits.
void print_standing(const std::vector<pid_t>& pids,
                    const std::function<std::string(std::uint32_t)>& where);

}  // namespace rejoin::launcher
