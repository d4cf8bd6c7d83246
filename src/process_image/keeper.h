// The keeper of a rank that was started by a script, or another program, that waits for it.
//
// Such a process cannot be replaced by a clone, because the script would not wait for that. Before
// the first image is made, the rank therefore moves into a clone, and the first process stays in
// its place as the keeper: it sleeps until the agent says how the rank has ended, and ends the same
// way. It reports to the agent the signals that it is sent, which are for the rank.
#pragma once

#include <cstdint>

namespace rejoin::process_image {

// Makes this process the keeper of `rank`; `agent` is its connection. Frees its memory and closes
// its other descriptors. REQUIRES that it has one thread, and that all signals are blocked.
[[noreturn]] void be_keeper(int agent, std::uint32_t rank);

}  // namespace rejoin::process_image
