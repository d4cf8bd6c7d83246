#include "pmpi/buffers.h"

namespace rejoin::pmpi {

int fail_count(const char* function, MPI_Comm comm, int count) {
  return fail(function, comm, MPI_ERR_COUNT, "the count is %d; it must be 0 or more", count);
}

int fail_type(const char* function, MPI_Comm comm, MPI_Datatype type) {
  if (!is_type(type)) {
    return fail(function, comm, MPI_ERR_TYPE, "the datatype is MPI_DATATYPE_NULL, or it was freed");
  }
  if (type->predefined) {
    return fail(function, comm, MPI_ERR_TYPE, "%s does not exist on this platform", type->name);
  }
  return fail(function, comm, MPI_ERR_TYPE,
              "the datatype is not committed; call MPI_Type_commit before it is used");
}

int fail_buffer(const char* function, MPI_Comm comm, const char* what, const void* buffer) {
  if (buffer == MPI_IN_PLACE) {
    return fail(function, comm, MPI_ERR_BUFFER, "MPI_IN_PLACE is not allowed as the %s buffer here",
                what);
  }
  return fail(function, comm, MPI_ERR_BUFFER, "the %s buffer is a null pointer", what);
}

int fail_aliased(const char* function, MPI_Comm comm) {
  return fail(function, comm, MPI_ERR_BUFFER,
              "the send and receive buffers are the same; pass MPI_IN_PLACE as the send buffer");
}

int fail_root(const char* function, MPI_Comm comm, int root) {
  return fail(function, comm, MPI_ERR_ROOT, "the root is %d; it must be between 0 and %d", root,
              comm->size() - 1);
}

int check_counts(const char* function, MPI_Comm comm, const char* what, const void* buffer,
                 const int counts[], const int displs[], MPI_Datatype type) {
  if (counts == nullptr) {
    return fail(function, comm, MPI_ERR_COUNT, "the %s counts are a null pointer", what);
  }
  if (displs == nullptr) {
    return fail(function, comm, MPI_ERR_BUFFER, "the %s displacements are a null pointer", what);
  }
  for (int i = 0; i < comm->size(); ++i) {
    if (const int code = check_buffer(function, comm, what, buffer, counts[i], type)) return code;
  }
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
