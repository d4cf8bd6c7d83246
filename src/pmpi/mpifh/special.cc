// Functions that have other parameters in Fortran than in C.
#include <limits.h>

#include "pmpi/mpifh/convert.h"
#include "pmpi/mpifh/hooks.h"
#include "pmpi/mpifh/names.h"
#include "rejoin.h"

namespace rejoin::mpifh {

namespace {
bool is_usable(MPI_Comm comm) { return comm != nullptr && comm != MPI_COMM_NULL; }
}  // namespace

int members_of(const MPI_Fint* fortran, bool) {
  const MPI_Comm comm = to_c<MPI_Comm>(fortran);
  if (!is_usable(comm)) return 0;
  int is_inter = 0, size = 0;
  PMPI_Comm_test_inter(comm, &is_inter);
  if (is_inter != 0) {
    PMPI_Comm_remote_size(comm, &size);
  } else {
    PMPI_Comm_size(comm, &size);
  }
  return size;
}

int neighbours_of(const MPI_Fint* fortran, bool sent) {
  const MPI_Comm comm = to_c<MPI_Comm>(fortran);
  if (!is_usable(comm)) return 0;
  int topology = MPI_UNDEFINED, count = 0;
  PMPI_Topo_test(comm, &topology);
  if (topology == MPI_CART) {
    PMPI_Cartdim_get(comm, &count);
    count *= 2;
  } else if (topology == MPI_GRAPH) {
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Graph_neighbors_count(comm, rank, &count);
  } else if (topology == MPI_DIST_GRAPH) {
    int in = 0, out = 0, weighted = 0;
    PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
    count = sent ? out : in;
  }
  return count;
}

}  // namespace rejoin::mpifh

using namespace rejoin::mpifh;

