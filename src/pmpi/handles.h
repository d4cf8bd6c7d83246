// What the opaque handles of mpi.h point to. The predefined ones (objects.cc) are padded to Open
// MPI's sizes, because executables hold copies of them (copy relocations). They therefore contain
// no pointer into themselves, their first contents are constants, and the library reaches them
// through the GOT.
//
// A handle is valid while its `magic` is that of its kind: one load distinguishes a usable handle
// from the null object, a freed one, and MPI_COMM_WORLD before MPI_Init.
#pragma once

#include <cstddef>
#include <cstdint>

#include "datatypes/type.h"
#include "engine/kernels.h"
#include "pmpi/mpi_api.h"
#include "recovery/attach.h"

namespace rejoin::pmpi {

using recovery::Rank;

enum class Magic : std::uint64_t {
  kNone = 0,
  kComm = 0x6d6d6f636e6a6572,
  kInter = kComm | std::uint64_t{1} << 63,  // an intercommunicator
  kGroup = 0x7072676e6a6572,
  kType = 0x7079746e6a6572,
  kOp = 0x706f6e6a6572,
  kErrhandler = 0x7272656e6a6572,
  kInfo = 0x6f666e696e6a6572,
  kRequest = 0x747365756e6a6572,
  kMessage = 0x7373656d6e6a6572,
};

// Index of a handle in its Fortran table; what MPI_X_c2f returns.
inline constexpr int kNoFortranHandle = -1;

struct Attribute;  // attributes.cc
struct Contents;   // datatype.h
struct InfoEntry;  // info.cc
struct Topology;   // topologies.h

// Rows of the table in MPI 3.1 section 5.9.2, which says what operations a type allows.
enum class TypeClass : std::uint8_t {
  kNoReduction,  // moved, never reduced by a predefined operation
  kCInteger,
  kFortranInteger,
  kFloating,
  kLogical,
  kComplex,
  kMultiLanguage,
  kPair,
};

enum class ErrhandlerKind : std::uint8_t { kFatal, kReturn, kUser, kFortran };

// How many MPI_Comm_create_group calls of one member list and tag this process has made on a
// communicator: the only count that all members of such a group share.
struct GroupCreations {
  std::uint64_t colour;
  std::uint64_t count;
  GroupCreations* next;
};

}  // namespace rejoin::pmpi

// An intercommunicator is one context whose members are those of the first group, followed by those
// of the second. It therefore recovers by the same rules as an intracommunicator.
struct ompi_communicator_t {
  rejoin::pmpi::Magic magic;
  rejoin::pmpi::Rank::Comm* comm;
  ompi_errhandler_t* errhandler;
  rejoin::pmpi::Attribute* attributes;  // newest first
  rejoin::pmpi::GroupCreations* creations;
  rejoin::pmpi::Topology* topology;  // null: none
  int references;                    // by the program's handle and by requests
  int fortran;
  bool predefined;
  char name[MPI_MAX_OBJECT_NAME];
  // Members of `comm`: those of this rank's group, and those that sources and destinations refer
  // to. They differ only in an intercommunicator.
  std::uint32_t own_first = 0, own_count = 0;
  std::uint32_t peer_first = 0, peer_count = 0;

  int size() const { return static_cast<int>(own_count); }
  int rank() const { return static_cast<int>(comm->members.rank - own_first); }
  int peers() const { return static_cast<int>(peer_count); }
  // Returns the place in `comm` of a rank that is a source or destination.
  std::uint32_t peer(int rank) const { return peer_first + static_cast<std::uint32_t>(rank); }
};

struct ompi_group_t {
  rejoin::pmpi::Magic magic;
  std::uint32_t* members;  // [size] world ranks
  int size;
  int rank;  // this process's rank; MPI_UNDEFINED: no member
  int fortran;
  bool predefined;
};

struct ompi_datatype_t {
  rejoin::pmpi::Magic magic;
  std::size_t size_bytes;               // the data of one value
  std::ptrdiff_t extent_bytes;          // the distance between values
  std::ptrdiff_t first_byte;            // where the data begins: the true lower bound
  std::size_t reduced_bytes;            // the distance between operands of a reduction
  std::size_t elements;                 // the number of `element` in a value
  const rejoin::datatypes::Type* map;   // null if predefined: see map_of()
  rejoin::pmpi::Contents* contents;     // what it was made of; null if predefined
  rejoin::pmpi::Attribute* attributes;  // newest first
  int handles;                          // handles that the program holds
  int references;                       // by handles, by requests, and by types made of it
  int fortran;
  rejoin::engine::Element element;  // canonical: MPI_INT and MPI_INTEGER are the same. kNone: the
                                    // elements are of several kinds, or lie apart
  rejoin::pmpi::TypeClass type_class;
  bool contiguous;  // the data of any number of values is one piece of memory
  bool committed;
  bool predefined;
  std::uint32_t gaps;  // bit i: byte i of an element is padding
  char name[MPI_MAX_OBJECT_NAME];
};

struct ompi_op_t {
  rejoin::pmpi::Magic magic;
  MPI_User_function* function;      // null if predefined
  MPI_User_function* cxx_callback;  // fifth argument of `function`; null: it has four
  std::uint32_t classes;            // a bit for each TypeClass that it is defined for
  rejoin::engine::Operator op;      // kUser if not predefined
  bool commutative;
  int fortran;
};

struct ompi_errhandler_t {
  rejoin::pmpi::Magic magic;
  MPI_Comm_errhandler_function* function;  // of kUser; that of kFortran takes integers
  int references;                          // by handles and communicators
  int fortran;
  rejoin::pmpi::ErrhandlerKind kind;
  bool predefined;
  bool of_files;  // made by MPI_File_create_errhandler
};

struct ompi_info_t {
  rejoin::pmpi::Magic magic;
  rejoin::pmpi::InfoEntry* first;
  int fortran;
  bool predefined;
};

namespace rejoin::pmpi {

// Whether this is an intracommunicator; most functions allow no other.
inline bool is_comm(MPI_Comm c) { return c != nullptr && c->magic == Magic::kComm; }
inline bool is_inter(MPI_Comm c) { return c != nullptr && c->magic == Magic::kInter; }
// Whether this is an intracommunicator or an intercommunicator.
inline bool is_any_comm(MPI_Comm c) {
  constexpr auto kEither = static_cast<std::uint64_t>(Magic::kInter);
  constexpr auto kDifference = kEither ^ static_cast<std::uint64_t>(Magic::kComm);
  return c != nullptr && (static_cast<std::uint64_t>(c->magic) | kDifference) == kEither;
}
inline bool is_group(MPI_Group g) { return g != nullptr && g->magic == Magic::kGroup; }
inline bool is_type(MPI_Datatype t) { return t != nullptr && t->magic == Magic::kType; }
inline bool is_committed(MPI_Datatype t) { return is_type(t) && t->committed; }
inline bool is_op(MPI_Op o) { return o != nullptr && o->magic == Magic::kOp; }
inline bool is_errhandler(MPI_Errhandler e) {
  return e != nullptr && e->magic == Magic::kErrhandler;
}
inline bool is_info(MPI_Info i) { return i != nullptr && i->magic == Magic::kInfo; }

}  // namespace rejoin::pmpi
