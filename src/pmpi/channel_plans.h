// Shared by the plans of collectives that give members different bytes: channels.cc, alltoall.cc.
#pragma once

#include "engine/collectives.h"
#include "pmpi/blocks.h"
#include "pmpi/buffers.h"
#include "pmpi/call.h"
#include "pmpi/collective.h"
#include "pmpi/inter_collectives.h"
#include "pmpi/packed.h"

namespace rejoin::pmpi {

using recovery::OpKind;
using recovery::Outcome;
using recovery::Signature;

// The base of all plans here. A replay compares what is sent message by message, so an operation
// needs no fingerprint.
struct ChannelPlan {
  std::uint32_t members;
  int root = -1;
  bool at_root = false;
  std::size_t common = 0;  // bytes of a block where all are equal

  void take_members(MPI_Comm comm) { members = comm->comm->members.size; }
  int take_root(const char* name, MPI_Comm comm, int root_rank) {
    take_members(comm);
    if (const int code = check_root(name, comm, root_rank)) return code;
    root = root_rank;
    at_root = comm->rank() == root;
    return MPI_SUCCESS;
  }
  Signature signature(OpKind kind) const { return signature_of(kind, root, common); }
};
struct ChannelRun {
  const void* const input = nullptr;
  const std::size_t input_bytes = 0;
  void deliver(const Outcome&) {}
};

template <class Plan, class... Arguments>
int check_and_run(const char* name, const void* site, MPI_Comm comm, OpKind kind,
                  Arguments... arguments) {
  if (!is_comm(comm)) return run_on_inter<Plan>(name, site, comm, kind, arguments...);
  Plan plan;
  if (const int code = plan.check(name, comm, arguments...)) return code;
  return run(name, site, comm, kind, plan);
}

}  // namespace rejoin::pmpi
