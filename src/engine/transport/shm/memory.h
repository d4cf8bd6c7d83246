// The memory behind a host segment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rejoin::engine {

// MADV_POPULATE_WRITE, which not every system's headers have.
inline constexpr int kPopulateWrite = 23;

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

// Backs the front of a region with a large page, if the system has them. For the agent, before the
// segment is formatted. Without effect if there is no memory.
void back_front(std::byte* region);

// Asks the kernel for large pages where they save time: in each rank's region, or behind the first
// megabytes of its structure and its payload if these are not prefaulted. Every process that maps a
// formatted segment calls this once, as `rank`. Each region for which it asks divides the process's
// mapping into more parts, and the kernel's work for all processes grows with the square of the
// number of ranks. With many ranks a process therefore asks only for the region of its own rank,
// where it is usually the first to write to a page. Has no effect on memory that has no large
// pages.
void advise_segment(std::byte* base, std::uint32_t rank);

// Touches the memory of this rank's first payload, as much as the header says. Ends with the large
// page during which the ranks of this host have spent 4 ms of all processors: a page takes 0.25 ms,
// or 5 if the host of a virtual machine has to find the memory. The first write to a page of the
// journal costs ten times as much as the next ones, and until the first images exist every message
// is written to such pages (docs/performance-notes.md). The rank itself does this, and not its
// agent: the kernel places memory near the processor that touches it first, and a process of low
// priority that is interrupted while it has a page keeps a rank that needs it waiting.
void prefault_payload(std::byte* base, std::uint32_t rank);

}  // namespace rejoin::engine
