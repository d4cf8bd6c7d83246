// The arguments of a reduction: checks, and their conversion for the engine.
#pragma once

#include "copy/copy.h"
#include "engine/reduction.h"
#include "pmpi/context.h"
#include "pmpi/datatype.h"
#include "pmpi/errors.h"
#include "pmpi/handles.h"
#include "pmpi/packed.h"

namespace rejoin::pmpi {

// A reduction with a type and an operation. bind() REQUIRES is_committed(type) and is_op(op), and
// is cheap; false: MPI does not define the operation for the type. The object must outlive its uses
// by the engine.
class BoundReduction {
 public:
  bool bind(MPI_Datatype type, MPI_Op op) {
    reduction_.element_bytes = type->reduced_bytes;
    reduction_.user = op->function != nullptr;
    reduction_.context = this;
    reduction_.commutative = op->commutative;
    type_ = type;
    function_ = op->function;
    cxx_callback_ = op->cxx_callback;
    if (reduction_.user) {
      reduction_.combine = call_user;
      // A type without extent has nothing to reduce; the engine divides by this.
      if (reduction_.element_bytes == 0) reduction_.element_bytes = 1;
      return true;
    }
    if ((op->classes >> static_cast<unsigned>(type->type_class) & 1) == 0) return false;
    reduction_.combine = engine::kernel_for(op->op, type->element);
    return reduction_.combine != nullptr;
  }
  const engine::Reduction& get() const { return reduction_; }

 private:
  static void call_user(const engine::Reduction& self, const void* a, const void* b, void* out,
                        std::size_t count);
  void call(void* left, void* right, int* length, MPI_Datatype* type) const;

  engine::Reduction reduction_;
  MPI_Datatype type_;
  MPI_User_function* function_;
  MPI_User_function* cxx_callback_;
};

// Raises the error for arguments that bind() has refused.
[[gnu::cold]] int explain_bind(const char* function, MPI_Comm comm, int count, MPI_Datatype type,
                               MPI_Op op);

// Checks count, datatype and operation of a reduction over `comm`, which is usable, and binds them.
// Returns MPI_SUCCESS, or the code of the error that was raised.
inline int bind(const char* function, MPI_Comm comm, int count, MPI_Datatype type, MPI_Op op,
                BoundReduction* bound) {
  if (is_op(op) && is_committed(type) && count >= 0 && bound->bind(type, op)) [[likely]] {
    return MPI_SUCCESS;
  }
  return explain_bind(function, comm, count, type, op);
}

// The operands that a reduction sends: the program's buffer, or a copy whose gaps are cleared.
class Contribution {
 public:
  Contribution(MPI_Datatype type, const void* buffer, std::size_t count)
      : data_(first_byte(type, buffer)) {
    if (type->gaps != 0 || is_spread(type)) [[unlikely]]
      copy(type, buffer, count);
  }
  const std::byte* data() const { return data_; }

 private:
  void copy(MPI_Datatype type, const void* buffer, std::size_t count) {
    std::byte* operands = copy_.reserve(count * type->reduced_bytes);
    if (is_spread(type)) {
      read_operands(type, buffer, count, operands);
    } else {
      copy_without_gaps(type, buffer, count, operands);
    }
    data_ = operands;
  }

  const std::byte* data_;
  Scratch copy_;
};

// Where a reduction's result goes: the program's buffer, or memory from which it is copied there.
class Result {
 public:
  Result(MPI_Datatype type, void* buffer) : type_(type), buffer_(buffer) {}

  // Returns the place for the operands in the program's own buffer; null: the values there have
  // another layout.
  std::byte* place() const { return is_spread(type_) ? nullptr : first_byte(type_, buffer_); }
  // Returns that place, or memory for `count` operands.
  std::byte* place_or_copy(std::size_t count) {
    std::byte* own = place();
    return own != nullptr ? own : copy_.reserve(count * type_->reduced_bytes);
  }
  // Called when place_or_copy() holds the result: copies it to the buffer if it is not there.
  void deliver(std::size_t count) const {
    if (copy_.data() != nullptr) write_operands(type_, copy_.data(), count, buffer_);
  }
  // Called when `operands` hold the result: copies it to the buffer if it is not there.
  void deliver(const std::byte* operands, std::size_t count) const {
    const std::size_t bytes = count * type_->reduced_bytes;
    if (is_spread(type_)) {
      write_operands(type_, operands, count, buffer_);
    } else if (operands != place()) {
      copy_payload(place(), operands, bytes);
    }
  }

 private:
  MPI_Datatype type_;
  void* buffer_;
  Scratch copy_;
};

}  // namespace rejoin::pmpi
