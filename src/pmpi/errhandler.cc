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
                  MPI_Errhandler* errhandler, bool of_files = false) {
  require_active(name);
  *errhandler = make<ompi_errhandler_t>();
  **errhandler = {Magic::kErrhandler,    function, 1,       kNoFortranHandle,
                  ErrhandlerKind::kUser, false,    of_files};
  return MPI_SUCCESS;
}

static int set(const char* name, MPI_Comm comm, MPI_Errhandler errhandler) {
  if (!is_any_comm(comm)) return fail_comm(name);
  if (!is_errhandler(errhandler) || errhandler->of_files) {
    return fail(name, comm, MPI_ERR_ARG,
                "the error handler is MPI_ERRHANDLER_NULL, was freed, or was created for files");
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

// --- Files: MPI_FILE_NULL is the only one

static int check_file(const char* name, MPI_File file) {
  require_active(name);
  if (file == MPI_FILE_NULL) return MPI_SUCCESS;
  return fail_file(
      name, MPI_ERR_FILE,
      "the file is not MPI_FILE_NULL; MPI-IO is not supported, so no file can be open");
}

int file_create_errhandler(MPI_File_errhandler_function* function, MPI_Errhandler* errhandler) {
  void* any = reinterpret_cast<void*>(function);
  return create("MPI_File_create_errhandler", reinterpret_cast<MPI_Comm_errhandler_function*>(any),
                errhandler, true);
}

int file_set_errhandler(MPI_File file, MPI_Errhandler errhandler) {
  constexpr const char* kName = "MPI_File_set_errhandler";
  if (const int code = check_file(kName, file)) return code;
  if (!is_errhandler(errhandler) || !(errhandler->of_files || errhandler->predefined)) {
    return fail_file(
        kName, MPI_ERR_ARG,
        "the error handler is MPI_ERRHANDLER_NULL, was freed, or was not created for files");
  }
  ++errhandler->references;
  if (context->file_errhandler != nullptr) drop(context->file_errhandler);
  context->file_errhandler = errhandler;
  return MPI_SUCCESS;
}

int file_get_errhandler(MPI_File file, MPI_Errhandler* errhandler) {
  if (const int code = check_file("MPI_File_get_errhandler", file)) return code;
  *errhandler = context->file_errhandler != nullptr ? context->file_errhandler : MPI_ERRORS_RETURN;
  ++(*errhandler)->references;
  return MPI_SUCCESS;
}

int file_call_errhandler(MPI_File fh, int errorcode) {
  constexpr const char* kName = "MPI_File_call_errhandler";
  if (const int code = check_file(kName, fh)) return code;
  fail_file(kName, errorcode, "called by the program");
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
