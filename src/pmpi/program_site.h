// Where the program called us, for error texts.
#pragma once

namespace rejoin::pmpi {

// The newest return address on this thread's stack that lies in no MPI library (ours, rabit, or
// Open MPI's of the Fortran modules); null: it is unknown, as for code that was made at run
// time. Walks the stack with the compiler's unwinder, some 40 µs: for failures, where the wrapper
// has not passed it on.
[[gnu::cold, gnu::noinline]] const void* program_site();

}  // namespace rejoin::pmpi
