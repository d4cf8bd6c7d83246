// Shortens the stacks that debuggers print.
#pragma once

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

}  // namespace rejoin::launcher
