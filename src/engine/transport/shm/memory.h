// The memory behind a host segment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rejoin::engine {

// Returns a descriptor of `bytes` of zeroed, sparse shared memory that vanishes with its last
// descriptor and mapping; -1 and errno on failure.
//
// With small pages, the first write to a page of shared memory costs ten times as much as copying
// into it, and most writes to the journal are the first to their page. A memfd has small pages
// unless the administrator has configured large ones; a tmpfs has large ones if it is mounted so. A
// child process therefore mounts a tmpfs in a mount namespace of its own (and in a user namespace,
// if it is not root) and passes back the descriptor of an unnamed file there. Where that is
// forbidden, the memory is a memfd. The call costs about a millisecond. It forks and reaps a child,
// so only ftrun calls it, never a process of a user's program.
int make_segment_memory(std::uint64_t bytes);

// Asks the kernel for large pages where they save time: in each rank's region, behind its first
// megabytes. Every process that maps a formatted segment calls this once, as `rank`. Each region
// for which it asks divides the process's mapping into more parts, and the kernel's work for all
// processes grows with the square of the number of ranks. With many ranks a process therefore asks
// only for the region of its own rank, where it is usually the first to write to a page. Has no
// effect on memory that has no large pages.
void advise_segment(std::byte* base, std::uint32_t rank);

}  // namespace rejoin::engine
