// Topologies as objects; MPI_Cart_*, MPI_Cartdim_get, MPI_Dims_create, MPI_Topo_test.
#include "pmpi/topologies.h"

#include <algorithm>

#include "api.h"
#include "pmpi/comm.h"
#include "pmpi/group.h"

namespace rejoin::pmpi {

using recovery::OpKind;
using recovery::Status;

Topology* make_topology(int kind, bool weighted, std::initializer_list<Ints> lists) {
  Topology* t = make<Topology>();
  t->kind = kind;
  t->references = 1;
  t->weighted = weighted;
  for (const Ints& list : lists) t->memory_ints += list.size();
  if (t->memory_ints > 0) {
    t->memory = static_cast<int*>(allocate(t->memory_ints * sizeof *t->memory));
  }
  int* to = t->memory;
  Ints* copy = t->lists;
  for (const Ints& list : lists) {
    *copy++ = {to, list.size()};
    to = std::copy(list.begin(), list.end(), to);
  }
  return t;
}

Topology* share(Topology* topology) {
  if (topology != nullptr) ++topology->references;
  return topology;
}

void release_topology(Topology* topology) {
  if (topology == nullptr || --topology->references > 0) return;
  if (topology->memory != nullptr) {
    release(topology->memory, topology->memory_ints * sizeof *topology->memory);
  }
  destroy(topology);
}

int check_topology(const char* function, MPI_Comm comm, int kind) {
  if (!is_comm(comm)) return fail_comm(function, comm);
  if (comm->topology != nullptr && comm->topology->kind == kind) return MPI_SUCCESS;
  return fail(function, comm, MPI_ERR_TOPOLOGY, "the communicator has no %s topology",
              kind == MPI_CART    ? "Cartesian"
              : kind == MPI_GRAPH ? "graph"
                                  : "distributed graph");
}

int check_rank(const char* function, MPI_Comm comm, int rank) {
  if (rank >= 0 && rank < comm->size()) return MPI_SUCCESS;
  return fail(function, comm, MPI_ERR_RANK, "the rank is %d; it must be between 0 and %d", rank,
              comm->size() - 1);
}

int check_pointers(const char* function, MPI_Comm comm,
                   std::initializer_list<const void*> pointers) {
  for (const void* p : pointers) {
    if (p == nullptr) return fail(function, comm, MPI_ERR_ARG, "an argument is a null pointer");
  }
  return MPI_SUCCESS;
}

int check_room(const char* function, MPI_Comm comm, int room) {
  if (room >= 0) return MPI_SUCCESS;
  return fail(function, comm, MPI_ERR_ARG,
              "the maximum number of elements is %d; it must be 0 or more", room);
}

int create_with_topology(const char* name, const void* site, MPI_Comm comm, OpKind kind,
                         std::uint32_t layout, int members, int topology,
                         std::initializer_list<Ints> lists, MPI_Comm* newcomm) {
  const recovery::Outcome o = meet(site, comm, kind, nullptr, 0, layout);
  if (o.status != Status::kOk) return fail_status(name, comm, o.status);
  *newcomm = MPI_COMM_NULL;
  if (comm->rank() >= members) return MPI_SUCCESS;
  const std::uint64_t id = journal::derive_context(comm->comm->members.context, o.sequence, 0);
  *newcomm = open_child(comm, id, ranks_of(comm).first(static_cast<std::size_t>(members)));
  (*newcomm)->topology = make_topology(topology, false, lists);
  return MPI_SUCCESS;
}

namespace {

int check_dimension(const char* name, MPI_Comm comm, int dimension) {
  const int n = comm->topology->ndims();
  if (dimension >= 0 && dimension < n) return MPI_SUCCESS;
  return fail(name, comm, MPI_ERR_DIMS, "the dimension is %d; the topology has %d, counted from 0",
              dimension, n);
}

// Checks the arguments of a grid on a communicator.
int check_grid(const char* name, MPI_Comm comm, int ndims, const int dims[], const int periods[]) {
  if (!is_comm(comm)) return fail_comm(name, comm);
  if (ndims < 0) {
    return fail(name, comm, MPI_ERR_ARG, "the number of dimensions is %d; it must be 0 or more",
                ndims);
  }
  if (const int code = check_lists(name, comm, ndims, {dims, periods})) return code;
  const int positions = positions_of(ints(dims, ndims));
  if (positions == 0) {
    return fail(name, comm, MPI_ERR_DIMS, "a dimension is less than 1");
  }
  if (positions > comm->size()) {
    return fail(name, comm, MPI_ERR_ARG,
                "the dimensions are for %d ranks or more; the communicator has %d", positions,
                comm->size());
  }
  return MPI_SUCCESS;
}

int cart_sub(const char* name, const void* site, MPI_Comm comm, const Topology& t, Ints remain,
             MPI_Comm* new_comm) {
  std::uint32_t given = 1;
  for (const int r : remain) given = 2 * given + (r != 0);
  const recovery::Outcome o = meet(site, comm, OpKind::kCartSub, nullptr, 0, given);
  if (o.status != Status::kOk) return fail_status(name, comm, o.status);
  const WorldRanks parent = ranks_of(comm);
  const Ints dims = t.grid().dims;
  const int part = part_of(dims, remain, comm->rank());
  Scratch members(parent.size() * sizeof(std::uint32_t));
  std::size_t n = 0;
  for (std::size_t r = 0; r < parent.size(); ++r) {
    if (part_of(dims, remain, static_cast<int>(r)) != part) continue;
    members.as<std::uint32_t>()[n++] = parent[r];
  }
  Scratch kept(2 * dims.size_bytes() + 1);
  int *const kept_dims = kept.as<int>(), *const kept_periods = kept_dims + dims.size();
  std::size_t k = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (remain[i] == 0) continue;
    kept_dims[k] = dims[i];
    kept_periods[k++] = t.grid().periods[i];
  }
  const std::uint64_t id = journal::derive_context(comm->comm->members.context, o.sequence,
                                                   static_cast<std::uint32_t>(part));
  *new_comm = open_child(comm, id, {members.as<std::uint32_t>(), n});
  (*new_comm)->topology =
      make_topology(MPI_CART, false, {Ints(kept_dims, k), Ints(kept_periods, k)});
  return MPI_SUCCESS;
}

}  // namespace

