// Datatypes: what reductions need of them.
#pragma once

#include "pmpi/handles.h"

namespace rejoin::pmpi {

// Copies `count` values to `to` (count * extent_bytes) and clears the padding in them: what the
// program contributes to a reduction is then a function of the values alone, also when it does it
// again.
void copy_without_gaps(MPI_Datatype type, const void* from, std::size_t count, std::byte* to);

}  // namespace rejoin::pmpi
