// The place where the program has called MPI, for error texts.
#pragma once

namespace rejoin::pmpi {

// Returns the newest return address on this thread's stack that lies in no MPI library (this one,
// rabit, or Open MPI's for the Fortran modules). Null: it is unknown, as for code that was made at
// run time. Walks the stack with the compiler's unwinder, which takes some 40 µs. It is called for
// failures, where the wrapper has not passed the address on.
[[gnu::cold, gnu::noinline]] const void* program_site();

}  // namespace rejoin::pmpi
