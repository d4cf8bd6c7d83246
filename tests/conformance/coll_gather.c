// Conformance of Gather, Gatherv, Scatter, Scatterv, Allgather and Allgatherv: in place, with all
// roots, with blocks of different length at displacements in any order and with gaps. Gaps must not
// change. Arguments that are not significant at a rank have invalid values there.

#include <mpi.h>

#include "check.h"
#include "comms.h"

enum { kGap = -7777777 };
static const int kCounts[] = {0, 1, 3, 64, 1000, 20000};

/** The places of all ranks' blocks in a gathered buffer: the last rank first, with gaps between. */
typedef struct {
  int* counts;
  int* displacements;
  int total;
} Layout;

static Layout new_layout(const TestComm* on, int base) {
  Layout layout = {new_ints(on->size), new_ints(on->size), 2};
  for (int r = on->size - 1; r >= 0; --r) {
    layout.counts[r] = r % 3 == 1 ? 0 : base + r * (base > 0);
    layout.displacements[r] = layout.total;
    layout.total += layout.counts[r] + 1 + r % 3;
  }
  return layout;
}

static void free_layout(Layout* layout) {
  free(layout->counts);
  free(layout->displacements);
}

/** Returns a buffer of the layout with every rank's block for `dest`, and gaps between them. */
static int* new_laid_out(const TestComm* on, const Layout* layout, int dest) {
  int* buffer = new_ints(layout->total);
  set_ints(buffer, layout->total, kGap);
  for (int r = 0; r < on->size; ++r) {
    for (int i = 0; i < layout->counts[r]; ++i) {
      buffer[layout->displacements[r] + i] = test_value(on, r, dest, i);
    }
  }
  return buffer;
}

static int* new_block(const TestComm* on, int dest, int count) {
  int* block = new_ints(count);
  for (int i = 0; i < count; ++i) block[i] = test_value(on, on->rank, dest, i);
  return block;
}

static void test_gather(const TestComm* on, int count, int root) {
  check_context("gather of %d ints to %d on %s", count, root, on->name);
  int is_root = on->rank == root;
  int total = count * on->size;
  int* block = new_block(on, 0, count);
  int* expected = new_ints(total);
  int* out = new_ints(total);
  for (int i = 0; i < total; ++i) expected[i] = test_value(on, i / count, 0, i % count);
  set_ints(out, total + 1, kGap);
  OK(MPI_Gather(block, count, MPI_INT, is_root ? out : NULL, is_root ? count : -9,
                is_root ? MPI_INT : MPI_DATATYPE_NULL, root, on->comm));
  if (is_root) check_ints("gather", expected, out, total);
  check_i64("behind the result", kGap, out[total]);
  set_ints(out, total, kGap);
  memcpy(out + on->rank * count, block, (size_t)count * sizeof(int));
  OK(MPI_Gather(is_root ? MPI_IN_PLACE : block, is_root ? -9 : count,
                is_root ? MPI_DATATYPE_NULL : MPI_INT, out, count, MPI_INT, root, on->comm));
  if (is_root) check_ints("gather in place", expected, out, total);
  free(block);
  free(expected);
  free(out);
}

static void test_scatter(const TestComm* on, int count, int root) {
  check_context("scatter of %d ints from %d on %s", count, root, on->name);
  int is_root = on->rank == root;
  int total = count * on->size;
  int* in = new_ints(total);
  int* out = new_ints(count);
  int* expected = new_ints(count);
  for (int i = 0; i < total; ++i) in[i] = test_value(on, root, i / count, i % count);
  for (int i = 0; i < count; ++i) expected[i] = test_value(on, root, on->rank, i);
  out[count] = kGap;
  OK(MPI_Scatter(is_root ? in : NULL, is_root ? count : -9, is_root ? MPI_INT : MPI_DATATYPE_NULL,
                 out, count, MPI_INT, root, on->comm));
  check_ints("scatter", expected, out, count);
  check_i64("behind the result", kGap, out[count]);
  set_ints(out, count, kGap);
  OK(MPI_Scatter(in, count, MPI_INT, is_root ? MPI_IN_PLACE : out, is_root ? -9 : count,
                 is_root ? MPI_DATATYPE_NULL : MPI_INT, root, on->comm));
  check_ints("scatter in place", expected, is_root ? in + root * count : out, count);
  free(in);
  free(out);
  free(expected);
}

