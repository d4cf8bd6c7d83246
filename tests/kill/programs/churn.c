// churn ROUNDS: every round duplicates the world, splits the duplicate, composes affine maps modulo
// a prime with a user-defined operation on all these communicators, and frees them. Maps do not
// commute, so the result depends on the order of ranks.

#include "program.h"

typedef struct {
  uint64_t factor;
  uint64_t constant;
} Map;

static const uint64_t kPrime = UINT64_C(2147483647);

/** Returns the map that applies `left` first and then `right`. */
static Map after(Map left, Map right) {
  Map both = {left.factor * right.factor % kPrime,
              (left.constant * right.factor + right.constant) % kPrime};
  return both;
}

static void fold(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *length; ++i) ((Map*)inout)[i] = after(((Map*)in)[i], ((Map*)inout)[i]);
}

static Map map_of(int world_rank, int step) {
  Map map = {element(world_rank, step, 0) % kPrime, element(world_rank, step, 1) % kPrime};
  return map;
}

static void check_map(const char* what, Map expected, Map got) {
  check_u64(what, expected.factor, got.factor);
  check_u64(what, expected.constant, got.constant);
}

/** Calls every collective that reduces on `comm`, whose members are the world ranks `members`. */
static void fold_all(MPI_Comm comm, const int* members, int step, MPI_Datatype type, MPI_Op op) {
  int rank = 0;
  int size = 0;
  OK(MPI_Comm_rank(comm, &rank));
  OK(MPI_Comm_size(comm, &size));
  const Map mine = map_of(members[rank], step);
  Map prefix = map_of(members[0], step);
  Map all = prefix;
  Map before = prefix;
  for (int i = 1; i < size; ++i) {
    if (i == rank) before = all;
    all = after(all, map_of(members[i], step));
    if (i <= rank) prefix = all;
  }
  Map got = {0, 0};
  OK(MPI_Allreduce(&mine, &got, 1, type, op, comm));
  check_map("allreduce", all, got);
  const int root = step % size;
  OK(MPI_Reduce(&mine, &got, 1, type, op, root, comm));
  if (rank == root) check_map("reduce", all, got);
  OK(MPI_Scan(&mine, &got, 1, type, op, comm));
  check_map("scan", prefix, got);
  OK(MPI_Exscan(&mine, &got, 1, type, op, comm));
  if (rank > 0) check_map("exscan", before, got);
}

static void round_of(int round, MPI_Datatype type, MPI_Op op) {
  const int n = check_state.size;
  const int colors = 1 + round % 3;
  int* members = new_ints(n);
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm part = MPI_COMM_NULL;
  check_context("round %d", round);
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  // Keys reverse the order of ranks in every other round.
  const int key = round % 2 ? n - check_state.rank : check_state.rank;
  OK(MPI_Comm_split(copy, check_state.rank % colors, key, &part));
  for (int r = 0; r < n; ++r) members[r] = r;
  fold_all(copy, members, 3 * round, type, op);
  int count = 0;
  for (int i = 0; i < n; ++i) {
    const int r = round % 2 ? n - 1 - i : i;
    if (r % colors == check_state.rank % colors) members[count++] = r;
  }
  OK(MPI_Comm_free(&copy));
  fold_all(part, members, 3 * round + 1, type, op);
  OK(MPI_Comm_free(&part));
  Map got = {0, 0};
  const Map mine = map_of(check_state.rank, 3 * round + 2);
  OK(MPI_Allreduce(&mine, &got, 1, type, op, MPI_COMM_WORLD));
  received_by_all(got.factor ^ got.constant);
  free(members);
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const int rounds = argc > 1 ? atoi(argv[1]) : 4;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
  OK(MPI_Type_contiguous(2, MPI_UINT64_T, &type));
  OK(MPI_Type_commit(&type));
  OK(MPI_Op_create(fold, 0, &op));
  for (int round = 0; round < rounds; ++round) round_of(round, type, op);
  OK(MPI_Op_free(&op));
  OK(MPI_Type_free(&type));
  return check_end();
}
