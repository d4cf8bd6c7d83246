// The topology of a communicator, and what its functions share.
#pragma once

#include <initializer_list>

#include "pmpi/context.h"
#include "pmpi/errors.h"
#include "pmpi/handles.h"
#include "pmpi/topology.h"

namespace rejoin::pmpi {

// Never changes. Duplicates of a communicator have the same one.
struct Topology {
  int kind;        // MPI_CART, MPI_GRAPH, MPI_DIST_GRAPH
  int references;  // of communicators
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

// A hash of all of a list.
inline std::uint32_t digest(std::uint32_t start, Ints list) {
  std::uint64_t h = engine::mix(start + list.size());
  for (const int v : list) h = engine::mix(h + static_cast<std::uint32_t>(v));
  return static_cast<std::uint32_t>(h);
}

// Collective: the first `members` ranks of `comm` get a communicator with the topology, the others
// MPI_COMM_NULL. `layout`: a hash of what all ranks must pass alike.
int create_with_topology(const char* function, const void* site, MPI_Comm comm,
                         recovery::OpKind kind, std::uint32_t layout, int members, int topology,
                         std::initializer_list<Ints> lists, MPI_Comm* newcomm);

// The following return MPI_SUCCESS, or the code of the error that was raised.

// A communicator with a topology of that kind.
int check_topology(const char* function, MPI_Comm comm, int kind);
int check_rank(const char* function, MPI_Comm comm, int rank);
int check_pointers(const char* function, MPI_Comm comm,
                   std::initializer_list<const void*> pointers);
// The same, of lists of `elements`: they may be null if there are none.
template <class Count>
int check_lists(const char* function, MPI_Comm comm, Count elements,
                std::initializer_list<const void*> lists) {
  return elements == 0 ? MPI_SUCCESS : check_pointers(function, comm, lists);
}
// How much room the program says that it has.
int check_room(const char* function, MPI_Comm comm, int room);

}  // namespace rejoin::pmpi
