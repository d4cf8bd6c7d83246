/* The C interface: rounds of Allreduce, Allgather and Broadcast with a global and a local model.
 *
 *   c_recover [mock=RANK,VERSION,SEQ,NDEATH...]          3 operations in each round */
#include <rabit/c_api.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 4

static void require(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "[%d] wrong: %s\n", RabitGetRank(), what);
  exit(1);
}

struct Input {
  long values[3];
  long local;
};

static void prepare(void* argument) {
  struct Input* input = argument;
  for (long i = 0; i < 3; ++i) input->values[i] = i + input->local;
}

int main(int argc, char** argv) {
  if (!RabitInit(argc, argv)) return 1;
  const long rank = RabitGetRank(), size = RabitGetWorldSize();
  require(RabitIsDistributed() == (size > 1), "RabitIsDistributed");
  require(RabitGetRingPrevRank() == (rank + size - 1) % size, "RabitGetRingPrevRank");
  long global = 0, local = rank;
  char *saved_global, *saved_local;
  rbt_ulong global_size, local_size;
  int version = RabitLoadCheckPoint(&saved_global, &global_size, &saved_local, &local_size);
  if (version > 0) {
    require(global_size == sizeof global && local_size == sizeof local, "sizes of the models");
    memcpy(&global, saved_global, sizeof global);
    memcpy(&local, saved_local, sizeof local);
  }
  for (int round = version; round < ROUNDS; ++round) {
    struct Input input = {{0, 0, 0}, local};
    require(RabitAllreduce(input.values, 3, 4, 2, prepare, &input) == 0, "RabitAllreduce");
    const long locals = size * (size - 1) / 2 * (1 << round); /* a local model doubles each round */
    for (long i = 0; i < 3; ++i) require(input.values[i] == size * i + locals, "the sum");

    double* all = calloc((size_t)size, sizeof *all);
    all[rank] = (double)(rank + round);
    require(RabitAllgather(all, (size_t)size, (size_t)rank, 1, 1, 7) == 0, "RabitAllgather");
    for (long i = 0; i < size; ++i) require(all[i] == (double)(i + round), "a slice");
    free(all);

    char text[32] = "";
    if (rank == size - 1) snprintf(text, sizeof text, "round %d", round);
    require(RabitBroadcast(text, sizeof text, (int)size - 1) == 0, "RabitBroadcast");
    require(atoi(text + 6) == round, "the text");

    global += input.values[2];
    local *= 2;
    require(RabitCheckPoint((char*)&global, sizeof global, (char*)&local, sizeof local) == 0,
            "RabitCheckPoint");
    require(RabitVersionNumber() == round + 1, "the version");
  }
  printf("[%ld] version %d digest %lx\n", rank, RabitVersionNumber(),
         (unsigned long)(global ^ local));
  fflush(stdout);
  return RabitFinalize() ? 0 : 1;
}
