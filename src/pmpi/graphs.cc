// MPI_Graph_*, MPI_Graphdims_get and MPI_Dist_graph_*.
#include <stdio.h>

#include <algorithm>
#include <utility>

#include "api.h"
#include "pmpi/call.h"
#include "pmpi/comm.h"
#include "pmpi/group.h"
#include "pmpi/info.h"
#include "pmpi/topologies.h"
#include "recovery/hash.h"

namespace rejoin::pmpi {
namespace {

using recovery::OpKind;
using recovery::Status;

// --- Graphs that every rank knows as a whole

int check_graph(const char* name, MPI_Comm comm, int nnodes, const int index[], const int edges[]) {
  if (!is_comm(comm)) return fail_comm(name, comm);
  if (nnodes < 0 || nnodes > comm->size()) {
    return fail(name, comm, MPI_ERR_ARG, "the graph has %d nodes; the communicator has %d ranks",
                nnodes, comm->size());
  }
  if (nnodes == 0) return MPI_SUCCESS;
  if (const int code = check_pointers(name, comm, {index})) return code;
  if (!is_index(ints(index, nnodes))) {
    return fail(name, comm, MPI_ERR_ARG,
                "the elements of the index must be 0 or more, and must not decrease");
  }
  const int count = index[nnodes - 1];
  if (const int code = check_lists(name, comm, count, {edges})) return code;
  if (!are_ranks(ints(edges, count), nnodes)) {
    return fail(name, comm, MPI_ERR_ARG, "an edge ends at a rank outside of 0 to %d", nnodes - 1);
  }
  return MPI_SUCCESS;
}

// --- Distributed graphs

// Which weights a rank gave. A rank without edges counts only if no rank has an edge, because many
// programs pass a null pointer there.
enum Weights : std::uint32_t { kUnweighted = 1, kWeighted = 2, kWeightedWithoutEdges = 4 };

std::uint32_t weights_of(int edges, const int weights[]) {
  if (weights == MPI_UNWEIGHTED) return edges == 0 ? 0U : kUnweighted;
  return edges == 0 ? kWeightedWithoutEdges : kWeighted;
}

bool is_weighted(std::uint32_t weights) { return (weights & kUnweighted) == 0 && weights != 0; }

int check_degree(const char* name, MPI_Comm comm, int degree) {
  if (degree >= 0) return MPI_SUCCESS;
  return fail(name, comm, MPI_ERR_ARG, "a number of nodes or edges is %d; it must be 0 or more",
              degree);
}

// Checks `count` edges of this rank, which end at `ranks`.
int check_edges(const char* name, MPI_Comm comm, int count, const int ranks[],
                const int weights[]) {
  if (const int code = check_degree(name, comm, count)) return code;
  if (count == 0) return MPI_SUCCESS;
  if (const int code = check_pointers(name, comm, {ranks, weights})) return code;
  if (!are_ranks(ints(ranks, count), comm->size())) {
    return fail(name, comm, MPI_ERR_ARG, "an edge ends at a rank outside of 0 to %d",
                comm->size() - 1);
  }
  if (weights == MPI_WEIGHTS_EMPTY) {
    return fail(name, comm, MPI_ERR_ARG, "MPI_WEIGHTS_EMPTY is given as the weights of %d edges",
                count);
  }
  const bool negative = weights != MPI_UNWEIGHTED &&
                        std::any_of(weights, weights + count, [](int w) { return w < 0; });
  if (negative) return fail(name, comm, MPI_ERR_ARG, "a weight is negative");
  return MPI_SUCCESS;
}

int check_info(const char* name, MPI_Comm comm, MPI_Info info) {
  if (info == MPI_INFO_NULL || is_info(info)) return MPI_SUCCESS;
  return fail(name, comm, MPI_ERR_INFO, "the info object is invalid, or it was freed");
}

// Checks the union of the weights of all ranks, so either all ranks fail or none does.
int check_weights(const char* name, MPI_Comm comm, std::uint32_t weights) {
  if ((weights & kUnweighted) == 0 || (weights & kWeighted) == 0) return MPI_SUCCESS;
  return fail(name, comm, MPI_ERR_ARG,
              "some edges have weights and others are MPI_UNWEIGHTED; either all edges or none "
              "must have weights");
}

MPI_Comm open_graph(MPI_Comm parent, std::uint64_t sequence, bool weighted, Ints sources,
                    Ints source_weights, Ints destinations, Ints destination_weights) {
  const std::uint64_t id = journal::derive_context(parent->comm->members.context, sequence, 0);
  MPI_Comm c = open_child(parent, id, ranks_of(parent));
  c->topology = make_topology(MPI_DIST_GRAPH, weighted,
                              {sources, source_weights, destinations, destination_weights});
  return c;
}

Ints weight_list(const int weights[], int count, const Scratch& ones) {
  return ints(weights == MPI_UNWEIGHTED ? ones.as<int>() : weights, count);
}

// Contribution of a rank to the first exchange, before the edges themselves.
struct Given {
  std::uint32_t edges;
  std::uint32_t weights;
  std::uint64_t ends;  // see sum_of_ends()
};

// Returns the call of a second operation within one MPI call, with the same bootstrap mark.
recovery::Call second_of(recovery::Call call, recovery::Hint* hint, std::size_t bytes,
                         std::uint32_t layout) {
  call.signature.bytes = bytes;
  call.signature.layout = layout;
  if (call.hint == nullptr) return call;
  *hint = {call.hint->bootstrap, call.hint->key == 0 ? 0 : journal::mix(call.hint->key) | 1};
  call.hint = hint;
  return call;
}

// Result of the first exchange: sums over all ranks, and the offset of each rank's edges in bytes
// among those of all.
struct AllGiven {
  explicit AllGiven(MPI_Comm comm)
      : size(comm->comm->members.size), offsets((size + 1) * sizeof(std::size_t)) {}
  const std::uint32_t size;
  const Scratch offsets;
  std::uint32_t weights = 0;
  std::uint64_t ends = 0;
  std::size_t* begin() const { return offsets.as<std::size_t>(); }
};

recovery::Outcome exchange_given(MPI_Comm comm, const recovery::Call& call, const Given& mine,
                                 AllGiven* all) {
  recovery::ReplicatedSpec spec;
  spec.input = &mine;
  spec.input_bytes = sizeof mine;
  spec.result_bytes = all->size * sizeof mine;
  const recovery::Outcome o = context->rank->replicated(*comm->comm, call, spec);
  if (o.status != Status::kOk) return o;
  const auto* given = reinterpret_cast<const Given*>(o.data());
  all->begin()[0] = 0;
  for (std::uint32_t i = 0; i < all->size; ++i) {
    all->begin()[i + 1] = all->begin()[i] + given[i].edges * sizeof(Edge);
    all->weights |= given[i].weights;
    all->ends += given[i].ends;
  }
  return o;
}

// Second operation of `call`: gives every rank the edges of all ranks.
recovery::Outcome exchange_edges(MPI_Comm comm, const recovery::Call& call, const AllGiven& all,
                                 const Edge* mine, std::size_t edges,
                                 std::span<const Edge>* edges_of_all) {
  const std::size_t bytes = all.begin()[all.size];
  recovery::ReplicatedSpec spec;
  spec.input = mine;
  spec.input_bytes = edges * sizeof(Edge);
  spec.result_bytes = bytes;
  spec.blocks = all.begin();
  recovery::Hint hint;
  const std::uint32_t layout =
      recovery::hash_bytes(all.begin(), (all.size + 1) * sizeof *all.begin());
  const recovery::Outcome o =
      context->rank->replicated(*comm->comm, second_of(call, &hint, bytes, layout), spec);
  if (o.status == Status::kOk) {
    *edges_of_all = {reinterpret_cast<const Edge*>(o.data()), bytes / sizeof(Edge)};
  }
  return o;
}

// --- MPI_Dist_graph_create_adjacent: each edge is passed by the ranks at both of its ends

// A checksum of this rank's ends of edges. Summed over all ranks it is 0 if each edge was passed at
// both ends.
std::uint64_t sum_of_ends(int me, Ints sources, Ints destinations) {
  const auto hash = [](int source, int destination) {
    const auto from = static_cast<std::uint32_t>(source);
    return journal::mix(std::uint64_t{from} << 32 | static_cast<std::uint32_t>(destination));
  };
  std::uint64_t sum = 0;
  for (const int to : destinations) sum += hash(me, to);
  for (const int from : sources) sum -= hash(from, me);
  return sum;
}

// Reports one edge on which the ranks at its ends disagree. `weight` is 1 for an edge passed by its
// source and -1 for one passed by its destination.
void tell_of_contradiction(const char* name, std::span<const Edge> all) {
  Scratch memory(all.size() * sizeof(Edge) + 1);
  const std::span<Edge> edges(memory.as<Edge>(), all.size());
  std::copy(all.begin(), all.end(), edges.begin());
  const auto ends = [](const Edge& e) { return std::pair(e.from, e.to); };
  std::ranges::sort(edges, {}, ends);
  for (auto first = edges.begin(); first != edges.end();) {
    int given[2] = {};  // number of times: by the source, by the destination
    auto last = first;
    for (; last != edges.end() && ends(*last) == ends(*first); ++last) ++given[last->weight < 0];
    if (given[0] != given[1]) {
      char where[64], text[500];
      put_call_site(where, sizeof where);
      snprintf(text, sizeof text,
               "%s%s%s: rank %d lists rank %d %d times as a destination, but rank %d lists rank %d "
               "%d times as a source. Neighbourhood collectives on this communicator will lose "
               "messages or hang",
               name, where[0] != '\0' ? " at " : "", where, first->from, first->to, given[0],
               first->to, first->from, given[1]);
      return tell_once(name, text);
    }
    first = last;
  }
}

// Collective. Exchanges the edges after the checksums have shown a disagreement, and reports one of
// them.
recovery::Outcome find_contradiction(const char* name, const recovery::Call& call, MPI_Comm comm,
                                     const AllGiven& all, Ints sources, Ints destinations) {
  Scratch memory((sources.size() + destinations.size()) * sizeof(Edge) + 1);
  auto* const mine = memory.as<Edge>();
  std::size_t count = 0;
  for (const int to : destinations) mine[count++] = {comm->rank(), to, 1};
  for (const int from : sources) mine[count++] = {from, comm->rank(), -1};
  std::span<const Edge> edges;
  const recovery::Outcome o = exchange_edges(comm, call, all, mine, count, &edges);
  if (o.status == Status::kOk && comm->rank() == 0) tell_of_contradiction(name, edges);
  return o;
}

int dist_graph_create(const char* name, const recovery::Call& call, MPI_Comm comm,
                      const Given& mine, const Edge* edges, MPI_Comm* newcomm) {
  AllGiven given(comm);
  recovery::Outcome o = exchange_given(comm, call, mine, &given);
  if (o.status != Status::kOk) return fail_status(name, comm, o.status);
  if (const int code = check_weights(name, comm, given.weights)) return code;
  std::span<const Edge> all;
  o = exchange_edges(comm, call, given, edges, mine.edges, &all);
  if (o.status != Status::kOk) return fail_status(name, comm, o.status);
  const int rank = comm->rank();
  const std::size_t in = in_degree(all, rank), out = out_degree(all, rank);
  Scratch lists(2 * (in + out) * sizeof(int) + 1);
  int* const list = lists.as<int>();
  const Neighbours mine_of_all = {
      {list, in}, {list + in, in}, {list + 2 * in, out}, {list + 2 * in + out, out}};
  collect_neighbours(all, rank, mine_of_all);
  *newcomm = open_graph(comm, o.sequence, is_weighted(given.weights), mine_of_all.sources,
                        mine_of_all.source_weights, mine_of_all.destinations,
                        mine_of_all.destination_weights);
  return MPI_SUCCESS;
}

}  // namespace

// --- Graphs that every rank knows as a whole

int graph_create(const void* site, MPI_Comm comm_old, int nnodes, const int index[],
                 const int edges[], int reorder, MPI_Comm* comm_graph) {
  constexpr const char* kName = "MPI_Graph_create";
  if (const int code = check_graph(kName, comm_old, nnodes, index, edges)) return code;
  const Ints ends = ints(index, nnodes), all = ints(edges, nnodes > 0 ? index[nnodes - 1] : 0);
  return create_with_topology(kName, site, comm_old, OpKind::kGraphCreate,
                              digest(digest(reorder != 0, ends), all), nnodes, MPI_GRAPH,
                              {ends, all}, comm_graph);
}

int graph_map(MPI_Comm comm, int nnodes, const int index[], const int edges[], int* newrank) {
  constexpr const char* kName = "MPI_Graph_map";
  if (const int code = check_graph(kName, comm, nnodes, index, edges)) return code;
  if (nnodes == 0) return fail(kName, comm, MPI_ERR_ARG, "the graph has no nodes");
  *newrank = comm->rank() < nnodes ? comm->rank() : MPI_UNDEFINED;
  return MPI_SUCCESS;
}

int graphdims_get(MPI_Comm comm, int* nnodes, int* nedges) {
  constexpr const char* kName = "MPI_Graphdims_get";
  if (const int code = check_topology(kName, comm, MPI_GRAPH)) return code;
  *nnodes = static_cast<int>(comm->topology->index().size());
  *nedges = static_cast<int>(comm->topology->edges().size());
  return MPI_SUCCESS;
}

int graph_get(MPI_Comm comm, int maxindex, int maxedges, int index[], int edges[]) {
  constexpr const char* kName = "MPI_Graph_get";
  if (const int code = check_topology(kName, comm, MPI_GRAPH)) return code;
  if (const int code = check_room(kName, comm, maxindex)) return code;
  if (const int code = check_room(kName, comm, maxedges)) return code;
  const Topology& t = *comm->topology;
  const auto nodes = std::min(t.index().size(), static_cast<std::size_t>(maxindex));
  const auto ends = std::min(t.edges().size(), static_cast<std::size_t>(maxedges));
  if (const int code = check_lists(kName, comm, nodes, {index})) return code;
  if (const int code = check_lists(kName, comm, ends, {edges})) return code;
  std::copy_n(t.index().begin(), nodes, index);
  std::copy_n(t.edges().begin(), ends, edges);
  return MPI_SUCCESS;
}

int graph_neighbors_count(MPI_Comm comm, int rank, int* nneighbors) {
  constexpr const char* kName = "MPI_Graph_neighbors_count";
  if (const int code = check_topology(kName, comm, MPI_GRAPH)) return code;
  if (const int code = check_rank(kName, comm, rank)) return code;
  const Topology& t = *comm->topology;
  *nneighbors = static_cast<int>(neighbours_of(t.index(), t.edges(), rank).size());
  return MPI_SUCCESS;
}

int graph_neighbors(MPI_Comm comm, int rank, int maxneighbors, int neighbors[]) {
  constexpr const char* kName = "MPI_Graph_neighbors";
  if (const int code = check_topology(kName, comm, MPI_GRAPH)) return code;
  if (const int code = check_rank(kName, comm, rank)) return code;
  if (const int code = check_room(kName, comm, maxneighbors)) return code;
  const Ints all = neighbours_of(comm->topology->index(), comm->topology->edges(), rank);
  const auto n = std::min(all.size(), static_cast<std::size_t>(maxneighbors));
  if (const int code = check_lists(kName, comm, n, {neighbors})) return code;
  std::copy_n(all.begin(), n, neighbors);
  return MPI_SUCCESS;
}

// --- Distributed graphs

int dist_graph_create_adjacent(const void* site, MPI_Comm comm_old, int indegree,
                               const int sources[], const int sourceweights[], int outdegree,
                               const int destinations[], const int destweights[], MPI_Info info,
                               int reorder, MPI_Comm* comm_dist_graph) {
  constexpr const char* kName = "MPI_Dist_graph_create_adjacent";
  MPI_Comm comm = comm_old;
  if (!is_comm(comm)) return fail_comm(kName, comm);
  if (const int code = check_edges(kName, comm, indegree, sources, sourceweights)) return code;
  if (const int code = check_edges(kName, comm, outdegree, destinations, destweights)) return code;
  if (const int code = check_info(kName, comm, info)) return code;
  const Ints from = ints(sources, indegree), to = ints(destinations, outdegree);
  const int me = comm->rank();
  if (std::count(from.begin(), from.end(), me) != std::count(to.begin(), to.end(), me)) {
    return fail(
        kName, comm, MPI_ERR_ARG,
        "this rank lists itself a different number of times as a source than as a destination");
  }
  const Given mine = {static_cast<std::uint32_t>(from.size() + to.size()),
                      weights_of(indegree, sourceweights) | weights_of(outdegree, destweights),
                      sum_of_ends(me, from, to)};
  const recovery::Call call = call_of(site, OpKind::kDistGraphCreateAdjacent, -1,
                                      sizeof mine * comm->comm->members.size, reorder != 0 ? 1 : 0);
  AllGiven given(comm);
  recovery::Outcome o = exchange_given(comm, call, mine, &given);
  if (o.status != Status::kOk) return fail_status(kName, comm, o.status);
  *comm_dist_graph = MPI_COMM_NULL;
  if (const int code = check_weights(kName, comm, given.weights)) return code;
  if (given.ends != 0) {  // accepted, as Open MPI and MPICH do
    o = find_contradiction(kName, call, comm, given, from, to);
    if (o.status != Status::kOk) return fail_status(kName, comm, o.status);
  }
  const auto most = static_cast<std::size_t>(std::max(indegree, outdegree));
  Scratch ones(most * sizeof(int) + 1);
  std::fill_n(ones.as<int>(), most, 1);
  *comm_dist_graph = open_graph(comm, o.sequence, is_weighted(given.weights), from,
                                weight_list(sourceweights, indegree, ones), to,
                                weight_list(destweights, outdegree, ones));
  return MPI_SUCCESS;
}

int dist_graph_create(const void* site, MPI_Comm comm_old, int n, const int nodes[],
                      const int degrees[], const int targets[], const int weights[], MPI_Info info,
                      int reorder, MPI_Comm* newcomm) {
  constexpr const char* kName = "MPI_Dist_graph_create";
  MPI_Comm comm = comm_old;
  if (!is_comm(comm)) return fail_comm(kName, comm);
  if (const int code = check_degree(kName, comm, n)) return code;
  if (const int code = check_lists(kName, comm, n, {nodes, degrees})) return code;
  if (!are_ranks(ints(nodes, n), comm->size())) {
    return fail(kName, comm, MPI_ERR_ARG, "an edge begins at a rank outside of 0 to %d",
                comm->size() - 1);
  }
  int count = 0;
  for (int i = 0; i < n; ++i) {
    if (const int code = check_degree(kName, comm, degrees[i])) return code;
    count += degrees[i];
  }
  if (const int code = check_edges(kName, comm, count, targets, weights)) return code;
  if (const int code = check_info(kName, comm, info)) return code;
  *newcomm = MPI_COMM_NULL;
  Scratch list(static_cast<std::size_t>(count) * sizeof(Edge) + 1);
  auto* edges = list.as<Edge>();
  for (int i = 0, k = 0; i < n; ++i) {
    for (int end = k + degrees[i]; k < end; ++k) {
      edges[k] = {nodes[i], targets[k], weights == MPI_UNWEIGHTED ? 1 : weights[k]};
    }
  }
  const Given mine = {static_cast<std::uint32_t>(count), weights_of(count, weights), 0};
  const recovery::Call call = call_of(site, OpKind::kDistGraphCreate, -1,
                                      sizeof mine * comm->comm->members.size, reorder != 0 ? 1 : 0);
  return dist_graph_create(kName, call, comm, mine, edges, newcomm);
}

int dist_graph_neighbors_count(MPI_Comm comm, int* inneighbors, int* outneighbors, int* weighted) {
  constexpr const char* kName = "MPI_Dist_graph_neighbors_count";
  if (const int code = check_topology(kName, comm, MPI_DIST_GRAPH)) return code;
  *inneighbors = static_cast<int>(comm->topology->sources().size());
  *outneighbors = static_cast<int>(comm->topology->destinations().size());
  *weighted = comm->topology->weighted;
  return MPI_SUCCESS;
}

int dist_graph_neighbors(MPI_Comm comm, int maxindegree, int sources[], int sourceweights[],
                         int maxoutdegree, int destinations[], int destweights[]) {
  constexpr const char* kName = "MPI_Dist_graph_neighbors";
  if (const int code = check_topology(kName, comm, MPI_DIST_GRAPH)) return code;
  if (const int code = check_room(kName, comm, maxindegree)) return code;
  if (const int code = check_room(kName, comm, maxoutdegree)) return code;
  const Topology& t = *comm->topology;
  const auto put = [&](Ints ranks, Ints weights, int room, int* to, int* to_weights) {
    const auto n = std::min(ranks.size(), static_cast<std::size_t>(room));
    if (n == 0) return MPI_SUCCESS;
    if (const int code = check_pointers(kName, comm, {to, to_weights})) return code;
    std::copy_n(ranks.begin(), n, to);
    const bool wanted = to_weights != MPI_UNWEIGHTED && to_weights != MPI_WEIGHTS_EMPTY;
    if (t.weighted && wanted) std::copy_n(weights.begin(), n, to_weights);
    return MPI_SUCCESS;
  };
  if (const int code = put(t.sources(), t.source_weights(), maxindegree, sources, sourceweights)) {
    return code;
  }
  return put(t.destinations(), t.destination_weights(), maxoutdegree, destinations, destweights);
}

}  // namespace rejoin::pmpi
