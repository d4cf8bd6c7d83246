// The constructors of types. The caller releases a type by destroy(memory, type), before the types
// that it was made of. Null: the type would be larger than 2^63 - 1 bytes, or reach beyond the
// address space. Arguments are not checked otherwise; displacements and strides are in bytes.
#pragma once

#include "datatypes/type.h"

namespace rejoin::datatypes {

// Collects the pieces of one type.
class Maker {
 public:
  explicit Maker(const Memory& memory) : memory_(memory), type_(make<Type>(memory, memory)) {}
  ~Maker() {
    if (type_ != nullptr) destroy(memory_, type_);
  }
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;

  void reserve(std::size_t pieces) { type_->pieces_.reserve(pieces); }
  void add(const Piece& piece);
  void add_block(std::int64_t offset, std::uint64_t block, const Type& type) {
    add({offset, 1, 0, block, &type});
  }
  // Makes the type the owner of `part`. Null: the type as a whole is too large.
  void own(Type* part);
  // Sets an end of the type explicitly (MPI_LB and MPI_UB of MPI 1).
  void mark_lower(std::int64_t at) { mark(at, &type_->bounds_.lower, &type_->lower_set_, true); }
  void mark_upper(std::int64_t at) { mark(at, &type_->bounds_.upper, &type_->upper_set_, false); }
  void set_bounds(std::int64_t lower, std::int64_t upper);

  // Returns the type. Called once.
  Type* finish();

 private:
  static void mark(std::int64_t at, std::int64_t* bound, bool* is_set, bool lower) {
    if (!*is_set || (lower ? at < *bound : at > *bound)) *bound = at;
    *is_set = true;
  }
  void widen(const Piece& piece);
  void align();

  const Memory& memory_;
  Type* type_;
  bool has_data_ = false;
  bool too_large_ = false;
};

Type* make_basic(const Memory& memory, const Basic& basic);
Type* make_contiguous(const Memory& memory, std::uint64_t count, const Type& old);
Type* make_vector(const Memory& memory, std::uint64_t count, std::uint64_t block,
                  std::int64_t stride, const Type& old);
// Makes a type with explicit lower bound and extent.
Type* make_resized(const Memory& memory, const Type& old, std::int64_t lower, std::int64_t extent);
Type* make_dup(const Memory& memory, const Type& old);

// Makes the part of an array of `dimensions` that begins at start[] and has subsize[] elements.
// row_major: the last dimension varies fastest (MPI_ORDER_C).
Type* make_subarray(const Memory& memory, int dimensions, const int size[], const int subsize[],
                    const int start[], bool row_major, const Type& old);

// How one dimension of an array is distributed: in blocks of `block`, cyclically to `processes`
// processes, of which this one is `process`.
struct Distribution {
  int size;
  int block;
  int processes;
  int process;
};
Type* make_darray(const Memory& memory, int dimensions, const Distribution distribution[],
                  bool row_major, const Type& old);

}  // namespace rejoin::datatypes
