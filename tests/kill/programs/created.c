// created [early]: in every version the first two ranks make a communicator by
// MPI_Comm_create_group, which is collective over their group alone. early: only once, before the
// load.

#include <rejoin.h>

#include "program.h"

static MPI_Comm create(void) {
  const int ranks[] = {0, 1};
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Group all;
  MPI_Group pair;
  OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
  OK(MPI_Group_incl(all, 2, ranks, &pair));
  if (check_state.rank < 2) OK(MPI_Comm_create_group(MPI_COMM_WORLD, pair, 7, &made));
  OK(MPI_Group_free(&pair));
  OK(MPI_Group_free(&all));
  return made;
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  MPI_Comm once = argc > 1 ? create() : MPI_COMM_NULL;
  uint64_t model = 1;
  const void* saved = NULL;
  const int version = rejoin_load(&saved, NULL, NULL, NULL);
  if (version > 0) memcpy(&model, saved, sizeof model);
  for (int v = version; v < 4; ++v) {
    MPI_Comm made = argc > 1 ? once : create();
    uint64_t mine = hash_step(model, (uint64_t)check_state.rank), sum = 0, all = 0;
    if (made != MPI_COMM_NULL) OK(MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, made));
    if (made != MPI_COMM_NULL && argc == 1) OK(MPI_Comm_free(&made));
    OK(MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD));
    model = hash_step(model, all);
    rejoin_checkpoint(&model, sizeof model, NULL, 0);
  }
  if (check_state.rank == 0) printf("model %llx\n", (unsigned long long)model);
  OK(MPI_Finalize());  // not check_end(): the number of checks depends on where an incarnation
                       // began
  return 0;
}
