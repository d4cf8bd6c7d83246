// The integers by which Fortran knows handles.
#pragma once

#include "pmpi/context.h"

namespace rejoin::pmpi {

// Integers of handles that a program makes begin after the predefined ones of Open MPI's mpif.h.
void init_fortran_tables(Context* c);

// Removes the integer of a handle that is being freed from its table. kNoFortranHandle: the handle
// has none.
void forget(HandleTable* table, int fortran);

}  // namespace rejoin::pmpi