#pragma GCC visibility push(default)
extern "C" {

// --- Environment

void ompi_init_f(MPI_Fint* ierr) { give(ierr, PMPI_Init(nullptr, nullptr)); }
REJOIN_NAMES(mpi, MPI, init, Init, INIT)

void ompi_init_thread_f(MPI_Fint* required, MPI_Fint* provided, MPI_Fint* ierr) {
  give(ierr, PMPI_Init_thread(nullptr, nullptr, *required, provided));
}
REJOIN_NAMES(mpi, MPI, init_thread, Init_thread, INIT_THREAD)

// MPI_PCONTROL has only the argument `level` in Fortran. The levels of rejoin.h need further
// arguments: a Fortran program calls the functions of rejoin.h instead.
void ompi_pcontrol_f(MPI_Fint* level) {
  if (*level >= REJOIN_PCONTROL_LOAD && *level <= REJOIN_PCONTROL_BOOTSTRAP) {
    rejoin_unsupported("MPI_PCONTROL with a level of rejoin.h in Fortran");
  } else {
    PMPI_Pcontrol(*level);
  }
}
REJOIN_NAMES(mpi, MPI, pcontrol, Pcontrol, PCONTROL)

double ompi_wtime_f() { return PMPI_Wtime(); }
REJOIN_NAMES(mpi, MPI, wtime, Wtime, WTIME)
double ompi_wtick_f() { return PMPI_Wtick(); }
REJOIN_NAMES(mpi, MPI, wtick, Wtick, WTICK)

// MPI_F_SYNC_REG: keeps a compiler from moving accesses to `buf` across the call.
void ompi_f_sync_reg_f(void*) {}
REJOIN_NAMES(mpi, MPI, f_sync_reg, F_sync_reg, F_SYNC_REG)

// For mpif.h and the module mpi, which leave the address of the buffer undefined.
void ompi_buffer_detach_f(void*, MPI_Fint* size, MPI_Fint* ierr) {
  void* attached = nullptr;
  give(ierr, PMPI_Buffer_detach(&attached, size));
}
REJOIN_NAMES(mpi, MPI, buffer_detach, Buffer_detach, BUFFER_DETACH)

void ompi_info_get_f(MPI_Fint* info, char* key, MPI_Fint* valuelen, char* value, MPI_Fint* flag,
                     MPI_Fint* ierr, int key_length, int value_length) {
  InfoText c_key(key, key_length);
  Array<char> c_value(*valuelen < 0 ? 1 : *valuelen + 1);
  int found = 0;
  const int code = PMPI_Info_get(to_c<MPI_Info>(info), c_key, *valuelen, c_value.data(), &found);
  if (code == MPI_SUCCESS) *flag = found != 0;
  if (code == MPI_SUCCESS && found != 0) put_text(c_value.data(), value, value_length);
  give(ierr, code);
}
REJOIN_NAMES(mpi, MPI, info_get, Info_get, INFO_GET)

// --- Addresses

MPI_Aint ompi_aint_add_f(MPI_Aint* base, MPI_Aint* disp) { return *base + *disp; }
REJOIN_NAMES(mpi, MPI, aint_add, Aint_add, AINT_ADD)
MPI_Aint ompi_aint_diff_f(MPI_Aint* addr1, MPI_Aint* addr2) { return *addr1 - *addr2; }
REJOIN_NAMES(mpi, MPI, aint_diff, Aint_diff, AINT_DIFF)

// MPI 1's INTEGER has no room for an address. Its lower half is enough to compute differences.
void ompi_address_f(void* location, MPI_Fint* address, MPI_Fint* ierr) {
  MPI_Aint whole = 0;
  give(ierr, PMPI_Get_address(choice(location), &whole));
  *address = static_cast<MPI_Fint>(whole);
}
REJOIN_NAMES(mpi, MPI, address, Address, ADDRESS)

// Returns the code of the call. A bound that INTEGER has no room for is an error.
static int give_bound(int code, MPI_Aint bound, MPI_Fint* to) {
  if (code != MPI_SUCCESS) return code;
  if (bound < INT_MIN || bound > INT_MAX) {
    PMPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_ARG);
    return MPI_ERR_ARG;
  }
  *to = static_cast<MPI_Fint>(bound);
  return code;
}
void ompi_type_extent_f(MPI_Fint* type, MPI_Fint* extent, MPI_Fint* ierr) {
  MPI_Aint bound = 0;
  const int code = PMPI_Type_extent(to_c<MPI_Datatype>(type), &bound);
  give(ierr, give_bound(code, bound, extent));
}
REJOIN_NAMES(mpi, MPI, type_extent, Type_extent, TYPE_EXTENT)
void ompi_type_lb_f(MPI_Fint* type, MPI_Fint* lb, MPI_Fint* ierr) {
  MPI_Aint bound = 0;
  const int code = PMPI_Type_lb(to_c<MPI_Datatype>(type), &bound);
  give(ierr, give_bound(code, bound, lb));
}
REJOIN_NAMES(mpi, MPI, type_lb, Type_lb, TYPE_LB)
void ompi_type_ub_f(MPI_Fint* type, MPI_Fint* ub, MPI_Fint* ierr) {
  MPI_Aint bound = 0;
  const int code = PMPI_Type_ub(to_c<MPI_Datatype>(type), &bound);
  give(ierr, give_bound(code, bound, ub));
}
REJOIN_NAMES(mpi, MPI, type_ub, Type_ub, TYPE_UB)

void ompi_type_hvector_f(MPI_Fint* count, MPI_Fint* blocklength, MPI_Fint* stride,
                         MPI_Fint* oldtype, MPI_Fint* newtype, MPI_Fint* ierr) {
  Handle<MPI_Datatype> made(newtype);
  give(ierr,
       PMPI_Type_hvector(*count, *blocklength, *stride, to_c<MPI_Datatype>(oldtype), &made.handle));
}
REJOIN_NAMES(mpi, MPI, type_hvector, Type_hvector, TYPE_HVECTOR)

