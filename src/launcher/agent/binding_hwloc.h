// The small library that knows hwloc; loaded only for --bind-to.
#pragma once

#include <sched.h>

extern "C" {

// Fills sets[0..ranks): rank i gets object i of that type, as hwloc names it, of those that this
// process may use, round robin; of what is below it where there is no such type. 0, or -1 where
// hwloc finds none.
int rejoin_bind_ranks(const char* type, unsigned ranks, cpu_set_t* sets);
}
