// Sizes, extents and counts of elements.
#include <limits.h>

#include "api.h"
#include "pmpi/datatype.h"
#include "pmpi/errors.h"

namespace rejoin::pmpi {
namespace {

int check(const char* name, MPI_Datatype type, const MPI_Status* status) {
  if (const int code = check_type(name, type)) return code;
  if (status != nullptr) return MPI_SUCCESS;
  return fail(name, MPI_COMM_WORLD, MPI_ERR_ARG, "the status is MPI_STATUS_IGNORE");
}

template <class Integer>
int get_bounds(const char* name, MPI_Datatype type, Integer* lower, Integer* extent, bool is_true) {
  if (const int code = check_type(name, type)) return code;
  if (!has_map(type)) {
    *lower = *extent = 0;
    return MPI_SUCCESS;
  }
  const datatypes::Type& map = map_of(type);
  const datatypes::Bounds& b = is_true ? map.true_bounds() : map.bounds();
  *lower = b.lower;
  *extent = b.extent();
  return MPI_SUCCESS;
}

template <class Integer>
int get_elements_of(const char* name, const MPI_Status* status, MPI_Datatype type, Integer* count,
                    std::int64_t most) {
  if (const int code = check(name, type, status)) return code;
  const std::int64_t elements = has_map(type) ? map_of(type).elements_in(status->_ucount) : -1;
  const bool known = elements >= 0 && elements <= most;
  *count = known ? static_cast<Integer>(elements) : MPI_UNDEFINED;
  return MPI_SUCCESS;
}

int set_elements(const char* name, MPI_Status* status, MPI_Datatype type, MPI_Count count) {
  if (const int code = check_type(name, type)) return code;
  if (count < 0) {
    return fail(name, MPI_COMM_WORLD, MPI_ERR_COUNT, "the count is negative");
  }
  status->_ucount = has_map(type) ? map_of(type).bytes_in(static_cast<std::uint64_t>(count)) : 0;
  return MPI_SUCCESS;
}

}  // namespace

int type_size(MPI_Datatype type, int* size) {
  if (const int code = check_type("MPI_Type_size", type)) return code;
  *size = type->size_bytes > INT_MAX ? MPI_UNDEFINED : static_cast<int>(type->size_bytes);
  return MPI_SUCCESS;
}
int type_size_x(MPI_Datatype type, MPI_Count* size) {
  if (const int code = check_type("MPI_Type_size_x", type)) return code;
  *size = static_cast<MPI_Count>(type->size_bytes);
  return MPI_SUCCESS;
}

int type_get_extent(MPI_Datatype type, MPI_Aint* lb, MPI_Aint* extent) {
  return get_bounds("MPI_Type_get_extent", type, lb, extent, false);
}
int type_get_extent_x(MPI_Datatype type, MPI_Count* lb, MPI_Count* extent) {
  return get_bounds("MPI_Type_get_extent_x", type, lb, extent, false);
}
int type_get_true_extent(MPI_Datatype datatype, MPI_Aint* true_lb, MPI_Aint* true_extent) {
  return get_bounds("MPI_Type_get_true_extent", datatype, true_lb, true_extent, true);
}
int type_get_true_extent_x(MPI_Datatype datatype, MPI_Count* true_lb, MPI_Count* true_extent) {
  return get_bounds("MPI_Type_get_true_extent_x", datatype, true_lb, true_extent, true);
}
int type_extent(MPI_Datatype type, MPI_Aint* extent) {
  MPI_Aint lb;
  return get_bounds("MPI_Type_extent", type, &lb, extent, false);
}
int type_lb(MPI_Datatype type, MPI_Aint* lb) {
  MPI_Aint extent;
  return get_bounds("MPI_Type_lb", type, lb, &extent, false);
}
int type_ub(MPI_Datatype mtype, MPI_Aint* ub) {
  MPI_Aint lb, extent;
  const int code = get_bounds("MPI_Type_ub", mtype, &lb, &extent, false);
  if (code == MPI_SUCCESS) *ub = lb + extent;
  return code;
}

int type_match_size(int typeclass, int size, MPI_Datatype* type) {
  constexpr const char* kName = "MPI_Type_match_size";
  require_active(kName);
  struct Match {
    int type_class, size;
    MPI_Datatype type;
  };
  const Match matches[] = {
      {MPI_TYPECLASS_INTEGER, 1, MPI_INTEGER1},   {MPI_TYPECLASS_INTEGER, 2, MPI_INTEGER2},
      {MPI_TYPECLASS_INTEGER, 4, MPI_INTEGER4},   {MPI_TYPECLASS_INTEGER, 8, MPI_INTEGER8},
      {MPI_TYPECLASS_REAL, 4, MPI_REAL4},         {MPI_TYPECLASS_REAL, 8, MPI_REAL8},
      {MPI_TYPECLASS_REAL, 16, MPI_REAL16},       {MPI_TYPECLASS_COMPLEX, 8, MPI_COMPLEX8},
      {MPI_TYPECLASS_COMPLEX, 16, MPI_COMPLEX16}, {MPI_TYPECLASS_COMPLEX, 32, MPI_COMPLEX32},
  };
  for (const Match& m : matches) {
    if (m.type_class == typeclass && m.size == size) {
      *type = m.type;
      return MPI_SUCCESS;
    }
  }
  return fail(kName, MPI_COMM_WORLD, MPI_ERR_ARG, "there is no type of %d bytes in this class",
              size);
}

int get_count(const MPI_Status* status, MPI_Datatype datatype, int* count) {
  if (const int code = check("MPI_Get_count", datatype, status)) return code;
  const std::size_t size = datatype->size_bytes;
  const bool whole = size > 0 && status->_ucount % size == 0 && status->_ucount / size <= INT_MAX;
  *count = whole                  ? static_cast<int>(status->_ucount / size)
           : status->_ucount == 0 ? 0
                                  : MPI_UNDEFINED;
  return MPI_SUCCESS;
}

int get_elements(const MPI_Status* status, MPI_Datatype datatype, int* count) {
  return get_elements_of("MPI_Get_elements", status, datatype, count, INT_MAX);
}
int get_elements_x(const MPI_Status* status, MPI_Datatype datatype, MPI_Count* count) {
  return get_elements_of("MPI_Get_elements_x", status, datatype, count, INT64_MAX);
}

int status_set_elements(MPI_Status* status, MPI_Datatype datatype, int count) {
  return set_elements("MPI_Status_set_elements", status, datatype, count);
}
int status_set_elements_x(MPI_Status* status, MPI_Datatype datatype, MPI_Count count) {
  return set_elements("MPI_Status_set_elements_x", status, datatype, count);
}

}  // namespace rejoin::pmpi
