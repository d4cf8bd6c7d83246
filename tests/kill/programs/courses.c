// courses HOW: the first incarnation of rank 1 has shown something to other ranks and has no record
// of it; the second incarnation does something else. It knows that it is the second one from a
// file, which it makes with system calls that are not recorded. 3 ranks.
//   HOW: shown    contributes other bytes          to     sends to another rank
//        receive  posts its receives in another order, one of a synchronous message
//        waits    waits for a message instead      ends   ends instead of sending
//        asks     asks before it sends
//        clocks   reads other clocks, and more often, before it sends; shows none of the values

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

static int is_first_incarnation(void) {
  const long fd = syscall(SYS_openat, AT_FDCWD, "second-is-next",
                          O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0) syscall(SYS_close, fd);
  return fd >= 0;
}

static void send_to(int rank) {
  const int value = 5;
  OK(MPI_Send(&value, 1, MPI_INT, rank, 0, MPI_COMM_WORLD));
}
static void receive_from(int rank) {
  int value;
  OK(MPI_Recv(&value, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

// Returns CLOCK_REALTIME in ns, read by one of two functions.
static long long now_ns(int by_other_function) {
  if (by_other_function) {
    struct timeval of_day;
    gettimeofday(&of_day, NULL);
    return of_day.tv_sec * 1000000000LL + of_day.tv_usec * 1000LL;
  }
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void read_clocks(int other) {
  const long long sane_ns = 1500000000LL * 1000000000LL;  // 2017
  long long before_ns = 0;
  for (int i = 0; i < 40; ++i) {
    const long long ns = now_ns(other && i % 3 == 1) / 1000 * 1000;
    if (ns < before_ns || ns < sane_ns) check_fail("the clock", "later than before", "earlier");
    before_ns = ns;
    if (i % 10 == 9) access("no such file", F_OK);  // a replay compares this, unlike readings
    if (other && i % 7 == 0) time(NULL);
    if (other && i % 11 == 0) ++i;
  }
}

// The calls of rank 1. other: whether it is the second incarnation.
static void take_course(const char* how, int other) {
  if (strcmp(how, "to") == 0) {
    send_to(other ? 2 : 0);
  } else if (strcmp(how, "receive") == 0) {
    receive_from(other ? 2 : 0);
    receive_from(other ? 0 : 2);
  } else if (strcmp(how, "waits") == 0) {
    if (other) receive_from(0);
    send_to(0);
  } else if (strcmp(how, "ends") == 0) {
    if (!other) send_to(0);
  } else if (strcmp(how, "clocks") == 0) {
    read_clocks(other);
    send_to(0);
  } else if (strcmp(how, "asks") == 0) {
    int there;
    if (other) OK(MPI_Iprobe(0, 0, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE));
    send_to(0);
  }
}

// The calls of ranks 0 and 2, which do not depend on rank 1's incarnation.
static void meet(const char* how) {
  if (strcmp(how, "receive") == 0) {
    const int value = 5;
    if (check_state.rank == 0) {
      OK(MPI_Ssend(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD));
      send_to(2);
    } else {
      receive_from(0);
      send_to(1);
    }
  } else if (strcmp(how, "shown") != 0 && check_state.rank == 0) {
    receive_from(1);
  }
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const char* how = argc > 1 ? argv[1] : "shown";
  const int other = check_state.rank == 1 && !is_first_incarnation();
  const int in = other && strcmp(how, "shown") == 0 ? 100 : 1;
  int out = 0;
  OK(MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  if (check_state.rank == 1) {
    take_course(how, other);
  } else {
    meet(how);
  }
  note("done");
  OK(MPI_Finalize());
  return 0;
}
