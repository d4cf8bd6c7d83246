// Process ids in paths and in the ids of clocks.
#pragma once

#include <sys/types.h>

namespace rejoin::libc_recording {

// Returns, for a path in /proc that names this rank by the process id that its program knows, the
// path with the current process id, in room[PATH_MAX]. Returns any other path unchanged.
const char* own_proc_path(const void* caller, const char* path, char* room);

// Returns whether `id` is this process: its first incarnation's pid, which the program knows, or
// its current pid.
bool is_own_process(const void* caller, pid_t id);

}  // namespace rejoin::libc_recording
