// Conformance of user-defined operations, commutative and not, on predefined and contiguous types,
// in every reduction; and of the arguments of the user's function.

#include <complex.h>
#include <mpi.h>

#include "check.h"
#include "matrix.h"

static MPI_Datatype expected_type;
static long long elements_seen;

/** MPI_User_function: sum modulo a prime. Checks that its type argument is that of the call. */
static void modular_sum(void* in, void* inout, int* count, MPI_Datatype* type) {
  const int* a = in;
  int* b = inout;
  if (*type != expected_type) check_fail("type in a user function", "the call's", "another");
  for (int i = 0; i < *count; ++i) b[i] = (a[i] + b[i]) % 97;
  elements_seen += *count;
}

/** MPI_User_function: the left operand, the simplest operation that does not commute. */
static void keep_left(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  memcpy(inout, in, (size_t)*count * sizeof(int));
}

/** MPI_User_function: complex product of elements of MPI_C_DOUBLE_COMPLEX. */
static void complex_product(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  const double complex* a = in;
  double complex* b = inout;
  for (int i = 0; i < *count; ++i) b[i] = a[i] * b[i];
}

static void test_commutative_flag(void) {
  check_context("MPI_Op_commutative");
  MPI_Op op = MPI_OP_NULL;
  int flag = -1;
  const MPI_Op predefined[] = {MPI_MAX, MPI_MIN, MPI_SUM,  MPI_PROD, MPI_LAND,   MPI_BAND,
                               MPI_LOR, MPI_BOR, MPI_LXOR, MPI_BXOR, MPI_MAXLOC, MPI_MINLOC};
  for (size_t i = 0; i < sizeof predefined / sizeof *predefined; ++i) {
    OK(MPI_Op_commutative(predefined[i], &flag));
    check_i64("predefined operations commute", 1, flag != 0);
  }
  for (int commute = 0; commute < 2; ++commute) {
    OK(MPI_Op_create(modular_sum, commute, &op));
    OK(MPI_Op_commutative(op, &flag));
    check_i64("what was said at creation", commute, flag != 0);
    OK(MPI_Op_free(&op));
    check_true("a freed handle is null", op == MPI_OP_NULL);
  }
  check_section("commutative flag");
}

static int residue(int rank, int i) { return (pattern(rank, 21, i) + 1000) % 97; }

static void test_modular_sum(int commute, int count) {
  check_context("modular sum of %d, commute=%d", count, commute);
  int n = check_state.size;
  int me = check_state.rank;
  MPI_Op op = MPI_OP_NULL;
  int* in = new_ints(count);
  int* out = new_ints(count);
  int* expected = new_ints(count);
  for (int i = 0; i < count; ++i) {
    in[i] = residue(me, i);
    for (int r = 0; r < n; ++r) expected[i] = (expected[i] + residue(r, i)) % 97;
  }
  OK(MPI_Op_create(modular_sum, commute, &op));
  expected_type = MPI_INT;
  OK(MPI_Allreduce(in, out, count, MPI_INT, op, MPI_COMM_WORLD));
  check_ints("allreduce", expected, out, count);
  for (int root = 0; root < n; ++root) {
    OK(MPI_Reduce(in, out, count, MPI_INT, op, root, MPI_COMM_WORLD));
    if (me == root) check_ints("reduce", expected, out, count);
  }
  elements_seen = 0;
  for (int i = 0; i < count; ++i) expected[i] = (residue(me, i) + residue(me + 1, i)) % 97;
  for (int i = 0; i < count; ++i) out[i] = residue(me + 1, i);
  OK(MPI_Reduce_local(in, out, count, MPI_INT, op));
  check_ints("reduce_local", expected, out, count);
  check_i64("every element was given once", count, elements_seen);
  OK(MPI_Op_free(&op));
  free(in);
  free(out);
  free(expected);
}

static void test_keep_left(int count) {
  check_context("keep left of %d", count);
  int n = check_state.size;
  int me = check_state.rank;
  MPI_Op op = MPI_OP_NULL;
  int* in = new_ints(count);
  int* out = new_ints(count);
  int* expected = new_ints(count);
  for (int i = 0; i < count; ++i) in[i] = pattern(me, 0, i);
  for (int i = 0; i < count; ++i) expected[i] = pattern(0, 0, i);
  OK(MPI_Op_create(keep_left, 0, &op));
  OK(MPI_Allreduce(in, out, count, MPI_INT, op, MPI_COMM_WORLD));
  check_ints("allreduce", expected, out, count);
  for (int root = 0; root < n; ++root) {
    set_ints(out, count, -1);
    OK(MPI_Reduce(in, out, count, MPI_INT, op, root, MPI_COMM_WORLD));
    if (me == root) check_ints("reduce", expected, out, count);
  }
  OK(MPI_Scan(in, out, count, MPI_INT, op, MPI_COMM_WORLD));
  check_ints("scan", expected, out, count);
  OK(MPI_Op_free(&op));
  free(in);
  free(out);
  free(expected);
}

/** Computes the product of the matrices of `ranks` ranks, in order of rank. */
static void multiply_ranks(int* expected, int count, int ranks) {
  int* next = new_ints(count * kMatrixInts);
  for (int i = 0; i < count * kMatrixInts; ++i) expected[i] = matrix_entry(0, i);
  for (int r = 1; r < ranks; ++r) {
    for (int i = 0; i < count * kMatrixInts; ++i) next[i] = matrix_entry(r, i);
    matrix_multiply_right(expected, next, count);
  }
  free(next);
}

