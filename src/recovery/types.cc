#include "recovery/types.h"

#include "engine/kernels.h"

namespace rejoin::recovery {

const char* name_of(OpKind kind) {
  switch (kind) {
    case OpKind::kBarrier:
      return "Barrier";
    case OpKind::kBcast:
      return "Bcast";
    case OpKind::kAllreduce:
      return "Allreduce";
    case OpKind::kAllgather:
      return "Allgather";
    case OpKind::kAllgatherv:
      return "Allgatherv";
    case OpKind::kReduceScatter:
      return "Reduce_scatter";
    case OpKind::kReduceScatterBlock:
      return "Reduce_scatter_block";
    case OpKind::kReduce:
      return "Reduce";
    case OpKind::kGather:
      return "Gather";
    case OpKind::kGatherv:
      return "Gatherv";
    case OpKind::kScatter:
      return "Scatter";
    case OpKind::kScatterv:
      return "Scatterv";
    case OpKind::kAlltoall:
      return "Alltoall";
    case OpKind::kAlltoallv:
      return "Alltoallv";
    case OpKind::kAlltoallw:
      return "Alltoallw";
    case OpKind::kScan:
      return "Scan";
    case OpKind::kExscan:
      return "Exscan";
    case OpKind::kCommDup:
      return "Comm_dup";
    case OpKind::kCommSplit:
      return "Comm_split";
    case OpKind::kCommCreate:
      return "Comm_create";
    case OpKind::kCommCreateGroup:
      return "Comm_create_group";
    case OpKind::kInit:
      return "Init";
    case OpKind::kFinalize:
      return "Finalize";
    case OpKind::kCheckpoint:
      return "Pcontrol(checkpoint)";
    case OpKind::kLoad:
      return "Pcontrol(load)";
  }
  return "(unknown)";
}

Shape shape_of(const Signature& s) {
  const std::size_t element =
      s.type < engine::kElements ? engine::element_bytes(static_cast<engine::Element>(s.type)) : 0;
  const std::size_t unit = element > 0 && s.bytes % element == 0 ? element : 1;
  return {unit, s.bytes / unit};
}

}  // namespace rejoin::recovery
