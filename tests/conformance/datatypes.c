// Conformance of derived datatypes: every constructor, packing, messages and collectives between
// types of one signature, envelopes and contents, counts of elements, external32, wrong arguments.

#include <mpi.h>

#include "check.h"
#include "made_types.h"

static MadeTypes made_types;

static void test_shapes(void) {
  for (int t = 0; t < made_types.count; ++t) {
    const MadeType* made = &made_types.types[t];
    check_context("%s", made->name);
    MPI_Aint lower = -99, extent = -99, true_lower = -99, true_extent = -99;
    MPI_Count wide[2] = {-99, -99}, bytes = -99;
    int size = -99;
    OK(MPI_Type_size(made->type, &size));
    check_i64("size", 4 * kInts, size);
    OK(MPI_Type_size_x(made->type, &bytes));
    check_i64("size_x", 4 * kInts, bytes);
    OK(MPI_Type_get_extent(made->type, &lower, &extent));
    check_i64("lower bound", made->lower, lower);
    check_i64("extent", made->extent, extent);
    OK(MPI_Type_get_extent_x(made->type, &wide[0], &wide[1]));
    check_i64("extent_x", extent, wide[1]);
    MadeType natural = *made;
    set_natural_bounds(&natural);
    OK(MPI_Type_get_true_extent(made->type, &true_lower, &true_extent));
    check_i64("true lower bound", natural.lower, true_lower);
    check_i64("true extent", natural.extent, true_extent);
    OK(MPI_Type_get_true_extent_x(made->type, &wide[0], &wide[1]));
    check_i64("true extent_x", true_extent, wide[1]);
  }
  check_section("shapes");
}

/** The extent of a struct type follows the alignment of its parts. */
static void test_alignment(void) {
  check_context("alignment");
  const int lengths[] = {1, 1, 3};
  const MPI_Aint at[] = {0, 8, 12};
  const MPI_Datatype parts[] = {MPI_DOUBLE, MPI_INT, MPI_CHAR};
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Aint lower = -1, extent = -1;
  OK(MPI_Type_create_struct(3, lengths, at, parts, &type));
  OK(MPI_Type_get_extent(type, &lower, &extent));
  check_i64("lower bound", 0, lower);
  check_i64("extent", 16, extent);
  OK(MPI_Type_get_true_extent(type, &lower, &extent));
  check_i64("true extent", 15, extent);
  OK(MPI_Type_free(&type));
  check_section("alignment");
}

static void test_pack(const MadeType* made, int count) {
  check_context("pack of %d %s", count, made->name);
  const int ints = count * kInts;
  Area* from = new_area();
  Area* to = new_area();
  int* packed = new_ints(ints + 1);
  int position = 4;
  int size = -1;
  for (int i = 0; i < ints; ++i) preset_int(from, made, 0, i, pattern(3, 4, i));
  for (int i = 0; i < ints; ++i) expect_int(to, made, 0, i, pattern(3, 4, i));
  OK(MPI_Pack_size(count, made->type, MPI_COMM_WORLD, &size));
  check_true("pack size", size >= 4 * ints);
  OK(MPI_Pack(buffer_of(from), count, made->type, packed, 4 * ints + 4, &position, MPI_COMM_WORLD));
  check_i64("position", 4 + 4 * ints, position);
  for (int i = 0; i < ints; ++i) check_i64("packed", pattern(3, 4, i), packed[i + 1]);
  position = 4;
  OK(MPI_Unpack(packed, 4 * ints + 4, &position, buffer_of(to), count, made->type, MPI_COMM_WORLD));
  check_i64("position", 4 + 4 * ints, position);
  check_area("unpacked", to, made, ints);
  free(from);
  free(to);
  free(packed);
}

