// Where the program called us, for error texts.
#pragma once

namespace rejoin::pmpi {

// The newest return address on this thread's stack that lies in neither an MPI library (ours, or
// Open MPI's of the Fortran modules) nor one that cannot be told; null: none. Walks the stack with
// the compiler's unwinder, some 10 µs: for failures, where the wrapper has not passed it on.
[[gnu::cold, gnu::noinline]] const void* program_site();

}  // namespace rejoin::pmpi
