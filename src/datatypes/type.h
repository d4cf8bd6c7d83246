// A datatype: a type map (MPI 3.1, 4.1), described by the pieces that it was made of.
//
// Size, bounds, signature and plan are computed once, when the type is made, in time proportional
// to its pieces and independent of the number of elements. A type refers to the types that it was
// made of, which must outlive it. It never changes after it was made.
#pragma once

#include <cstddef>
#include <cstdint>

#include "datatypes/array.h"
#include "datatypes/plan.h"
#include "datatypes/signature.h"

namespace rejoin::datatypes {

// The form of a basic element in external32 (MPI 3.1, 13.5.2), which is big-endian.
enum class External : std::uint8_t {
  kSame,      // as wide as in memory
  kSigned,    // narrower, so the value must fit; signed
  kUnsigned,  // likewise, unsigned
  kQuad,      // long double: IEEE binary128
};

struct Basic {
  std::uint8_t id;     // elements with the same id have the same signature
  std::uint8_t bytes;  // the size in memory
  std::uint8_t alignment;
  std::uint8_t parts;           // the numbers in an element: 2 in a complex one
  std::uint8_t external_bytes;  // the size of all parts in external32
  External external;
};

class Type;

// `blocks` blocks at `stride`, each of `block` times `type` at its extent.
struct Piece {
  std::int64_t offset;  // of the first block
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
  // Only the functions of constructors.h call these.
  Type(const Memory& memory, const Basic& basic);
  explicit Type(const Memory& memory);
  ~Type();

  std::uint64_t size_bytes() const { return plan_.bytes; }
  std::uint64_t elements() const { return elements_; }  // basic elements
  std::uint64_t external_bytes() const { return external_bytes_; }
  std::uint64_t alignment() const { return alignment_; }
  const Bounds& bounds() const { return bounds_; }
  const Bounds& true_bounds() const { return true_bounds_; }
  std::int64_t extent() const { return bounds_.extent(); }
  const Signature& signature() const { return signature_; }
  const Plan& plan() const { return plan_; }
  const Array<Piece>& pieces() const { return pieces_; }  // a basic type has none
  const Basic& basic() const { return basic_; }           // bytes is 0 if the type is not basic
  bool is_basic() const { return basic_.bytes > 0; }

  // Whether the data of any number of values is one piece of memory, from true_bounds().lower on.
  bool is_contiguous() const {
    return size_bytes() == 0 || (plan_.nodes.size() == 1 && plan_.nodes[0].is_piece() &&
                                 static_cast<std::int64_t>(size_bytes()) == extent());
  }

  // Returns the basic elements in the first `bytes` of the packed data of many values; -1: these
  // end within an element.
  std::int64_t elements_in(std::uint64_t bytes) const;
  // Returns the bytes of the first `elements` basic elements in the packed data.
  std::uint64_t bytes_in(std::uint64_t elements) const;

 private:
  friend class Maker;

  const Memory& memory_;
  Basic basic_ = {};
  Array<Piece> pieces_;
  Array<Type*> owned_;  // types that only this one uses
  Plan plan_;
  Signature signature_;
  std::uint64_t elements_ = 0;
  std::uint64_t external_bytes_ = 0;
  std::uint64_t alignment_ = 1;
  Bounds bounds_, true_bounds_;
  bool lower_set_ = false, upper_set_ = false;  // whether the program has set the bound
};

}  // namespace rejoin::datatypes
