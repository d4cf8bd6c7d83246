// nobody HOW: receives, or a synchronous send, that no rank will ever match. Rank 0 waits for a
// message of the last rank, the others for one of rank 0, and no message is under way.
// HOW: recv, any, wait, probe or ssend. The line of the call that waits is printed first.

#include "program.h"

static void tell(int line) {
  note("line %d", line);
  OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const char* how = argc > 1 ? argv[1] : "recv";
  const int n = check_state.size;
  const int peer = check_state.rank == 0 ? n - 1 : 0;
  int value = check_state.rank;
  MPI_Request request = MPI_REQUEST_NULL;
  // This message has another tag than the receive.
  OK(MPI_Send(&value, 1, MPI_INT, peer, 3, MPI_COMM_WORLD));
  if (strcmp(how, "recv") == 0) {
    tell(__LINE__ + 1);
    OK(MPI_Recv(&value, 1, MPI_INT, peer, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  } else if (strcmp(how, "any") == 0) {
    tell(__LINE__ + 1);
    OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  } else if (strcmp(how, "wait") == 0) {
    OK(MPI_Irecv(&value, 1, MPI_INT, peer, 7, MPI_COMM_WORLD, &request));
    tell(__LINE__ + 1);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  } else if (strcmp(how, "probe") == 0) {
    tell(__LINE__ + 1);
    OK(MPI_Probe(peer, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  } else {
    tell(__LINE__ + 1);
    OK(MPI_Ssend(&value, 1, MPI_INT, peer, 7, MPI_COMM_WORLD));
  }
  return check_end();
}
