// The signature of a type: the sequence of its basic elements, as a hash that depends on that
// sequence alone, not on how the type was made.
//
// The hash is the value of a polynomial: elements e1 ... en give e1 x^(n-1) + ... + en modulo
// 2^61 - 1. The hash of a concatenation or a repetition of sequences therefore follows from those
// of the parts, and a type is hashed in time proportional to its description.
#pragma once

#include <cstdint>

namespace rejoin::datatypes {

__extension__ typedef unsigned __int128 Wide;

struct Signature {
  std::uint64_t hash = 0;
  std::uint64_t power = 1;  // x to the number of elements

  friend bool operator==(const Signature&, const Signature&) = default;
};

constexpr std::uint64_t kSignaturePrime = (std::uint64_t{1} << 61) - 1;
constexpr std::uint64_t kSignatureBase = 0x0b5ad4eceda1ce2a;  // x

constexpr std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>(static_cast<Wide>(a) * b % kSignaturePrime);
}

constexpr Signature signature_of(std::uint8_t element) {
  // The values are far apart, so that sequences of few elements do not have neighbouring hashes.
  return {multiply(element + 1u, 0x1234567890abcdef), kSignatureBase % kSignaturePrime};
}

// Returns the signature of `a` followed by `b`.
constexpr Signature concatenate(const Signature& a, const Signature& b) {
  return {(multiply(a.hash, b.power) + b.hash) % kSignaturePrime, multiply(a.power, b.power)};
}

// Returns the signature of `times` repetitions of `a`, in logarithmic time.
constexpr Signature repeat(Signature a, std::uint64_t times) {
  Signature result;
  for (; times > 0; times >>= 1, a = concatenate(a, a)) {
    if ((times & 1) != 0) result = concatenate(result, a);
  }
  return result;
}

}  // namespace rejoin::datatypes
