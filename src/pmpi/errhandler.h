// References to error handlers.
#pragma once

#include "pmpi/handles.h"

namespace rejoin::pmpi {

// Gives up one reference; the last one frees a handler that is not predefined.
void drop(MPI_Errhandler handler);

}  // namespace rejoin::pmpi
