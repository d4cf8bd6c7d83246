// MPI_Wtime.
#include "api.h"
#include "libc_recording/observed.h"

namespace rejoin::pmpi {

double wtime() { return libc_recording::observed_wtime(); }
double wtick() { return 1e-9; }

}  // namespace rejoin::pmpi
