// The arguments of a reduction: checked, and as the engine wants them.
#pragma once

#include "engine/reduction.h"
#include "pmpi/context.h"
#include "pmpi/datatype.h"
#include "pmpi/errors.h"
#include "pmpi/handles.h"

namespace rejoin::pmpi {

// A reduction with (type, op). REQUIRES is_committed(type), is_op(op). Cheap. false: MPI does not
// define `op` for `type`. The object must outlive its uses by the engine.
class BoundReduction {
 public:
  bool bind(MPI_Datatype type, MPI_Op op) {
    reduction_.element_bytes = type->extent_bytes;
    reduction_.user = op->function != nullptr;
    reduction_.context = this;
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

  engine::Reduction reduction_;
  MPI_Datatype type_;
  MPI_User_function* function_;
  MPI_User_function* cxx_callback_;
};

// Raises the error for what bind() found wrong.
[[gnu::cold]] int explain_bind(const char* function, MPI_Comm comm, int count, MPI_Datatype type,
                               MPI_Op op);

// Checks count, datatype and operation of a reduction over `comm` (usable), and binds them.
// MPI_SUCCESS, or the code of the error that was raised.
inline int bind(const char* function, MPI_Comm comm, int count, MPI_Datatype type, MPI_Op op,
                BoundReduction* bound) {
  if (is_op(op) && is_committed(type) && count >= 0 && bound->bind(type, op)) [[likely]] {
    return MPI_SUCCESS;
  }
  return explain_bind(function, comm, count, type, op);
}

// What a reduction sends: the program's buffer, or a copy without the garbage in its gaps.
class Contribution {
 public:
  Contribution(MPI_Datatype type, const void* data, std::size_t count) : data_(data) {
    if (type->gaps == 0) [[likely]]
      return;
    std::byte* copy = copy_.reserve(count * type->extent_bytes);
    copy_without_gaps(type, data, count, copy);
    data_ = copy;
  }
  const void* data() const { return data_; }

 private:
  const void* data_;
  Scratch copy_;
};

}  // namespace rejoin::pmpi