/** Sends `ints` ints, at most two values, as one type, and receives two values of another type. */
static void test_message(const MadeType* as, const MadeType* is, int ints) {
  check_context("%d ints from %s to %s", ints, as->name, is->name);
  const int n = check_state.size, me = check_state.rank;
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  const int whole = ints % kInts == 0;
  Area* from = new_area();
  Area* to = new_area();
  int* plain = new_ints(2 * kInts);
  for (int i = 0; i < ints; ++i) {
    preset_int(from, as, 0, i, pattern(me, next, i));
    plain[i] = pattern(me, next, i);
    expect_int(to, is, 0, i, pattern(before, me, i));
  }
  MPI_Status status;
  if (whole) {
    OK(MPI_Sendrecv(buffer_of(from), ints / kInts, as->type, next, 1, buffer_of(to), 2, is->type,
                    before, 1, MPI_COMM_WORLD, &status));
  } else {
    OK(MPI_Sendrecv(plain, ints, MPI_INT, next, 1, buffer_of(to), 2, is->type, before, 1,
                    MPI_COMM_WORLD, &status));
  }
  check_area("message", to, is, 2 * kInts);
  int count = -1;
  MPI_Count wide = -1;
  OK(MPI_Get_count(&status, is->type, &count));
  check_i64("count", whole ? ints / kInts : MPI_UNDEFINED, count);
  OK(MPI_Get_elements(&status, is->type, &count));
  check_i64("elements", ints, count);
  OK(MPI_Get_elements_x(&status, is->type, &wide));
  check_i64("elements_x", ints, wide);
  free(from);
  free(to);
  free(plain);
}

static void test_moves(void) {
  for (int a = 0; a < made_types.count; ++a) {
    for (int count = 0; count < 4; ++count) test_pack(&made_types.types[a], count);
    for (int b = 0; b < made_types.count; ++b) {
      test_message(&made_types.types[a], &made_types.types[b], 2 * kInts);
    }
    for (int ints = 0; ints < 2 * kInts; ints += 5) {
      test_message(&made_types.types[0], &made_types.types[a], ints);
    }
  }
  check_section("packing and messages");
}

/** Sends types with elements of several kinds. A message may end after any element. */
static void test_elements(void) {
  const int lengths[] = {1, 2, 1};
  const MPI_Aint at[] = {0, 8, 24};
  const MPI_Datatype parts[] = {MPI_DOUBLE, MPI_SHORT, MPI_DOUBLE_INT};
  static const int kBytes[] = {0, 8, 10, 12, 20, 24, 32, 9, 13, 48, 25};
  static const int kElements[] = {
      0, 1, 2, 3, 4, 5, 6, MPI_UNDEFINED, MPI_UNDEFINED, 10, MPI_UNDEFINED};
  MPI_Datatype type = MPI_DATATYPE_NULL;
  check_context("elements");
  OK(MPI_Type_create_struct(3, lengths, at, parts, &type));
  OK(MPI_Type_commit(&type));
  for (int i = 0; i < 11; ++i) {
    char out[64] = {0};
    char in[256];
    MPI_Status status;
    int count = -1;
    OK(MPI_Sendrecv(out, kBytes[i], MPI_BYTE, check_state.rank, 2, in, 4, type, check_state.rank, 2,
                    MPI_COMM_WORLD, &status));
    OK(MPI_Get_elements(&status, type, &count));
    check_i64("elements", kElements[i], count);
    OK(MPI_Get_count(&status, type, &count));
    check_i64("count", kBytes[i] % 24 == 0 ? kBytes[i] / 24 : MPI_UNDEFINED, count);
  }
  MPI_Status status;
  int count = -1;
  OK(MPI_Status_set_elements(&status, MPI_INT, 7));
  OK(MPI_Get_elements(&status, MPI_INT, &count));
  check_i64("elements that were set", 7, count);
  OK(MPI_Type_free(&type));
  check_section("elements");
}

static void check_envelope(MPI_Datatype type, int combiner, int integers, int addresses,
                           int types) {
  int got[4] = {-1, -1, -1, -1};
  OK(MPI_Type_get_envelope(type, &got[0], &got[1], &got[2], &got[3]));
  check_i64("combiner", combiner, got[3]);
  check_i64("integers", integers, got[0]);
  check_i64("addresses", addresses, got[1]);
  check_i64("types", types, got[2]);
}

