// Completion of requests. There are none but MPI_REQUEST_NULL, which is complete.
#include "api.h"
#include "pmpi/context.h"
#include "pmpi/errors.h"

namespace rejoin::pmpi {
namespace {

int check(const char* name, int count, const MPI_Request requests[]) {
  require_active(name);
  if (count < 0) return fail(name, MPI_COMM_WORLD, MPI_ERR_ARG, "the count is %d", count);
  for (int i = 0; i < count; ++i) {
    if (requests[i] != MPI_REQUEST_NULL) {
      return fail(name, MPI_COMM_WORLD, MPI_ERR_REQUEST, "request %d is not MPI_REQUEST_NULL", i);
    }
  }
  return MPI_SUCCESS;
}

void set_empty(MPI_Status* statuses, int count) {
  if (statuses == MPI_STATUSES_IGNORE) return;
  for (int i = 0; i < count; ++i) statuses[i] = {MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_SUCCESS, 0, 0};
}

}  // namespace

int wait(MPI_Request* request, MPI_Status* status) {
  if (const int code = check("MPI_Wait", 1, request)) return code;
  set_empty(status, 1);
  return MPI_SUCCESS;
}

int waitall(int count, MPI_Request array_of_requests[], MPI_Status* array_of_statuses) {
  if (const int code = check("MPI_Waitall", count, array_of_requests)) return code;
  set_empty(array_of_statuses, count);
  return MPI_SUCCESS;
}

int waitany(int count, MPI_Request array_of_requests[], int* index, MPI_Status* status) {
  if (const int code = check("MPI_Waitany", count, array_of_requests)) return code;
  *index = MPI_UNDEFINED;
  set_empty(status, 1);
  return MPI_SUCCESS;
}

int waitsome(int incount, MPI_Request array_of_requests[], int* outcount, int[], MPI_Status[]) {
  if (const int code = check("MPI_Waitsome", incount, array_of_requests)) return code;
  *outcount = MPI_UNDEFINED;
  return MPI_SUCCESS;
}

int test(MPI_Request* request, int* flag, MPI_Status* status) {
  if (const int code = check("MPI_Test", 1, request)) return code;
  *flag = 1;
  set_empty(status, 1);
  return MPI_SUCCESS;
}

int testall(int count, MPI_Request array_of_requests[], int* flag, MPI_Status array_of_statuses[]) {
  if (const int code = check("MPI_Testall", count, array_of_requests)) return code;
  *flag = 1;
  set_empty(array_of_statuses, count);
  return MPI_SUCCESS;
}

int testany(int count, MPI_Request array_of_requests[], int* index, int* flag, MPI_Status* status) {
  if (const int code = check("MPI_Testany", count, array_of_requests)) return code;
  *flag = 1;
  *index = MPI_UNDEFINED;
  set_empty(status, 1);
  return MPI_SUCCESS;
}

int testsome(int incount, MPI_Request array_of_requests[], int* outcount, int[], MPI_Status[]) {
  if (const int code = check("MPI_Testsome", incount, array_of_requests)) return code;
  *outcount = MPI_UNDEFINED;
  return MPI_SUCCESS;
}

int get_count(const MPI_Status* status, MPI_Datatype datatype, int* count) {
  constexpr const char* kName = "MPI_Get_count";
  require_active(kName);
  if (!is_type(datatype)) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_TYPE,
                "the datatype is MPI_DATATYPE_NULL, or it was freed");
  }
  const std::size_t size = datatype->size_bytes;
  const bool whole = size > 0 && status->_ucount % size == 0;
  *count = whole                  ? static_cast<int>(status->_ucount / size)
           : status->_ucount == 0 ? 0
                                  : MPI_UNDEFINED;
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
