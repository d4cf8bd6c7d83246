// The objects behind MPI_COMM_WORLD, MPI_INT and the like, in the sizes of Open MPI 4.1's
// libmpi.so.40.
#include "pmpi/cxx/hooks.h"
#include "pmpi/handles.h"

using rejoin::engine::Element;
using rejoin::engine::Operator;
using rejoin::pmpi::ErrhandlerKind;
using rejoin::pmpi::kNoFortranHandle;
using rejoin::pmpi::Magic;
using rejoin::pmpi::TypeClass;

// Pads an object to its size in Open MPI's library, as `nm -DS libmpi.so.40` prints it.
template <class Body, std::size_t kBytes>
struct Padded {
  Body body;
  char padding[kBytes - sizeof(Body)];
};
struct Empty {
  Magic magic;
};
struct ompi_predefined_communicator_t : Padded<ompi_communicator_t, 512> {};
struct ompi_predefined_group_t : Padded<ompi_group_t, 256> {};
struct ompi_predefined_datatype_t : Padded<ompi_datatype_t, 512> {};
struct ompi_predefined_op_t : Padded<ompi_op_t, 2048> {};
struct ompi_predefined_errhandler_t : Padded<ompi_errhandler_t, 1024> {};
struct ompi_predefined_info_t : Padded<ompi_info_t, 256> {};
struct ompi_predefined_request_t : Padded<Empty, 256> {};
struct ompi_predefined_message_t : Padded<Empty, 256> {};
struct ompi_predefined_win_t : Padded<Empty, 512> {};
struct ompi_predefined_file_t : Padded<Empty, 1536> {};
struct ompi_predefined_instance_t : Padded<Empty, 512> {};
static_assert(sizeof(ompi_predefined_communicator_t) == 512);
static_assert(sizeof(ompi_predefined_group_t) == 256);
static_assert(sizeof(ompi_predefined_datatype_t) == 512);
static_assert(sizeof(ompi_predefined_op_t) == 2048);
static_assert(sizeof(ompi_predefined_errhandler_t) == 1024);
static_assert(sizeof(ompi_predefined_info_t) == 256);
static_assert(sizeof(ompi_predefined_request_t) == 256);
static_assert(sizeof(ompi_predefined_message_t) == 256);
static_assert(sizeof(ompi_predefined_win_t) == 512);
static_assert(sizeof(ompi_predefined_file_t) == 1536);
static_assert(sizeof(ompi_predefined_instance_t) == 512);

