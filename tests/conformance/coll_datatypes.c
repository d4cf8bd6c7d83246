// Conformance of collectives between derived types of one signature: every collective, in place as
// well, and user-defined operations on values that are not contiguous.

#include <mpi.h>

#include "check.h"
#include "made_types.h"

enum { kMostRanks = 8 };

static MadeTypes made_types;

/** Returns int `i` of the block that `source` has for `dest`. */
static int block_int(int source, int dest, int i) { return pattern(source, dest, i); }

/** Expects values of type `is`: that of rank r for `dest` lies at at[r] extents, or r if `at` is
 * null. */
static void expect_blocks(Area* area, const MadeType* is, int dest, const int* at) {
  for (int r = 0; r < check_state.size; ++r) {
    for (int i = 0; i < kInts; ++i) {
      expect_int(area, is, at ? at[r] : r, i, block_int(r, dest, i));
    }
  }
}
static void preset_blocks(Area* area, const MadeType* as, int source, const int* at) {
  for (int r = 0; r < check_state.size; ++r) {
    for (int i = 0; i < kInts; ++i) {
      preset_int(area, as, at ? at[r] : r, i, block_int(source, r, i));
    }
  }
}
static void preset_value(Area* area, const MadeType* as, int place, int source, int dest) {
  for (int i = 0; i < kInts; ++i) preset_int(area, as, place, i, block_int(source, dest, i));
}
static void expect_value(Area* area, const MadeType* is, int place, int source, int dest) {
  for (int i = 0; i < kInts; ++i) expect_int(area, is, place, i, block_int(source, dest, i));
}

static void done(const char* what, Area* from, Area* to, const MadeType* is) {
  check_context("%s into %s", what, is->name);
  check_area(what, to, is, 0);
  for (int i = 0; i < kInts; ++i)
    check_i64(what, get_int(to->expected, is, 0, i), get_int(to->bytes, is, 0, i));
  free(from);
  free(to);
}

static void test_replicated(const MadeType* as, const MadeType* is) {
  const int n = check_state.size, me = check_state.rank, root = n - 1;
  Area* from = new_area();
  Area* to = new_area();
  const MadeType* mine = me == root ? as : is;
  for (int v = 0; v < 2; ++v) {
    if (me == root) preset_value(to, mine, v, v, 50);
    expect_value(to, mine, v, v, 50);
  }
  OK(MPI_Bcast(buffer_of(to), 2, mine->type, root, MPI_COMM_WORLD));
  done("broadcast", from, to, mine);
  from = new_area();
  to = new_area();
  preset_value(from, as, 0, me, 7);
  expect_blocks(to, is, 7, NULL);
  OK(MPI_Allgather(buffer_of(from), 1, as->type, buffer_of(to), 1, is->type, MPI_COMM_WORLD));
  done("allgather", from, to, is);
  from = new_area();
  to = new_area();
  preset_value(to, is, me, me, 7);
  expect_blocks(to, is, 7, NULL);
  OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer_of(to), 1, is->type, MPI_COMM_WORLD));
  done("allgather in place", from, to, is);
}

/** Fills `places` with the blocks' places in extents, in falling order, and `ones` with 1. */
static void fill_places(int* ones, int* places) {
  for (int r = 0; r < check_state.size; ++r) {
    ones[r] = 1;
    places[r] = check_state.size - 1 - r;
  }
}

static void test_varying(const MadeType* as, const MadeType* is) {
  const int n = check_state.size, me = check_state.rank;
  int ones[kMostRanks], at[kMostRanks];
  fill_places(ones, at);
  Area* from = new_area();
  Area* to = new_area();
  preset_value(from, as, 0, me, 7);
  expect_blocks(to, is, 7, at);
  OK(MPI_Allgatherv(buffer_of(from), 1, as->type, buffer_of(to), ones, at, is->type,
                    MPI_COMM_WORLD));
  done("allgatherv", from, to, is);
  from = new_area();
  to = new_area();
  preset_value(from, as, 0, me, 8);
  if (me == 0) expect_blocks(to, is, 8, at);
  OK(MPI_Gatherv(buffer_of(from), 1, as->type, buffer_of(to), ones, at, is->type, 0,
                 MPI_COMM_WORLD));
  done("gatherv", from, to, is);
  from = new_area();
  to = new_area();
  if (me == 0) preset_blocks(from, as, 60, at);
  expect_value(to, is, 0, 60, me);
  OK(MPI_Scatterv(buffer_of(from), ones, at, as->type, buffer_of(to), 1, is->type, 0,
                  MPI_COMM_WORLD));
  done("scatterv", from, to, is);
  from = new_area();
  to = new_area();
  preset_blocks(from, as, me, at);
  expect_blocks(to, is, me, at);
  OK(MPI_Alltoallv(buffer_of(from), ones, at, as->type, buffer_of(to), ones, at, is->type,
                   MPI_COMM_WORLD));
  done("alltoallv", from, to, is);
  from = new_area();
  to = new_area();
  MPI_Datatype as_types[kMostRanks], is_types[kMostRanks];
  int as_bytes[kMostRanks], is_bytes[kMostRanks];
  for (int r = 0; r < n; ++r) {
    as_types[r] = as->type;
    is_types[r] = is->type;
    as_bytes[r] = at[r] * (int)as->extent;
    is_bytes[r] = at[r] * (int)is->extent;
  }
  preset_blocks(from, as, me, at);
  expect_blocks(to, is, me, at);
  OK(MPI_Alltoallw(buffer_of(from), ones, as_bytes, as_types, buffer_of(to), ones, is_bytes,
                   is_types, MPI_COMM_WORLD));
  done("alltoallw", from, to, is);
}

