// Compiled with -O3 and -ffp-contract=off: the same bits on processors with and without fused
// multiply-add.
#include "engine/kernels.h"

#include <cstring>
#include <type_traits>

namespace rejoin::engine {
namespace {

struct FloatInt {
  float value;
  int index;
};
struct DoubleInt {
  double value;
  int index;
};
struct LongInt {
  long value;
  int index;
};
struct IntInt {
  int value;
  int index;
};
struct ShortInt {
  short value;
  int index;
};
struct LongDoubleInt {
  long double value;
  int index;
};
struct FloatFloat {
  float value;
  float index;
};
struct DoubleDouble {
  double value;
  double index;
};

using Int8 = std::int8_t;
using Int16 = std::int16_t;
using Int32 = std::int32_t;
using Int64 = std::int64_t;
using Uint8 = std::uint8_t;
using Uint16 = std::uint16_t;
using Uint32 = std::uint32_t;
using Uint64 = std::uint64_t;
using Float = float;
using Double = double;
using LongDouble = long double;
using Float128 = __float128;
using ComplexFloat = __complex__ float;
using ComplexDouble = __complex__ double;
using ComplexLongDouble = __complex__ long double;
using ComplexFloat128 = __complex__ __float128;

// A loop, compiled for several processors; the dynamic linker picks one. ivdep: `out` may be `b`,
// which is no dependency between iterations.
#define REJOIN_KERNEL(clones, name, T, expression)                                      \
  clones void name(const Reduction&, const void* left, const void* right, void* result, \
                   std::size_t count) {                                                 \
    const T* a = static_cast<const T*>(left);                                           \
    const T* b = static_cast<const T*>(right);                                          \
    T* out = static_cast<T*>(result);                                                   \
    _Pragma("GCC ivdep") for (std::size_t i = 0; i < count; ++i) {                      \
      const T x = a[i], y = b[i];                                                       \
      out[i] = static_cast<T>(expression);                                              \
    }                                                                                   \
  }
#define REJOIN_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#define REJOIN_PLAIN

#define REJOIN_ORDER(clones, T)                    \
  REJOIN_KERNEL(clones, max_##T, T, y > x ? y : x) \
  REJOIN_KERNEL(clones, min_##T, T, y < x ? y : x)
#define REJOIN_ARITHMETIC(clones, T)       \
  REJOIN_KERNEL(clones, sum_##T, T, x + y) \
  REJOIN_KERNEL(clones, prod_##T, T, x* y)
#define REJOIN_LOGICAL(T)                                        \
  REJOIN_KERNEL(REJOIN_CLONES, land_##T, T, (x != 0) & (y != 0)) \
  REJOIN_KERNEL(REJOIN_CLONES, lor_##T, T, (x != 0) | (y != 0))  \
  REJOIN_KERNEL(REJOIN_CLONES, lxor_##T, T, (x != 0) != (y != 0))
#define REJOIN_BITS(T)                            \
  REJOIN_KERNEL(REJOIN_CLONES, band_##T, T, x& y) \
  REJOIN_KERNEL(REJOIN_CLONES, bor_##T, T, x | y) \
  REJOIN_KERNEL(REJOIN_CLONES, bxor_##T, T, x ^ y)
// Unsigned arithmetic, so that it wraps; the width prevents promotion to int.
#define REJOIN_INTEGER_ARITHMETIC(T, wide)                                              \
  REJOIN_KERNEL(REJOIN_CLONES, sum_##T, T, static_cast<wide>(x) + static_cast<wide>(y)) \
  REJOIN_KERNEL(REJOIN_CLONES, prod_##T, T, static_cast<wide>(x) * static_cast<wide>(y))

REJOIN_ORDER(REJOIN_CLONES, Int8)
REJOIN_ORDER(REJOIN_CLONES, Int16)
REJOIN_ORDER(REJOIN_CLONES, Int32)
REJOIN_ORDER(REJOIN_CLONES, Int64)
REJOIN_ORDER(REJOIN_CLONES, Uint8)
REJOIN_ORDER(REJOIN_CLONES, Uint16)
REJOIN_ORDER(REJOIN_CLONES, Uint32)
REJOIN_ORDER(REJOIN_CLONES, Uint64)
REJOIN_ORDER(REJOIN_CLONES, Float)
REJOIN_ORDER(REJOIN_CLONES, Double)
REJOIN_ORDER(REJOIN_PLAIN, Float128)
REJOIN_INTEGER_ARITHMETIC(Uint8, Uint32)
REJOIN_INTEGER_ARITHMETIC(Uint16, Uint32)
REJOIN_INTEGER_ARITHMETIC(Uint32, Uint32)
REJOIN_INTEGER_ARITHMETIC(Uint64, Uint64)
REJOIN_ARITHMETIC(REJOIN_CLONES, Float)
REJOIN_ARITHMETIC(REJOIN_CLONES, Double)
REJOIN_ARITHMETIC(REJOIN_PLAIN, Float128)
REJOIN_ARITHMETIC(REJOIN_CLONES, ComplexFloat)
REJOIN_ARITHMETIC(REJOIN_CLONES, ComplexDouble)
REJOIN_ARITHMETIC(REJOIN_PLAIN, ComplexFloat128)
REJOIN_LOGICAL(Uint8)
REJOIN_LOGICAL(Uint16)
REJOIN_LOGICAL(Uint32)
REJOIN_LOGICAL(Uint64)
REJOIN_BITS(Uint8)
REJOIN_BITS(Uint16)
REJOIN_BITS(Uint32)
REJOIN_BITS(Uint64)

// Writes a value whose representation has gaps, so that no old bytes remain in them. Copies bytes,
// because a compiler may assign all 16 bytes of a long double.
constexpr std::size_t kLongDoubleDataBytes = 10;

inline void put(long double* to, long double value) {
  std::memcpy(to, &value, kLongDoubleDataBytes);
  std::memset(reinterpret_cast<std::byte*>(to) + kLongDoubleDataBytes, 0,
              sizeof *to - kLongDoubleDataBytes);
}
inline void put(ComplexLongDouble* to, ComplexLongDouble value) {
  put(&__real__ * to, __real__ value);
  put(&__imag__ * to, __imag__ value);
}
template <class Number>
requires std::is_arithmetic_v<Number>
void put(Number* to, Number value) { *to = value; }
template <class Pair>
requires std::is_class_v<Pair>
void put(Pair* to, Pair value) {
  std::memset(static_cast<void*>(to), 0, sizeof *to);
  put(&to->value, value.value);
  to->index = value.index;
}

template <class T, class Combine>
void combine_with_gaps(const void* left, const void* right, void* result, std::size_t count,
                       Combine combine) {
  const T* a = static_cast<const T*>(left);
  const T* b = static_cast<const T*>(right);
  T* out = static_cast<T*>(result);
  for (std::size_t i = 0; i < count; ++i) put(out + i, combine(a[i], b[i]));
}

#define REJOIN_GAPS(name, T, expression)                                                        \
  void name(const Reduction&, const void* left, const void* right, void* result,                \
            std::size_t count) {                                                                \
    combine_with_gaps<T>(left, right, result, count, [](T x, T y) -> T { return expression; }); \
  }
REJOIN_GAPS(max_LongDouble, LongDouble, y > x ? y : x)
REJOIN_GAPS(min_LongDouble, LongDouble, y < x ? y : x)
REJOIN_GAPS(sum_LongDouble, LongDouble, x + y)
REJOIN_GAPS(prod_LongDouble, LongDouble, x* y)
REJOIN_GAPS(sum_ComplexLongDouble, ComplexLongDouble, x + y)
REJOIN_GAPS(prod_ComplexLongDouble, ComplexLongDouble, x* y)

template <class Pair>
Pair lower_index(Pair x, Pair y) {
  y.index = x.index < y.index ? x.index : y.index;
  return y;
}
#define REJOIN_PAIR(T)                                                                           \
  REJOIN_GAPS(maxloc_##T, T, x.value > y.value ? x : x.value == y.value ? lower_index(x, y) : y) \
  REJOIN_GAPS(minloc_##T, T, x.value < y.value ? x : x.value == y.value ? lower_index(x, y) : y)
REJOIN_PAIR(FloatInt)
REJOIN_PAIR(DoubleInt)
REJOIN_PAIR(LongInt)
REJOIN_PAIR(IntInt)
REJOIN_PAIR(ShortInt)
REJOIN_PAIR(LongDoubleInt)
REJOIN_PAIR(FloatFloat)
REJOIN_PAIR(DoubleDouble)

}  // namespace

// Columns in the order of Element.
#define REJOIN_INTEGERS(name)                                                             \
  name##_Uint8, name##_Uint16, name##_Uint32, name##_Uint64, name##_Uint8, name##_Uint16, \
      name##_Uint32, name##_Uint64
#define REJOIN_SIGNED(name) name##_Int8, name##_Int16, name##_Int32, name##_Int64
#define REJOIN_UNSIGNED(name) name##_Uint8, name##_Uint16, name##_Uint32, name##_Uint64
#define REJOIN_FLOATING(name) name##_Float, name##_Double, name##_LongDouble, name##_Float128
#define REJOIN_COMPLEX(name) \
  name##_ComplexFloat, name##_ComplexDouble, name##_ComplexLongDouble, name##_ComplexFloat128
#define REJOIN_NO_FLOATING nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr
#define REJOIN_NO_INTEGERS REJOIN_NO_FLOATING
#define REJOIN_PAIRS(name)                                                           \
  name##_FloatInt, name##_DoubleInt, name##_LongInt, name##_IntInt, name##_ShortInt, \
      name##_LongDoubleInt, name##_FloatFloat, name##_DoubleDouble

const Kernel kKernels[kOperators][kElements] = {
    {},
    {nullptr, REJOIN_SIGNED(max), REJOIN_UNSIGNED(max), REJOIN_FLOATING(max)},
    {nullptr, REJOIN_SIGNED(min), REJOIN_UNSIGNED(min), REJOIN_FLOATING(min)},
    {nullptr, REJOIN_INTEGERS(sum), REJOIN_FLOATING(sum), REJOIN_COMPLEX(sum)},
    {nullptr, REJOIN_INTEGERS(prod), REJOIN_FLOATING(prod), REJOIN_COMPLEX(prod)},
    {nullptr, REJOIN_INTEGERS(land)},
    {nullptr, REJOIN_INTEGERS(band)},
    {nullptr, REJOIN_INTEGERS(lor)},
    {nullptr, REJOIN_INTEGERS(bor)},
    {nullptr, REJOIN_INTEGERS(lxor)},
    {nullptr, REJOIN_INTEGERS(bxor)},
    {nullptr, REJOIN_NO_INTEGERS, REJOIN_NO_FLOATING, REJOIN_PAIRS(maxloc)},
    {nullptr, REJOIN_NO_INTEGERS, REJOIN_NO_FLOATING, REJOIN_PAIRS(minloc)},
    {},
    {},
    {},
};

static_assert(element_bytes(Element::kFloatInt) == sizeof(FloatInt));
static_assert(element_bytes(Element::kDoubleInt) == sizeof(DoubleInt));
static_assert(element_bytes(Element::kLongInt) == sizeof(LongInt));
static_assert(element_bytes(Element::kIntInt) == sizeof(IntInt));
static_assert(element_bytes(Element::kShortInt) == sizeof(ShortInt));
static_assert(element_bytes(Element::kLongDoubleInt) == sizeof(LongDoubleInt));
static_assert(element_bytes(Element::kFloatFloat) == sizeof(FloatFloat));
static_assert(element_bytes(Element::kDoubleDouble) == sizeof(DoubleDouble));
static_assert(element_bytes(Element::kLongDouble) == sizeof(LongDouble));
static_assert(element_bytes(Element::kComplexLongDouble) == sizeof(ComplexLongDouble));

}  // namespace rejoin::engine
