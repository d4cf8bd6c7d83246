// Handles as Fortran's integers.
#pragma once

#include "pmpi/context.h"

namespace rejoin::pmpi {

// Integers of handles that a program makes begin after the predefined ones of Open MPI's mpif.h.
void init_fortran_tables(Context* c);

// Forgets the integer of a handle that is being freed (kNoFortranHandle: none was given out).
void forget(HandleTable* table, int fortran);

}  // namespace rejoin::pmpi
