// The memory behind a host segment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rejoin::engine {

// A descriptor of `bytes` of zeroed, sparse shared memory that vanishes with its last descriptor
// and mapping; -1 and errno if there is none to be had.
//
// First touch of shared memory costs ten times the copy with small pages, and the journal is mostly
// first touch. The kernel's own shared memory (memfd) has small pages unless the administrator said
// otherwise; a tmpfs that we mount ourselves may have large ones. So a child makes one in a mount
// namespace of its own (and a user namespace, if not root), and hands over an unnamed file in it.
// Where that is forbidden, it is a memfd. Costs about a millisecond; not for use inside other
// people's processes.
int make_segment_memory(std::uint64_t bytes);

// Tells the kernel where large pages pay: behind the first megabytes of each rank's region. Called
// by whoever maps a formatted segment, as `rank`. Of many ranks only in its own region, where it is
// mostly the first to touch what it writes: each region that is advised divides the mapping, and
// the kernel's work grows with the square of the ranks. No effect on memory that has no large
// pages.
void advise_segment(std::byte* base, std::uint32_t rank);

}  // namespace rejoin::engine