int topo_test(MPI_Comm comm, int* status) {
  if (!is_comm(comm)) return fail_comm("MPI_Topo_test", comm);
  *status = comm->topology != nullptr ? comm->topology->kind : MPI_UNDEFINED;
  return MPI_SUCCESS;
}

int dims_create(int nnodes, int ndims, int dims[]) {
  constexpr const char* kName = "MPI_Dims_create";
  require_active(kName);
  if (ndims < 0) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_DIMS,
                "the number of dimensions is %d; it must be 0 or more", ndims);
  }
  if (const int code = check_lists(kName, MPI_COMM_WORLD, ndims, {dims})) return code;
  if (balance_dims(nnodes, {dims, static_cast<std::size_t>(ndims)})) return MPI_SUCCESS;
  return fail(kName, MPI_COMM_WORLD, MPI_ERR_DIMS,
              "%d ranks cannot be divided into %d dimensions with the sizes that are given", nnodes,
              ndims);
}

// The ranks keep their order, because all of them share one machine's memory.
int cart_create(const void* site, MPI_Comm old_comm, int ndims, const int dims[],
                const int periods[], int reorder, MPI_Comm* comm_cart) {
  constexpr const char* kName = "MPI_Cart_create";
  if (const int code = check_grid(kName, old_comm, ndims, dims, periods)) return code;
  const Ints sizes = ints(dims, ndims), wraps = ints(periods, ndims);
  // Any number but 0 says that a dimension is periodic.
  std::uint32_t given = digest(reorder != 0, sizes);
  for (const int p : wraps) given = 2 * given + (p != 0);
  return create_with_topology(kName, site, old_comm, OpKind::kCartCreate, given,
                              positions_of(sizes), MPI_CART, {sizes, wraps}, comm_cart);
}