static void test_contents(void) {
  static const struct {
    int combiner, integers, addresses, types;
  } kEnvelopes[] = {
      {MPI_COMBINER_CONTIGUOUS, 1, 0, 1},    {MPI_COMBINER_VECTOR, 3, 0, 1},
      {MPI_COMBINER_HVECTOR, 2, 1, 1},       {MPI_COMBINER_HVECTOR, 2, 1, 1},
      {MPI_COMBINER_INDEXED, 9, 0, 1},       {MPI_COMBINER_HINDEXED, 3, 2, 1},
      {MPI_COMBINER_INDEXED_BLOCK, 5, 0, 1}, {MPI_COMBINER_HINDEXED_BLOCK, 2, 3, 1},
      {MPI_COMBINER_STRUCT, 4, 3, 3},        {MPI_COMBINER_HVECTOR, 2, 1, 1},
      {MPI_COMBINER_SUBARRAY, 8, 0, 1},      {MPI_COMBINER_SUBARRAY, 11, 0, 1},
      {MPI_COMBINER_DARRAY, 12, 0, 1},       {MPI_COMBINER_RESIZED, 0, 2, 1},
      {MPI_COMBINER_RESIZED, 0, 2, 1},       {MPI_COMBINER_DUP, 0, 0, 1},
  };
  for (int t = 0; t < made_types.count; ++t) {
    int integers[16];
    MPI_Aint addresses[16];
    MPI_Datatype types[16];
    const MadeType* made = &made_types.types[t];
    check_context("contents of %s", made->name);
    check_envelope(made->type, kEnvelopes[t].combiner, kEnvelopes[t].integers,
                   kEnvelopes[t].addresses, kEnvelopes[t].types);
    // Open MPI reads as many types as the array has room for.
    OK(MPI_Type_get_contents(made->type, kEnvelopes[t].integers, kEnvelopes[t].addresses,
                             kEnvelopes[t].types, integers, addresses, types));
    for (int i = 0; i < kEnvelopes[t].integers; ++i) {
      check_state.digest = hash_step(check_state.digest, (uint64_t)integers[i]);
      note("%s: integer %d", made->name, integers[i]);
    }
    for (int i = 0; i < kEnvelopes[t].addresses; ++i) {
      note("%s: address %ld", made->name, (long)addresses[i]);
    }
    for (int i = 0; i < kEnvelopes[t].types; ++i) {
      int kind[4];
      OK(MPI_Type_get_envelope(types[i], &kind[0], &kind[1], &kind[2], &kind[3]));
      note("%s: type %s", made->name, kind[3] == MPI_COMBINER_NAMED ? "predefined" : "derived");
      if (kind[3] != MPI_COMBINER_NAMED) OK(MPI_Type_free(&types[i]));
    }
  }
  check_context("contents");
  check_envelope(MPI_DOUBLE_INT, MPI_COMBINER_NAMED, 0, 0, 0);
  check_section("contents");
}

static void test_external(void) {
  check_context("external32");
  const int lengths[] = {2, 1, 1, 1};
  const MPI_Aint at[] = {0, 8, 16, 18};
  const MPI_Datatype parts[] = {MPI_INT, MPI_DOUBLE, MPI_SHORT, MPI_CHAR};
  static const unsigned char kExpected[] = {1, 2, 3, 4, 0xff, 0xff, 0xff, 0xfe, 0x3f, 0xf8,
                                            0, 0, 0, 0, 0,    0,    0x12, 0x34, 'x'};
  MPI_Datatype type = MPI_DATATYPE_NULL;
  OK(MPI_Type_create_struct(4, lengths, at, parts, &type));
  OK(MPI_Type_commit(&type));
  struct {
    int ints[2];
    double number;
    short small;
    char letter;
  } value = {{0x01020304, -2}, 1.5, 0x1234, 'x'}, back;
  memset(&back, 0, sizeof back);
  unsigned char external[64];
  MPI_Aint size = -1;
  MPI_Aint position = 0;
  OK(MPI_Pack_external_size("external32", 1, type, &size));
  check_i64("size", sizeof kExpected, size);
  OK(MPI_Pack_external("external32", &value, 1, type, external, sizeof external, &position));
  check_i64("position", sizeof kExpected, position);
  for (size_t i = 0; i < sizeof kExpected; ++i) check_i64("byte", kExpected[i], external[i]);
  position = 0;
  OK(MPI_Unpack_external("external32", external, sizeof external, &position, &back, 1, type));
  check_i64("position", sizeof kExpected, position);
  check_true("value", back.ints[0] == 0x01020304 && back.ints[1] == -2 && back.number == 1.5 &&
                          back.small == 0x1234 && back.letter == 'x');
  OK(MPI_Type_free(&type));
  check_section("external32");
}

