// MPI_Pack and MPI_Unpack, and their external forms.
#include <limits.h>
#include <string.h>

#include "api.h"
#include "datatypes/external.h"
#include "pmpi/buffers.h"
#include "pmpi/datatype.h"

namespace rejoin::pmpi {
namespace {

// Checks that `count` values of `each` bytes fit at *position of a buffer of `room` bytes. *bytes
// becomes their size.
template <class Integer>
int check_room(const char* name, MPI_Comm comm, const void* packed, std::size_t each, int count,
               Integer room, const Integer* position, std::size_t* bytes) {
  if (packed == nullptr && room > 0) {
    return fail(name, comm, MPI_ERR_ARG, "the buffer for packed data is a null pointer");
  }
  if (room < 0 || *position < 0 || *position > room) {
    return fail(name, comm, MPI_ERR_ARG, "position %lld is outside the %lld bytes of the buffer",
                static_cast<long long>(*position), static_cast<long long>(room));
  }
  const auto left = static_cast<std::size_t>(room - *position);
  if (each > 0 && static_cast<std::size_t>(count) > left / each) {
    return fail(
        name, comm, MPI_ERR_TRUNCATE,
        "%d values of %zu byte%s do not fit into the %zu bytes of the buffer after the position",
        count, each, each == 1 ? "" : "s", left);
  }
  *bytes = static_cast<std::size_t>(count) * each;
  return MPI_SUCCESS;
}

int check_representation(const char* name, const char* datarep) {
  if (datarep != nullptr && strcmp(datarep, "external32") == 0) return MPI_SUCCESS;
  return fail(name, MPI_COMM_WORLD, MPI_ERR_ARG, "the representation must be \"external32\"");
}

int check_values(const char* name, MPI_Comm comm, const void* buffer, int count,
                 MPI_Datatype type) {
  return check_message_buffer(name, comm, "data", buffer, count, type);
}

}  // namespace

int pack(const void* inbuf, int incount, MPI_Datatype datatype, void* outbuf, int outsize,
         int* position, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Pack";
  if (!is_any_comm(comm)) return fail_comm(kName);
  if (const int code = check_values(kName, comm, inbuf, incount, datatype)) return code;
  std::size_t bytes;
  if (const int code = check_room(kName, comm, outbuf, datatype->size_bytes, incount, outsize,
                                  position, &bytes)) {
    return code;
  }
  pack(datatype, inbuf, static_cast<std::size_t>(incount),
       static_cast<std::byte*>(outbuf) + *position);
  *position += static_cast<int>(bytes);
  return MPI_SUCCESS;
}

int unpack(const void* inbuf, int insize, int* position, void* outbuf, int outcount,
           MPI_Datatype datatype, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Unpack";
  if (!is_any_comm(comm)) return fail_comm(kName);
  if (const int code = check_values(kName, comm, outbuf, outcount, datatype)) return code;
  std::size_t bytes;
  if (const int code = check_room(kName, comm, inbuf, datatype->size_bytes, outcount, insize,
                                  position, &bytes)) {
    return code;
  }
  unpack(datatype, static_cast<const std::byte*>(inbuf) + *position, bytes, outbuf);
  *position += static_cast<int>(bytes);
  return MPI_SUCCESS;
}

int pack_size(int incount, MPI_Datatype datatype, MPI_Comm comm, int* size) {
  constexpr const char* kName = "MPI_Pack_size";
  if (!is_any_comm(comm)) return fail_comm(kName);
  if (const int code = check_values(kName, comm, kName, incount, datatype)) return code;
  const std::size_t each = datatype->size_bytes;
  const bool fits = each == 0 || static_cast<std::size_t>(incount) <= INT_MAX / each;
  *size = fits ? static_cast<int>(static_cast<std::size_t>(incount) * each) : MPI_UNDEFINED;
  return MPI_SUCCESS;
}

int pack_external(const char datarep[], const void* inbuf, int incount, MPI_Datatype datatype,
                  void* outbuf, MPI_Aint outsize, MPI_Aint* position) {
  constexpr const char* kName = "MPI_Pack_external";
  require_active(kName);
  if (const int code = check_representation(kName, datarep)) return code;
  if (const int code = check_values(kName, MPI_COMM_WORLD, inbuf, incount, datatype)) return code;
  const datatypes::Type& map = map_of(datatype);
  std::size_t bytes;
  if (const int code = check_room(kName, MPI_COMM_WORLD, outbuf, map.external_bytes(), incount,
                                  outsize, position, &bytes)) {
    return code;
  }
  if (bytes > 0 && !datatypes::pack_external(map, inbuf, static_cast<std::size_t>(incount),
                                             static_cast<std::byte*>(outbuf) + *position)) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_CONVERSION,
                "a value does not fit its type in external32, where a long has 4 bytes and a "
                "wide character 2");
  }
  *position += static_cast<MPI_Aint>(bytes);
  return MPI_SUCCESS;
}

int unpack_external(const char datarep[], const void* inbuf, MPI_Aint insize, MPI_Aint* position,
                    void* outbuf, int outcount, MPI_Datatype datatype) {
  constexpr const char* kName = "MPI_Unpack_external";
  require_active(kName);
  if (const int code = check_representation(kName, datarep)) return code;
  if (const int code = check_values(kName, MPI_COMM_WORLD, outbuf, outcount, datatype)) {
    return code;
  }
  const datatypes::Type& map = map_of(datatype);
  std::size_t bytes;
  if (const int code = check_room(kName, MPI_COMM_WORLD, inbuf, map.external_bytes(), outcount,
                                  insize, position, &bytes)) {
    return code;
  }
  if (bytes > 0) {
    datatypes::unpack_external(map, static_cast<const std::byte*>(inbuf) + *position, outbuf,
                               static_cast<std::size_t>(outcount));
  }
  *position += static_cast<MPI_Aint>(bytes);
  return MPI_SUCCESS;
}

int pack_external_size(const char datarep[], int incount, MPI_Datatype datatype, MPI_Aint* size) {
  constexpr const char* kName = "MPI_Pack_external_size";
  require_active(kName);
  if (const int code = check_representation(kName, datarep)) return code;
  if (const int code = check_values(kName, MPI_COMM_WORLD, kName, incount, datatype)) return code;
  *size = static_cast<MPI_Aint>(map_of(datatype).external_bytes()) * incount;
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
