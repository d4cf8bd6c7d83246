// Process ids in paths.
#pragma once

namespace rejoin::libc_recording {

// A path in /proc that names this rank by the process id that its program knows: with the one that
// it has, in room[PATH_MAX]. Any other path: the same.
const char* own_proc_path(const void* caller, const char* path, char* room);

}  // namespace rejoin::libc_recording
