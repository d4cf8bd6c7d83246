// Random numbers for names and secrets.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>

namespace rejoin::wire {

// Returns whether there are any. From the device: no seccomp filter that lets a process read files
// forbids that, as one may forbid getrandom().
inline bool fill_random(void* to, std::size_t bytes) {
  const int device = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  const bool good = device >= 0 && read(device, to, bytes) == static_cast<ssize_t>(bytes);
  if (device >= 0) close(device);
  return good;
}

}  // namespace rejoin::wire
