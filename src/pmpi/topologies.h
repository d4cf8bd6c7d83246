// The topology of a communicator, and helpers of the functions that use it.
#pragma once

#include <initializer_list>

#include "pmpi/context.h"
#include "pmpi/errors.h"
#include "pmpi/handles.h"
#include "pmpi/topology.h"

namespace rejoin::pmpi {

// A topology. It never changes, and duplicates of a communicator share it.
struct Topology {
  int kind;        // MPI_CART, MPI_GRAPH, MPI_DIST_GRAPH
  int references;  // by communicators
  bool weighted;   // MPI_DIST_GRAPH
  // MPI_CART: dimensions, periods. MPI_GRAPH: index, edges. MPI_DIST_GRAPH: sources, their weights,
  // destinations, their weights.
  Ints lists[4];
  int* memory;
  std::size_t memory_ints;

  Grid grid() const { return {lists[0], lists[1]}; }
  int ndims() const { return static_cast<int>(lists[0].size()); }
  Ints index() const { return lists[0]; }
  Ints edges() const { return lists[1]; }
  Ints sources() const { return lists[0]; }
  Ints source_weights() const { return lists[1]; }
  Ints destinations() const { return lists[2]; }
  Ints destination_weights() const { return lists[3]; }
};

// Copies the lists.
Topology* make_topology(int kind, bool weighted, std::initializer_list<Ints> lists);
Topology* share(Topology* topology);  // null stays null
void release_topology(Topology* topology);

inline int null_or_rank(int rank) { return rank == kNowhere ? MPI_PROC_NULL : rank; }
inline Ints ints(const int* first, int count) { return {first, static_cast<std::size_t>(count)}; }

// Returns a hash of a whole list.
inline std::uint32_t digest(std::uint32_t start, Ints list) {
  std::uint64_t h = journal::mix(start + list.size());
  for (const int v : list) h = journal::mix(h + static_cast<std::uint32_t>(v));
  return static_cast<std::uint32_t>(h);
}

// Collective: the first `members` ranks of `comm` get a communicator with the topology, the others
// MPI_COMM_NULL. `layout`: a hash of what all ranks must pass alike.
int create_with_topology(const char* function, const void* site, MPI_Comm comm,
                         recovery::OpKind kind, std::uint32_t layout, int members, int topology,
                         std::initializer_list<Ints> lists, MPI_Comm* newcomm);

// --- Checks. They return MPI_SUCCESS, or the code of the error that was raised.

// Checks that the communicator has a topology of that kind.
int check_topology(const char* function, MPI_Comm comm, int kind);
int check_rank(const char* function, MPI_Comm comm, int rank);
int check_pointers(const char* function, MPI_Comm comm,
                   std::initializer_list<const void*> pointers);
// Checks pointers to lists of `elements`, which may be null if there are no elements.
template <class Count>
int check_lists(const char* function, MPI_Comm comm, Count elements,
                std::initializer_list<const void*> lists) {
  return elements == 0 ? MPI_SUCCESS : check_pointers(function, comm, lists);
}
// Checks the size of an array as the program gives it.
int check_room(const char* function, MPI_Comm comm, int room);

}  // namespace rejoin::pmpi
