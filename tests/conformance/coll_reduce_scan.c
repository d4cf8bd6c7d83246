// Conformance of Reduce, Scan, Exscan, Reduce_scatter, Reduce_scatter_block and Reduce_local: with
// all roots, in place, with a predefined operation and with one that does not commute.

#include <mpi.h>

#include "check.h"
#include "comms.h"
#include "matrix.h"

enum { kGap = -7777777 };
static const int kCounts[] = {0, 1, 3, 64, 1000, 10000};

/** A type, an operation on it, and that operation in C. An element has `width` ints. */
typedef struct {
  const char* name;
  MPI_Datatype type;
  MPI_Op op;
  int width;
  int (*entry)(int source, int index);
  void (*fold)(int* acc, const int* in, int count);
} Algebra;

static int sum_entry(int source, int index) { return pattern(source, 31, index); }

static void sum_fold(int* acc, const int* in, int count) {
  for (int i = 0; i < count; ++i) acc[i] += in[i];
}

static int* new_contribution(const TestComm* on, const Algebra* by, int rank, int count) {
  int* buffer = new_ints(count * by->width);
  for (int i = 0; i < count * by->width; ++i) buffer[i] = by->entry(on->salt + rank, i);
  return buffer;
}

/** Returns the contributions of ranks 0 .. ranks - 1, combined in order; ranks is at least 1. */
static int* new_reduced(const TestComm* on, const Algebra* by, int ranks, int count) {
  int* acc = new_contribution(on, by, 0, count);
  for (int r = 1; r < ranks; ++r) {
    int* next = new_contribution(on, by, r, count);
    by->fold(acc, next, count);
    free(next);
  }
  return acc;
}

static void test_reduce(const TestComm* on, const Algebra* by, int count) {
  int ints = count * by->width;
  int* expected = new_reduced(on, by, on->size, count);
  for (int root = 0; root < on->size; ++root) {
    check_context("reduce of %d (%s) to %d on %s", count, by->name, root, on->name);
    int is_root = on->rank == root;
    int* in = new_contribution(on, by, on->rank, count);
    int* out = new_ints(ints);
    set_ints(out, ints + 1, kGap);
    OK(MPI_Reduce(in, is_root ? out : NULL, count, by->type, by->op, root, on->comm));
    if (is_root) check_ints("reduce", expected, out, ints);
    check_i64("behind the result", kGap, out[ints]);
    OK(MPI_Reduce(is_root ? MPI_IN_PLACE : in, is_root ? in : NULL, count, by->type, by->op, root,
                  on->comm));
    if (is_root) check_ints("reduce in place", expected, in, ints);
    free(in);
    free(out);
  }
  free(expected);
}

static void test_scan(const TestComm* on, const Algebra* by, int count) {
  check_context("scan of %d (%s) on %s", count, by->name, on->name);
  int ints = count * by->width;
  int* in = new_contribution(on, by, on->rank, count);
  int* expected = new_reduced(on, by, on->rank + 1, count);
  int* out = new_ints(ints);
  out[ints] = kGap;
  OK(MPI_Scan(in, out, count, by->type, by->op, on->comm));
  check_ints("scan", expected, out, ints);
  check_i64("behind the result", kGap, out[ints]);
  OK(MPI_Scan(MPI_IN_PLACE, in, count, by->type, by->op, on->comm));
  check_ints("scan in place", expected, in, ints);
  free(in);
  free(expected);
  free(out);
}

/** Does not check rank 0's receive buffer, which is undefined after an exclusive scan. */
static void test_exscan(const TestComm* on, const Algebra* by, int count) {
  check_context("exscan of %d (%s) on %s", count, by->name, on->name);
  int ints = count * by->width;
  int* in = new_contribution(on, by, on->rank, count);
  int* expected = new_reduced(on, by, on->rank > 0 ? on->rank : 1, count);
  int* out = new_ints(ints);
  OK(MPI_Exscan(in, out, count, by->type, by->op, on->comm));
  if (on->rank > 0) check_ints("exscan", expected, out, ints);
  OK(MPI_Exscan(in, on->rank > 0 ? out : NULL, count, by->type, by->op, on->comm));
  if (on->rank > 0) check_ints("exscan, no buffer", expected, out, ints);
  OK(MPI_Exscan(MPI_IN_PLACE, in, count, by->type, by->op, on->comm));
  if (on->rank > 0) check_ints("exscan in place", expected, in, ints);
  free(in);
  free(expected);
  free(out);
}

static void test_reduce_scatter_block(const TestComm* on, const Algebra* by, int count) {
  check_context("reduce_scatter_block of %d (%s) on %s", count, by->name, on->name);
  int ints = count * by->width;
  int total = count * on->size;
  int* in = new_contribution(on, by, on->rank, total);
  int* all = new_reduced(on, by, on->size, total);
  const int* expected = all + on->rank * ints;
  int* out = new_ints(ints);
  out[ints] = kGap;
  OK(MPI_Reduce_scatter_block(in, out, count, by->type, by->op, on->comm));
  check_ints("reduce_scatter_block", expected, out, ints);
  check_i64("behind the result", kGap, out[ints]);
  OK(MPI_Reduce_scatter_block(MPI_IN_PLACE, in, count, by->type, by->op, on->comm));
  check_ints("reduce_scatter_block in place", expected, in, ints);
  free(in);
  free(all);
  free(out);
}

