// large_values
//
// Values of a datatype that are as large as a staging buffer can be reduced to all ranks. For
// larger ones that is an error, but they can be reduced to one rank and broadcast.

#include "program.h"

enum { kMost = 64 * 1024 };

static void add(void* in, void* out, int* count, MPI_Datatype* type) {
  int bytes = 0;
  MPI_Type_size(*type, &bytes);
  for (int i = 0; i < *count * (bytes / 4); ++i) ((int*)out)[i] += ((int*)in)[i];
}

static void check_sum(int size, int count, const int* sum) {
  for (int i = 0; i < count; ++i)
    check_i64("sum", size * (size - 1) / 2 + size * (i % 1000), sum[i]);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size = 0, rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Op op;
  OK(MPI_Op_create(add, 1, &op));
  for (int count = kMost; count <= kMost + 1; ++count) {
    int* mine = malloc((size_t)count * sizeof(int));
    int* sum = malloc((size_t)count * sizeof(int));
    for (int i = 0; i < count; ++i) mine[i] = rank + i % 1000;
    MPI_Datatype type;
    OK(MPI_Type_contiguous(count, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    const int code = MPI_Allreduce(mine, sum, 1, type, op, MPI_COMM_WORLD);
    check_i64("code", count > kMost ? MPI_ERR_UNSUPPORTED_OPERATION : MPI_SUCCESS, code);
    if (code != MPI_SUCCESS) {
      OK(MPI_Reduce(mine, sum, 1, type, op, 0, MPI_COMM_WORLD));
      OK(MPI_Bcast(sum, 1, type, 0, MPI_COMM_WORLD));
    }
    check_sum(size, count, sum);
    OK(MPI_Type_free(&type));
    free(mine);
    free(sum);
  }
  MPI_Finalize();
  printf("%s", rank == 0 ? "all right\n" : "");
  return 0;
}