/** A freed type does not change in the types that were made of it, nor in requests. */
static void test_freed(void) {
  check_context("freed types");
  MPI_Datatype vector = MPI_DATATYPE_NULL, outer = MPI_DATATYPE_NULL;
  int out[24], in[24];
  for (int i = 0; i < 24; ++i) out[i] = i;
  set_ints(in, 24, -1);
  OK(MPI_Type_vector(3, 1, 2, MPI_INT, &vector));
  OK(MPI_Type_contiguous(2, vector, &outer));
  OK(MPI_Type_free(&vector));
  OK(MPI_Type_commit(&outer));
  MPI_Request request = MPI_REQUEST_NULL;
  OK(MPI_Irecv(in, 2, outer, check_state.rank, 5, MPI_COMM_WORLD, &request));
  OK(MPI_Send(out, 2, outer, check_state.rank, 5, MPI_COMM_WORLD));
  OK(MPI_Type_free(&outer));
  check_true("a freed handle is null", outer == MPI_DATATYPE_NULL);
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  static const int kAt[] = {0, 2, 4, 5, 7, 9, 10, 12, 14, 15, 17, 19};
  int expected[24];
  set_ints(expected, 24, -1);
  for (int i = 0; i < 12; ++i) expected[kAt[i]] = kAt[i];
  check_ints("received", expected, in, 24);
  check_section("freed types");
}

/** The type contains the address, and the call passes MPI_BOTTOM. */
static void test_bottom(void) {
  check_context("MPI_BOTTOM");
  int out[6], in[6], expected[6] = {-1, 1, 2, -1, 4, -1};
  for (int i = 0; i < 6; ++i) out[i] = i;
  set_ints(in, 6, -1);
  MPI_Datatype types[2];
  for (int i = 0; i < 2; ++i) {
    const int lengths[] = {2, 1};
    MPI_Aint at[2];
    OK(MPI_Get_address(i == 0 ? &out[1] : &in[1], &at[0]));
    OK(MPI_Get_address(i == 0 ? &out[4] : &in[4], &at[1]));
    OK(MPI_Type_create_hindexed(2, lengths, at, MPI_INT, &types[i]));
    OK(MPI_Type_commit(&types[i]));
  }
  const int me = check_state.rank;
  OK(MPI_Sendrecv(MPI_BOTTOM, 1, types[0], me, 1, MPI_BOTTOM, 1, types[1], me, 1, MPI_COMM_WORLD,
                  MPI_STATUS_IGNORE));
  check_ints("received", expected, in, 6);
  set_ints(in, 6, -1);
  OK(MPI_Bcast(MPI_BOTTOM, 1, me == 0 ? types[0] : types[1], 0, MPI_COMM_WORLD));
  if (me != 0) check_ints("broadcast", expected, in, 6);
  for (int i = 0; i < 2; ++i) OK(MPI_Type_free(&types[i]));
  check_section("bottom");
}

/** Returns whether this is Open MPI, which accepts some wrong arguments. */
static int is_open_mpi(void) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  OK(MPI_Get_library_version(text, &length));
  return strncmp(text, "Open MPI", 8) == 0;
}

static int fails(int code) {
  int error_class = MPI_SUCCESS;
  OK(MPI_Error_class(code, &error_class));
  return error_class != MPI_SUCCESS;
}

