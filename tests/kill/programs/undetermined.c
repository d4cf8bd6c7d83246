// undetermined [steps=N] [odds=N]: a program that is not deterministic. The processor's counter,
// which is not recorded, decides what is sent to which rank, in which order and how. One in `odds`
// decisions differs from the usual one.
//
// Ranks own numbers and send parts of them to each other. The program checks laws that hold in
// every execution without deaths:
//   - the sum of all numbers never changes;
//   - the messages of each rank to each other rank carry the numbers 0, 1, 2, ...;
//   - as many messages arrive as were announced, with as much in them.
// If a law is broken, the program prints it and has exit code 3.

#include <x86intrin.h>

#include "program.h"

enum { kMostRanks = 16, kOwned = 1000000 };

static long long odds = 8;

struct Transfer {
  long long number;  // counts the messages of this sender to this receiver
  long long amount;
};

static unsigned long long counter(void) {
  unsigned long long x = __rdtsc();
  x = (x ^ x >> 31) * 0x9e3779b97f4a7c15ull;
  return x ^ x >> 29;
}
// Returns 0, or in one of `odds` cases any number below n.
static int decide(int n) {
  const unsigned long long x = counter();
  return x % (unsigned long long)odds == 0 ? (int)((x >> 20) % (unsigned long long)n) : 0;
}

static void broken(const char* law, long long wanted, long long got) {
  fprintf(stderr, "rank %d: the law is broken: %s: %lld, not %lld\n", check_state.rank, law, got,
          wanted);
  fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 3);
}
static void require_law(const char* law, long long wanted, long long got) {
  if (wanted != got) broken(law, wanted, got);
}

// The messages of this rank to each other one in this step, and the way it sends them.
struct Sending {
  long long amounts[kMostRanks];
  struct Transfer messages[2];
  MPI_Request requests[2];
};

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const int n = check_state.size, me = check_state.rank;
  const long long steps = argument_number(argc, argv, "steps", 60);
  odds = argument_number(argc, argv, "odds", 8);
  long long owned = kOwned, sent[kMostRanks] = {0}, received[kMostRanks] = {0};
  for (long long step = 0; step < steps; ++step) {
    // Two transfers, to ranks that decide() chooses now.
    struct Sending s = {.amounts = {0}};
    long long announced[kMostRanks] = {0}, counts[kMostRanks] = {0}, expected[kMostRanks] = {0};
    for (int i = 0; i < 2; ++i) {
      const int to = (me + 1 + (i + decide(n - 1)) % (n - 1)) % n;
      s.messages[i] = (struct Transfer){sent[to]++, 1 + decide(1000)};
      s.amounts[to] += s.messages[i].amount;
      ++counts[to];
      owned -= s.messages[i].amount;
      if (decide(2) != 0) {
        OK(MPI_Issend(&s.messages[i], 2, MPI_LONG_LONG, to, 1, MPI_COMM_WORLD, &s.requests[i]));
      } else {
        OK(MPI_Isend(&s.messages[i], 2, MPI_LONG_LONG, to, 1, MPI_COMM_WORLD, &s.requests[i]));
      }
    }
    MPI_Request outstanding;
    const long long mine = 1 + decide(50);
    long long largest = 0;
    OK(MPI_Iallreduce(&mine, &largest, 1, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD, &outstanding));
    if (decide(2) != 0) {
      int flag;
      OK(MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    }
    OK(MPI_Alltoall(counts, 1, MPI_LONG_LONG, expected, 1, MPI_LONG_LONG, MPI_COMM_WORLD));
    OK(MPI_Alltoall(s.amounts, 1, MPI_LONG_LONG, announced, 1, MPI_LONG_LONG, MPI_COMM_WORLD));
    long long messages = 0;
    for (int r = 0; r < n; ++r) messages += expected[r];
    long long arrived[kMostRanks] = {0};
    for (long long k = 0; k < messages; ++k) {
      struct Transfer t;
      MPI_Status status;
      OK(MPI_Recv(&t, 2, MPI_LONG_LONG, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status));
      require_law("messages come in order", received[status.MPI_SOURCE]++, t.number);
      arrived[status.MPI_SOURCE] += t.amount;
      owned += t.amount;
    }
    for (int r = 0; r < n; ++r) require_law("what arrives was announced", announced[r], arrived[r]);
    if (decide(2) != 0) {
      int flag = 0;
      while (!flag) OK(MPI_Test(&outstanding, &flag, MPI_STATUS_IGNORE));
    } else {
      OK(MPI_Wait(&outstanding, MPI_STATUS_IGNORE));
    }
    OK(MPI_Waitall(2, s.requests, MPI_STATUSES_IGNORE));
    if (largest < mine) broken("nothing is above the maximum", largest, mine);
    long long all = 0;
    OK(MPI_Allreduce(&owned, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    require_law("nothing is lost", (long long)n * kOwned, all);
    long long limit = 2 + decide(9);
    OK(MPI_Bcast(&limit, 1, MPI_LONG_LONG, (int)(step % n), MPI_COMM_WORLD));
    long long limits = 0;
    OK(MPI_Allreduce(&limit, &limits, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    require_law("all have the same limit", n * limit, limits);
  }
  long long other[kMostRanks];
  OK(MPI_Alltoall(sent, 1, MPI_LONG_LONG, other, 1, MPI_LONG_LONG, MPI_COMM_WORLD));
  for (int r = 0; r < n; ++r) require_law("all that was sent has come", other[r], received[r]);
  note("the laws hold");
  OK(MPI_Finalize());
  return 0;
}
