// Conformance of the predefined operations, with every type for which MPI 3.1, section 5.9.2,
// defines
// them: Allreduce, Reduce and Reduce_local are compared with the same operation in C. Combinations
// that MPI does not define must be refused.

#include <mpi.h>

#include "check.h"
#include "op_kinds.h"

INTEGER_KIND(kSignedChar, signed char)
UNSIGNED_KIND(kUnsignedChar, unsigned char)
INTEGER_KIND(kShort, short)
UNSIGNED_KIND(kUnsignedShort, unsigned short)
INTEGER_KIND(kInt, int)
UNSIGNED_KIND(kUnsigned, unsigned)
INTEGER_KIND(kLong, long)
INTEGER_KIND(kLongLong, long long)
UNSIGNED_KIND(kUnsignedLongLong, unsigned long long)
INTEGER_KIND(kInt8, int8_t)
INTEGER_KIND(kInt16, int16_t)
INTEGER_KIND(kInt32, int32_t)
INTEGER_KIND(kInt64, int64_t)
UNSIGNED_KIND(kUint8, uint8_t)
UNSIGNED_KIND(kUint16, uint16_t)
UNSIGNED_KIND(kUint32, uint32_t)
UNSIGNED_KIND(kUint64, uint64_t)
FLOATING_KIND(kFloat, float)
FLOATING_KIND(kDouble, double)
FLOATING_KIND(kLongDouble, long double)
LOGICAL_KIND(kBool, bool)
LOGICAL_KIND(kLogical1, int8_t)
LOGICAL_KIND(kLogical2, int16_t)
LOGICAL_KIND(kLogical4, int32_t)
LOGICAL_KIND(kLogical8, int64_t)
BYTE_KIND(kByte, unsigned char)
COMPLEX_KIND(kFloatComplex, float complex)
COMPLEX_KIND(kDoubleComplex, double complex)
COMPLEX_KIND(kLongDoubleComplex, long double complex)

// Open MPI 4.1 compares MPI_UNSIGNED_LONG as a signed type and MPI_OFFSET as an unsigned one. Both
// get only values for which that makes no difference.
NON_NEGATIVE_KIND(kUnsignedLong, unsigned long)
NON_NEGATIVE_KIND(kOffset, MPI_Offset)

#define BIT(op) (1u << (op))
enum {
  kOrder = BIT(kMax) | BIT(kMin),
  kArithmetic = BIT(kSum) | BIT(kProd),
  kLogical = BIT(kLogicalAnd) | BIT(kLogicalOr) | BIT(kLogicalXor),
  kBitwise = BIT(kBitAnd) | BIT(kBitOr) | BIT(kBitXor),
  kCInteger = kOrder | kArithmetic | kLogical | kBitwise,
  kFortranInteger = kOrder | kArithmetic | kBitwise,
  kFloating = kOrder | kArithmetic,
  kMultiLanguage = kOrder | kArithmetic | kBitwise,
};

typedef struct {
  const char* name;
  MPI_Datatype type;
  const OpKind* kind;
  unsigned ops;
  unsigned extended_ops;
} OpType;

