// The memory behind a host segment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rejoin::engine {

// Returns a descriptor of `bytes` of zeroed, sparse shared memory that vanishes with its last
// descriptor and mapping; -1 and errno on failure.
//
// First touch of shared memory costs ten times the copy with small pages, and the journal is mostly
// first touch. The kernel's own shared memory (memfd) has small pages unless the administrator has
// configured large ones; a tmpfs with its own mount may have large ones. A child process therefore
// makes one in a mount namespace of its own (and a user namespace, if not root), and passes back an
// unnamed file in it. Where that is forbidden, a memfd is used. Costs about a millisecond; not for
// use inside other people's processes.
int make_segment_memory(std::uint64_t bytes);

// Tells the kernel where large pages pay: behind the first megabytes of each rank's region. Called
// by each process that maps a formatted segment, as `rank`. With many ranks only that rank's own
// region is advised, where it is mostly the first to touch what it writes: each region that is
// advised divides the mapping, and the kernel's work grows with the square of the ranks. No effect
// on memory that has no large pages.
void advise_segment(std::byte* base, std::uint32_t rank);

}  // namespace rejoin::engine