static void test_channels(const MadeType* as, const MadeType* is) {
  const int me = check_state.rank, root = check_state.size - 1;
  Area* from = new_area();
  Area* to = new_area();
  preset_value(from, as, 0, me, 9);
  if (me == root) expect_blocks(to, is, 9, NULL);
  OK(MPI_Gather(buffer_of(from), 1, as->type, buffer_of(to), 1, is->type, root, MPI_COMM_WORLD));
  done("gather", from, to, is);
  from = new_area();
  to = new_area();
  preset_value(from, as, 0, me, 9);
  if (me == root) {
    preset_value(to, is, me, me, 9);
    expect_blocks(to, is, 9, NULL);
  }
  OK(MPI_Gather(me == root ? MPI_IN_PLACE : buffer_of(from), 1, as->type, buffer_of(to), 1,
                is->type, root, MPI_COMM_WORLD));
  done("gather in place", from, to, is);
  from = new_area();
  to = new_area();
  if (me == root) preset_blocks(from, as, 61, NULL);
  expect_value(to, is, 0, 61, me);
  OK(MPI_Scatter(buffer_of(from), 1, as->type, buffer_of(to), 1, is->type, root, MPI_COMM_WORLD));
  done("scatter", from, to, is);
  from = new_area();
  to = new_area();
  preset_blocks(from, as, me, NULL);
  expect_blocks(to, is, me, NULL);
  OK(MPI_Alltoall(buffer_of(from), 1, as->type, buffer_of(to), 1, is->type, MPI_COMM_WORLD));
  done("alltoall", from, to, is);
  from = new_area();
  to = new_area();
  preset_blocks(to, is, me, NULL);
  expect_blocks(to, is, me, NULL);
  OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer_of(to), 1, is->type, MPI_COMM_WORLD));
  done("alltoall in place", from, to, is);
}

// --- Reductions

static const MadeType* reduced;

/** MPI_User_function: composes affine maps x -> a x + b modulo a prime; a value has six of them. */
static void compose(void* in, void* inout, int* count, MPI_Datatype* type) {
  enum { kPrime = 10007 };
  if (*type != reduced->type) check_fail("type in a user function", "the call's", "another");
  for (int v = 0; v < *count; ++v) {
    for (int k = 0; k < kInts; k += 2) {
      int* a = (int*)((char*)in + v * reduced->extent + reduced->at[k]);
      int* a_add = (int*)((char*)in + v * reduced->extent + reduced->at[k + 1]);
      int* b = (int*)((char*)inout + v * reduced->extent + reduced->at[k]);
      int* b_add = (int*)((char*)inout + v * reduced->extent + reduced->at[k + 1]);
      const int factor = *a * *b % kPrime;
      *b_add = (*a * *b_add + *a_add) % kPrime;
      *b = factor;
    }
  }
}

static int operand(int rank, int v, int i) { return 1 + (pattern(rank, v, i) + 1000) % 5000; }

static void compose_ranks(int* result, int values, int first, int last) {
  for (int i = 0; i < values * kInts; ++i) result[i] = operand(first, 0, i);
  for (int r = first + 1; r < last; ++r) {
    for (int i = 0; i < values * kInts; i += 2) {
      result[i + 1] = (result[i] * operand(r, 0, i + 1) + result[i + 1]) % 10007;
      result[i] = result[i] * operand(r, 0, i) % 10007;
    }
  }
}

static void preset_operands(Area* area, const MadeType* made, int values, int rank) {
  for (int i = 0; i < values * kInts; ++i) preset_int(area, made, 0, i, operand(rank, 0, i));
}
static void expect_ints(Area* area, const MadeType* made, int values, const int* result) {
  for (int i = 0; i < values * kInts; ++i) expect_int(area, made, 0, i, result[i]);
}

