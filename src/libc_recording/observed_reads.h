// Files of which what is read is an observation: /dev/urandom and /dev/random, and what the system
// says of itself in /proc and /sys.
#pragma once

#include <stdio.h>

namespace rejoin::libc_recording {

// Not what /proc says of this process's own memory: that is another in each incarnation, and who
// asks needs the truth. By what the path leads to (/etc/mtab is a link).
bool is_read_observed(const char* path);

// What read() gets from this descriptor is an observation, until it is closed. Returns it.
int observe_reads(int fd);

// A stream for reading. Not libc's own: that one would fetch its bytes behind our back.
FILE* open_observed_stream(const char* path);

}  // namespace rejoin::libc_recording