int cart_map(MPI_Comm comm, int ndims, const int dims[], const int periods[], int* newrank) {
  constexpr const char* kName = "MPI_Cart_map";
  if (const int code = check_grid(kName, comm, ndims, dims, periods)) return code;
  const int rank = comm->rank();
  *newrank = rank < positions_of(ints(dims, ndims)) ? rank : MPI_UNDEFINED;
  return MPI_SUCCESS;
}

int cart_sub(const void* site, MPI_Comm comm, const int remain_dims[], MPI_Comm* new_comm) {
  constexpr const char* kName = "MPI_Cart_sub";
  if (const int code = check_topology(kName, comm, MPI_CART)) return code;
  const Topology& t = *comm->topology;
  if (const int code = check_lists(kName, comm, t.ndims(), {remain_dims})) return code;
  return cart_sub(kName, site, comm, t, ints(remain_dims, t.ndims()), new_comm);
}

int cartdim_get(MPI_Comm comm, int* ndims) {
  constexpr const char* kName = "MPI_Cartdim_get";
  if (const int code = check_topology(kName, comm, MPI_CART)) return code;
  *ndims = comm->topology->ndims();
  return MPI_SUCCESS;
}

int cart_get(MPI_Comm comm, int maxdims, int dims[], int periods[], int coords[]) {
  constexpr const char* kName = "MPI_Cart_get";
  if (const int code = check_topology(kName, comm, MPI_CART)) return code;
  if (const int code = check_room(kName, comm, maxdims)) return code;
  const Grid grid = comm->topology->grid();
  const auto n = std::min(grid.dims.size(), static_cast<std::size_t>(maxdims));
  if (const int code = check_lists(kName, comm, n, {dims, periods, coords})) return code;
  std::copy_n(grid.dims.begin(), n, dims);
  std::copy_n(grid.periods.begin(), n, periods);
  coords_of(grid.dims, comm->rank(), {coords, n});
  return MPI_SUCCESS;
}

int cart_coords(MPI_Comm comm, int rank, int maxdims, int coords[]) {
  constexpr const char* kName = "MPI_Cart_coords";
  if (const int code = check_topology(kName, comm, MPI_CART)) return code;
  if (const int code = check_rank(kName, comm, rank)) return code;
  if (const int code = check_room(kName, comm, maxdims)) return code;
  const Topology& t = *comm->topology;
  const auto n = static_cast<std::size_t>(std::min(t.ndims(), maxdims));
  if (const int code = check_lists(kName, comm, n, {coords})) return code;
  coords_of(t.grid().dims, rank, {coords, n});
  return MPI_SUCCESS;
}

int cart_rank(MPI_Comm comm, const int coords[], int* rank) {
  constexpr const char* kName = "MPI_Cart_rank";
  if (const int code = check_topology(kName, comm, MPI_CART)) return code;
  const Topology& t = *comm->topology;
  if (const int code = check_lists(kName, comm, t.ndims(), {coords})) return code;
  const int found = rank_at(t.grid(), ints(coords, t.ndims()));
  if (found == kNowhere) {
    return fail(kName, comm, MPI_ERR_ARG,
                "a coordinate lies outside of a dimension that is not periodic");
  }
  *rank = found;
  return MPI_SUCCESS;
}

int cart_shift(MPI_Comm comm, int direction, int disp, int* rank_source, int* rank_dest) {
  constexpr const char* kName = "MPI_Cart_shift";
  if (const int code = check_topology(kName, comm, MPI_CART)) return code;
  if (const int code = check_dimension(kName, comm, direction)) return code;
  const Grid grid = comm->topology->grid();
  *rank_source = null_or_rank(shifted(grid, comm->rank(), direction, -std::int64_t{disp}));
  *rank_dest = null_or_rank(shifted(grid, comm->rank(), direction, disp));
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
