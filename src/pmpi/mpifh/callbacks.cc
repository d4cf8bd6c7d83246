// The functions that register callbacks of a Fortran program: for operations, error handlers,
// generalized requests and attributes.
#include "pmpi/mpifh/convert.h"
#include "pmpi/mpifh/hooks.h"
#include "pmpi/mpifh/names.h"

// mpi.h has macros with these names for the functions of C.
#undef MPI_NULL_COPY_FN
#undef MPI_NULL_DELETE_FN
#undef MPI_DUP_FN
#undef MPI_COMM_NULL_COPY_FN
#undef MPI_COMM_NULL_DELETE_FN
#undef MPI_COMM_DUP_FN
#undef MPI_TYPE_NULL_COPY_FN
#undef MPI_TYPE_NULL_DELETE_FN
#undef MPI_TYPE_DUP_FN
#undef MPI_WIN_NULL_COPY_FN
#undef MPI_WIN_NULL_DELETE_FN
#undef MPI_WIN_DUP_FN
#undef MPI_CONVERSION_FN_NULL

using namespace rejoin::mpifh;

namespace {

void call_operator(void* in, void* inout, int* length, MPI_Datatype* type,
                   MPI_User_function* program) {
  using Fortran = void(void*, void*, MPI_Fint*, MPI_Fint*);
  MPI_Fint handle = to_fortran(*type);
  void* function = reinterpret_cast<void*>(program);
  reinterpret_cast<Fortran*>(function)(in, inout, length, &handle);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// --- Operations

void ompi_op_create_f(MPI_User_function* function, MPI_Fint* commute, MPI_Fint* op,
                      MPI_Fint* ierr) {
  Handle<MPI_Op> made(op);
  void* intercept = reinterpret_cast<void*>(call_operator);
  const int code =
      PMPI_Op_create(reinterpret_cast<MPI_User_function*>(intercept), *commute, &made.handle);
  if (code == MPI_SUCCESS) ompi_op_set_cxx_callback(made.handle, function);
  give(ierr, code);
}
REJOIN_NAMES(mpi, MPI, op_create, Op_create, OP_CREATE)

// --- Error handlers

void ompi_comm_create_errhandler_f(MPI_Comm_errhandler_function* function, MPI_Fint* errhandler,
                                   MPI_Fint* ierr) {
  Handle<MPI_Errhandler> made(errhandler);
  const int code = PMPI_Comm_create_errhandler(function, &made.handle);
  if (code == MPI_SUCCESS) rejoin_errhandler_set_fortran(made.handle);
  give(ierr, code);
}
REJOIN_NAMES(mpi, MPI, comm_create_errhandler, Comm_create_errhandler, COMM_CREATE_ERRHANDLER)
void ompi_file_create_errhandler_f(MPI_File_errhandler_function* function, MPI_Fint* errhandler,
                                   MPI_Fint* ierr) {
  Handle<MPI_Errhandler> made(errhandler);
  const int code = PMPI_File_create_errhandler(function, &made.handle);
  if (code == MPI_SUCCESS) rejoin_errhandler_set_fortran(made.handle);
  give(ierr, code);
}
REJOIN_NAMES(mpi, MPI, file_create_errhandler, File_create_errhandler, FILE_CREATE_ERRHANDLER)
void ompi_errhandler_create_f(MPI_Comm_errhandler_function* function, MPI_Fint* errhandler,
                              MPI_Fint* ierr) {
  ompi_comm_create_errhandler_f(function, errhandler, ierr);
}
REJOIN_NAMES(mpi, MPI, errhandler_create, Errhandler_create, ERRHANDLER_CREATE)

// --- Generalized requests

// The callbacks receive a reference to the program's variable, not a copy of its value.
void ompi_grequest_start_f(void* query, void* free, void* cancel, MPI_Aint* extra_state,
                           MPI_Fint* request, MPI_Fint* ierr) {
  Handle<MPI_Request> made(request);
  const int code = PMPI_Grequest_start(reinterpret_cast<MPI_Grequest_query_function*>(query),
                                       reinterpret_cast<MPI_Grequest_free_function*>(free),
                                       reinterpret_cast<MPI_Grequest_cancel_function*>(cancel),
                                       extra_state, &made.handle);
  if (code == MPI_SUCCESS) rejoin_grequest_set_fortran(made.handle);
  give(ierr, code);
}
REJOIN_NAMES(mpi, MPI, grequest_start, Grequest_start, GREQUEST_START)

// --- Attributes of communicators

void ompi_comm_create_keyval_f(void* copy, void* remove, MPI_Fint* keyval, MPI_Aint* extra_state,
                               MPI_Fint* ierr) {
  give(ierr,
       rejoin_keyval_create("MPI_Comm_create_keyval", 'c', copy, remove, keyval, *extra_state, 0));
}
REJOIN_NAMES(mpi, MPI, comm_create_keyval, Comm_create_keyval, COMM_CREATE_KEYVAL)
void ompi_comm_set_attr_f(MPI_Fint* comm, MPI_Fint* keyval, MPI_Aint* value, MPI_Fint* ierr) {
  give(ierr, rejoin_attribute_set("MPI_Comm_set_attr", to_c<MPI_Comm>(comm), *keyval, *value, 0));
}
REJOIN_NAMES(mpi, MPI, comm_set_attr, Comm_set_attr, COMM_SET_ATTR)
void ompi_comm_get_attr_f(MPI_Fint* comm, MPI_Fint* keyval, MPI_Aint* value, MPI_Fint* flag,
                          MPI_Fint* ierr) {
  Logical found(flag);
  give(ierr, rejoin_attribute_get("MPI_Comm_get_attr", to_c<MPI_Comm>(comm), *keyval, value,
                                  &found.value));
}
REJOIN_NAMES(mpi, MPI, comm_get_attr, Comm_get_attr, COMM_GET_ATTR)

void ompi_keyval_create_f(void* copy, void* remove, MPI_Fint* keyval, MPI_Fint* extra_state,
                          MPI_Fint* ierr) {
  give(ierr, rejoin_keyval_create("MPI_Keyval_create", 'c', copy, remove, keyval, *extra_state, 1));
}
REJOIN_NAMES(mpi, MPI, keyval_create, Keyval_create, KEYVAL_CREATE)
void ompi_attr_put_f(MPI_Fint* comm, MPI_Fint* keyval, MPI_Fint* value, MPI_Fint* ierr) {
  give(ierr, rejoin_attribute_set("MPI_Attr_put", to_c<MPI_Comm>(comm), *keyval, *value, 1));
}
REJOIN_NAMES(mpi, MPI, attr_put, Attr_put, ATTR_PUT)
void ompi_attr_get_f(MPI_Fint* comm, MPI_Fint* keyval, MPI_Fint* value, MPI_Fint* flag,
                     MPI_Fint* ierr) {
  Logical found(flag);
  MPI_Aint wide = 0;
  const int code =
      rejoin_attribute_get("MPI_Attr_get", to_c<MPI_Comm>(comm), *keyval, &wide, &found.value);
  if (code == MPI_SUCCESS && found.value != 0) *value = static_cast<MPI_Fint>(wide);
  give(ierr, code);
}
REJOIN_NAMES(mpi, MPI, attr_get, Attr_get, ATTR_GET)

// --- Attributes of datatypes and windows

void ompi_type_create_keyval_f(void* copy, void* remove, MPI_Fint* keyval, MPI_Aint* extra_state,
                               MPI_Fint* ierr) {
  give(ierr,
       rejoin_keyval_create("MPI_Type_create_keyval", 't', copy, remove, keyval, *extra_state, 0));
}
REJOIN_NAMES(mpi, MPI, type_create_keyval, Type_create_keyval, TYPE_CREATE_KEYVAL)
void ompi_type_set_attr_f(MPI_Fint* type, MPI_Fint* keyval, MPI_Aint* value, MPI_Fint* ierr) {
  give(ierr,
       rejoin_type_attribute_set("MPI_Type_set_attr", to_c<MPI_Datatype>(type), *keyval, *value));
}
REJOIN_NAMES(mpi, MPI, type_set_attr, Type_set_attr, TYPE_SET_ATTR)
void ompi_type_get_attr_f(MPI_Fint* type, MPI_Fint* keyval, MPI_Aint* value, MPI_Fint* flag,
                          MPI_Fint* ierr) {
  Logical found(flag);
  give(ierr, rejoin_type_attribute_get("MPI_Type_get_attr", to_c<MPI_Datatype>(type), *keyval,
                                       value, &found.value));
}
REJOIN_NAMES(mpi, MPI, type_get_attr, Type_get_attr, TYPE_GET_ATTR)
void ompi_win_create_keyval_f(void* copy, void* remove, MPI_Fint* keyval, MPI_Aint* extra_state,
                              MPI_Fint* ierr) {
  give(ierr,
       rejoin_keyval_create("MPI_Win_create_keyval", 'w', copy, remove, keyval, *extra_state, 0));
}
REJOIN_NAMES(mpi, MPI, win_create_keyval, Win_create_keyval, WIN_CREATE_KEYVAL)

// The functions that MPI predefines. `object`: a communicator, datatype or window.
#define REJOIN_FUNCTION_NAMES(lower, UPPER)      \
  REJOIN_NAME(ompi_##lower##_f, mpi_##lower)     \
  REJOIN_NAME(ompi_##lower##_f, mpi_##lower##_)  \
  REJOIN_NAME(ompi_##lower##_f, mpi_##lower##__) \
  REJOIN_NAME(ompi_##lower##_f, MPI_##UPPER)
#define REJOIN_NULL_COPY(lower, UPPER, Value)                                         \
  void ompi_##lower##_f(MPI_Fint*, MPI_Fint*, Value*, Value*, Value*, MPI_Fint* flag, \
                        MPI_Fint* ierr) {                                             \
    *flag = 0;                                                                        \
    *ierr = MPI_SUCCESS;                                                              \
  }                                                                                   \
  REJOIN_FUNCTION_NAMES(lower, UPPER)
#define REJOIN_DUP(lower, UPPER, Value)                                                      \
  void ompi_##lower##_f(MPI_Fint*, MPI_Fint*, Value*, Value* in, Value* out, MPI_Fint* flag, \
                        MPI_Fint* ierr) {                                                    \
    *flag = 1;                                                                               \
    *out = *in;                                                                              \
    *ierr = MPI_SUCCESS;                                                                     \
  }                                                                                          \
  REJOIN_FUNCTION_NAMES(lower, UPPER)
#define REJOIN_NULL_DELETE(lower, UPPER, Value)                                 \
  void ompi_##lower##_f(MPI_Fint*, MPI_Fint*, Value*, Value*, MPI_Fint* ierr) { \
    *ierr = MPI_SUCCESS;                                                        \
  }                                                                             \
  REJOIN_FUNCTION_NAMES(lower, UPPER)
REJOIN_NULL_COPY(null_copy_fn, NULL_COPY_FN, MPI_Fint)
REJOIN_NULL_COPY(comm_null_copy_fn, COMM_NULL_COPY_FN, MPI_Aint)
REJOIN_NULL_COPY(type_null_copy_fn, TYPE_NULL_COPY_FN, MPI_Aint)
REJOIN_NULL_COPY(win_null_copy_fn, WIN_NULL_COPY_FN, MPI_Aint)
REJOIN_DUP(dup_fn, DUP_FN, MPI_Fint)
REJOIN_DUP(comm_dup_fn, COMM_DUP_FN, MPI_Aint)
REJOIN_DUP(type_dup_fn, TYPE_DUP_FN, MPI_Aint)
REJOIN_DUP(win_dup_fn, WIN_DUP_FN, MPI_Aint)
REJOIN_NULL_DELETE(null_delete_fn, NULL_DELETE_FN, MPI_Fint)
REJOIN_NULL_DELETE(comm_null_delete_fn, COMM_NULL_DELETE_FN, MPI_Aint)
REJOIN_NULL_DELETE(type_null_delete_fn, TYPE_NULL_DELETE_FN, MPI_Aint)
REJOIN_NULL_DELETE(win_null_delete_fn, WIN_NULL_DELETE_FN, MPI_Aint)

// An argument of MPI_Register_datarep, which is not supported; never called.
void mpi_conversion_fn_null_f() {}
REJOIN_NAME(mpi_conversion_fn_null_f, mpi_conversion_fn_null)
REJOIN_NAME(mpi_conversion_fn_null_f, mpi_conversion_fn_null_)
REJOIN_NAME(mpi_conversion_fn_null_f, mpi_conversion_fn_null__)
REJOIN_NAME(mpi_conversion_fn_null_f, MPI_CONVERSION_FN_NULL)

}  // extern "C"
#pragma GCC visibility pop
