// kept [versions=0]
//
// One operation of each kind whose result can be read in a journal that --keep retains, in
// communicators of several kinds. Then `versions` checkpoints.

#include <rejoin.h>

#include "program.h"

int main(int argc, char** argv) {
  const int versions = (int)argument_number(argc, argv, "versions", 0);
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  long model[32] = {0};
  if (versions > 0) check_i64("version", 0, rejoin_load(NULL, NULL, NULL, NULL));

  const int mine = rank + 1;
  int sum = 0;
  OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  const double half = -0.5 * mine;
  double most = 0;
  OK(MPI_Allreduce(&half, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
  struct {
    double value;
    int index;
  } here = {7.25 - rank, rank}, least = {0, 0};
  OK(MPI_Allreduce(&here, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD));
  float parts[6] = {0.25f, 1, 2, 3, 4, 5}, all[6];
  OK(MPI_Allreduce(parts, all, 6, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
  char word[8] = "rejoin!";
  OK(MPI_Bcast(word, sizeof word, MPI_CHAR, 0, MPI_COMM_WORLD));

  MPI_Comm copy, part;
  for (int i = 0; i < 3; ++i) OK(MPI_Comm_split(MPI_COMM_WORLD, MPI_UNDEFINED, 0, &part));
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  OK(MPI_Comm_split(copy, rank % 2, 0, &part));
  OK(MPI_Barrier(part));
  OK(MPI_Barrier(MPI_COMM_SELF));
  OK(MPI_Comm_free(&part));
  OK(MPI_Comm_free(&copy));
  for (int i = 0; i < versions; ++i) {
    model[0] = i;
    check_i64("version", i + 1, rejoin_checkpoint(model, sizeof model, NULL, 0));
    OK(MPI_Barrier(MPI_COMM_WORLD));
  }
  return MPI_Finalize();
}
