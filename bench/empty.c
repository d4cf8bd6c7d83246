// The shortest MPI program: what is left of its run time is the launcher's and the library's.

#include <mpi.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Finalize();
  return 0;
}
