// Every reduction kernel against plain arithmetic, one element at a time.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "engine/kernels.h"

namespace rejoin::engine {
namespace {

constexpr std::size_t kCounts[] = {0, 1, 2, 7, 8, 31, 64, 1003};

void call(Operator op, Element element, const void* a, const void* b, void* out,
          std::size_t count) {
  const Kernel kernel = kernel_for(op, element);
  ASSERT_NE(kernel, nullptr);
  Reduction r = {kernel, element_bytes(element), false, nullptr};
  kernel(r, a, b, out, count);
}

template <class T>
std::vector<T> random_values(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  for (T& v : values) {
    const auto bits = random();
    if constexpr (std::is_floating_point_v<T>) {
      v = static_cast<T>(static_cast<std::int64_t>(bits)) / T{1 << 20};
    } else if constexpr (std::is_integral_v<T>) {
      v = static_cast<T>(bits % 4 == 0 ? 0 : bits >> 3);
    } else {
      v = T(static_cast<float>(bits % 1000), static_cast<float>(bits / 1000 % 1000));
    }
  }
  return values;
}

// Compares with `expect`: with a separate result and in place of the right operand, at every
// alignment that the type allows.
template <class T>
void check(Operator op, Element element, const std::function<T(T, T)>& expect) {
  ASSERT_EQ(element_bytes(element), sizeof(T));
  for (const std::size_t count : kCounts) {
    const std::vector<T> a = random_values<T>(count + 1, 1), b = random_values<T>(count + 1, 2);
    for (const std::size_t offset : {0, 1}) {
      std::vector<T> out(count + 2, a[0]), in_place = b;
      const std::size_t n = count + 1 - offset;
      call(op, element, a.data() + offset, b.data() + offset, out.data() + offset, n);
      call(op, element, a.data() + offset, in_place.data() + offset, in_place.data() + offset, n);
      for (std::size_t i = offset; i < count + 1; ++i) {
        ASSERT_EQ(out[i], expect(a[i], b[i])) << static_cast<int>(op) << " element " << i;
        ASSERT_EQ(in_place[i], out[i]) << static_cast<int>(op) << " element " << i;
      }
      EXPECT_EQ(out[count + 1], a[0]) << "wrote past the end";
    }
  }
}

template <class T>
void check_order_and_arithmetic(Element element) {
  check<T>(Operator::kMax, element, [](T x, T y) { return x < y ? y : x; });
  check<T>(Operator::kMin, element, [](T x, T y) { return y < x ? y : x; });
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    check<T>(Operator::kSum, element, [](T x, T y) {
      return static_cast<T>(static_cast<std::uint64_t>(static_cast<U>(x)) + static_cast<U>(y));
    });
    check<T>(Operator::kProd, element, [](T x, T y) {
      return static_cast<T>(static_cast<std::uint64_t>(static_cast<U>(x)) * static_cast<U>(y));
    });
  } else {
    check<T>(Operator::kSum, element, [](T x, T y) { return x + y; });
    check<T>(Operator::kProd, element, [](T x, T y) { return x * y; });
  }
}

template <class T>
void check_integer(Element element) {
  check_order_and_arithmetic<T>(element);
  check<T>(Operator::kLand, element, [](T x, T y) { return static_cast<T>(x != 0 && y != 0); });
  check<T>(Operator::kLor, element, [](T x, T y) { return static_cast<T>(x != 0 || y != 0); });
  check<T>(Operator::kLxor, element, [](T x, T y) { return static_cast<T>((x != 0) != (y != 0)); });
  check<T>(Operator::kBand, element, [](T x, T y) { return static_cast<T>(x & y); });
  check<T>(Operator::kBor, element, [](T x, T y) { return static_cast<T>(x | y); });
  check<T>(Operator::kBxor, element, [](T x, T y) { return static_cast<T>(x ^ y); });
}

TEST(Kernels, SignedIntegers) {
  check_integer<std::int8_t>(Element::kInt8);
  check_integer<std::int16_t>(Element::kInt16);
  check_integer<std::int32_t>(Element::kInt32);
  check_integer<std::int64_t>(Element::kInt64);
}

TEST(Kernels, UnsignedIntegers) {
  check_integer<std::uint8_t>(Element::kUint8);
  check_integer<std::uint16_t>(Element::kUint16);
  check_integer<std::uint32_t>(Element::kUint32);
  check_integer<std::uint64_t>(Element::kUint64);
}

TEST(Kernels, Floating) {
  check_order_and_arithmetic<float>(Element::kFloat);
  check_order_and_arithmetic<double>(Element::kDouble);
  check_order_and_arithmetic<long double>(Element::kLongDouble);
}

TEST(Kernels, QuadruplePrecision) {
  const __float128 a[] = {1, -3, 0.5}, b[] = {2, 4, 0.25};
  __float128 out[3];
  call(Operator::kSum, Element::kFloat128, a, b, out, 3);
  EXPECT_TRUE(out[0] == 3 && out[1] == 1 && out[2] == 0.75);
  call(Operator::kProd, Element::kFloat128, a, b, out, 3);
  EXPECT_TRUE(out[0] == 2 && out[1] == -12 && out[2] == 0.125);
  call(Operator::kMax, Element::kFloat128, a, b, out, 3);
  EXPECT_TRUE(out[0] == 2 && out[1] == 4 && out[2] == 0.5);
  call(Operator::kMin, Element::kFloat128, a, b, out, 3);
  EXPECT_TRUE(out[0] == 1 && out[1] == -3 && out[2] == 0.25);
}

template <class T>
void check_complex(Element element) {
  using C = std::complex<T>;
  check<C>(Operator::kSum, element, [](C x, C y) { return x + y; });
  check<C>(Operator::kProd, element, [](C x, C y) { return x * y; });
}

TEST(Kernels, Complex) {
  check_complex<float>(Element::kComplexFloat);
  check_complex<double>(Element::kComplexDouble);
  check_complex<long double>(Element::kComplexLongDouble);
}

// Long vectors use other instructions than short ones, and both must agree.
TEST(Kernels, NotANumberAndSignedZeros) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::size_t count : {std::size_t{1}, std::size_t{100}}) {
    const auto one = [&](Operator op, double x, double y) {
      std::vector<double> a(count, x), b(count, y), out(count);
      call(op, Element::kDouble, a.data(), b.data(), out.data(), count);
      for (const double v : out) EXPECT_EQ(std::memcmp(&v, out.data(), sizeof v), 0);
      return out[0];
    };
    for (const Operator op : {Operator::kMax, Operator::kMin}) {
      EXPECT_TRUE(std::isnan(one(op, nan, 1.0)));
      EXPECT_EQ(one(op, 1.0, nan), 1.0);
      EXPECT_TRUE(std::signbit(one(op, -0.0, 0.0)));
      EXPECT_FALSE(std::signbit(one(op, 0.0, -0.0)));
    }
    EXPECT_TRUE(std::isnan(one(Operator::kSum, nan, 1.0)));
    EXPECT_TRUE(std::signbit(one(Operator::kSum, -0.0, -0.0)));
  }
}

