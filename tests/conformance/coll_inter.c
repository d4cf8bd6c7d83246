// Conformance of the collectives of intercommunicators, with every root and lengths from 0 on.
//
// coll_inter [nonblocking | persistent]: tests that form instead of the blocking one.

#include <mpi.h>
// clang-format off: mpi-ext.h needs mpi.h
#include <mpi-ext.h>
// clang-format on

#include "check.h"
#include "inters.h"

enum { kBlocking, kNonblocking, kPersistent };
static int form = kBlocking;

/** Runs MPI_`name` in the form that is tested, in the persistent form twice. */
#define RUN(name, nonblocking, ...)                                 \
  do {                                                              \
    MPI_Request request = MPI_REQUEST_NULL;                         \
    if (form == kBlocking) {                                        \
      OK(MPI_##name(__VA_ARGS__));                                  \
    } else if (form == kNonblocking) {                              \
      OK(MPI_##nonblocking(__VA_ARGS__, &request));                 \
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                    \
    } else {                                                        \
      OK(MPIX_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &request)); \
      for (int again = 0; again < 2; ++again) {                     \
        OK(MPI_Start(&request));                                    \
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                  \
      }                                                             \
      OK(MPI_Request_free(&request));                               \
    }                                                               \
  } while (0)

/** Returns this rank's root argument if rank `root` of the first or second group is the root. */
static int root_argument(const Inter* x, int in_first, int root) {
  if (x->in_first != in_first) return root;
  return x->me == root ? MPI_ROOT : MPI_PROC_NULL;
}

/** Returns the root's world rank. Requires that `argument` is not MPI_PROC_NULL. */
static int world_root(const Inter* x, int argument) {
  return argument == MPI_ROOT ? check_state.rank : x->peer[argument];
}

static void test_one_root(const Inter* x, int root, int count) {
  const int n = check_state.size;
  const int is_root = root == MPI_ROOT;
  const int takes_part = root != MPI_PROC_NULL;
  int* a = new_ints(n * (count + 1));
  int* b = new_ints(n * (count + 1));
  int* counts = new_ints(n);
  int* displs = new_ints(n);
  int* expected = new_ints(n * (count + 1));
  for (int k = 0; k < count; ++k) {
    a[k] = is_root ? pattern(check_state.rank, 0, k) : -9999;
    expected[k] = takes_part ? pattern(world_root(x, root), 0, k) : -9999;
  }
  RUN(Bcast, Ibcast, a, count, MPI_INT, root, x->comm);
  check_ints("bcast", expected, a, count);

  for (int k = 0; k < count; ++k) a[k] = pattern(check_state.rank, 1, k);
  set_ints(b, n * (count + 1), -1);
  set_ints(expected, n * (count + 1), -1);
  for (int i = 0; is_root && i < x->peer_count; ++i) {
    for (int k = 0; k < count; ++k) expected[i * count + k] = pattern(x->peer[i], 1, k);
  }
  RUN(Gather, Igather, a, count, MPI_INT, b, count, MPI_INT, root, x->comm);
  check_ints("gather", expected, b, n * count);

  set_ints(b, n * (count + 1), -1);
  set_ints(expected, n * (count + 1), -1);
  for (int i = 0; is_root && i < x->peer_count; ++i) {
    counts[i] = x->peer[i] % (count + 1);
    displs[i] = i * (count + 1);
    for (int k = 0; k < counts[i]; ++k) expected[displs[i] + k] = pattern(x->peer[i], 1, k);
  }
  RUN(Gatherv, Igatherv, a, check_state.rank % (count + 1), MPI_INT, b, counts, displs, MPI_INT,
      root, x->comm);
  check_ints("gatherv", expected, b, n * (count + 1));

  for (int i = 0; i < x->peer_count; ++i) {
    for (int k = 0; k < count; ++k) a[i * count + k] = pattern(check_state.rank, x->peer[i], k);
  }
  set_ints(b, count, -1);
  set_ints(expected, count, -1);
  for (int k = 0; takes_part && !is_root && k < count; ++k) {
    expected[k] = pattern(world_root(x, root), check_state.rank, k);
  }
  RUN(Scatter, Iscatter, a, count, MPI_INT, b, count, MPI_INT, root, x->comm);
  check_ints("scatter", expected, b, count);
  for (int i = 0; i < x->peer_count; ++i) {
    counts[i] = count;
    displs[i] = i * count;
  }
  set_ints(b, count, -1);
  RUN(Scatterv, Iscatterv, a, counts, displs, MPI_INT, b, count, MPI_INT, root, x->comm);
  check_ints("scatterv", expected, b, count);

  for (int k = 0; k < count; ++k) a[k] = pattern(check_state.rank, 3, k);
  set_ints(b, count, -1);
  set_ints(expected, count, is_root ? 0 : -1);
  for (int i = 0; is_root && i < x->peer_count; ++i) {
    for (int k = 0; k < count; ++k) expected[k] += pattern(x->peer[i], 3, k);
  }
  RUN(Reduce, Ireduce, a, b, count, MPI_INT, MPI_SUM, root, x->comm);
  check_ints("reduce", expected, b, count);
  free(a);
  free(b);
  free(counts);
  free(displs);
  free(expected);
}

/** MPI_User_function: appends digits, left and then right: associative, but not commutative. */
static void take_digits(void* left, void* right, int* count, MPI_Datatype* type) {
  (void)type;
  const long long* a = (const long long*)left;
  long long* b = (long long*)right;
  for (int i = 0; i < *count; ++i) {
    long long shift = 1;
    while (shift <= b[i]) shift *= 10;
    b[i] += a[i] * shift;
  }
}

static void test_all_to_all(const Inter* x, int count) {
  const int n = check_state.size;
  int* a = new_ints(n * (count + 1));
  int* b = new_ints(n * (count + 1));
  int* counts = new_ints(n);
  int* displs = new_ints(n);
  int* expected = new_ints(n * (count + 1));
  for (int k = 0; k < count; ++k) a[k] = pattern(check_state.rank, 4, k);
  for (int i = 0; i < x->peer_count; ++i) {
    for (int k = 0; k < count; ++k) expected[i * count + k] = pattern(x->peer[i], 4, k);
  }
  RUN(Allgather, Iallgather, a, count, MPI_INT, b, count, MPI_INT, x->comm);
  check_ints("allgather", expected, b, x->peer_count * count);
  for (int i = 0; i < x->peer_count; ++i) {
    counts[i] = count;
    displs[i] = (x->peer_count - 1 - i) * count;
  }
  set_ints(b, n * count, -1);
  RUN(Allgatherv, Iallgatherv, a, count, MPI_INT, b, counts, displs, MPI_INT, x->comm);
  for (int i = 0; i < x->peer_count; ++i) {
    check_ints("allgatherv", expected + i * count, b + displs[i], count);
  }

  for (int i = 0; i < x->peer_count; ++i) {
    for (int k = 0; k < count; ++k) {
      a[i * count + k] = pattern(check_state.rank, x->peer[i], k);
      expected[i * count + k] = pattern(x->peer[i], check_state.rank, k);
    }
    displs[i] = i * count;
  }
  set_ints(b, n * count, -1);
  RUN(Alltoall, Ialltoall, a, count, MPI_INT, b, count, MPI_INT, x->comm);
  check_ints("alltoall", expected, b, x->peer_count * count);
  set_ints(b, n * count, -1);
  RUN(Alltoallv, Ialltoallv, a, counts, displs, MPI_INT, b, counts, displs, MPI_INT, x->comm);
  check_ints("alltoallv", expected, b, x->peer_count * count);
  MPI_Datatype* types = (MPI_Datatype*)calloc((size_t)n, sizeof *types);
  for (int i = 0; i < n; ++i) {
    types[i] = MPI_INT;
    displs[i] *= (int)sizeof(int);
  }
  set_ints(b, n * count, -1);
  RUN(Alltoallw, Ialltoallw, a, counts, displs, types, b, counts, displs, types, x->comm);
  check_ints("alltoallw", expected, b, x->peer_count * count);
  free(types);

  for (int k = 0; k < count; ++k) a[k] = pattern(check_state.rank, 5, k);
  set_ints(expected, count, 0);
  for (int i = 0; i < x->peer_count; ++i) {
    for (int k = 0; k < count; ++k) expected[k] += pattern(x->peer[i], 5, k);
  }
  RUN(Allreduce, Iallreduce, a, b, count, MPI_INT, MPI_SUM, x->comm);
  check_ints("allreduce", expected, b, count);

  MPI_Op digits;
  OK(MPI_Op_create(take_digits, 0, &digits));
  long long digit = check_state.rank + 1;
  long long all = 0;
  long long in_order = 0;
  for (int i = 0; i < x->peer_count; ++i) in_order = in_order * 10 + x->peer[i] + 1;
  RUN(Allreduce, Iallreduce, &digit, &all, 1, MPI_LONG_LONG, digits, x->comm);
  check_i64("in the order of ranks", in_order, all);
  OK(MPI_Op_free(&digits));

  // Both groups have the same number of elements: one for each pair of ranks.
  const int total = x->own_count * x->peer_count;
  int* long_a = new_ints(total);
  for (int k = 0; k < total; ++k) long_a[k] = pattern(check_state.rank, 6, k);
  set_ints(expected, x->peer_count, 0);
  for (int i = 0; i < x->peer_count; ++i) {
    for (int k = 0; k < x->peer_count; ++k) {
      expected[k] += pattern(x->peer[i], 6, x->me * x->peer_count + k);
    }
  }
  RUN(Reduce_scatter_block, Ireduce_scatter_block, long_a, b, x->peer_count, MPI_INT, MPI_SUM,
      x->comm);
  check_ints("reduce_scatter_block", expected, b, x->peer_count);
  set_ints(counts, x->own_count, x->peer_count);
  set_ints(b, x->peer_count, -1);
  RUN(Reduce_scatter, Ireduce_scatter, long_a, b, counts, MPI_INT, MPI_SUM, x->comm);
  check_ints("reduce_scatter", expected, b, x->peer_count);
  RUN(Barrier, Ibarrier, x->comm);
  free(long_a);
  free(a);
  free(b);
  free(counts);
  free(displs);
  free(expected);
}

static void test_collectives(const Inter* x) {
  static const int kCounts[] = {0, 1, 3, 5000};
  for (int c = 0; c < 4; ++c) {
    const int first = x->in_first ? x->own_count : x->peer_count;
    for (int root = 0; root < first; ++root)
      test_one_root(x, root_argument(x, 1, root), kCounts[c]);
    for (int root = 0; root < check_state.size - first; ++root) {
      test_one_root(x, root_argument(x, 0, root), kCounts[c]);
    }
    test_all_to_all(x, kCounts[c]);
  }
}

static void test(const char* name, Side* side, int descending, int leaders_last) {
  check_context("%s", name);
  Inter x = open_inter(side, descending, leaders_last);
  test_collectives(&x);
  close_inter(&x);
  check_section(name);
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  if (argc > 1) form = strcmp(argv[1], "persistent") == 0 ? kPersistent : kNonblocking;
  test("halves", by_half, 0, 0);
  test("descending", by_half, 1, 1);
  test("parity", by_parity, 0, 1);
  test("one against all", one_against_all, 1, 0);
  return check_end();
}
