// MPI_Wtime.
#include "api.h"
#include "recovery/world/observed.h"

namespace rejoin::pmpi {

double wtime() { return recovery::observed_wtime(); }
double wtick() { return 1e-9; }

}  // namespace rejoin::pmpi