static void test_reductions(const MadeType* made, int values) {
  const int n = check_state.size, me = check_state.rank, root = n / 2;
  int* result = new_ints(values * kInts);
  MPI_Op op = MPI_OP_NULL;
  reduced = made;
  OK(MPI_Op_create(compose, 0, &op));
  for (int in_place = 0; in_place < 2; ++in_place) {
    compose_ranks(result, values, 0, n);
    Area* from = new_area();
    Area* to = new_area();
    preset_operands(in_place ? to : from, made, values, me);
    expect_ints(to, made, values, result);
    OK(MPI_Allreduce(in_place ? MPI_IN_PLACE : buffer_of(from), buffer_of(to), values, made->type,
                     op, MPI_COMM_WORLD));
    done("allreduce", from, to, made);
    from = new_area();
    to = new_area();
    const int instead = in_place && me == root;
    preset_operands(instead ? to : from, made, values, me);
    if (me == root) expect_ints(to, made, values, result);
    OK(MPI_Reduce(instead ? MPI_IN_PLACE : buffer_of(from), buffer_of(to), values, made->type, op,
                  root, MPI_COMM_WORLD));
    done("reduce", from, to, made);
    compose_ranks(result, values, 0, me + 1);
    from = new_area();
    to = new_area();
    preset_operands(in_place ? to : from, made, values, me);
    expect_ints(to, made, values, result);
    OK(MPI_Scan(in_place ? MPI_IN_PLACE : buffer_of(from), buffer_of(to), values, made->type, op,
                MPI_COMM_WORLD));
    done("scan", from, to, made);
  }
  compose_ranks(result, values, 0, me);
  Area* from = new_area();
  Area* to = new_area();
  preset_operands(from, made, values, me);
  if (me > 0) expect_ints(to, made, values, result);
  OK(MPI_Exscan(buffer_of(from), buffer_of(to), values, made->type, op, MPI_COMM_WORLD));
  done("exscan", from, to, made);
  from = new_area();
  to = new_area();
  compose_ranks(result, values, 3, 5);
  preset_operands(from, made, values, 3);
  preset_operands(to, made, values, 4);
  expect_ints(to, made, values, result);
  OK(MPI_Reduce_local(buffer_of(from), buffer_of(to), values, made->type, op));
  done("reduce_local", from, to, made);
  OK(MPI_Op_free(&op));
  free(result);
}

/** Reduces vectors that are longer than a message piece. */
static void test_large(void) {
  enum { kRows = 30000 };
  check_context("large vectors");
  const int n = check_state.size, me = check_state.rank;
  MPI_Datatype column = MPI_DATATYPE_NULL;
  OK(MPI_Type_vector(kRows, 1, 3, MPI_INT, &column));
  OK(MPI_Type_commit(&column));
  int* in = new_ints(3 * kRows);
  int* out = new_ints(3 * kRows);
  int* expected = new_ints(3 * kRows);
  int* all = new_ints(n * kRows);
  int* all_expected = new_ints(n * kRows);
  set_ints(out, 3 * kRows, -1);
  set_ints(expected, 3 * kRows, -1);
  for (int i = 0; i < kRows; ++i) {
    in[3 * i] = pattern(me, 1, i);
    expected[3 * i] = pattern(0, 1, i);
    for (int r = 0; r < n; ++r) all_expected[r * kRows + i] = pattern(r, 1, i);
  }
  OK(MPI_Allgather(in, 1, column, all, kRows, MPI_INT, MPI_COMM_WORLD));
  check_ints("allgather", all_expected, all, n * kRows);
  if (me == 0) memcpy(out, expected, 3 * kRows * sizeof(int));
  OK(MPI_Bcast(out, 1, column, 0, MPI_COMM_WORLD));
  check_ints("broadcast", expected, out, 3 * kRows);
  OK(MPI_Type_free(&column));
  free(in);
  free(out);
  free(expected);
  free(all);
  free(all_expected);
  check_section("large");
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  make_types(&made_types);
  for (int t = 0; t < made_types.count; ++t) {
    const MadeType* as = &made_types.types[t];
    for (int step = 0; step < made_types.count; step += 3) {
      const MadeType* is = &made_types.types[(t + step) % made_types.count];
      test_replicated(as, is);
      test_varying(as, is);
      test_channels(as, is);
    }
  }
  check_section("moves");
  for (int t = 0; t < made_types.count; ++t) {
    test_reductions(&made_types.types[t], 1);
    test_reductions(&made_types.types[t], 3);
  }
  check_section("reductions");
  test_large();
  free_types(&made_types);
  return check_end();
}
