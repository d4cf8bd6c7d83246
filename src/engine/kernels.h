// The predefined operators on the predefined element types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/names.h"
#include "engine/reduction.h"

namespace rejoin::engine {

// The kind of element that an operator sees; several MPI datatypes share one. Values are part of
// the journal's format (Signature::type).
enum class Element : std::uint8_t {
  kNone,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat,
  kDouble,
  kLongDouble,
  kFloat128,
  kComplexFloat,
  kComplexDouble,
  kComplexLongDouble,
  kComplexFloat128,
  kFloatInt,  // value and index, for MINLOC and MAXLOC
  kDoubleInt,
  kLongInt,
  kIntInt,
  kShortInt,
  kLongDoubleInt,
  kFloatFloat,
  kDoubleDouble,
  kCount,
};

// Values are MPI's Fortran handles, and part of the journal's format (Signature::operation).
enum class Operator : std::uint8_t {
  kNull = 0,
  kMax = 1,
  kMin = 2,
  kSum = 3,
  kProd = 4,
  kLand = 5,
  kBand = 6,
  kLor = 7,
  kBor = 8,
  kLxor = 9,
  kBxor = 10,
  kMaxloc = 11,
  kMinloc = 12,
  kReplace = 13,
  kNoOp = 14,
  kUser = 15,
};
inline constexpr std::size_t kElements = static_cast<std::size_t>(Element::kCount);
inline constexpr std::size_t kOperators = 16;

using Kernel = decltype(Reduction::combine);

// [operator][element]; null where there is no such operation. Every kernel computes
// out[i] = a[i] (op) b[i] as described in reduction.h; gaps inside an element are written as zeros.
// MAX, MIN: the right operand if it is greater (less), else the left one: so of equal ones, and of
// a right operand that is not a number, the left one stays. MAXLOC, MINLOC: of equal values the
// lower index. Logical operators take everything but zero as true, and write 1 or 0. Integers wrap
// around. Not a function but a table: the wrappers look it up on every call.
extern const Kernel kKernels[kOperators][kElements];

inline Kernel kernel_for(Operator op, Element element) {
  return kKernels[static_cast<std::size_t>(op)][static_cast<std::size_t>(element)];
}

// Bytes of one element, gaps included. 0 for kNone.
constexpr std::size_t element_bytes(Element element) {
  constexpr std::size_t kBytes[kElements] = {0, 1,  2,  4,  8, 1,  2,  4,  8,  // none, integers
                                             4, 8,  16, 16, 8, 16, 32, 32,     // floating, complex
                                             8, 16, 16, 8,  8, 32, 8,  16};    // pairs
  return kBytes[static_cast<std::size_t>(element)];
}

}  // namespace rejoin::engine
