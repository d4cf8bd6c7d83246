// libmpi_cxx.so.40: what C++ programs that call the C functions pull in. mpicxx links every program
// against it, because mpi.h's C++ classes (removed from MPI in 2012) are emitted wherever it is
// included, and their virtual tables name these. Programs that use the classes themselves are not
// served.
#include <mpi.h>

#include <cstdlib>

namespace MPI {

Comm::Comm() {}

void Datatype::Free() { MPI_Type_free(&mpi_datatype); }

void Win::Free() { MPI_Win_free(&mpi_win); }

}  // namespace MPI

// Operations made through the C++ classes would come through here.
extern "C" void ompi_mpi_cxx_op_intercept(void*, void*, int*, MPI_Datatype*, MPI_User_function*) {
  std::abort();
}

extern "C" void ompi_op_set_cxx_callback(MPI_Op, MPI_User_function*) {}
