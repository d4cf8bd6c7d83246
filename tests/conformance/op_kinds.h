#pragma once

// Reference arithmetic for the predefined operations: for each kind of C type there are functions
// that make a rank's contribution, combine two, and compare. Contributions are small integers in
// every type, so that results are exact in any order of a reduction, for up to 16 ranks.

#include <complex.h>
#include <stdbool.h>

#include "check.h"

typedef enum {
  kMax,
  kMin,
  kSum,
  kProd,
  kLogicalAnd,
  kBitAnd,
  kLogicalOr,
  kBitOr,
  kLogicalXor,
  kBitXor,
  kOpCount
} OpId;

/** Returns a rank's element `index`. For products it is mostly 1, so that 16 factors fit a byte. */
static inline int op_sample(OpId op, int rank, int index) {
  int h = pattern(rank, 3, index) + 1000;
  switch (op) {
    case kProd:
      return (rank + index) % 3 == 0 ? 2 - 4 * (h % 2) : 1;
    case kLogicalAnd:
      return h % 8;
    case kLogicalOr:
    case kLogicalXor:
      return h % 8 < 5 ? 0 : h % 8;
    default:
      return h % 15 - 7;
  }
}

/** op_sample() for sums that do not wrap, because Open MPI 4.1 saturates small unsigned sums. */
static inline int op_sample_unsigned(OpId op, int rank, int index) {
  int value = op_sample(op, rank, index);
  return op == kSum || op == kProd ? abs(value) : value;
}

/** The functions of a kind: make a contribution, fold `acc = acc op in`, compare, and hash. */
typedef struct {
  size_t size_bytes;
  void (*make)(void* out, OpId op, int rank, int count);
  void (*fold)(void* acc, const void* in, OpId op, int count);
  int (*first_difference)(const void* a, const void* b, int count);
  uint64_t (*hash)(uint64_t digest, const void* values, int count);
} OpKind;

#define LOOP(statement) \
  for (int i = 0; i < count; ++i) statement

#define FOLD(expression)     \
  LOOP(a[i] = (expression)); \
  break

#define DEFINE_KIND(kind, c_type, sample, folds, hash_value)                                     \
  static void kind##_make(void* out, OpId op, int rank, int count) {                             \
    (void)op;                                                                                    \
    c_type* a = out;                                                                             \
    LOOP(a[i] = (c_type)(sample));                                                               \
  }                                                                                              \
  static void kind##_fold(void* acc, const void* in, OpId op, int count) {                       \
    c_type* a = acc;                                                                             \
    const c_type* b = in;                                                                        \
    switch (op) { folds default : check_fail(#kind, "a defined operation", "another"); }         \
  }                                                                                              \
  static int kind##_first_difference(const void* left, const void* right, int count) {           \
    const c_type* a = left;                                                                      \
    const c_type* b = right;                                                                     \
    LOOP(if (a[i] != b[i]) return i);                                                            \
    return -1;                                                                                   \
  }                                                                                              \
  static uint64_t kind##_hash(uint64_t digest, const void* values, int count) {                  \
    const c_type* a = values;                                                                    \
    LOOP(digest = hash_step(digest, (uint64_t)(int64_t)(hash_value)));                           \
    return digest;                                                                               \
  }                                                                                              \
  static const OpKind kind = {sizeof(c_type), kind##_make, kind##_fold, kind##_first_difference, \
                              kind##_hash};

#define ARITHMETIC_FOLDS \
  case kSum:             \
    FOLD(a[i] + b[i]);   \
  case kProd:            \
    FOLD(a[i] * b[i]);

#define ORDER_FOLDS                  \
  case kMax:                         \
    FOLD(a[i] > b[i] ? a[i] : b[i]); \
  case kMin:                         \
    FOLD(a[i] < b[i] ? a[i] : b[i]);

#define LOGICAL_FOLDS   \
  case kLogicalAnd:     \
    FOLD(a[i] && b[i]); \
  case kLogicalOr:      \
    FOLD(a[i] || b[i]); \
  case kLogicalXor:     \
    FOLD(!a[i] != !b[i]);

#define BIT_FOLDS      \
  case kBitAnd:        \
    FOLD(a[i] & b[i]); \
  case kBitOr:         \
    FOLD(a[i] | b[i]); \
  case kBitXor:        \
    FOLD(a[i] ^ b[i]);

#define INTEGER_KIND(kind, c_type)                  \
  DEFINE_KIND(kind, c_type, op_sample(op, rank, i), \
              ORDER_FOLDS ARITHMETIC_FOLDS LOGICAL_FOLDS BIT_FOLDS, a[i])
#define UNSIGNED_KIND(kind, c_type)                          \
  DEFINE_KIND(kind, c_type, op_sample_unsigned(op, rank, i), \
              ORDER_FOLDS ARITHMETIC_FOLDS LOGICAL_FOLDS BIT_FOLDS, a[i])
#define NON_NEGATIVE_KIND(kind, c_type)                  \
  DEFINE_KIND(kind, c_type, abs(op_sample(op, rank, i)), \
              ORDER_FOLDS ARITHMETIC_FOLDS LOGICAL_FOLDS BIT_FOLDS, a[i])
#define FLOATING_KIND(kind, c_type) \
  DEFINE_KIND(kind, c_type, op_sample(op, rank, i), ORDER_FOLDS ARITHMETIC_FOLDS, a[i])
#define LOGICAL_KIND(kind, c_type) \
  DEFINE_KIND(kind, c_type, op_sample(op, rank, i) != 0, LOGICAL_FOLDS, a[i])
#define BYTE_KIND(kind, c_type) DEFINE_KIND(kind, c_type, pattern(rank, 4, i), BIT_FOLDS, a[i])

// Factors of a product are units of the Gaussian integers, times 1 + i at every third place.
#define COMPLEX_SAMPLE                                                            \
  op == kProd ? ((rank + i) % 3 == 0 ? 1 + 1 * I : ((rank + i) % 2 ? 1 * I : -1)) \
              : op_sample(op, rank, i) + op_sample(op, rank, i + 5000) * I
#define COMPLEX_KIND(kind, c_type)                            \
  DEFINE_KIND(kind, c_type, COMPLEX_SAMPLE, ARITHMETIC_FOLDS, \
              1000003 * (int64_t)creall(a[i]) + (int64_t)cimagl(a[i]))
