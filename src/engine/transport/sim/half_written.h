// What a killed process may leave behind: anything at all in places that it had not published yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/names.h"
#include "engine/transport/sim/random.h"
#include "journal/layout.h"

namespace rejoin::engine {

// Fills with noise, for a dead rank that has these blocks: the next element of each of its logs,
// and its slots and staging buffers that are marked as unowned. Returns the number of such places.
unsigned leave_half_written(std::byte* base, std::uint32_t rank,
                            const std::vector<ContextBlock*>& blocks, SimRandom& random);

}  // namespace rejoin::engine
