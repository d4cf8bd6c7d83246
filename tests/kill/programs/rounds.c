// rounds HOW: loops whose results were wrong after a death in earlier versions of Rejoin.
//   roots     a broadcast of iteration 0 is repeated in later iterations, in which its root calls
//             from another line; each iteration has a checkpoint
//   identity  rank 0 broadcasts a value that differs in each of its processes
//   comms     N communicators are made and freed, some of them used
//   refused   a checkpoint is refused, and made when the obstacle is gone
//   made      the same without the obstacle

#include <rejoin.h>
#include <sys/auxv.h>

#include "program.h"

enum { kIterations = 24, kEvery = 8 };

static uint64_t sum_of(uint64_t mine, MPI_Comm comm) {
  uint64_t all = 0;
  OK(MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, comm));
  return all;
}

static void roots(void) {
  uint64_t state = 0;
  const void* found;
  int version = rejoin_load(&found, NULL, NULL, NULL);
  if (version > 0) memcpy(&state, found, sizeof state);
  for (int i = version; i < kIterations; ++i) {
    uint64_t news = state * 3 + (uint64_t)i;
    if (i % kEvery == 0) {
      if (check_state.rank != 0) {
        OK(MPI_Bcast(&news, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
      } else if (i == 0) {
        OK(MPI_Bcast(&news, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
      } else {
        OK(MPI_Bcast(&news, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
      }
      check_u64("news", state * 3 + (uint64_t)i, news);
    }
    state = hash_step(state, sum_of(news + (uint64_t)check_state.rank, MPI_COMM_WORLD));
    version = rejoin_checkpoint(&state, sizeof state, NULL, 0);
    check_i64("version", i + 1, version);
  }
  printf("rank %d: %016llx\n", check_state.rank, (unsigned long long)state);
}

static void identity(void) {
  uint64_t id;
  memcpy(&id, (const void*)getauxval(AT_RANDOM), sizeof id);  // not recorded
  OK(MPI_Bcast(&id, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
  uint64_t least = 0, most = 0;
  OK(MPI_Allreduce(&id, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD));
  OK(MPI_Allreduce(&id, &most, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD));
  check_u64("what the root says", least, most);
  check_u64("what the root has", least, id);
}

static void comms(long long count) {
  uint64_t state = 0;
  const void* found;
  int version = rejoin_load(&found, NULL, NULL, NULL);
  if (version > 0) memcpy(&state, found, sizeof state);
  for (long long i = (long long)version * 1000; i < count; ++i) {
    MPI_Comm dup;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    if (i % 50 == 0) state = hash_step(state, sum_of((uint64_t)i, dup));
    OK(MPI_Comm_free(&dup));
    if (i % 1000 == 999) {
      version = rejoin_checkpoint(&state, sizeof state, NULL, 0);
      check_i64("version", i / 1000 + 1, version);
    }
  }
  printf("rank %d: %016llx\n", check_state.rank, (unsigned long long)state);
}

static void with_late_communicators(int refused) {
  uint64_t state = 1;
  const void* found;
  int version = rejoin_load(&found, NULL, NULL, NULL);
  if (version > 0) memcpy(&state, found, sizeof state);
  while (version < 5) {
    state = hash_step(state, sum_of(state, MPI_COMM_WORLD));
    if (version > 0) {
      MPI_Comm late;
      OK(MPI_Comm_dup(MPI_COMM_WORLD, &late));
      if (!refused) ++version;
      check_i64("a checkpoint with a late communicator", refused ? REJOIN_ERR_STATE : version,
                rejoin_checkpoint(&state, sizeof state, NULL, 0));
      check_i64("the version behind it", version, rejoin_version());
      state = hash_step(state, sum_of(state, late));
      OK(MPI_Comm_free(&late));
    }
    const int before = version;
    version = rejoin_checkpoint(&state, sizeof state, NULL, 0);
    check_i64("version", before + 1, version);
  }
  printf("rank %d: %016llx\n", check_state.rank, (unsigned long long)state);
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const char* how = argc > 1 ? argv[1] : "roots";
  if (strcmp(how, "roots") == 0) roots();
  if (strcmp(how, "identity") == 0) identity();
  if (strcmp(how, "comms") == 0) comms(argument_number(argc, argv, "count", 70000));
  if (strcmp(how, "refused") == 0) with_late_communicators(1);
  if (strcmp(how, "made") == 0) with_late_communicators(0);
  OK(MPI_Finalize());
  return 0;
}
