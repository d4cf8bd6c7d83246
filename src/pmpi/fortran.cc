#include "pmpi/fortran.h"

#include <string.h>

#include "api.h"
#include "pmpi/request.h"

namespace rejoin::pmpi {
namespace {

MPI_Datatype const kTypes[] = {
#define X(object, name, type_class, element, size, gaps) \
  OMPI_PREDEFINED_GLOBAL(MPI_Datatype, object),
#include "pmpi/datatypes.def"
#undef X
};
MPI_Op const kOps[] = {MPI_OP_NULL, MPI_MAX,    MPI_MIN,    MPI_SUM,     MPI_PROD,
                       MPI_LAND,    MPI_BAND,   MPI_LOR,    MPI_BOR,     MPI_LXOR,
                       MPI_BXOR,    MPI_MAXLOC, MPI_MINLOC, MPI_REPLACE, MPI_NO_OP};
MPI_Comm const kComms[] = {MPI_COMM_WORLD, MPI_COMM_SELF, MPI_COMM_NULL};
MPI_Group const kGroups[] = {MPI_GROUP_NULL, MPI_GROUP_EMPTY};
MPI_Errhandler const kErrhandlers[] = {MPI_ERRHANDLER_NULL, MPI_ERRORS_ARE_FATAL,
                                       MPI_ERRORS_RETURN};
MPI_Request const kRequests[] = {MPI_REQUEST_NULL};
MPI_Message const kMessages[] = {MPI_MESSAGE_NULL,
                                 OMPI_PREDEFINED_GLOBAL(MPI_Message, ompi_message_no_proc)};
MPI_Info const kInfos[] = {MPI_INFO_NULL, MPI_INFO_ENV};

// Returns a handle's integer; for an unusable handle that of the null handle.
template <class Handle>
MPI_Fint to_fortran(HandleTable Context::*member, Handle handle, bool usable, int null) {
  if (!usable) return null;
  if (handle->fortran != kNoFortranHandle || context == nullptr) return handle->fortran;
  HandleTable* table = &(context->*member);
  int i = 0;
  while (i < table->count && table->entries[i] != nullptr) ++i;
  if (i == table->count) {
    grow(&table->entries, table->count, &table->capacity);
    ++table->count;
  }
  table->entries[i] = handle;
  return handle->fortran = table->first + i;
}

// Returns the handle of an integer; nullptr if there is none. MPI functions then raise the right
// error class.
template <class Handle, std::size_t kPredefined>
Handle to_c(HandleTable Context::*member, const Handle (&predefined)[kPredefined],
            MPI_Fint fortran) {
  constexpr int kFirst = static_cast<int>(kPredefined);
  if (fortran < 0) return nullptr;
  if (fortran < kFirst) return predefined[fortran];
  if (context == nullptr || fortran - kFirst >= (context->*member).count) return nullptr;
  return static_cast<Handle>((context->*member).entries[fortran - kFirst]);
}

template <class Handle, std::size_t kPredefined>
constexpr int count_of(const Handle (&)[kPredefined]) {
  return static_cast<int>(kPredefined);
}

}  // namespace

void init_fortran_tables(Context* c) {
  c->comms.first = count_of(kComms);
  c->groups.first = count_of(kGroups);
  c->types.first = count_of(kTypes);
  c->ops.first = count_of(kOps);
  c->errhandlers.first = count_of(kErrhandlers);
  c->infos.first = count_of(kInfos);
  c->requests.first = count_of(kRequests);
  c->messages.first = count_of(kMessages);
}

void forget(HandleTable* table, int fortran) {
  if (fortran >= table->first) table->entries[fortran - table->first] = nullptr;
}

MPI_Fint comm_c2f(MPI_Comm comm) { return to_fortran(&Context::comms, comm, is_any_comm(comm), 2); }
MPI_Comm comm_f2c(MPI_Fint comm) { return to_c(&Context::comms, kComms, comm); }
MPI_Fint group_c2f(MPI_Group group) {
  return to_fortran(&Context::groups, group, is_group(group), 0);
}
MPI_Group group_f2c(MPI_Fint group) { return to_c(&Context::groups, kGroups, group); }
MPI_Fint type_c2f(MPI_Datatype datatype) {
  return to_fortran(&Context::types, datatype, is_type(datatype), 0);
}
MPI_Datatype type_f2c(MPI_Fint datatype) { return to_c(&Context::types, kTypes, datatype); }
MPI_Fint op_c2f(MPI_Op op) { return to_fortran(&Context::ops, op, is_op(op), 0); }
MPI_Op op_f2c(MPI_Fint op) { return to_c(&Context::ops, kOps, op); }
MPI_Fint errhandler_c2f(MPI_Errhandler errhandler) {
  return to_fortran(&Context::errhandlers, errhandler, is_errhandler(errhandler), 0);
}
MPI_Errhandler errhandler_f2c(MPI_Fint errhandler) {
  return to_c(&Context::errhandlers, kErrhandlers, errhandler);
}
MPI_Fint info_c2f(MPI_Info info) { return to_fortran(&Context::infos, info, is_info(info), 0); }
MPI_Info info_f2c(MPI_Fint info) { return to_c(&Context::infos, kInfos, info); }

MPI_Fint request_c2f(MPI_Request request) {
  return to_fortran(&Context::requests, request, is_request(request), 0);
}
MPI_Request request_f2c(MPI_Fint request) { return to_c(&Context::requests, kRequests, request); }
MPI_Fint message_c2f(MPI_Message message) {
  if (message == kMessages[1]) return 1;
  return to_fortran(&Context::messages, message, is_message(message), 0);
}
MPI_Message message_f2c(MPI_Fint message) { return to_c(&Context::messages, kMessages, message); }

// There are only null handles of windows and files; all of them are 0.
MPI_Fint win_c2f(MPI_Win) { return 0; }
MPI_Win win_f2c(MPI_Fint) { return MPI_WIN_NULL; }
MPI_Fint file_c2f(MPI_File) { return 0; }
MPI_File file_f2c(MPI_Fint) { return MPI_FILE_NULL; }

// A status is the same six integers in both languages.
static_assert(sizeof(MPI_Status) == 6 * sizeof(MPI_Fint));
int status_c2f(const MPI_Status* c_status, MPI_Fint* f_status) {
  memcpy(f_status, c_status, sizeof *c_status);
  return MPI_SUCCESS;
}
int status_f2c(const MPI_Fint* f_status, MPI_Status* c_status) {
  memcpy(c_status, f_status, sizeof *c_status);
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
