// A datatype: a type map (MPI 3.1, 4.1), described by the pieces that it was made of.
//
// Size, bounds, signature and plan are computed once, when the type is made, in time proportional
// to its pieces, however many elements those stand for. A type refers to the types that it was made
// of; they must outlive it. It never changes, but for its bounds while it is being made.
#pragma once

#include <cstddef>
#include <cstdint>

#include "datatypes/array.h"
#include "datatypes/plan.h"
#include "datatypes/signature.h"

namespace rejoin::datatypes {

// How external32 (MPI 3.1, 13.5.2) writes a basic element. All of it is big-endian.
enum class External : std::uint8_t {
  kSame,      // as wide as here
  kSigned,    // narrower: the value must fit
  kUnsigned,  // likewise
  kQuad,      // long double: IEEE binary128
};

struct Basic {
  std::uint8_t id;     // elements with the same one have the same signature
  std::uint8_t bytes;  // here
  std::uint8_t alignment;
  std::uint8_t parts;           // numbers in it: 2 in a complex one
  std::uint8_t external_bytes;  // of all parts
  External external;
};

class Type;

// `blocks` blocks at `stride`, each of `block` times `type` at its extent.
struct Piece {
  std::int64_t offset;  // of the first
  std::uint64_t blocks;
  std::int64_t stride;
  std::uint64_t block;
  const Type* type;

  std::uint64_t values() const { return blocks * block; }
};

struct Bounds {
  std::int64_t lower = 0, upper = 0;

  std::int64_t extent() const { return upper - lower; }
};

class Type {
 public:
  // Made by the functions of constructors.h.
  Type(const Memory& memory, const Basic& basic);
  explicit Type(const Memory& memory);
  ~Type();

  std::uint64_t size_bytes() const { return plan_.bytes; }
  std::uint64_t elements() const { return elements_; }  // basic ones
  std::uint64_t external_bytes() const { return external_bytes_; }
  std::uint64_t alignment() const { return alignment_; }
  const Bounds& bounds() const { return bounds_; }
  const Bounds& true_bounds() const { return true_bounds_; }
  std::int64_t extent() const { return bounds_.extent(); }
  const Signature& signature() const { return signature_; }
  const Plan& plan() const { return plan_; }
  const Array<Piece>& pieces() const { return pieces_; }  // of a basic type: none
  const Basic& basic() const { return basic_; }           // bytes: 0 if it is not
  bool is_basic() const { return basic_.bytes > 0; }

  // The data of any number of values is one piece of memory, from true_bounds().lower on.
  bool is_contiguous() const {
    return size_bytes() == 0 || (plan_.nodes.size() == 1 && plan_.nodes[0].is_piece() &&
                                 static_cast<std::int64_t>(size_bytes()) == extent());
  }

  // Basic elements in the first `bytes` of the packed data of many values; -1: they end within one.
  std::int64_t elements_in(std::uint64_t bytes) const;
  // Bytes of the first `elements` basic elements of it.
  std::uint64_t bytes_in(std::uint64_t elements) const;

 private:
  friend class Maker;

  const Memory& memory_;
  Basic basic_ = {};
  Array<Piece> pieces_;
  Array<Type*> owned_;  // that only this one uses
  Plan plan_;
  Signature signature_;
  std::uint64_t elements_ = 0;
  std::uint64_t external_bytes_ = 0;
  std::uint64_t alignment_ = 1;
  Bounds bounds_, true_bounds_;
  bool lower_set_ = false, upper_set_ = false;  // by the program, not by the data
};

}  // namespace rejoin::datatypes
