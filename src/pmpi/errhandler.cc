// Error handlers of communicators, under their names of MPI 2 and of MPI 1.
#include "pmpi/errhandler.h"

#include "api.h"
#include "pmpi/context.h"
#include "pmpi/errors.h"
#include "pmpi/fortran.h"
#include "pmpi/mpifh/hooks.h"

namespace rejoin::pmpi {

void drop(MPI_Errhandler handler) {
  if (handler->predefined || --handler->references > 0) return;
  forget(&context->errhandlers, handler->fortran);
  handler->magic = Magic::kNone;
  destroy(handler);
}

static int create(const char* name, MPI_Comm_errhandler_function* function,
                  MPI_Errhandler* errhandler) {
  require_active(name);
  if (function == nullptr || errhandler == nullptr) {
    return fail(name, MPI_COMM_WORLD, MPI_ERR_ARG, "the %s is a null pointer",
                function == nullptr ? "function" : "place for the handle");
  }
  *errhandler = make<ompi_errhandler_t>();
  **errhandler = {Magic::kErrhandler, function, 1, kNoFortranHandle, ErrhandlerKind::kUser, false};
  return MPI_SUCCESS;
}

static int set(const char* name, MPI_Comm comm, MPI_Errhandler errhandler) {
  if (!is_any_comm(comm)) return fail_comm(name);
  if (!is_errhandler(errhandler)) {
    return fail(name, comm, MPI_ERR_ARG,
                "the error handler is MPI_ERRHANDLER_NULL, or it was freed");
  }
  ++errhandler->references;
  drop(comm->errhandler);
  comm->errhandler = errhandler;
  return MPI_SUCCESS;
}

static int get(const char* name, MPI_Comm comm, MPI_Errhandler* errhandler) {
  if (!is_any_comm(comm)) return fail_comm(name);
  ++comm->errhandler->references;
  *errhandler = comm->errhandler;
  return MPI_SUCCESS;
}

int comm_create_errhandler(MPI_Comm_errhandler_function* function, MPI_Errhandler* errhandler) {
  return create("MPI_Comm_create_errhandler", function, errhandler);
}
int errhandler_create(MPI_Handler_function* function, MPI_Errhandler* errhandler) {
  return create("MPI_Errhandler_create", function, errhandler);
}
int comm_set_errhandler(MPI_Comm comm, MPI_Errhandler errhandler) {
  return set("MPI_Comm_set_errhandler", comm, errhandler);
}
int errhandler_set(MPI_Comm comm, MPI_Errhandler errhandler) {
  return set("MPI_Errhandler_set", comm, errhandler);
}
int comm_get_errhandler(MPI_Comm comm, MPI_Errhandler* erhandler) {
  return get("MPI_Comm_get_errhandler", comm, erhandler);
}
int errhandler_get(MPI_Comm comm, MPI_Errhandler* errhandler) {
  return get("MPI_Errhandler_get", comm, errhandler);
}

int errhandler_free(MPI_Errhandler* errhandler) {
  constexpr const char* kName = "MPI_Errhandler_free";
  require_active(kName);
  if (errhandler == nullptr || !is_errhandler(*errhandler)) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_ARG,
                "the error handler is MPI_ERRHANDLER_NULL, or it was freed");
  }
  drop(*errhandler);
  *errhandler = MPI_ERRHANDLER_NULL;
  return MPI_SUCCESS;
}

int comm_call_errhandler(MPI_Comm comm, int errorcode) {
  constexpr const char* kName = "MPI_Comm_call_errhandler";
  if (!is_any_comm(comm)) return fail_comm(kName);
  fail(kName, comm, errorcode, "called by the program");
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi

void rejoin_errhandler_set_fortran(MPI_Errhandler errhandler) {
  errhandler->kind = rejoin::pmpi::ErrhandlerKind::kFortran;
}
