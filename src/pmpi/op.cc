// MPI_Op_*.
#include "api.h"
#include "pmpi/context.h"
#include "pmpi/errors.h"
#include "pmpi/fortran.h"

namespace rejoin::pmpi {

static int fail_op(const char* function) {
  return fail(function, MPI_COMM_WORLD, MPI_ERR_OP,
              "the operation is MPI_OP_NULL, or it was freed");
}

int op_create(MPI_User_function* function, int commute, MPI_Op* op) {
  constexpr const char* kName = "MPI_Op_create";
  require_active(kName);
  *op = make<ompi_op_t>();
  **op = {Magic::kOp,   function,        nullptr, 0, engine::Operator::kUser,
          commute != 0, kNoFortranHandle};
  return MPI_SUCCESS;
}

int op_free(MPI_Op* op) {
  constexpr const char* kName = "MPI_Op_free";
  require_active(kName);
  if (op == nullptr || !is_op(*op)) return fail_op(kName);
  if ((*op)->function == nullptr) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_OP, "a predefined operation cannot be freed");
  }
  forget(&context->ops, (*op)->fortran);
  (*op)->magic = Magic::kNone;
  destroy(*op);
  *op = MPI_OP_NULL;
  return MPI_SUCCESS;
}

int op_commutative(MPI_Op op, int* commute) {
  constexpr const char* kName = "MPI_Op_commutative";
  require_active(kName);
  if (!is_op(op)) return fail_op(kName);
  *commute = op->commutative;
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
