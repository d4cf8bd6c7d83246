// Functions of libmpi.so.40 for the C++ bindings: libmpi_cxx.so.40, and their inline part in
// programs.
#include "api.h"
#include "pmpi/cxx/hooks.h"
#include "pmpi/handles.h"

int rejoin_unsupported(const char* function) {
  return rejoin::pmpi::unsupported(function, MPI_COMM_WORLD);
}

// MPI::Op::Init: the operation calls its function with `callback` as a fifth argument.
extern "C" __attribute__((visibility("default"))) void ompi_op_set_cxx_callback(
    MPI_Op op, MPI_User_function* callback) {
  if (rejoin::pmpi::is_op(op)) op->cxx_callback = callback;
}