#define FAILS(call) check_true(#call, fails(call))
#define FAILS_BUT_IN_OPEN_MPI(call)       \
  do {                                    \
    const int failed = fails(call);       \
    check_true(#call, failed || lenient); \
  } while (0)

static void test_errors(void) {
  check_context("errors");
  const int lenient = is_open_mpi();
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  MPI_Datatype type = MPI_DATATYPE_NULL;
  const int lengths[] = {1, -1}, displacements[] = {0, 1}, sizes[] = {4, 4}, zero[] = {0, 0};
  const int five[] = {5, 1}, ones[] = {1, 1}, kinds[] = {MPI_DISTRIBUTE_BLOCK, 99};
  const int blocks[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK};
  const MPI_Aint bytes[] = {0, 4};
  const MPI_Datatype parts[] = {MPI_INT, MPI_DATATYPE_NULL};
  FAILS(MPI_Type_contiguous(-1, MPI_INT, &type));
  FAILS(MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &type));
  FAILS(MPI_Type_vector(-1, 1, 1, MPI_INT, &type));
  FAILS(MPI_Type_vector(1, -1, 1, MPI_INT, &type));
  FAILS(MPI_Type_vector(1, 1, 1, MPI_DATATYPE_NULL, &type));
  FAILS(MPI_Type_create_hvector(-1, 1, 1, MPI_INT, &type));
  FAILS(MPI_Type_create_hvector(1, -1, 1, MPI_INT, &type));
  FAILS(MPI_Type_indexed(-1, lengths, displacements, MPI_INT, &type));
  FAILS(MPI_Type_indexed(2, lengths, displacements, MPI_INT, &type));
  FAILS(MPI_Type_indexed(1, lengths, displacements, MPI_DATATYPE_NULL, &type));
  FAILS(MPI_Type_create_hindexed(2, lengths, bytes, MPI_INT, &type));
  FAILS(MPI_Type_create_indexed_block(-1, 1, displacements, MPI_INT, &type));
  FAILS(MPI_Type_create_indexed_block(1, -1, displacements, MPI_INT, &type));
  FAILS(MPI_Type_create_hindexed_block(-1, 1, bytes, MPI_INT, &type));
  FAILS(MPI_Type_create_struct(-1, lengths, bytes, parts, &type));
  FAILS(MPI_Type_create_struct(2, ones, bytes, parts, &type));
  FAILS_BUT_IN_OPEN_MPI(
      MPI_Type_create_subarray(0, sizes, ones, zero, MPI_ORDER_C, MPI_INT, &type));
  FAILS(MPI_Type_create_subarray(2, sizes, five, zero, MPI_ORDER_C, MPI_INT, &type));
  FAILS(MPI_Type_create_subarray(2, sizes, ones, sizes, MPI_ORDER_C, MPI_INT, &type));
  FAILS(MPI_Type_create_subarray(2, sizes, ones, zero, 7, MPI_INT, &type));
  FAILS(MPI_Type_create_darray(1, 0, 2, sizes, kinds, ones, ones, MPI_ORDER_C, MPI_INT, &type));
  FAILS(MPI_Type_create_darray(1, 1, 2, sizes, blocks, ones, ones, MPI_ORDER_C, MPI_INT, &type));
  FAILS(MPI_Type_create_resized(MPI_DATATYPE_NULL, 0, 4, &type));
  type = MPI_DATATYPE_NULL;
  FAILS(MPI_Type_commit(&type));
  FAILS(MPI_Type_free(&type));
  FAILS(MPI_Type_dup(MPI_DATATYPE_NULL, &type));
  MPI_Datatype predefined = MPI_INT;
  FAILS(MPI_Type_free(&predefined));
  int memory[4] = {0, 0, 0, 0}, position = 0, integer = 0;
  MPI_Aint address = 0;
  FAILS(MPI_Pack(memory, 2, MPI_INT, memory, 4, &position, MPI_COMM_WORLD));
  FAILS(MPI_Pack(memory, -1, MPI_INT, memory, 4, &position, MPI_COMM_WORLD));
  FAILS(MPI_Unpack(memory, 4, &position, memory, 2, MPI_INT, MPI_COMM_WORLD));
  FAILS_BUT_IN_OPEN_MPI(MPI_Pack_size(-1, MPI_INT, MPI_COMM_WORLD, &integer));
  FAILS(MPI_Type_get_contents(MPI_INT, 1, 1, 1, &integer, &address, &predefined));
  OK(MPI_Type_vector(2, 1, 2, MPI_INT, &type));
  FAILS(MPI_Type_get_contents(type, 2, 0, 1, &integer, &address, &predefined));
  FAILS(MPI_Send(memory, 1, type, check_state.rank, 1, MPI_COMM_WORLD));  // not committed
  OK(MPI_Type_free(&type));
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
  check_section("errors");
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  make_types(&made_types);
  test_shapes();
  test_alignment();
  test_moves();
  test_elements();
  test_contents();
  test_external();
  test_freed();
  test_bottom();
  test_errors();
  free_types(&made_types);
  return check_end();
}
