// The small library that knows hwloc; loaded only for --bind-to.
#pragma once

#include <sched.h>

extern "C" {

// Fills sets[0..ranks): rank i gets object i of that type (an hwloc name), round robin, of those
// that this process may use. Where there is no such type, uses the next smaller one. Returns 0, or
// -1 if hwloc finds none.
int rejoin_bind_ranks(const char* type, unsigned ranks, cpu_set_t* sets);
}
