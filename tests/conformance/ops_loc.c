// Conformance of MPI_MAXLOC and MPI_MINLOC on every pair type of C and Fortran. The lowest index of
// equal values must be the result. Combinations of pairs and other operations must be refused.

#include <mpi.h>

#include "check.h"

enum { kMaxCount = 1000 };
static const int kCounts[] = {0, 1, 3, 17, kMaxCount};

/** Returns one of few values, so that many ranks have the same one. */
static int sample_value(int rank, int i) { return pattern(rank, 11, i) % 4; }
/** Returns an index that falls with the rank, so that the first rank does not have the lowest. */
static int sample_index(int rank, int i) { return (40 - rank) * 3 + i % 3; }

typedef struct {
  const char* name;
  MPI_Datatype type;
  void (*test)(const char* name, MPI_Datatype type, int maximum, int count);
} PairCase;

#define DEFINE_PAIR_TEST(test_name, value_type, index_type)                                        \
  typedef struct {                                                                                 \
    value_type value;                                                                              \
    index_type index;                                                                              \
  } test_name##Pair;                                                                               \
                                                                                                   \
  static test_name##Pair test_name##_sample(int rank, int i) {                                     \
    test_name##Pair pair = {(value_type)sample_value(rank, i), (index_type)sample_index(rank, i)}; \
    return pair;                                                                                   \
  }                                                                                                \
                                                                                                   \
  static void test_name##_fold(test_name##Pair* acc, test_name##Pair in, int maximum) {            \
    int better = maximum ? in.value > acc->value : in.value < acc->value;                          \
    if (better || (in.value == acc->value && in.index < acc->index)) *acc = in;                    \
  }                                                                                                \
                                                                                                   \
  static void test_name##_check(const char* what, const test_name##Pair* got, int count,           \
                                int first_rank, int ranks, int maximum) {                          \
    for (int i = 0; i < count; ++i) {                                                              \
      test_name##Pair expected = test_name##_sample(first_rank, i);                                \
      for (int r = 1; r < ranks; ++r) {                                                            \
        test_name##_fold(&expected, test_name##_sample(first_rank + r, i), maximum);               \
      }                                                                                            \
      check_i64(what, (long long)expected.value, (long long)got[i].value);                         \
      check_i64(what, (long long)expected.index, (long long)got[i].index);                         \
      check_true("pair is exact",                                                                  \
                 got[i].value == expected.value && got[i].index == expected.index);                \
    }                                                                                              \
    check_i64("the pair behind the result", 12345, (long long)got[count].value);                   \
  }                                                                                                \
                                                                                                   \
  static void test_name(const char* name, MPI_Datatype type, int maximum, int count) {             \
    static test_name##Pair in[kMaxCount];                                                          \
    static test_name##Pair out[kMaxCount + 1];                                                     \
    MPI_Op op = maximum ? MPI_MAXLOC : MPI_MINLOC;                                                 \
    int n = check_state.size;                                                                      \
    int me = check_state.rank;                                                                     \
    int root = count % n;                                                                          \
    check_context("%s of %d %s", maximum ? "MPI_MAXLOC" : "MPI_MINLOC", count, name);              \
    for (int i = 0; i < count; ++i) in[i] = test_name##_sample(me, i);                             \
    out[count].value = (value_type)12345;                                                          \
    OK(MPI_Allreduce(in, out, count, type, op, MPI_COMM_WORLD));                                   \
    test_name##_check("allreduce", out, count, 0, n, maximum);                                     \
    OK(MPI_Reduce(in, out, count, type, op, root, MPI_COMM_WORLD));                                \
    if (me == root) test_name##_check("reduce", out, count, 0, n, maximum);                        \
    for (int i = 0; i < count; ++i) out[i] = test_name##_sample(me + 1, i);                        \
    OK(MPI_Reduce_local(in, out, count, type, op));                                                \
    test_name##_check("reduce_local", out, count, me, 2, maximum);                                 \
  }

DEFINE_PAIR_TEST(float_int, float, int)
DEFINE_PAIR_TEST(double_int, double, int)
DEFINE_PAIR_TEST(long_int, long, int)
DEFINE_PAIR_TEST(two_int, int, int)
DEFINE_PAIR_TEST(short_int, short, int)
DEFINE_PAIR_TEST(long_double_int, long double, int)
DEFINE_PAIR_TEST(two_real, float, float)
DEFINE_PAIR_TEST(two_double_precision, double, double)
DEFINE_PAIR_TEST(two_integer, MPI_Fint, MPI_Fint)

static const PairCase kPairs[] = {
    {"MPI_FLOAT_INT", MPI_FLOAT_INT, float_int},
    {"MPI_DOUBLE_INT", MPI_DOUBLE_INT, double_int},
    {"MPI_LONG_INT", MPI_LONG_INT, long_int},
    {"MPI_2INT", MPI_2INT, two_int},
    {"MPI_SHORT_INT", MPI_SHORT_INT, short_int},
    {"MPI_LONG_DOUBLE_INT", MPI_LONG_DOUBLE_INT, long_double_int},
    {"MPI_2REAL", MPI_2REAL, two_real},
    {"MPI_2DOUBLE_PRECISION", MPI_2DOUBLE_PRECISION, two_double_precision},
    {"MPI_2INTEGER", MPI_2INTEGER, two_integer},
};
enum { kPairCount = sizeof kPairs / sizeof *kPairs };

static void expect_refused(const char* what, MPI_Datatype type, MPI_Op op) {
  int class = -1;
  long double in[4] = {0};
  long double out[4] = {0};
  check_context("%s", what);
  int code = MPI_Allreduce(in, out, 1, type, op, MPI_COMM_WORLD);
  OK(MPI_Error_class(code, &class));
  check_i64("error class", MPI_ERR_OP, class);
}

static void test_undefined(void) {
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  for (int p = 0; p < kPairCount; ++p) {
    expect_refused(kPairs[p].name, kPairs[p].type, MPI_SUM);
    expect_refused(kPairs[p].name, kPairs[p].type, MPI_MAX);
    expect_refused(kPairs[p].name, kPairs[p].type, MPI_LAND);
    expect_refused(kPairs[p].name, kPairs[p].type, MPI_BXOR);
  }
  expect_refused("MAXLOC of MPI_INT", MPI_INT, MPI_MAXLOC);
  expect_refused("MINLOC of MPI_INT", MPI_INT, MPI_MINLOC);
  expect_refused("MAXLOC of MPI_DOUBLE", MPI_DOUBLE, MPI_MAXLOC);
  expect_refused("MAXLOC of MPI_BYTE", MPI_BYTE, MPI_MAXLOC);
  expect_refused("SUM of MPI_PACKED", MPI_PACKED, MPI_SUM);
  expect_refused("SUM of MPI_WCHAR", MPI_WCHAR, MPI_SUM);
  check_section("undefined combinations");
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  for (int p = 0; p < kPairCount; ++p) {
    for (int c = 0; c < 5; ++c) {
      kPairs[p].test(kPairs[p].name, kPairs[p].type, 1, kCounts[c]);
      kPairs[p].test(kPairs[p].name, kPairs[p].type, 0, kCounts[c]);
    }
    check_section(kPairs[p].name);
  }
  test_undefined();
  return check_end();
}