// `extended_ops` are operations that MPI does not define and Open MPI 4.1 has; they may be refused
// or not. MPI_REAL16 and MPI_COMPLEX32 are left out, because Open MPI 4.1 reduces them as C long
// doubles, which differ from the types of a Fortran compiler.
#define TYPE(type, kind, ops) \
  { #type, type, &kind, ops, 0 }
#define TYPE_EXTENDED(type, kind, ops, extended_ops) \
  { #type, type, &kind, ops, extended_ops }
static const OpType kTypes[] = {
    TYPE(MPI_SIGNED_CHAR, kSignedChar, kCInteger),
    TYPE(MPI_UNSIGNED_CHAR, kUnsignedChar, kCInteger),
    TYPE(MPI_SHORT, kShort, kCInteger),
    TYPE(MPI_UNSIGNED_SHORT, kUnsignedShort, kCInteger),
    TYPE(MPI_INT, kInt, kCInteger),
    TYPE(MPI_UNSIGNED, kUnsigned, kCInteger),
    TYPE(MPI_LONG, kLong, kCInteger),
    TYPE(MPI_UNSIGNED_LONG, kUnsignedLong, kCInteger),
    TYPE(MPI_LONG_LONG_INT, kLongLong, kCInteger),
    TYPE(MPI_UNSIGNED_LONG_LONG, kUnsignedLongLong, kCInteger),
    TYPE(MPI_INT8_T, kInt8, kCInteger),
    TYPE(MPI_INT16_T, kInt16, kCInteger),
    TYPE(MPI_INT32_T, kInt32, kCInteger),
    TYPE(MPI_INT64_T, kInt64, kCInteger),
    TYPE(MPI_UINT8_T, kUint8, kCInteger),
    TYPE(MPI_UINT16_T, kUint16, kCInteger),
    TYPE(MPI_UINT32_T, kUint32, kCInteger),
    TYPE(MPI_UINT64_T, kUint64, kCInteger),
    TYPE(MPI_INTEGER, kInt32, kFortranInteger),
    TYPE_EXTENDED(MPI_INTEGER1, kInt8, kFortranInteger, kLogical),
    TYPE_EXTENDED(MPI_INTEGER2, kInt16, kFortranInteger, kLogical),
    TYPE(MPI_INTEGER4, kInt32, kFortranInteger),
    TYPE_EXTENDED(MPI_INTEGER8, kInt64, kFortranInteger, kLogical),
    TYPE(MPI_FLOAT, kFloat, kFloating),
    TYPE(MPI_DOUBLE, kDouble, kFloating),
    TYPE(MPI_LONG_DOUBLE, kLongDouble, kFloating),
    TYPE(MPI_REAL, kFloat, kFloating),
    TYPE(MPI_DOUBLE_PRECISION, kDouble, kFloating),
    TYPE(MPI_REAL4, kFloat, kFloating),
    TYPE(MPI_REAL8, kDouble, kFloating),
    TYPE(MPI_C_BOOL, kBool, kLogical),
    TYPE(MPI_CXX_BOOL, kBool, kLogical),
    TYPE(MPI_LOGICAL, kLogical4, kLogical),
    TYPE_EXTENDED(MPI_LOGICAL1, kLogical1, kLogical, kFortranInteger),
    TYPE_EXTENDED(MPI_LOGICAL2, kLogical2, kLogical, kFortranInteger),
    TYPE(MPI_LOGICAL4, kLogical4, kLogical),
    TYPE_EXTENDED(MPI_LOGICAL8, kLogical8, kLogical, kFortranInteger),
    TYPE_EXTENDED(MPI_BYTE, kByte, kBitwise, kCInteger),
    TYPE(MPI_C_COMPLEX, kFloatComplex, kArithmetic),
    TYPE(MPI_C_FLOAT_COMPLEX, kFloatComplex, kArithmetic),
    TYPE(MPI_C_DOUBLE_COMPLEX, kDoubleComplex, kArithmetic),
    TYPE(MPI_C_LONG_DOUBLE_COMPLEX, kLongDoubleComplex, kArithmetic),
    TYPE(MPI_CXX_FLOAT_COMPLEX, kFloatComplex, kArithmetic),
    TYPE(MPI_CXX_DOUBLE_COMPLEX, kDoubleComplex, kArithmetic),
    TYPE(MPI_CXX_LONG_DOUBLE_COMPLEX, kLongDoubleComplex, kArithmetic),
    TYPE(MPI_COMPLEX, kFloatComplex, kArithmetic),
    TYPE(MPI_DOUBLE_COMPLEX, kDoubleComplex, kArithmetic),
    TYPE(MPI_COMPLEX8, kFloatComplex, kArithmetic),
    TYPE(MPI_COMPLEX16, kDoubleComplex, kArithmetic),
    TYPE_EXTENDED(MPI_AINT, kInt64, kMultiLanguage, kLogical),
    TYPE_EXTENDED(MPI_OFFSET, kOffset, kMultiLanguage, kLogical),
    TYPE_EXTENDED(MPI_COUNT, kInt64, kMultiLanguage, kLogical),
};
enum { kTypeCount = sizeof kTypes / sizeof *kTypes };

typedef struct {
  const char* name;
  MPI_Op op;
} Operation;

static const Operation kOperations[kOpCount] = {
    [kMax] = {"MPI_MAX", MPI_MAX},          [kMin] = {"MPI_MIN", MPI_MIN},
    [kSum] = {"MPI_SUM", MPI_SUM},          [kProd] = {"MPI_PROD", MPI_PROD},
    [kLogicalAnd] = {"MPI_LAND", MPI_LAND}, [kBitAnd] = {"MPI_BAND", MPI_BAND},
    [kLogicalOr] = {"MPI_LOR", MPI_LOR},    [kBitOr] = {"MPI_BOR", MPI_BOR},
    [kLogicalXor] = {"MPI_LXOR", MPI_LXOR}, [kBitXor] = {"MPI_BXOR", MPI_BXOR},
};

enum { kMaxCount = 1000, kMaxElementBytes = 32, kGuard = 0x5a };
static const int kCounts[] = {0, 1, 3, 17, kMaxCount};

typedef union {
  unsigned char bytes[(kMaxCount + 1) * kMaxElementBytes];
  long double alignment;
} Buffer;

static Buffer contribution;
static Buffer received;
static Buffer expected;
static Buffer scratch;

/** Requires that `received` has `count` elements equal to `expected`, then the guard bytes. */
static void check_result(const char* what, const OpType* type, int count) {
  int difference = type->kind->first_difference(expected.bytes, received.bytes, count);
  check_i64(what, -1, difference);
  size_t end = (size_t)count * type->kind->size_bytes;
  for (size_t i = 0; i < kMaxElementBytes; ++i) {
    if (received.bytes[end + i] != kGuard) check_i64("byte behind the result", -1, (int)i);
  }
  check_state.digest = type->kind->hash(check_state.digest, received.bytes, count);
}

static void test_count(const OpType* type, OpId id, int count) {
  const OpKind* kind = type->kind;
  MPI_Op op = kOperations[id].op;
  int n = check_state.size;
  int me = check_state.rank;
  int root = (count + (int)id) % n;
  check_context("%s of %d %s", kOperations[id].name, count, type->name);
  kind->make(contribution.bytes, id, me, count);
  kind->make(expected.bytes, id, 0, count);
  for (int r = 1; r < n; ++r) {
    kind->make(scratch.bytes, id, r, count);
    kind->fold(expected.bytes, scratch.bytes, id, count);
  }
  memset(&received, kGuard, sizeof received);
  OK(MPI_Allreduce(contribution.bytes, received.bytes, count, type->type, op, MPI_COMM_WORLD));
  check_result("allreduce", type, count);
  memset(&received, kGuard, sizeof received);
  OK(MPI_Reduce(contribution.bytes, received.bytes, count, type->type, op, root, MPI_COMM_WORLD));
  if (me == root) check_result("reduce", type, count);
  memset(&received, kGuard, sizeof received);
  kind->make(received.bytes, id, me + 1, count);
  kind->make(expected.bytes, id, me, count);
  kind->fold(expected.bytes, received.bytes, id, count);
  OK(MPI_Reduce_local(contribution.bytes, received.bytes, count, type->type, op));
  check_result("reduce_local", type, count);
}

static void test_type(const OpType* type) {
  int size = -1;
  OK(MPI_Type_size(type->type, &size));
  check_i64(type->name, (long long)type->kind->size_bytes, size);
  for (int op = 0; op < kOpCount; ++op) {
    if (!(type->ops & BIT(op))) continue;
    for (int c = 0; c < 5; ++c) test_count(type, (OpId)op, kCounts[c]);
  }
  check_section(type->name);
}

/** Requires that operations that MPI does not define for a type fail without communication. */
static void test_undefined(const OpType* type) {
  for (int op = 0; op < kOpCount; ++op) {
    if ((type->ops | type->extended_ops) & BIT(op)) continue;
    int class = -1;
    check_context("%s of %s", kOperations[op].name, type->name);
    int code = MPI_Allreduce(contribution.bytes, received.bytes, 1, type->type, kOperations[op].op,
                             MPI_COMM_WORLD);
    OK(MPI_Error_class(code, &class));
    check_i64("error class", MPI_ERR_OP, class);
  }
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  for (int t = 0; t < kTypeCount; ++t) test_type(&kTypes[t]);
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  for (int t = 0; t < kTypeCount; ++t) test_undefined(&kTypes[t]);
  check_section("undefined combinations");
  return check_end();
}
