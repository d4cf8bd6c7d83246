#pragma once

// Types of twelve ints, made by every constructor of MPI, each with the places of its ints, which
// are computed without MPI. All types have the same signature.

#include "check.h"

enum { kInts = 12, kAreaBytes = 16384, kOrigin = 4096, kMostTypes = 20 };

typedef struct {
  const char* name;
  MPI_Datatype type;
  MPI_Aint at[kInts];  // bytes from the address of a value to each of its ints
  MPI_Aint lower, extent;
} MadeType;

typedef struct {
  int count;
  MadeType types[kMostTypes];
} MadeTypes;

/** Sets the bounds of a type without explicit bounds. */
static inline void set_natural_bounds(MadeType* made) {
  MPI_Aint lower = made->at[0];
  MPI_Aint upper = made->at[0];
  for (int i = 0; i < kInts; ++i) {
    if (made->at[i] < lower) lower = made->at[i];
    if (made->at[i] > upper) upper = made->at[i];
  }
  made->lower = lower;
  made->extent = upper + (MPI_Aint)sizeof(int) - lower;
}

static inline MadeType* add_made(MadeTypes* all, const char* name) {
  MadeType* made = &all->types[all->count++];
  made->name = name;
  return made;
}

/** Sets the places of the ints: block i has length[i] ints at at[i] bytes. */
static inline void set_blocks(MadeType* made, int blocks, const int* length, const MPI_Aint* at) {
  int k = 0;
  for (int i = 0; i < blocks; ++i) {
    for (int e = 0; e < length[i]; ++e) made->at[k++] = at[i] + 4 * e;
  }
  check_i64("ints of the type", kInts, k);
  set_natural_bounds(made);
}

static inline void make_regular(MadeTypes* all) {
  MadeType* made = add_made(all, "contiguous");
  OK(MPI_Type_contiguous(kInts, MPI_INT, &made->type));
  for (int i = 0; i < kInts; ++i) made->at[i] = 4 * i;
  set_natural_bounds(made);
  made = add_made(all, "vector");
  OK(MPI_Type_vector(4, 3, 5, MPI_INT, &made->type));
  for (int i = 0; i < kInts; ++i) made->at[i] = i / 3 * 20 + i % 3 * 4;
  set_natural_bounds(made);
  made = add_made(all, "hvector");
  OK(MPI_Type_create_hvector(6, 2, 28, MPI_INT, &made->type));
  for (int i = 0; i < kInts; ++i) made->at[i] = i / 2 * 28 + i % 2 * 4;
  set_natural_bounds(made);
  made = add_made(all, "falling");
  OK(MPI_Type_create_hvector(12, 1, -8, MPI_INT, &made->type));
  for (int i = 0; i < kInts; ++i) made->at[i] = -8 * i;
  set_natural_bounds(made);
}

static inline void make_indexed(MadeTypes* all) {
  static const int kLengths[] = {1, 5, 0, 6};
  static const int kDisplacements[] = {0, 3, 40, 10};
  static const MPI_Aint kBytes[] = {0, 12, 160, 40};
  MadeType* made = add_made(all, "indexed");
  OK(MPI_Type_indexed(4, kLengths, kDisplacements, MPI_INT, &made->type));
  set_blocks(made, 4, kLengths, kBytes);
  static const int kTwo[] = {4, 8};
  static const MPI_Aint kTwoBytes[] = {64, 8};
  made = add_made(all, "hindexed");
  OK(MPI_Type_create_hindexed(2, kTwo, kTwoBytes, MPI_INT, &made->type));
  set_blocks(made, 2, kTwo, kTwoBytes);
  static const int kFours[] = {4, 4, 4};
  static const int kAt[] = {8, 0, 20};
  static const MPI_Aint kAtBytes[] = {32, 0, 80};
  made = add_made(all, "indexed_block");
  OK(MPI_Type_create_indexed_block(3, 4, kAt, MPI_INT, &made->type));
  set_blocks(made, 3, kFours, kAtBytes);
  made = add_made(all, "hindexed_block");
  OK(MPI_Type_create_hindexed_block(3, 4, kAtBytes, MPI_INT, &made->type));
  set_blocks(made, 3, kFours, kAtBytes);
}

static inline void make_nested(MadeTypes* all) {
  static const int kLengths[] = {4, 2, 4};
  static const int kInInts[] = {4, 4, 4};
  static const MPI_Aint kBytes[] = {4, 40, 80};
  MPI_Datatype pair = MPI_DATATYPE_NULL;
  OK(MPI_Type_contiguous(2, MPI_INT, &pair));
  MPI_Datatype parts[] = {MPI_INT, pair, MPI_INT};
  MadeType* made = add_made(all, "struct");
  OK(MPI_Type_create_struct(3, kLengths, kBytes, parts, &made->type));
  OK(MPI_Type_free(&pair));
  set_blocks(made, 3, kInInts, kBytes);
  MPI_Datatype spaced = MPI_DATATYPE_NULL;
  MPI_Datatype row = MPI_DATATYPE_NULL;
  OK(MPI_Type_create_resized(MPI_INT, 0, 12, &spaced));
  OK(MPI_Type_contiguous(3, spaced, &row));
  made = add_made(all, "rows");
  OK(MPI_Type_create_hvector(4, 1, 50 * 4, row, &made->type));
  OK(MPI_Type_free(&spaced));
  OK(MPI_Type_free(&row));
  for (int i = 0; i < kInts; ++i) made->at[i] = i / 3 * 200 + i % 3 * 12;
  made->lower = 0;
  made->extent = 3 * 200 + 36;
}