namespace {
struct Displacements : Array<MPI_Aint> {
  Displacements(const MPI_Fint* fortran, int count) : Array(count) {
    for (int i = 0; i < size(); ++i) (*this)[i] = fortran[i];
  }
};
}  // namespace
void ompi_type_hindexed_f(MPI_Fint* count, MPI_Fint* lengths, MPI_Fint* displacements,
                          MPI_Fint* oldtype, MPI_Fint* newtype, MPI_Fint* ierr) {
  Displacements wide(displacements, *count);
  Handle<MPI_Datatype> made(newtype);
  give(ierr,
       PMPI_Type_hindexed(*count, lengths, wide.data(), to_c<MPI_Datatype>(oldtype), &made.handle));
}
REJOIN_NAMES(mpi, MPI, type_hindexed, Type_hindexed, TYPE_HINDEXED)
void ompi_type_struct_f(MPI_Fint* count, MPI_Fint* lengths, MPI_Fint* displacements,
                        MPI_Fint* types, MPI_Fint* newtype, MPI_Fint* ierr) {
  Displacements wide(displacements, *count);
  Handles<MPI_Datatype> c_types(types, *count);
  Handle<MPI_Datatype> made(newtype);
  give(ierr, PMPI_Type_struct(*count, lengths, wide.data(), c_types, &made.handle));
}
REJOIN_NAMES(mpi, MPI, type_struct, Type_struct, TYPE_STRUCT)

// --- MPI_SIZEOF: one procedure for each type and rank. The argument may be a descriptor; only its
// type counts.

#define REJOIN_SIZEOF(type, rank, bytes)                                      \
  void mpi_sizeof_##type##_##rank##_(void*, MPI_Fint* size, MPI_Fint* ierr) { \
    *size = bytes;                                                            \
    give(ierr, MPI_SUCCESS);                                                  \
  }                                                                           \
  REJOIN_NAME(mpi_sizeof_##type##_##rank##_, pmpi_sizeof_##type##_##rank##_)
#define REJOIN_SIZEOF_RANKS(type, bytes) \
  REJOIN_SIZEOF(type, scalar, bytes)     \
  REJOIN_SIZEOF(type, r1, bytes)         \
  REJOIN_SIZEOF(type, r2, bytes)         \
  REJOIN_SIZEOF(type, r3, bytes)         \
  REJOIN_SIZEOF(type, r4, bytes)         \
  REJOIN_SIZEOF(type, r5, bytes)         \
  REJOIN_SIZEOF(type, r6, bytes)         \
  REJOIN_SIZEOF(type, r7, bytes)         \
  REJOIN_SIZEOF(type, r8, bytes)         \
  REJOIN_SIZEOF(type, r9, bytes)         \
  REJOIN_SIZEOF(type, r10, bytes)        \
  REJOIN_SIZEOF(type, r11, bytes)        \
  REJOIN_SIZEOF(type, r12, bytes)        \
  REJOIN_SIZEOF(type, r13, bytes)        \
  REJOIN_SIZEOF(type, r14, bytes)        \
  REJOIN_SIZEOF(type, r15, bytes)
REJOIN_SIZEOF_RANKS(character, 1)
REJOIN_SIZEOF_RANKS(logical, 4)
REJOIN_SIZEOF_RANKS(int8, 1)
REJOIN_SIZEOF_RANKS(int16, 2)
REJOIN_SIZEOF_RANKS(int32, 4)
REJOIN_SIZEOF_RANKS(int64, 8)
REJOIN_SIZEOF_RANKS(real32, 4)
REJOIN_SIZEOF_RANKS(real64, 8)
REJOIN_SIZEOF_RANKS(real128, 16)
REJOIN_SIZEOF_RANKS(complex32, 8)
REJOIN_SIZEOF_RANKS(complex64, 16)
REJOIN_SIZEOF_RANKS(complex128, 32)

}  // extern "C"
#pragma GCC visibility pop