static void test_reduce_scatter(const TestComm* on, const Algebra* by, int base) {
  check_context("reduce_scatter around %d (%s) on %s", base, by->name, on->name);
  int* counts = new_ints(on->size);
  int total = 0;
  int before = 0;
  for (int r = 0; r < on->size; ++r) {
    counts[r] = base == 0 || r % 3 == 1 ? 0 : base + r;
    if (r < on->rank) before += counts[r];
    total += counts[r];
  }
  int mine = counts[on->rank] * by->width;
  int* in = new_contribution(on, by, on->rank, total);
  int* all = new_reduced(on, by, on->size, total);
  const int* expected = all + before * by->width;
  int* out = new_ints(mine);
  out[mine] = kGap;
  OK(MPI_Reduce_scatter(in, out, counts, by->type, by->op, on->comm));
  check_ints("reduce_scatter", expected, out, mine);
  check_i64("behind the result", kGap, out[mine]);
  OK(MPI_Reduce_scatter(in, mine > 0 ? out : NULL, counts, by->type, by->op, on->comm));
  check_ints("reduce_scatter, no buffer", expected, out, mine);
  OK(MPI_Reduce_scatter(MPI_IN_PLACE, in, counts, by->type, by->op, on->comm));
  check_ints("reduce_scatter in place", expected, in, mine);
  free(counts);
  free(in);
  free(all);
  free(out);
}

static void test_reduce_local(const TestComm* on, const Algebra* by, int count) {
  check_context("reduce_local of %d (%s) on %s", count, by->name, on->name);
  int* in = new_contribution(on, by, on->rank, count);
  int* inout = new_contribution(on, by, on->rank + 1, count);
  int* expected = new_contribution(on, by, on->rank, count);
  by->fold(expected, inout, count);
  OK(MPI_Reduce_local(in, inout, count, by->type, by->op));
  check_ints("reduce_local", expected, inout, count * by->width);
  free(in);
  free(inout);
  free(expected);
}

/** The same buffer twice, which MPI forbids, and Open MPI takes for MPI_IN_PLACE in these
 * functions.
 */
static void test_same_buffers(const TestComm* on, const Algebra* by, int count) {
  check_context("the same buffers for %d (%s) on %s", count, by->name, on->name);
  const int ints = count * by->width;
  int* expected = new_reduced(on, by, on->rank + 1, count);
  int* in = new_contribution(on, by, on->rank, count);
  OK(MPI_Scan(in, in, count, by->type, by->op, on->comm));
  check_ints("scan", expected, in, ints);
  free(in);
  in = new_contribution(on, by, on->rank, count);
  MPI_Request request;
  OK(MPI_Iscan(in, in, count, by->type, by->op, on->comm, &request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  check_ints("iscan", expected, in, ints);
  free(expected);
  free(in);
  expected = new_reduced(on, by, on->rank > 0 ? on->rank : 1, count);
  in = new_contribution(on, by, on->rank, count);
  OK(MPI_Exscan(in, in, count, by->type, by->op, on->comm));
  if (on->rank > 0) check_ints("exscan", expected, in, ints);
  free(expected);
  free(in);
  const int total = count * on->size;
  expected = new_reduced(on, by, on->size, total);
  in = new_contribution(on, by, on->rank, total);
  OK(MPI_Reduce_scatter_block(in, in, count, by->type, by->op, on->comm));
  check_ints("reduce_scatter_block", expected + on->rank * ints, in, ints);
  free(expected);
  free(in);
  expected = new_reduced(on, by, on->size, 1);
  in = new_contribution(on, by, on->rank, 1);
  OK(MPI_Allreduce(in, in, 1, by->type, by->op, on->comm));
  check_ints("allreduce of one value", expected, in, by->width);
  free(expected);
  free(in);
}

int main(int argc, char** argv) {
  TestComm comms[kTestComms];
  check_begin(&argc, &argv);
  make_test_comms(comms);
  Algebra algebras[] = {
      {"sum", MPI_INT, MPI_SUM, 1, sum_entry, sum_fold},
      {"matrices", new_matrix_type(), MPI_OP_NULL, kMatrixInts, matrix_entry,
       matrix_multiply_right},
  };
  OK(MPI_Op_create(matrix_user_function, 0, &algebras[1].op));
  for (int c = 0; c < kTestComms; ++c) {
    for (int a = 0; a < 2; ++a) {
      for (int i = 0; i < 6; ++i) {
        test_reduce(&comms[c], &algebras[a], kCounts[i]);
        test_scan(&comms[c], &algebras[a], kCounts[i]);
        test_exscan(&comms[c], &algebras[a], kCounts[i]);
        test_reduce_scatter_block(&comms[c], &algebras[a], kCounts[i]);
        test_reduce_scatter(&comms[c], &algebras[a], kCounts[i]);
        test_reduce_local(&comms[c], &algebras[a], kCounts[i]);
        if (kCounts[i] > 0) test_same_buffers(&comms[c], &algebras[a], kCounts[i]);
      }
    }
    check_section(comms[c].name);
  }
  OK(MPI_Op_free(&algebras[1].op));
  OK(MPI_Type_free(&algebras[1].type));
  free_test_comms(comms);
  return check_end();
}
