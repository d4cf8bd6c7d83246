// crossed [BEFORE]: a deadlock. After BEFORE operations rank 0 waits for the other ranks in one
// communicator, and they wait for rank 0 in another.

#include "program.h"

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const int before = argc > 1 ? atoi(argv[1]) : 10;
  MPI_Comm comm[2];
  for (int i = 0; i < 2; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
  for (int i = 0; i < before; ++i) MPI_Barrier(comm[i % 2]);
  note("lines %d", __LINE__ + 1);
  MPI_Barrier(comm[check_state.rank == 0]);
  MPI_Barrier(comm[check_state.rank != 0]);
  return check_end();
}
