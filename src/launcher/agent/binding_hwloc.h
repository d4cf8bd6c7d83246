// The small library that knows hwloc; loaded only for --bind-to.
#pragma once

#include <sched.h>

extern "C" {

enum { kRejoinBindCore, kRejoinBindSocket };

// Fills sets[0..ranks): rank i gets core (socket) i of those that this process may use, round
// robin. 0, or -1 where hwloc finds none.
int rejoin_bind_ranks(int what, unsigned ranks, cpu_set_t* sets);
}