template <class Value, class Index>
void check_pair(Element element) {
  struct Pair {
    Value value;
    Index index;
  };
  ASSERT_EQ(element_bytes(element), sizeof(Pair));
  const Pair a[] = {{1, 7}, {2, 7}, {3, 7}, {3, 2}}, b[] = {{2, 9}, {1, 9}, {3, 9}, {3, 1}};
  Pair out[4];
  const auto expect = [&](int i, Value value, Index index) {
    EXPECT_EQ(out[i].value, value) << i;
    EXPECT_EQ(out[i].index, index) << i;
  };
  call(Operator::kMaxloc, element, a, b, out, 4);
  expect(0, 2, 9);
  expect(1, 2, 7);
  expect(2, 3, 7);
  expect(3, 3, 1);
  call(Operator::kMinloc, element, a, b, out, 4);
  expect(0, 1, 7);
  expect(1, 1, 9);
  expect(2, 3, 7);
  expect(3, 3, 1);
}

TEST(Kernels, Pairs) {
  check_pair<float, int>(Element::kFloatInt);
  check_pair<double, int>(Element::kDoubleInt);
  check_pair<long, int>(Element::kLongInt);
  check_pair<int, int>(Element::kIntInt);
  check_pair<short, int>(Element::kShortInt);
  check_pair<long double, int>(Element::kLongDoubleInt);
  check_pair<float, float>(Element::kFloatFloat);
  check_pair<double, double>(Element::kDoubleDouble);
}

TEST(Kernels, GapsBecomeZeros) {
  const auto result = [](Operator op, Element element, unsigned char garbage) {
    alignas(32) unsigned char a[32], b[32], out[32];
    std::memset(a, 0, sizeof a);
    std::memset(b, 0, sizeof b);
    std::memset(out, garbage, sizeof out);
    call(op, element, a, b, out, 1);
    return std::vector<unsigned char>(out, out + element_bytes(element));
  };
  for (const Element e : {Element::kLongDouble, Element::kComplexLongDouble}) {
    EXPECT_EQ(result(Operator::kSum, e, 0xff), result(Operator::kSum, e, 0x00));
  }
  for (const Element e :
       {Element::kShortInt, Element::kDoubleInt, Element::kLongInt, Element::kLongDoubleInt}) {
    EXPECT_EQ(result(Operator::kMaxloc, e, 0xff), result(Operator::kMaxloc, e, 0x00));
  }
}

TEST(Kernels, WhatMpiDoesNotDefineIsNull) {
  EXPECT_EQ(kernel_for(Operator::kBand, Element::kDouble), nullptr);
  EXPECT_EQ(kernel_for(Operator::kLand, Element::kFloat), nullptr);
  EXPECT_EQ(kernel_for(Operator::kMax, Element::kComplexDouble), nullptr);
  EXPECT_EQ(kernel_for(Operator::kSum, Element::kDoubleInt), nullptr);
  EXPECT_EQ(kernel_for(Operator::kMaxloc, Element::kDouble), nullptr);
  for (std::size_t op = 0; op < kOperators; ++op) {
    EXPECT_EQ(kKernels[op][static_cast<std::size_t>(Element::kNone)], nullptr);
  }
  for (std::size_t e = 0; e < kElements; ++e) {
    for (const Operator op :
         {Operator::kNull, Operator::kReplace, Operator::kNoOp, Operator::kUser}) {
      EXPECT_EQ(kernel_for(op, static_cast<Element>(e)), nullptr);
    }
  }
}

}  // namespace
}  // namespace rejoin::engine
