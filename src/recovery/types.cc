#include "recovery/types.h"

#include "engine/kernels.h"
#include "recovery/outcome_kind.h"

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
    case OpKind::kSend:
      return "Send";
    case OpKind::kSsend:
      return "Ssend";
    case OpKind::kBsend:
      return "Bsend";
    case OpKind::kRsend:
      return "Rsend";
    case OpKind::kIsend:
      return "Isend";
    case OpKind::kIssend:
      return "Issend";
    case OpKind::kIbsend:
      return "Ibsend";
    case OpKind::kIrsend:
      return "Irsend";
    case OpKind::kRecv:
      return "Recv";
    case OpKind::kIrecv:
      return "Irecv";
    case OpKind::kMrecv:
      return "Mrecv";
    case OpKind::kImrecv:
      return "Imrecv";
    case OpKind::kSendrecv:
      return "Sendrecv";
    case OpKind::kSendrecvReplace:
      return "Sendrecv_replace";
    case OpKind::kProbe:
      return "Probe";
    case OpKind::kMprobe:
      return "Mprobe";
    case OpKind::kImprobe:
      return "Improbe";
    case OpKind::kStart:
      return "Start";
    case OpKind::kStartall:
      return "Startall";
    case OpKind::kWait:
      return "Wait";
    case OpKind::kWaitall:
      return "Waitall";
    case OpKind::kWaitany:
      return "Waitany";
    case OpKind::kWaitsome:
      return "Waitsome";
    case OpKind::kCancel:
      return "Cancel";
  }
  return "(unknown)";
}

const char* name_of(OutcomeKind kind) {
  switch (kind) {
    case OutcomeKind::kNotYet:
      return "whether something is over (it was not)";
    case OutcomeKind::kDone:
      return "whether something is over (it was)";
    case OutcomeKind::kIndex:
      return "which of several is over";
    case OutcomeKind::kCount:
      return "which of several are over";
    case OutcomeKind::kPair:
      return "whether a message has come";
  }
  return "something else";
}

Shape shape_of(const Signature& s) {
  const std::size_t element =
      s.type < engine::kElements ? engine::element_bytes(static_cast<engine::Element>(s.type)) : 0;
  const std::size_t unit = element > 0 && s.bytes % element == 0 ? element : 1;
  return {unit, s.bytes / unit};
}

}  // namespace rejoin::recovery
