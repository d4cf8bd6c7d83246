// A clone's own hold on ftrun's lifeline.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

namespace rejoin::process_image {

// Gives this process a descriptor of its own of ftrun's lifeline, so that the kernel kills its
// process group when ftrun ends (launcher/base/lifeline.h).
inline void hold_lifeline() {
  constexpr int kHighDescriptor = 899;
  int held = kHighDescriptor;
  while (held >= 0 && fcntl(held, F_GETSIG) != SIGKILL) --held;
  if (held < 0) return;
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", held);
  const int opened = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (opened < 0) return;
  // The program may have lowered its limit on descriptors below the number of the inherited one.
  close(held);
  int own = held;
  while (own > opened && (fcntl(own, F_GETFD) >= 0 || dup3(opened, own, O_CLOEXEC) != own)) --own;
  if (own != opened) close(opened);
  fcntl(own, F_SETSIG, SIGKILL);
  fcntl(own, F_SETOWN, -getpgrp());
  fcntl(own, F_SETFL, O_ASYNC | O_NONBLOCK);
}

}  // namespace rejoin::process_image