static inline void make_arrays(MadeTypes* all) {
  static const int kSize[] = {6, 5};
  static const int kPart[] = {4, 3};
  static const int kStart[] = {1, 2};
  MadeType* made = add_made(all, "subarray");
  OK(MPI_Type_create_subarray(2, kSize, kPart, kStart, MPI_ORDER_C, MPI_INT, &made->type));
  for (int i = 0; i < kInts; ++i) made->at[i] = 4 * ((1 + i / 3) * 5 + 2 + i % 3);
  made->extent = 4 * 30;
  static const int kSize3[] = {3, 4, 3};
  static const int kPart3[] = {2, 3, 2};
  static const int kStart3[] = {1, 0, 1};
  made = add_made(all, "Fortran subarray");
  OK(MPI_Type_create_subarray(3, kSize3, kPart3, kStart3, MPI_ORDER_FORTRAN, MPI_INT, &made->type));
  for (int i = 0; i < kInts; ++i) {
    const int x = 1 + i % 2, y = i / 2 % 3, z = 1 + i / 6;
    made->at[i] = 4 * (x + 3 * (y + 4 * z));
  }
  made->extent = 4 * 36;
  static const int kArray[] = {7, 8};
  static const int kDistribution[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
  static const int kArguments[] = {2, MPI_DISTRIBUTE_DFLT_DARG};
  static const int kGrid[] = {2, 2};
  made = add_made(all, "darray");
  OK(MPI_Type_create_darray(4, 3, 2, kArray, kDistribution, kArguments, kGrid, MPI_ORDER_C, MPI_INT,
                            &made->type));
  int k = 0;
  for (int row = 0; row < 7; ++row) {
    for (int column = 0; column < 8; ++column) {
      if (row / 2 % 2 == 1 && column / 4 == 1 && k < kInts) made->at[k++] = 4 * (row * 8 + column);
    }
  }
  made->extent = 4 * 56;
  check_i64("ints of the darray", kInts, k);
}

static inline void make_resized(MadeTypes* all) {
  MPI_Datatype column = MPI_DATATYPE_NULL;
  OK(MPI_Type_vector(12, 1, 12, MPI_INT, &column));
  MadeType* made = add_made(all, "column");
  OK(MPI_Type_create_resized(column, 0, 4, &made->type));
  for (int i = 0; i < kInts; ++i) made->at[i] = 48 * i;
  made->extent = 4;
  made = add_made(all, "resized");
  OK(MPI_Type_create_resized(all->types[1].type, -4, 100, &made->type));
  for (int i = 0; i < kInts; ++i) made->at[i] = all->types[1].at[i];
  made->lower = -4;
  made->extent = 100;
  MadeType* copy = add_made(all, "dup");
  OK(MPI_Type_dup(made->type, &copy->type));
  memcpy(copy->at, made->at, sizeof made->at);
  copy->lower = made->lower;
  copy->extent = made->extent;
  OK(MPI_Type_free(&column));
}

static inline void make_types(MadeTypes* all) {
  memset(all, 0, sizeof *all);
  make_regular(all);
  make_indexed(all);
  make_nested(all);
  make_arrays(all);
  make_resized(all);
  for (int i = 0; i < all->count; ++i) OK(MPI_Type_commit(&all->types[i].type));
}

static inline void free_types(MadeTypes* all) {
  for (int i = 0; i < all->count; ++i) OK(MPI_Type_free(&all->types[i].type));
}

// --- Memory that contains values. All bytes that belong to no int of a value must not change.

typedef struct {
  char bytes[kAreaBytes];
  char expected[kAreaBytes];
} Area;

static inline Area* new_area(void) {
  Area* area = (Area*)malloc(sizeof *area);
  if (!area) check_fail("memory", "some", "none");
  memset(area->bytes, 0x5a, sizeof area->bytes);
  memset(area->expected, 0x5a, sizeof area->expected);
  return area;
}

static inline char* buffer_of(Area* area) { return area->bytes + kOrigin; }

/** Returns the address of int `i` of the values that begin at `first` extents in `bytes`. */
static inline char* int_at(char* bytes, const MadeType* made, int first, int i) {
  return bytes + kOrigin + (first + i / kInts) * made->extent + made->at[i % kInts];
}
static inline void put_int(char* bytes, const MadeType* made, int first, int i, int value) {
  memcpy(int_at(bytes, made, first, i), &value, sizeof value);
}
static inline int get_int(char* bytes, const MadeType* made, int first, int i) {
  int value;
  memcpy(&value, int_at(bytes, made, first, i), sizeof value);
  return value;
}

/** Sets the present and the expected contents of an int. */
static inline void preset_int(Area* area, const MadeType* made, int first, int i, int value) {
  put_int(area->bytes, made, first, i, value);
  put_int(area->expected, made, first, i, value);
}
static inline void expect_int(Area* area, const MadeType* made, int first, int i, int value) {
  put_int(area->expected, made, first, i, value);
}
static inline void check_area(const char* what, Area* area, const MadeType* made, int ints) {
  for (int i = 0; i < ints; ++i) {
    check_i64(what, get_int(area->expected, made, 0, i), get_int(area->bytes, made, 0, i));
  }
  check_true("nothing else is touched", memcmp(area->expected, area->bytes, kAreaBytes) == 0);
}
