#include "recovery/types.h"

#include <iterator>

#include "engine/kernels.h"
#include "recovery/outcome_kind.h"

namespace rejoin::recovery {

namespace {

// The names, by value, from kBarrier on.
constexpr const char* kNames[] = {
    "Barrier",
    "Bcast",
    "Allreduce",
    "Allgather",
    "Allgatherv",
    "Reduce_scatter",
    "Reduce_scatter_block",
    "Reduce",
    "Gather",
    "Gatherv",
    "Scatter",
    "Scatterv",
    "Alltoall",
    "Alltoallv",
    "Alltoallw",
    "Scan",
    "Exscan",
    "Comm_dup",
    "Comm_split",
    "Comm_create",
    "Comm_create_group",
    "Init",
    "Finalize",
    "Pcontrol(checkpoint)",
    "Pcontrol(load)",
    "Send",
    "Ssend",
    "Bsend",
    "Rsend",
    "Isend",
    "Issend",
    "Ibsend",
    "Irsend",
    "Recv",
    "Irecv",
    "Mrecv",
    "Imrecv",
    "Sendrecv",
    "Sendrecv_replace",
    "Probe",
    "Mprobe",
    "Improbe",
    "Start",
    "Startall",
    "Wait",
    "Waitall",
    "Waitany",
    "Waitsome",
    "Cancel",
    "Cart_create",
    "Cart_sub",
    "Graph_create",
    "Dist_graph_create",
    "Dist_graph_create_adjacent",
    "Neighbor_allgather",
    "Neighbor_allgatherv",
    "Neighbor_alltoall",
    "Neighbor_alltoallv",
    "Neighbor_alltoallw",
    "Intercomm_create",
    "Intercomm_merge",
    "Ibarrier",
    "Ibcast",
    "Iallreduce",
    "Iallgather",
    "Iallgatherv",
    "Ireduce_scatter",
    "Ireduce_scatter_block",
    "Ireduce",
    "Igather",
    "Igatherv",
    "Iscatter",
    "Iscatterv",
    "Ialltoall",
    "Ialltoallv",
    "Ialltoallw",
    "Iscan",
    "Iexscan",
    "Ineighbor_allgather",
    "Ineighbor_allgatherv",
    "Ineighbor_alltoall",
    "Ineighbor_alltoallv",
    "Ineighbor_alltoallw",
    "Comm_idup",
};

}  // namespace

const char* name_of(OpKind kind) {
  static_assert(std::size(kNames) == static_cast<std::size_t>(OpKind::kCommIdup));
  const auto i = static_cast<std::size_t>(kind) - 1;
  return i < std::size(kNames) ? kNames[i] : "(unknown)";
}

const char* name_of(OutcomeKind kind) {
  switch (kind) {
    case OutcomeKind::kNotYet:
      return "whether a request is complete (it was not)";
    case OutcomeKind::kDone:
      return "whether a request is complete (it was)";
    case OutcomeKind::kIndex:
      return "which one of several requests is complete";
    case OutcomeKind::kCount:
      return "which of several requests are complete";
    case OutcomeKind::kPair:
      return "whether a message has arrived";
  }
  return "another question";
}

Shape shape_of(const Signature& s) {
  const std::size_t element =
      s.type < engine::kElements ? engine::element_bytes(static_cast<engine::Element>(s.type)) : 0;
  const std::size_t unit = element > 0 && s.bytes % element == 0 ? element : 1;
  return {unit, s.bytes / unit};
}

}  // namespace rejoin::recovery