static void test_matrices(int count) {
  check_context("product of %d matrices", count);
  int n = check_state.size;
  int me = check_state.rank;
  int ints = count * kMatrixInts;
  MPI_Op op = MPI_OP_NULL;
  MPI_Datatype type = new_matrix_type();
  int* in = new_ints(ints);
  int* out = new_ints(ints);
  int* expected = new_ints(ints);
  for (int i = 0; i < ints; ++i) in[i] = matrix_entry(me, i);
  multiply_ranks(expected, count, n);
  OK(MPI_Op_create(matrix_user_function, 0, &op));
  OK(MPI_Allreduce(in, out, count, type, op, MPI_COMM_WORLD));
  check_ints("allreduce", expected, out, ints);
  memcpy(out, in, (size_t)ints * sizeof(int));
  OK(MPI_Allreduce(MPI_IN_PLACE, out, count, type, op, MPI_COMM_WORLD));
  check_ints("allreduce in place", expected, out, ints);
  for (int root = 0; root < n; ++root) {
    OK(MPI_Reduce(in, out, count, type, op, root, MPI_COMM_WORLD));
    if (me == root) check_ints("reduce", expected, out, ints);
  }
  multiply_ranks(expected, count, me + 1);
  OK(MPI_Scan(in, out, count, type, op, MPI_COMM_WORLD));
  check_ints("scan", expected, out, ints);
  OK(MPI_Exscan(in, out, count, type, op, MPI_COMM_WORLD));
  multiply_ranks(expected, count, me);
  if (me > 0) check_ints("exscan", expected, out, ints);
  for (int i = 0; i < ints; ++i) out[i] = matrix_entry(me + 1, i);
  memcpy(expected, in, (size_t)ints * sizeof(int));
  matrix_multiply_right(expected, out, count);
  OK(MPI_Reduce_local(in, out, count, type, op));
  check_ints("reduce_local keeps the order", expected, out, ints);
  OK(MPI_Op_free(&op));
  OK(MPI_Type_free(&type));
  free(in);
  free(out);
  free(expected);
}

static void test_complex(void) {
  check_context("complex product");
  double complex in[3] = {1 + I, I, check_state.rank % 2 ? -1 : 1};
  double complex out[3] = {0};
  double complex expected[3] = {1, 1, 1};
  MPI_Op op = MPI_OP_NULL;
  for (int r = 0; r < check_state.size; ++r) {
    expected[0] *= 1 + I;
    expected[1] *= I;
    expected[2] *= r % 2 ? -1 : 1;
  }
  OK(MPI_Op_create(complex_product, 1, &op));
  OK(MPI_Allreduce(in, out, 3, MPI_C_DOUBLE_COMPLEX, op, MPI_COMM_WORLD));
  for (int i = 0; i < 3; ++i) {
    check_i64("real part", (long long)creal(expected[i]), (long long)creal(out[i]));
    check_i64("imaginary part", (long long)cimag(expected[i]), (long long)cimag(out[i]));
  }
  OK(MPI_Op_free(&op));
  check_section("complex product");
}

static void test_many_operations(void) {
  enum { kOperations = 300 };
  check_context("many operations");
  MPI_Op ops[kOperations];
  for (int i = 0; i < kOperations; ++i) OK(MPI_Op_create(modular_sum, i % 2, &ops[i]));
  expected_type = MPI_INT;
  for (int i = 0; i < kOperations; i += 37) {
    int in = i % 97;
    int out = -1;
    OK(MPI_Allreduce(&in, &out, 1, MPI_INT, ops[i], MPI_COMM_WORLD));
    check_i64("sum", in * check_state.size % 97, out);
  }
  for (int i = 0; i < kOperations; ++i) OK(MPI_Op_free(&ops[i]));
  check_section("many operations");
}

/** MPI_User_function: adds pairs; asks what it is given a type of. */
static void add_pairs(void* in, void* inout, int* count, MPI_Datatype* type) {
  MPI_Aint lower = -1, extent = -1;
  if (MPI_Type_get_extent(*type, &lower, &extent) != MPI_SUCCESS) check_fail("extent", "", "");
  if (extent != 2 * sizeof(int)) check_fail("extent", "that of two ints", "another");
  const int* a = in;
  int* b = inout;
  for (int i = 0; i < 2 * *count; ++i) b[i] += a[i];
}

/** The program frees type and operation while the reduction is outstanding. */
static void test_freed(void) {
  check_context("freed while it is outstanding");
  enum { kPairs = 100 };
  MPI_Datatype pair;
  MPI_Op op;
  MPI_Request request;
  int in[2 * kPairs], out[2 * kPairs];
  for (int i = 0; i < 2 * kPairs; ++i) in[i] = check_state.rank + i;
  OK(MPI_Type_contiguous(2, MPI_INT, &pair));
  OK(MPI_Type_commit(&pair));
  OK(MPI_Op_create(add_pairs, 1, &op));
  OK(MPI_Iallreduce(in, out, kPairs, pair, op, MPI_COMM_WORLD, &request));
  OK(MPI_Type_free(&pair));
  OK(MPI_Op_free(&op));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  const int size = check_state.size;
  for (int i = 0; i < 2 * kPairs; ++i) {
    check_i64("sum", (long long)size * i + size * (size - 1) / 2, out[i]);
  }
}

int main(int argc, char** argv) {
  static const int kCounts[] = {0, 1, 3, 17, 1000, 20000};
  check_begin(&argc, &argv);
  test_commutative_flag();
  for (int c = 0; c < 6; ++c) {
    test_modular_sum(1, kCounts[c]);
    test_modular_sum(0, kCounts[c]);
    test_keep_left(kCounts[c]);
  }
  check_section("on ints");
  for (int c = 0; c < 6; ++c) test_matrices(kCounts[c]);
  check_section("on matrices");
  test_complex();
  test_many_operations();
  test_freed();
  return check_end();
}
