// Files with contents that are recorded when they are read, and given again in a replay:
// /dev/urandom, /dev/random, and files in /proc and /sys.
#pragma once

#include <stdio.h>

namespace rejoin::libc_recording {

// Whether reads of this file are recorded. Symbolic links are resolved first: /etc/mtab leads to
// /proc. Files that describe the memory of a process (maps, auxv and the like) are not recorded,
// because addresses differ between incarnations and the program needs the current ones. Costs one
// system call for other files.
bool is_read_observed(const char* path);

// Records each read() from this descriptor, until it is closed. Returns the descriptor.
int observe_reads(int fd);

// Opens a stream for reading. The C library's own streams read by internal calls, which cannot be
// recorded.
FILE* open_observed_stream(const char* path);

}  // namespace rejoin::libc_recording
