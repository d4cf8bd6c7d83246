// cycle ROUNDS: three ranks and three communicators, {0,1}, {1,2} and {2,0}. Every round has one
// operation on each of them, in a random order, so that ranks wait for each other along the cycle
// in both directions.

#include "program.h"

enum { kRanks = 3 };

static uint64_t mine = 1;

static void operation(MPI_Comm comm, uint64_t random) {
  int rank = 0;
  OK(MPI_Comm_rank(comm, &rank));
  const int root = (int)(random >> 8 & 1);
  uint64_t in = hash_step(mine, random);
  uint64_t out[2] = {0, 0};
  switch (random % 4) {
    case 0:
      OK(MPI_Allreduce(&in, out, 1, MPI_UINT64_T, MPI_BXOR, comm));
      break;
    case 1:
      OK(MPI_Bcast(&in, 1, MPI_UINT64_T, root, comm));
      out[0] = in;
      break;
    case 2:
      OK(MPI_Gather(&in, 1, MPI_UINT64_T, out, 1, MPI_UINT64_T, root, comm));
      break;
    default:
      OK(MPI_Allgather(&in, 1, MPI_UINT64_T, out, 1, MPI_UINT64_T, comm));
  }
  mine = hash_step(hash_step(mine, out[0]), out[1]);
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const int rounds = argc > 1 ? atoi(argv[1]) : 4;
  if (check_state.size != kRanks) check_fail("ranks", "3", "another number");
  MPI_Comm comms[kRanks];
  for (int c = 0; c < kRanks; ++c) {
    const int member = check_state.rank == c || check_state.rank == (c + 1) % kRanks;
    OK(MPI_Comm_split(MPI_COMM_WORLD, member ? 0 : MPI_UNDEFINED, check_state.rank, &comms[c]));
  }
  mine = hash_step(mine, (uint64_t)check_state.rank);
  for (int round = 0; round < rounds; ++round) {
    const uint64_t random = hash_step(hash_step((uint64_t)round, 1), 2);
    const int first = (int)(random % kRanks);
    const int direction = random >> 16 & 1 ? 1 : 2;
    for (int i = 0; i < kRanks; ++i) {
      const int c = (first + i * direction) % kRanks;
      if (comms[c] != MPI_COMM_NULL) operation(comms[c], hash_step(random, (uint64_t)c));
    }
    check_u64("round", mine, mine);
  }
  for (int c = 0; c < kRanks; ++c) {
    if (comms[c] != MPI_COMM_NULL) OK(MPI_Comm_free(&comms[c]));
  }
  return check_end();
}
