// Process ids in paths and in the ids of clocks.
#pragma once

#include <sys/types.h>

namespace rejoin::libc_recording {

// A path in /proc that names this rank by the process id that its program knows: with the one that
// it has, in room[PATH_MAX]. Any other path: the same.
const char* own_proc_path(const void* caller, const char* path, char* room);

// Returns whether `id` is this process: its first incarnation's pid, which the program knows, or
// its current pid.
bool is_own_process(const void* caller, pid_t id);

}  // namespace rejoin::libc_recording
