// Shortens the stacks that debuggers print, so that users find the rank that is elsewhere.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rejoin::launcher {

// Returns a process's stacks as a few lines without indentation, from the output of eu-stack -m or
// gdb: "#5 main (a.out)"; "#0 to #4 in Rejoin" for frames of our library, and of libc above them;
// addresses only without names; no callers of main. Lines of gdb's py-bt (Python's frames) come
// first. If there are several threads, each has a heading. `maps`: the process's /proc/PID/maps,
// for gdb, which names no module where it knows the line; may be empty.
std::vector<std::string> short_stack(std::string_view debugger_output, std::string_view maps = {});

// The state in which one rank was found.
struct Stood {
  std::uint32_t rank;
  pid_t pid;          // 0: ended
  std::string state;  // "sleeping"
  std::string where;  // "in Allreduce #12 at solver.c:3::main"
  std::vector<std::string> lines;
};

// Describes ranks with the same position, state and stack together, the smallest groups first.
// Names at most a few process ids.
//
//     rejoin: rank 2 (process 17, sleeping) is after Allreduce #5
//         #0 sleep (libc.so.6)
//     rejoin: ranks 0, 1, 3-9 (processes 15, 16, 18, 19, ..., sleeping) are in Barrier #6
std::string standing_text(const std::vector<Stood>& ranks);

}  // namespace rejoin::launcher