namespace {

constexpr std::uint32_t classes_of(Operator op) {
  constexpr auto bit = [](TypeClass c) { return 1u << static_cast<unsigned>(c); };
  constexpr std::uint32_t kIntegers = bit(TypeClass::kCInteger) | bit(TypeClass::kMultiLanguage);
  constexpr std::uint32_t kFortran = bit(TypeClass::kFortranInteger);
  constexpr std::uint32_t kFloating = bit(TypeClass::kFloating);
  switch (op) {
    case Operator::kMax:
    case Operator::kMin:
      return kIntegers | kFortran | kFloating;
    case Operator::kSum:
    case Operator::kProd:
      return kIntegers | kFortran | kFloating | bit(TypeClass::kComplex);
    case Operator::kLand:
    case Operator::kLor:
    case Operator::kLxor:
      return kIntegers | bit(TypeClass::kLogical);
    case Operator::kBand:
    case Operator::kBor:
    case Operator::kBxor:
      return kIntegers | kFortran;
    case Operator::kMaxloc:
    case Operator::kMinloc:
      return bit(TypeClass::kPair);
    default:
      return 0;  // MPI_REPLACE and MPI_NO_OP are for one-sided communication alone
  }
}

consteval ompi_predefined_op_t predefined(Operator op) {
  const Magic magic = op == Operator::kNull ? Magic::kNone : Magic::kOp;
  return {{{magic, nullptr, nullptr, classes_of(op), op, true, static_cast<int>(op)}, {}}};
}

consteval ompi_predefined_datatype_t predefined(int fortran, const char* name, TypeClass type_class,
                                                Element element, std::size_t size_bytes,
                                                std::uint32_t gaps) {
  ompi_predefined_datatype_t t = {};
  ompi_datatype_t& d = t.body;
  d.magic = fortran == 0 ? Magic::kNone : Magic::kType;
  d.size_bytes = size_bytes;
  d.extent_bytes = static_cast<std::ptrdiff_t>(rejoin::engine::element_bytes(element));
  d.reduced_bytes = rejoin::engine::element_bytes(element);
  d.elements = 1;
  d.contiguous = size_bytes == d.reduced_bytes;
  d.handles = 1;
  d.references = 1;
  d.fortran = fortran;
  d.element = element;
  d.type_class = type_class;
  d.committed = element != Element::kNone;
  d.predefined = true;
  d.gaps = gaps;
  for (int i = 0; name[i] != '\0'; ++i) d.name[i] = name[i];
  return t;
}

consteval ompi_predefined_errhandler_t predefined(ErrhandlerKind kind, Magic magic, int fortran) {
  return {{{magic, nullptr, 1, fortran, kind, true, false}, {}}};
}

enum Fortran {
#define X(object, name, type_class, element, size, gaps) kFortran_##object,
#include "pmpi/datatypes.def"
#undef X
};

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// MPI_Init fills in the rest.
constinit ompi_predefined_communicator_t ompi_mpi_comm_world = {
    {{Magic::kNone, nullptr, nullptr, nullptr, nullptr, nullptr, 1, 0, true, "MPI_COMM_WORLD"},
     {}}};
constinit ompi_predefined_communicator_t ompi_mpi_comm_self = {
    {{Magic::kNone, nullptr, nullptr, nullptr, nullptr, nullptr, 1, 1, true, "MPI_COMM_SELF"}, {}}};
constinit ompi_predefined_communicator_t ompi_mpi_comm_null = {
    {{Magic::kNone, nullptr, nullptr, nullptr, nullptr, nullptr, 1, 2, true, "MPI_COMM_NULL"}, {}}};

constinit ompi_predefined_group_t ompi_mpi_group_null = {
    {{Magic::kNone, nullptr, 0, MPI_UNDEFINED, 0, true}, {}}};
constinit ompi_predefined_group_t ompi_mpi_group_empty = {
    {{Magic::kGroup, nullptr, 0, MPI_UNDEFINED, 1, true}, {}}};

constinit ompi_predefined_op_t ompi_mpi_op_null = predefined(Operator::kNull);
constinit ompi_predefined_op_t ompi_mpi_op_max = predefined(Operator::kMax);
constinit ompi_predefined_op_t ompi_mpi_op_min = predefined(Operator::kMin);
constinit ompi_predefined_op_t ompi_mpi_op_sum = predefined(Operator::kSum);
constinit ompi_predefined_op_t ompi_mpi_op_prod = predefined(Operator::kProd);
constinit ompi_predefined_op_t ompi_mpi_op_land = predefined(Operator::kLand);
constinit ompi_predefined_op_t ompi_mpi_op_band = predefined(Operator::kBand);
constinit ompi_predefined_op_t ompi_mpi_op_lor = predefined(Operator::kLor);
constinit ompi_predefined_op_t ompi_mpi_op_bor = predefined(Operator::kBor);
constinit ompi_predefined_op_t ompi_mpi_op_lxor = predefined(Operator::kLxor);
constinit ompi_predefined_op_t ompi_mpi_op_bxor = predefined(Operator::kBxor);
constinit ompi_predefined_op_t ompi_mpi_op_maxloc = predefined(Operator::kMaxloc);
constinit ompi_predefined_op_t ompi_mpi_op_minloc = predefined(Operator::kMinloc);
constinit ompi_predefined_op_t ompi_mpi_op_replace = predefined(Operator::kReplace);
constinit ompi_predefined_op_t ompi_mpi_op_no_op = predefined(Operator::kNoOp);

#define X(object, name, type_class, element, size, gaps) \
  extern ompi_predefined_datatype_t object;              \
  constinit ompi_predefined_datatype_t object =          \
      predefined(kFortran_##object, #name, TypeClass::type_class, Element::element, size, gaps);
#include "pmpi/datatypes.def"
#undef X
// Fortran's name for a type that only C++ has.
constinit ompi_predefined_datatype_t ompi_mpi_ldblcplex =
    predefined(kNoFortranHandle, "MPI_LONG_DOUBLE_COMPLEX", TypeClass::kComplex,
               Element::kComplexLongDouble, 32, 0xfc00fc00);

constinit ompi_predefined_errhandler_t ompi_mpi_errhandler_null =
    predefined(ErrhandlerKind::kFatal, Magic::kNone, 0);
constinit ompi_predefined_errhandler_t ompi_mpi_errors_are_fatal =
    predefined(ErrhandlerKind::kFatal, Magic::kErrhandler, 1);
constinit ompi_predefined_errhandler_t ompi_mpi_errors_return =
    predefined(ErrhandlerKind::kReturn, Magic::kErrhandler, 2);

constinit ompi_predefined_info_t ompi_mpi_info_null = {{{Magic::kNone, nullptr, 0, true}, {}}};
constinit ompi_predefined_info_t ompi_mpi_info_env = {{{Magic::kInfo, nullptr, 1, true}, {}}};

constinit ompi_predefined_request_t ompi_request_null = {};
constinit ompi_predefined_message_t ompi_message_null = {};
constinit ompi_predefined_message_t ompi_message_no_proc = {};
constinit ompi_predefined_win_t ompi_mpi_win_null = {};
constinit ompi_predefined_file_t ompi_mpi_file_null = {};

// Used by libmpi_cxx.so.40 alone.
constinit ompi_predefined_errhandler_t ompi_mpi_errors_throw_exceptions =
    predefined(ErrhandlerKind::kFatal, Magic::kErrhandler, kNoFortranHandle);

// Open MPI 5.
extern ompi_predefined_errhandler_t ompi_mpi_errors_abort;
constinit ompi_predefined_errhandler_t ompi_mpi_errors_abort =
    predefined(ErrhandlerKind::kFatal, Magic::kErrhandler, kNoFortranHandle);
extern ompi_predefined_instance_t ompi_mpi_instance_null;
constinit ompi_predefined_instance_t ompi_mpi_instance_null = {};

// Fortran's named constants, which are common blocks that are recognised by their addresses.
#define REJOIN_SENTINEL(name, type) \
  extern type name;                 \
  constinit type name = 0;
REJOIN_SENTINEL(mpi_fortran_bottom_, int)
REJOIN_SENTINEL(mpi_fortran_in_place_, int)
REJOIN_SENTINEL(mpi_fortran_argv_null_, char)
REJOIN_SENTINEL(mpi_fortran_argvs_null_, char)
REJOIN_SENTINEL(mpi_fortran_errcodes_ignore_, int)
REJOIN_SENTINEL(mpi_fortran_status_ignore_, double)
REJOIN_SENTINEL(mpi_fortran_statuses_ignore_, double)
REJOIN_SENTINEL(mpi_fortran_unweighted_, int)
REJOIN_SENTINEL(mpi_fortran_weights_empty_, int)

MPI_Fint* MPI_F_STATUS_IGNORE = reinterpret_cast<MPI_Fint*>(&mpi_fortran_status_ignore_);
MPI_Fint* MPI_F_STATUSES_IGNORE = reinterpret_cast<MPI_Fint*>(&mpi_fortran_statuses_ignore_);

// The names by which Open MPI's Fortran modules refer to the objects.
#define REJOIN_ADDRESS(object) \
  extern void* object##_addr;  \
  void* object##_addr = &object;
REJOIN_ADDRESS(ompi_mpi_comm_world)
REJOIN_ADDRESS(ompi_mpi_comm_self)
REJOIN_ADDRESS(ompi_mpi_comm_null)
REJOIN_ADDRESS(ompi_mpi_group_null)
REJOIN_ADDRESS(ompi_mpi_group_empty)
REJOIN_ADDRESS(ompi_mpi_op_null)
REJOIN_ADDRESS(ompi_mpi_op_max)
REJOIN_ADDRESS(ompi_mpi_op_min)
REJOIN_ADDRESS(ompi_mpi_op_sum)
REJOIN_ADDRESS(ompi_mpi_op_prod)
REJOIN_ADDRESS(ompi_mpi_op_land)
REJOIN_ADDRESS(ompi_mpi_op_band)
REJOIN_ADDRESS(ompi_mpi_op_lor)
REJOIN_ADDRESS(ompi_mpi_op_bor)
REJOIN_ADDRESS(ompi_mpi_op_lxor)
REJOIN_ADDRESS(ompi_mpi_op_bxor)
REJOIN_ADDRESS(ompi_mpi_op_maxloc)
REJOIN_ADDRESS(ompi_mpi_op_minloc)
REJOIN_ADDRESS(ompi_mpi_op_replace)
REJOIN_ADDRESS(ompi_mpi_op_no_op)
REJOIN_ADDRESS(ompi_mpi_errhandler_null)
REJOIN_ADDRESS(ompi_mpi_errors_are_fatal)
REJOIN_ADDRESS(ompi_mpi_errors_return)
REJOIN_ADDRESS(ompi_mpi_errors_throw_exceptions)
REJOIN_ADDRESS(ompi_mpi_info_null)
REJOIN_ADDRESS(ompi_mpi_win_null)
REJOIN_ADDRESS(ompi_mpi_file_null)
REJOIN_ADDRESS(ompi_request_null)
REJOIN_ADDRESS(ompi_mpi_character)
REJOIN_ADDRESS(ompi_mpi_logical)
REJOIN_ADDRESS(ompi_mpi_logical1)
REJOIN_ADDRESS(ompi_mpi_logical2)
REJOIN_ADDRESS(ompi_mpi_logical4)
REJOIN_ADDRESS(ompi_mpi_logical8)
REJOIN_ADDRESS(ompi_mpi_integer)
REJOIN_ADDRESS(ompi_mpi_integer1)
REJOIN_ADDRESS(ompi_mpi_integer2)
REJOIN_ADDRESS(ompi_mpi_integer4)
REJOIN_ADDRESS(ompi_mpi_integer8)
REJOIN_ADDRESS(ompi_mpi_integer16)
REJOIN_ADDRESS(ompi_mpi_real)
REJOIN_ADDRESS(ompi_mpi_real4)
REJOIN_ADDRESS(ompi_mpi_real8)
REJOIN_ADDRESS(ompi_mpi_real16)
REJOIN_ADDRESS(ompi_mpi_dblprec)
REJOIN_ADDRESS(ompi_mpi_cplex)
REJOIN_ADDRESS(ompi_mpi_complex8)
REJOIN_ADDRESS(ompi_mpi_complex16)
REJOIN_ADDRESS(ompi_mpi_complex32)
REJOIN_ADDRESS(ompi_mpi_dblcplex)
REJOIN_ADDRESS(ompi_mpi_2real)
REJOIN_ADDRESS(ompi_mpi_2dblprec)
REJOIN_ADDRESS(ompi_mpi_2integer)
// These two sentinels are null pointers in C.
extern void* ompi_mpi_status_ignore_addr;
void* ompi_mpi_status_ignore_addr = nullptr;
extern void* ompi_mpi_statuses_ignore_addr;
void* ompi_mpi_statuses_ignore_addr = nullptr;

}  // extern "C"
#pragma GCC visibility pop
