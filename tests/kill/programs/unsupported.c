// unsupported [fatal]: every rank calls functions that are not supported, several times, under
// MPI_ERRORS_RETURN; fatal: under MPI_ERRORS_ARE_FATAL.

#include "program.h"

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  if (argc == 1) OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  for (int i = 0; i < 3; ++i) {
    MPI_File file = MPI_FILE_NULL;
    MPI_Win window = MPI_WIN_NULL;
    int class = MPI_SUCCESS;
    const int code = MPI_File_open(MPI_COMM_WORLD, "file", MPI_MODE_CREATE | MPI_MODE_RDWR,
                                   MPI_INFO_NULL, &file);
    OK(MPI_Error_class(code, &class));
    check_i64("class", MPI_ERR_UNSUPPORTED_OPERATION, class);
    const int other = MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    OK(MPI_Error_class(other, &class));
    check_i64("class", MPI_ERR_UNSUPPORTED_OPERATION, class);
    OK(MPI_Barrier(MPI_COMM_WORLD));
  }
  return check_end();
}
