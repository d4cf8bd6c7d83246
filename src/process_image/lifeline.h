// A clone's own hold on ftrun's lifeline.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

namespace rejoin::process_image {

// The kernel kills this process group when ftrun ends: each needs a descriptor of its own of
// ftrun's lifeline (launcher/agent/lifeline.h).
inline void hold_lifeline() {
  constexpr int kHighDescriptor = 899;
  for (int fd = kHighDescriptor; fd >= 0; --fd) {
    if (fcntl(fd, F_GETSIG) != SIGKILL) continue;
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const int own = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (own < 0 || dup2(own, fd) != fd) return;
    close(own);
    fcntl(fd, F_SETSIG, SIGKILL);
    fcntl(fd, F_SETOWN, -getpgrp());
    fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK);
    return;
  }
}

}  // namespace rejoin::process_image
