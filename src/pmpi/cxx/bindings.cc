// libmpi_cxx.so.40: what mpicxx links into every C++ program, whether or not it uses the C++
// bindings that MPI 3 removed. The bindings are classes over the C interface, almost wholly inline
// in Open MPI's mpicxx.h. This file has the rest: the constants, and the functions that are not
// inline. Callbacks of C++ types work for operations. For attributes, error handlers and files they
// return an error.
#include <mpi.h>

#include "pmpi/cxx/hooks.h"

namespace MPI {

// --- Constants

void* const BOTTOM = MPI_BOTTOM;
void* const IN_PLACE = MPI_IN_PLACE;
const char ompi_libcxx_version_string[] = "Rejoin";
int mpi_errno = MPI_SUCCESS;

const Errhandler ERRORS_ARE_FATAL(MPI_ERRORS_ARE_FATAL);
const Errhandler ERRORS_RETURN(MPI_ERRORS_RETURN);
// No exception can pass through the C interface: these errors are fatal.
const Errhandler ERRORS_THROW_EXCEPTIONS(OMPI_PREDEFINED_GLOBAL(MPI_Errhandler,
                                                                ompi_mpi_errors_throw_exceptions));

const Datatype CHAR(MPI_CHAR);
const Datatype SHORT(MPI_SHORT);
const Datatype INT(MPI_INT);
const Datatype LONG(MPI_LONG);
const Datatype SIGNED_CHAR(MPI_SIGNED_CHAR);
const Datatype UNSIGNED_CHAR(MPI_UNSIGNED_CHAR);
const Datatype UNSIGNED_SHORT(MPI_UNSIGNED_SHORT);
const Datatype UNSIGNED(MPI_UNSIGNED);
const Datatype UNSIGNED_LONG(MPI_UNSIGNED_LONG);
const Datatype FLOAT(MPI_FLOAT);
const Datatype DOUBLE(MPI_DOUBLE);
const Datatype LONG_DOUBLE(MPI_LONG_DOUBLE);
const Datatype BYTE(MPI_BYTE);
const Datatype PACKED(MPI_PACKED);
const Datatype WCHAR(MPI_WCHAR);
const Datatype FLOAT_INT(MPI_FLOAT_INT);
const Datatype DOUBLE_INT(MPI_DOUBLE_INT);
const Datatype LONG_INT(MPI_LONG_INT);
const Datatype TWOINT(MPI_2INT);
const Datatype SHORT_INT(MPI_SHORT_INT);
const Datatype LONG_DOUBLE_INT(MPI_LONG_DOUBLE_INT);
const Datatype INTEGER(MPI_INTEGER);
const Datatype REAL(MPI_REAL);
const Datatype DOUBLE_PRECISION(MPI_DOUBLE_PRECISION);
const Datatype F_COMPLEX(MPI_COMPLEX);
const Datatype LOGICAL(MPI_LOGICAL);
const Datatype CHARACTER(MPI_CHARACTER);
const Datatype TWOREAL(MPI_2REAL);
const Datatype TWODOUBLE_PRECISION(MPI_2DOUBLE_PRECISION);
const Datatype TWOINTEGER(MPI_2INTEGER);
const Datatype INTEGER1(MPI_INTEGER1);
const Datatype INTEGER2(MPI_INTEGER2);
const Datatype INTEGER4(MPI_INTEGER4);
const Datatype REAL2(MPI_DATATYPE_NULL);
const Datatype REAL4(MPI_REAL4);
const Datatype REAL8(MPI_REAL8);
const Datatype LONG_LONG(MPI_LONG_LONG);
const Datatype LONG_LONG_INT(MPI_LONG_LONG_INT);
const Datatype UNSIGNED_LONG_LONG(MPI_UNSIGNED_LONG_LONG);
const Datatype BOOL(MPI_CXX_BOOL);
const Datatype COMPLEX(MPI_CXX_FLOAT_COMPLEX);
const Datatype DOUBLE_COMPLEX(MPI_CXX_DOUBLE_COMPLEX);
const Datatype F_DOUBLE_COMPLEX(MPI_DOUBLE_COMPLEX);
const Datatype LONG_DOUBLE_COMPLEX(MPI_CXX_LONG_DOUBLE_COMPLEX);
const Datatype UB(MPI_DATATYPE_NULL);  // removed from MPI
const Datatype LB(MPI_DATATYPE_NULL);

Intracomm COMM_WORLD(MPI_COMM_WORLD);
Intracomm COMM_SELF(MPI_COMM_SELF);

const Op MAX(MPI_MAX);
const Op MIN(MPI_MIN);
const Op SUM(MPI_SUM);
const Op PROD(MPI_PROD);
const Op MAXLOC(MPI_MAXLOC);
const Op MINLOC(MPI_MINLOC);
const Op BAND(MPI_BAND);
const Op BOR(MPI_BOR);
const Op BXOR(MPI_BXOR);
const Op LAND(MPI_LAND);
const Op LOR(MPI_LOR);
const Op LXOR(MPI_LXOR);
const Op REPLACE(MPI_REPLACE);

const Group GROUP_NULL(MPI_GROUP_NULL);
const Group GROUP_EMPTY(MPI_GROUP_EMPTY);
const Win WIN_NULL(MPI_WIN_NULL);
const Info INFO_NULL(MPI_INFO_NULL);
Comm_Null COMM_NULL;
const Datatype DATATYPE_NULL(MPI_DATATYPE_NULL);
Request REQUEST_NULL(MPI_REQUEST_NULL);
const Op OP_NULL(MPI_OP_NULL);
const Errhandler ERRHANDLER_NULL(MPI_ERRHANDLER_NULL);
const File FILE_NULL(MPI_FILE_NULL);

const char** ARGV_NULL = nullptr;
const char*** ARGVS_NULL = nullptr;

// --- Functions

Comm::Comm() : Comm_Null(MPI_COMM_NULL) {}
Comm::Comm(const Comm_Null& data) : Comm_Null(data) {}

void Datatype::Free() { (void)MPI_Type_free(&mpi_datatype); }
void Win::Free() { (void)MPI_Win_free(&mpi_win); }
void File::Close() { (void)MPI_File_close(&mpi_file); }

// Open MPI's MPI::Init calls this.
void InitializeIntercepts() {}

int Comm::do_create_keyval(MPI_Comm_copy_attr_function* c_copy_fn,
                           MPI_Comm_delete_attr_function* c_delete_fn,
                           Copy_attr_function* cxx_copy_fn, Delete_attr_function* cxx_delete_fn,
                           void* extra_state, int& keyval) {
  if (cxx_copy_fn != nullptr || cxx_delete_fn != nullptr) {
    return rejoin_unsupported("MPI::Comm::Create_keyval");
  }
  return MPI_Comm_create_keyval(c_copy_fn, c_delete_fn, &keyval, extra_state);
}
int Datatype::do_create_keyval(MPI_Type_copy_attr_function* c_copy_fn,
                               MPI_Type_delete_attr_function* c_delete_fn,
                               Copy_attr_function* cxx_copy_fn, Delete_attr_function* cxx_delete_fn,
                               void* extra_state, int& keyval) {
  if (cxx_copy_fn != nullptr || cxx_delete_fn != nullptr) {
    return rejoin_unsupported("MPI::Datatype::Create_keyval");
  }
  return MPI_Type_create_keyval(c_copy_fn, c_delete_fn, &keyval, extra_state);
}
int Win::do_create_keyval(MPI_Win_copy_attr_function*, MPI_Win_delete_attr_function*,
                          Copy_attr_function*, Delete_attr_function*, void*, int&) {
  return rejoin_unsupported("MPI::Win::Create_keyval");
}

Errhandler Comm::Create_errhandler(Errhandler_function*) {
  rejoin_unsupported("MPI::Comm::Create_errhandler");
  return ERRHANDLER_NULL;
}
Errhandler Win::Create_errhandler(Errhandler_function*) {
  rejoin_unsupported("MPI::Win::Create_errhandler");
  return ERRHANDLER_NULL;
}
Errhandler File::Create_errhandler(Errhandler_function*) {
  rejoin_unsupported("MPI::File::Create_errhandler");
  return ERRHANDLER_NULL;
}

void Register_datarep(const char*, Datarep_conversion_function*, Datarep_conversion_function*,
                      Datarep_extent_function*, void*) {
  rejoin_unsupported("MPI::Register_datarep");
}
void Register_datarep(const char*, MPI_Datarep_conversion_function*, Datarep_conversion_function*,
                      Datarep_extent_function*, void*) {
  rejoin_unsupported("MPI::Register_datarep");
}
void Register_datarep(const char*, Datarep_conversion_function*, MPI_Datarep_conversion_function*,
                      Datarep_extent_function*, void*) {
  rejoin_unsupported("MPI::Register_datarep");
}
void Register_datarep(const char*, MPI_Datarep_conversion_function*,
                      MPI_Datarep_conversion_function*, Datarep_extent_function*, void*) {
  rejoin_unsupported("MPI::Register_datarep");
}

}  // namespace MPI

// --- Names that the inline part of the bindings calls

void ompi_mpi_cxx_op_intercept(void* invec, void* outvec, int* len, MPI_Datatype* datatype,
                               MPI_User_function* fn) {
  void* function = reinterpret_cast<void*>(fn);
  reinterpret_cast<MPI::User_function*>(function)(invec, outvec, *len, MPI::Datatype(*datatype));
}

int ompi_mpi_cxx_grequest_query_fn_intercept(void*, MPI_Status*) {
  return rejoin_unsupported("MPI::Grequest");
}
int ompi_mpi_cxx_grequest_free_fn_intercept(void*) { return rejoin_unsupported("MPI::Grequest"); }
int ompi_mpi_cxx_grequest_cancel_fn_intercept(void*, int) {
  return rejoin_unsupported("MPI::Grequest");
}
