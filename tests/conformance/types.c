// Conformance of datatypes: size, extent and name of the predefined ones; contiguous types of
// predefined and of contiguous types; their duplicates; and collectives with them.

#include <complex.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>

#include "check.h"

typedef struct {
  const char* name;
  MPI_Datatype type;
  size_t size_bytes;
  size_t extent_bytes;
} TypeFacts;

typedef struct {
  float value;
  int index;
} FloatInt;
typedef struct {
  double value;
  int index;
} DoubleInt;
typedef struct {
  long value;
  int index;
} LongInt;
typedef struct {
  short value;
  int index;
} ShortInt;
typedef struct {
  long double value;
  int index;
} LongDoubleInt;

#define PLAIN(type, c_type) \
  { #type, type, sizeof(c_type), sizeof(c_type) }
#define PAIR(type, c_type, value_type) \
  { #type, type, sizeof(value_type) + sizeof(int), sizeof(c_type) }
#define BYTES(type, bytes) \
  { #type, type, bytes, bytes }

static const TypeFacts kTypes[] = {
    PLAIN(MPI_CHAR, char),
    PLAIN(MPI_SIGNED_CHAR, signed char),
    PLAIN(MPI_UNSIGNED_CHAR, unsigned char),
    PLAIN(MPI_SHORT, short),
    PLAIN(MPI_UNSIGNED_SHORT, unsigned short),
    PLAIN(MPI_INT, int),
    PLAIN(MPI_UNSIGNED, unsigned),
    PLAIN(MPI_LONG, long),
    PLAIN(MPI_UNSIGNED_LONG, unsigned long),
    PLAIN(MPI_LONG_LONG_INT, long long),
    PLAIN(MPI_LONG_LONG, long long),
    PLAIN(MPI_UNSIGNED_LONG_LONG, unsigned long long),
    PLAIN(MPI_FLOAT, float),
    PLAIN(MPI_DOUBLE, double),
    PLAIN(MPI_LONG_DOUBLE, long double),
    PLAIN(MPI_WCHAR, wchar_t),
    PLAIN(MPI_C_BOOL, bool),
    PLAIN(MPI_INT8_T, int8_t),
    PLAIN(MPI_INT16_T, int16_t),
    PLAIN(MPI_INT32_T, int32_t),
    PLAIN(MPI_INT64_T, int64_t),
    PLAIN(MPI_UINT8_T, uint8_t),
    PLAIN(MPI_UINT16_T, uint16_t),
    PLAIN(MPI_UINT32_T, uint32_t),
    PLAIN(MPI_UINT64_T, uint64_t),
    PLAIN(MPI_C_COMPLEX, float complex),
    PLAIN(MPI_C_COMPLEX, float complex),
    PLAIN(MPI_C_DOUBLE_COMPLEX, double complex),
    PLAIN(MPI_C_LONG_DOUBLE_COMPLEX, long double complex),
    PLAIN(MPI_AINT, MPI_Aint),
    PLAIN(MPI_OFFSET, MPI_Offset),
    PLAIN(MPI_COUNT, MPI_Count),
    PLAIN(MPI_CXX_BOOL, bool),
    PLAIN(MPI_CXX_FLOAT_COMPLEX, float complex),
    PLAIN(MPI_CXX_DOUBLE_COMPLEX, double complex),
    PLAIN(MPI_CXX_LONG_DOUBLE_COMPLEX, long double complex),
    BYTES(MPI_BYTE, 1),
    BYTES(MPI_PACKED, 1),
    PAIR(MPI_FLOAT_INT, FloatInt, float),
    PAIR(MPI_DOUBLE_INT, DoubleInt, double),
    PAIR(MPI_LONG_INT, LongInt, long),
    PAIR(MPI_SHORT_INT, ShortInt, short),
    PAIR(MPI_LONG_DOUBLE_INT, LongDoubleInt, long double),
    BYTES(MPI_2INT, 2 * sizeof(int)),
    BYTES(MPI_CHARACTER, 1),
    PLAIN(MPI_LOGICAL, MPI_Fint),
    PLAIN(MPI_INTEGER, MPI_Fint),
    PLAIN(MPI_REAL, float),
    PLAIN(MPI_DOUBLE_PRECISION, double),
    PLAIN(MPI_COMPLEX, float complex),
    PLAIN(MPI_DOUBLE_COMPLEX, double complex),
    BYTES(MPI_INTEGER1, 1),
    BYTES(MPI_INTEGER2, 2),
    BYTES(MPI_INTEGER4, 4),
    BYTES(MPI_INTEGER8, 8),
    BYTES(MPI_LOGICAL1, 1),
    BYTES(MPI_LOGICAL2, 2),
    BYTES(MPI_LOGICAL4, 4),
    BYTES(MPI_LOGICAL8, 8),
    BYTES(MPI_REAL4, 4),
    BYTES(MPI_REAL8, 8),
    BYTES(MPI_REAL16, 16),
    BYTES(MPI_COMPLEX8, 8),
    BYTES(MPI_COMPLEX16, 16),
    BYTES(MPI_COMPLEX32, 32),
    BYTES(MPI_2INTEGER, 2 * sizeof(MPI_Fint)),
    BYTES(MPI_2REAL, 2 * sizeof(float)),
    BYTES(MPI_2DOUBLE_PRECISION, 2 * sizeof(double)),
};
enum { kTypeCount = sizeof kTypes / sizeof *kTypes };

static void check_shape(MPI_Datatype type, size_t size_bytes, size_t extent_bytes) {
  int size = -1;
  MPI_Aint lower = -1;
  MPI_Aint extent = -1;
  OK(MPI_Type_size(type, &size));
  OK(MPI_Type_get_extent(type, &lower, &extent));
  check_i64("size", (long long)size_bytes, size);
  check_i64("lower bound", 0, lower);
  check_i64("extent", (long long)extent_bytes, extent);
}

/** Returns whether a type has one name only: synonyms may share a handle, which has one of the
 * names. */
static int has_one_name(const char* name) {
  static const char* const kSynonyms[] = {"MPI_LONG_LONG", "MPI_LONG_LONG_INT"};
  for (size_t i = 0; i < sizeof kSynonyms / sizeof *kSynonyms; ++i) {
    if (strcmp(name, kSynonyms[i]) == 0) return 0;
  }
  return 1;
}

static void test_predefined(void) {
  for (int t = 0; t < kTypeCount; ++t) {
    const TypeFacts* facts = &kTypes[t];
    char name[MPI_MAX_OBJECT_NAME] = "?";
    int length = -1;
    check_context("%s", facts->name);
    check_shape(facts->type, facts->size_bytes, facts->extent_bytes);
    OK(MPI_Type_get_name(facts->type, name, &length));
    check_true("length of the name", strlen(name) == (size_t)length);
    if (has_one_name(facts->name)) check_text("name", facts->name, name);
    note("%s: size %zu, extent %zu", facts->name, facts->size_bytes, facts->extent_bytes);
  }
  check_section("predefined types");
}

static void test_contiguous(void) {
  static const int kCounts[] = {0, 1, 2, 17, 1000};
  for (int t = 0; t < kTypeCount; ++t) {
    for (int c = 0; c < 5; ++c) {
      const TypeFacts* facts = &kTypes[t];
      MPI_Datatype once = MPI_DATATYPE_NULL;
      MPI_Datatype twice = MPI_DATATYPE_NULL;
      MPI_Datatype copy = MPI_DATATYPE_NULL;
      size_t n = (size_t)kCounts[c];
      check_context("%d contiguous %s", kCounts[c], facts->name);
      OK(MPI_Type_contiguous(kCounts[c], facts->type, &once));
      OK(MPI_Type_contiguous(3, once, &twice));
      OK(MPI_Type_commit(&twice));
      OK(MPI_Type_free(&once));
      check_true("a freed handle is null", once == MPI_DATATYPE_NULL);
      check_shape(twice, 3 * n * facts->size_bytes, 3 * n * facts->extent_bytes);
      OK(MPI_Type_dup(twice, &copy));
      OK(MPI_Type_free(&twice));
      check_shape(copy, 3 * n * facts->size_bytes, 3 * n * facts->extent_bytes);
      OK(MPI_Type_free(&copy));
    }
  }
  check_section("contiguous types");
}

/** Moves blocks of `ints` ints from one type at the sender to another at the receiver. */
static void move_blocks(MPI_Datatype send_type, int send_count, MPI_Datatype receive_type,
                        int receive_count, int ints) {
  int n = check_state.size;
  int me = check_state.rank;
  int root = n - 1;
  int* in = new_ints(n * ints);
  int* out = new_ints(n * ints);
  int* expected = new_ints(n * ints);
  for (int i = 0; i < n * ints; ++i) in[i] = pattern(me, i / ints, i % ints);
  for (int i = 0; i < n * ints; ++i) expected[i] = pattern(i / ints, 0, i % ints);
  OK(MPI_Allgather(in, send_count, send_type, out, receive_count, receive_type, MPI_COMM_WORLD));
  check_ints("allgather", expected, out, n * ints);
  set_ints(out, n * ints, -1);
  OK(MPI_Gather(in, send_count, send_type, out, receive_count, receive_type, root, MPI_COMM_WORLD));
  if (me == root) check_ints("gather", expected, out, n * ints);
  for (int i = 0; i < n * ints; ++i) expected[i] = pattern(i / ints, me, i % ints);
  OK(MPI_Alltoall(in, send_count, send_type, out, receive_count, receive_type, MPI_COMM_WORLD));
  check_ints("alltoall", expected, out, n * ints);
  for (int i = 0; i < ints; ++i) expected[i] = pattern(root, me, i);
  OK(MPI_Scatter(in, send_count, send_type, out, receive_count, receive_type, root,
                 MPI_COMM_WORLD));
  check_ints("scatter", expected, out, ints);
  for (int i = 0; i < ints; ++i) expected[i] = pattern(0, 0, i);
  int send = me == 0;
  OK(MPI_Bcast(in, send ? send_count : receive_count, send ? send_type : receive_type, 0,
               MPI_COMM_WORLD));
  check_ints("broadcast", expected, in, ints);
  free(in);
  free(out);
  free(expected);
}

static void test_moves(void) {
  static const int kWidths[] = {1, 10, 333};
  for (int w = 0; w < 3; ++w) {
    int width = kWidths[w];
    MPI_Datatype row = MPI_DATATYPE_NULL;
    MPI_Datatype rows = MPI_DATATYPE_NULL;
    MPI_Datatype bytes = MPI_DATATYPE_NULL;
    MPI_Datatype copy = MPI_DATATYPE_NULL;
    check_context("moves of width %d", width);
    OK(MPI_Type_contiguous(width, MPI_INT, &row));
    OK(MPI_Type_contiguous(6, row, &rows));
    OK(MPI_Type_contiguous(6 * width * (int)sizeof(int), MPI_BYTE, &bytes));
    OK(MPI_Type_dup(rows, &copy));
    OK(MPI_Type_commit(&row));
    OK(MPI_Type_commit(&rows));
    OK(MPI_Type_commit(&bytes));
    OK(MPI_Type_commit(&copy));
    move_blocks(row, 6, row, 6, 6 * width);
    move_blocks(row, 6, MPI_INT, 6 * width, 6 * width);
    move_blocks(MPI_INT, 6 * width, rows, 1, 6 * width);
    move_blocks(rows, 1, row, 6, 6 * width);
    move_blocks(copy, 2, rows, 2, 12 * width);
    move_blocks(bytes, 1, bytes, 1, 6 * width);
    move_blocks(row, 0, row, 0, 0);
    OK(MPI_Type_free(&row));
    OK(MPI_Type_free(&rows));
    OK(MPI_Type_free(&bytes));
    OK(MPI_Type_free(&copy));
  }
  check_section("moves");
}

/** Moves pair types, which have gaps. Both fields must arrive. */
static void test_pairs(void) {
  check_context("pairs");
  int n = check_state.size;
  DoubleInt mine[2] = {{check_state.rank + 0.5, check_state.rank}, {-1.0, 7}};
  DoubleInt* all = malloc((size_t)n * sizeof mine);
  MPI_Datatype two = MPI_DATATYPE_NULL;
  OK(MPI_Type_contiguous(2, MPI_DOUBLE_INT, &two));
  OK(MPI_Type_commit(&two));
  OK(MPI_Allgather(mine, 1, two, all, 2, MPI_DOUBLE_INT, MPI_COMM_WORLD));
  for (int r = 0; r < n; ++r) {
    check_true("value", all[2 * r].value == r + 0.5 && all[2 * r + 1].value == -1.0);
    check_i64("index", r, all[2 * r].index);
    check_i64("index", 7, all[2 * r + 1].index);
  }
  OK(MPI_Type_free(&two));
  free(all);
  check_section("pairs");
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  test_predefined();
  test_contiguous();
  test_moves();
  test_pairs();
  return check_end();
}