static void test_gatherv(const TestComm* on, int base, int root) {
  check_context("gatherv around %d ints to %d on %s", base, root, on->name);
  int is_root = on->rank == root;
  Layout layout = new_layout(on, base);
  int mine = layout.counts[on->rank];
  int* block = new_block(on, 0, mine);
  int* expected = new_laid_out(on, &layout, 0);
  int* out = new_ints(layout.total);
  set_ints(out, layout.total, kGap);
  OK(MPI_Gatherv(block, mine, MPI_INT, is_root ? out : NULL, is_root ? layout.counts : NULL,
                 is_root ? layout.displacements : NULL, is_root ? MPI_INT : MPI_DATATYPE_NULL, root,
                 on->comm));
  if (is_root) check_ints("gatherv", expected, out, layout.total);
  set_ints(out, layout.total, kGap);
  memcpy(out + layout.displacements[on->rank], block, (size_t)mine * sizeof(int));
  OK(MPI_Gatherv(is_root ? MPI_IN_PLACE : block, mine, MPI_INT, out, layout.counts,
                 layout.displacements, MPI_INT, root, on->comm));
  if (is_root) check_ints("gatherv in place", expected, out, layout.total);
  free(block);
  free(expected);
  free(out);
  free_layout(&layout);
}

static void test_scatterv(const TestComm* on, int base, int root) {
  check_context("scatterv around %d ints from %d on %s", base, root, on->name);
  int is_root = on->rank == root;
  Layout layout = new_layout(on, base);
  int mine = layout.counts[on->rank];
  int* in = new_laid_out(on, &layout, root);
  int* expected = new_block(on, root, mine);
  int* out = new_ints(mine);
  out[mine] = kGap;
  OK(MPI_Scatterv(is_root ? in : NULL, is_root ? layout.counts : NULL,
                  is_root ? layout.displacements : NULL, is_root ? MPI_INT : MPI_DATATYPE_NULL, out,
                  mine, MPI_INT, root, on->comm));
  check_ints("scatterv", expected, out, mine);
  check_i64("behind the result", kGap, out[mine]);
  set_ints(out, mine, kGap);
  OK(MPI_Scatterv(in, layout.counts, layout.displacements, MPI_INT, is_root ? MPI_IN_PLACE : out,
                  mine, MPI_INT, root, on->comm));
  check_ints("scatterv in place", expected, is_root ? in + layout.displacements[root] : out, mine);
  free(in);
  free(expected);
  free(out);
  free_layout(&layout);
}

static void test_allgather(const TestComm* on, int count) {
  check_context("allgather of %d ints on %s", count, on->name);
  int total = count * on->size;
  int* block = new_block(on, 5, count);
  int* out = new_ints(total);
  int* expected = new_ints(total);
  for (int i = 0; i < total; ++i) expected[i] = test_value(on, i / count, 5, i % count);
  out[total] = kGap;
  OK(MPI_Allgather(block, count, MPI_INT, out, count, MPI_INT, on->comm));
  check_ints("allgather", expected, out, total);
  check_i64("behind the result", kGap, out[total]);
  set_ints(out, total, kGap);
  memcpy(out + on->rank * count, block, (size_t)count * sizeof(int));
  OK(MPI_Allgather(MPI_IN_PLACE, -9, MPI_DATATYPE_NULL, out, count, MPI_INT, on->comm));
  check_ints("allgather in place", expected, out, total);
  free(block);
  free(out);
  free(expected);
}

static void test_allgatherv(const TestComm* on, int base) {
  check_context("allgatherv around %d ints on %s", base, on->name);
  Layout layout = new_layout(on, base);
  int mine = layout.counts[on->rank];
  int* block = new_block(on, 6, mine);
  int* expected = new_laid_out(on, &layout, 6);
  int* out = new_ints(layout.total);
  set_ints(out, layout.total, kGap);
  OK(MPI_Allgatherv(block, mine, MPI_INT, out, layout.counts, layout.displacements, MPI_INT,
                    on->comm));
  check_ints("allgatherv", expected, out, layout.total);
  set_ints(out, layout.total, kGap);
  memcpy(out + layout.displacements[on->rank], block, (size_t)mine * sizeof(int));
  OK(MPI_Allgatherv(MPI_IN_PLACE, -9, MPI_DATATYPE_NULL, out, layout.counts, layout.displacements,
                    MPI_INT, on->comm));
  check_ints("allgatherv in place", expected, out, layout.total);
  free(block);
  free(expected);
  free(out);
  free_layout(&layout);
}

static void test_on(const TestComm* on) {
  for (int c = 0; c < 6; ++c) {
    int count = kCounts[c];
    for (int root = 0; root < on->size; ++root) {
      test_gather(on, count, root);
      test_scatter(on, count, root);
      test_gatherv(on, count, root);
      test_scatterv(on, count, root);
    }
    test_allgather(on, count);
    test_allgatherv(on, count);
  }
  check_section(on->name);
}

int main(int argc, char** argv) {
  TestComm comms[kTestComms];
  check_begin(&argc, &argv);
  make_test_comms(comms);
  for (int c = 0; c < kTestComms; ++c) test_on(&comms[c]);
  free_test_comms(comms);
  return check_end();
}
