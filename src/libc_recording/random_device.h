// /dev/urandom and /dev/random: what is read from them is an observation.
#pragma once

#include <stdio.h>

namespace rejoin::libc_recording {

bool is_random_device(const char* path);

// What read() gets from this descriptor is an observation, until it is closed. Returns it.
int observe_reads(int fd);

// A stream for reading. Not libc's own: that one would fetch its bytes behind our back.
FILE* open_random_stream(const char* path);

}  // namespace rejoin::libc_recording
