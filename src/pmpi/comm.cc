// MPI_Comm_*, without attributes and error handlers.
#include "pmpi/comm.h"

#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "api.h"
#include "pmpi/attributes.h"
#include "pmpi/call.h"
#include "pmpi/collective.h"
#include "pmpi/context.h"
#include "pmpi/errhandler.h"
#include "pmpi/errors.h"
#include "pmpi/fortran.h"
#include "pmpi/group.h"
#include "pmpi/info.h"
#include "pmpi/request.h"
#include "pmpi/topologies.h"

namespace rejoin::pmpi {

void open_comm(MPI_Comm handle, Rank::Comm* comm) {
  if (comm == nullptr) {
    end_job(MPI_ERR_NO_MEM, "there is no memory for another communicator");
  }
  handle->comm = comm;
  handle->own_first = handle->peer_first = 0;
  handle->own_count = handle->peer_count = comm->members.size;
  if (handle->errhandler == nullptr) handle->errhandler = MPI_ERRORS_ARE_FATAL;
  handle->magic = Magic::kComm;
}

using recovery::OpKind;
using recovery::Status;

recovery::Outcome meet(const void* site, MPI_Comm comm, OpKind kind, const void* input,
                       std::size_t bytes, std::uint32_t layout) {
  recovery::ReplicatedSpec spec;
  spec.input = input;
  spec.input_bytes = bytes;
  spec.result_bytes = bytes * comm->comm->members.size;
  return context->rank->replicated(*comm->comm, call_of(site, kind, -1, bytes, layout), spec);
}

MPI_Comm open_child(MPI_Comm parent, std::uint64_t id, WorldRanks members) {
  MPI_Comm c = make<ompi_communicator_t>();
  c->fortran = kNoFortranHandle;
  c->references = 1;
  c->errhandler = parent->errhandler;
  ++c->errhandler->references;
  open_comm(
      c, context->rank->make_comm(id, members.data(), static_cast<std::uint32_t>(members.size())));
  return c;
}

std::uint64_t colour_of(WorldRanks members, std::uint64_t start) {
  std::uint64_t h = journal::mix(start ^ members.size());
  for (const std::uint32_t r : members) h = journal::mix(h + r);
  return h;
}

void close(MPI_Comm c) {
  forget(&context->comms, c->fortran);
  c->fortran = kNoFortranHandle;
  c->magic = Magic::kNone;
  release_comm(c);
}

std::uint64_t count_creation(const char* name, MPI_Comm comm, std::uint64_t colour) {
  Rank& rank = *context->rank;
  if (rank.loaded_version() != 0 && !context->hinted) {
    char text[320];
    snprintf(text, sizeof text,
             "rank %u has loaded version %llu and cannot find out how often %s was called before "
             "that version: call it before the load, or mark the call (rejoin_bootstrap); "
             "MPI_Comm_split and MPI_Comm_create do not have this restriction",
             rank.rank(), static_cast<unsigned long long>(rank.loaded_version()), name);
    rank.diverged(text);
  }
  GroupCreations* g = comm->creations;
  while (g != nullptr && g->colour != colour) g = g->next;
  if (g == nullptr) {
    g = make<GroupCreations>();
    *g = {colour, 0, comm->creations};
    comm->creations = g;
  }
  return g->count++;
}

namespace {

void dispose(MPI_Comm c) {
  drop(c->errhandler);
  while (GroupCreations* g = c->creations) {
    c->creations = g->next;
    destroy(g);
  }
  context->rank->free_comm(c->comm);
  release_topology(c->topology);
  destroy(c);
}

// Makes the duplicate that operation `sequence` of comm creates, with copies of the attributes.
int make_copy(const char* name, MPI_Comm comm, std::uint64_t sequence, MPI_Comm* newcomm) {
  *newcomm = MPI_COMM_NULL;
  const std::uint64_t id = journal::derive_context(comm->comm->members.context, sequence, 0);
  MPI_Comm c = is_inter(comm) ? open_inter(comm, id, first_group(comm), second_group(comm))
                              : open_child(comm, id, ranks_of(comm));
  c->topology = share(comm->topology);
  if (const int code = copy_attributes(comm, c)) {
    close(c);
    return fail(name, comm, code, "the copy function of an attribute returned %d", code);
  }
  *newcomm = c;
  return MPI_SUCCESS;
}

int duplicate(const char* name, const void* site, MPI_Comm comm, MPI_Comm* newcomm) {
  if (!is_any_comm(comm)) return fail_comm(name);
  *newcomm = MPI_COMM_NULL;
  const recovery::Outcome o = meet(site, comm, OpKind::kCommDup, nullptr, 0);
  if (o.status != Status::kOk) return fail_status(name, comm, o.status);
  return make_copy(name, comm, o.sequence, newcomm);
}

// A collective that moves nothing.
struct MeetingPlan {
  using Inter = MeetingPlan;

  int check(const char*, MPI_Comm) { return MPI_SUCCESS; }
  void keep(Kept&) {}
  recovery::Signature signature(OpKind kind) const { return signature_of(kind, -1, 0); }
  struct Run {
    explicit Run(const MeetingPlan&) {}
    void deliver(const recovery::Outcome&) {}
    recovery::ReplicatedSpec spec;
  };
};

int split(const char* name, const void* site, MPI_Comm comm, ColourAndKey mine, MPI_Comm* newcomm) {
  if (is_inter(comm)) return split_inter(name, site, comm, mine, newcomm);
  const recovery::Outcome o = meet(site, comm, OpKind::kCommSplit, &mine, sizeof mine);
  if (o.status != Status::kOk) return fail_status(name, comm, o.status);
  *newcomm = MPI_COMM_NULL;
  if (mine.colour == MPI_UNDEFINED) return MPI_SUCCESS;
  const WorldRanks parent = ranks_of(comm);
  Scratch members(parent.size() * sizeof(std::uint32_t));
  std::uint32_t* part = members.as<std::uint32_t>();
  const int n = members_of_part({reinterpret_cast<const ColourAndKey*>(o.data()), parent.size()},
                                mine.colour, part);
  for (int i = 0; i < n; ++i) part[i] = parent[part[i]];
  const std::uint64_t id = journal::derive_context(comm->comm->members.context, o.sequence,
                                                   static_cast<std::uint32_t>(mine.colour));
  *newcomm = open_child(comm, id, {part, static_cast<std::size_t>(n)});
  return MPI_SUCCESS;
}

// Returns MPI_SUCCESS if every member of `group` is one of `comm`, else the code of the error that
// was raised.
int check_subgroup(const char* name, MPI_Comm comm, MPI_Group group) {
  if (!is_group(group)) {
    return fail(name, comm, MPI_ERR_GROUP, "the group is MPI_GROUP_NULL, or it was freed");
  }
  const Positions in_comm(ranks_of(comm));
  for (const std::uint32_t r : ranks_of(group)) {
    if (!in_comm.has(r)) {
      return fail(name, comm, MPI_ERR_GROUP,
                  "rank %u of MPI_COMM_WORLD is in the group but not in the communicator", r);
    }
  }
  return MPI_SUCCESS;
}

int free_handle(const char* name, MPI_Comm* comm) {
  require_active(name);
  if (comm == nullptr || !is_any_comm(*comm)) return fail_comm(name);
  MPI_Comm c = *comm;
  if (c->predefined) {
    return fail(name, c, MPI_ERR_COMM, "%s cannot be freed", c->name);
  }
  if (const int code = delete_attributes(c)) {
    return fail(name, c, code, "the delete function of an attribute returned %d", code);
  }
  close(c);
  *comm = MPI_COMM_NULL;
  return MPI_SUCCESS;
}

}  // namespace

void release_comm(MPI_Comm c) {
  if (!c->predefined && --c->references == 0) dispose(c);
}

int comm_rank(MPI_Comm comm, int* rank) {
  if (!is_any_comm(comm)) return fail_comm("MPI_Comm_rank");
  *rank = comm->rank();
  return MPI_SUCCESS;
}

int comm_size(MPI_Comm comm, int* size) {
  if (!is_any_comm(comm)) return fail_comm("MPI_Comm_size");
  *size = comm->size();
  return MPI_SUCCESS;
}

int comm_dup(const void* site, MPI_Comm comm, MPI_Comm* newcomm) {
  return duplicate("MPI_Comm_dup", site, comm, newcomm);
}

int comm_dup_with_info(const void* site, MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm) {
  constexpr const char* kName = "MPI_Comm_dup_with_info";
  if (is_any_comm(comm) && info != MPI_INFO_NULL && !is_info(info)) {
    return fail(kName, comm, MPI_ERR_INFO, "the info object is invalid, or it was freed");
  }
  return duplicate(kName, site, comm, newcomm);
}

// The new communicator is made at once, with the present attributes; it may be used once every
// member has made this call.
int comm_idup(const void* site, MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request) {
  constexpr const char* kName = "MPI_Comm_idup";
  if (const int code =
          begin_collective<MeetingPlan>(kName, site, comm, OpKind::kCommIdup, request)) {
    return code;
  }
  const int code = make_copy(kName, comm, (*request)->collective->standing().sequence, newcomm);
  if (code != MPI_SUCCESS) give_away(request);
  return code;
}

int comm_split(const void* site, MPI_Comm comm, int color, int key, MPI_Comm* newcomm) {
  constexpr const char* kName = "MPI_Comm_split";
  if (!is_any_comm(comm)) return fail_comm(kName);
  if (color < 0 && color != MPI_UNDEFINED) {
    return fail(kName, comm, MPI_ERR_ARG,
                "the colour is %d; it must be 0 or more, or MPI_UNDEFINED", color);
  }
  return split(kName, site, comm, {color, key}, newcomm);
}

int comm_split_type(const void* site, MPI_Comm comm, int split_type, int key, MPI_Info,
                    MPI_Comm* newcomm) {
  constexpr const char* kName = "MPI_Comm_split_type";
  if (!is_any_comm(comm)) return fail_comm(kName);
  if (split_type != MPI_COMM_TYPE_SHARED && split_type != MPI_UNDEFINED) {
    return fail(kName, comm, MPI_ERR_UNSUPPORTED_OPERATION,
                "split type %d is not supported; it must be MPI_COMM_TYPE_SHARED or MPI_UNDEFINED",
                split_type);
  }
  const std::uint32_t node = context->rank->peers().node(context->rank->rank());
  const int colour = split_type == MPI_UNDEFINED ? MPI_UNDEFINED : static_cast<int>(node);
  return split(kName, site, comm, {colour, key}, newcomm);
}

int comm_create(const void* site, MPI_Comm comm, MPI_Group group, MPI_Comm* newcomm) {
  constexpr const char* kName = "MPI_Comm_create";
  if (!is_any_comm(comm)) return fail_comm(kName);
  if (const int code = check_subgroup(kName, comm, group)) return code;
  if (is_inter(comm)) return create_inter(kName, site, comm, group, newcomm);
  const recovery::Outcome o = meet(site, comm, OpKind::kCommCreate, nullptr, 0);
  if (o.status != Status::kOk) return fail_status(kName, comm, o.status);
  *newcomm = MPI_COMM_NULL;
  if (group->rank == MPI_UNDEFINED) return MPI_SUCCESS;
  // Different members may pass disjoint groups, so the context's id depends on the group, too.
  const std::uint64_t id = journal::derive_context(comm->comm->members.context, o.sequence,
                                                   colour_of(ranks_of(group), 0));
  *newcomm = open_child(comm, id, ranks_of(group));
  return MPI_SUCCESS;
}

int comm_create_group(const void* site, MPI_Comm comm, MPI_Group group, int tag,
                      MPI_Comm* newcomm) {
  constexpr const char* kName = "MPI_Comm_create_group";
  if (!is_comm(comm)) return fail_comm(kName, comm);
  if (const int code = check_subgroup(kName, comm, group)) return code;
  if (tag < 0) return fail(kName, comm, MPI_ERR_TAG, "the tag is %d; it must be 0 or more", tag);
  *newcomm = MPI_COMM_NULL;
  if (group->rank == MPI_UNDEFINED) return MPI_SUCCESS;
  const std::uint64_t colour =
      colour_of(ranks_of(group), std::uint64_t{1} << 32 | static_cast<std::uint32_t>(tag));
  const std::uint64_t id = journal::derive_context(comm->comm->members.context,
                                                   count_creation(kName, comm, colour), colour);
  MPI_Comm c = open_child(comm, id, ranks_of(group));
  const Status status = meet(site, c, OpKind::kCommCreateGroup, nullptr, 0).status;
  if (status != Status::kOk) {
    const int code = fail_status(kName, comm, status);
    close(c);
    return code;
  }
  *newcomm = c;
  return MPI_SUCCESS;
}

// These are collective in MPI but local here: records outlive the handle, so no rank waits.
int comm_free(MPI_Comm* comm) { return free_handle("MPI_Comm_free", comm); }
int comm_disconnect(MPI_Comm* comm) { return free_handle("MPI_Comm_disconnect", comm); }

int comm_compare(MPI_Comm comm1, MPI_Comm comm2, int* result) {
  if (!is_any_comm(comm1) || !is_any_comm(comm2)) return fail_comm("MPI_Comm_compare");
  if (comm1 == comm2) {
    *result = MPI_IDENT;
    return MPI_SUCCESS;
  }
  if (comm1->magic != comm2->magic) {
    *result = MPI_UNEQUAL;
    return MPI_SUCCESS;
  }
  // MPI's values grow with the difference. In an intracommunicator the two groups of each are the
  // same.
  static_assert(MPI_IDENT < MPI_SIMILAR && MPI_SIMILAR < MPI_UNEQUAL);
  const int groups = std::max(comparison(ranks_of(comm1), ranks_of(comm2)),
                              comparison(peers_of(comm1), peers_of(comm2)));
  *result = groups == MPI_IDENT ? MPI_CONGRUENT : groups;
  return MPI_SUCCESS;
}

int comm_group(MPI_Comm comm, MPI_Group* group) {
  if (!is_any_comm(comm)) return fail_comm("MPI_Comm_group");
  *group = make_group(ranks_of(comm).data(), comm->size());
  return MPI_SUCCESS;
}

int comm_set_name(MPI_Comm comm, const char* comm_name) {
  if (!is_any_comm(comm)) return fail_comm("MPI_Comm_set_name");
  snprintf(comm->name, sizeof comm->name, "%s", comm_name);
  return MPI_SUCCESS;
}

int comm_get_name(MPI_Comm comm, char* comm_name, int* resultlen) {
  require_active("MPI_Comm_get_name");
  if (!is_any_comm(comm) && comm != MPI_COMM_NULL) return fail_comm("MPI_Comm_get_name");
  *resultlen = give_text(comm_name, MPI_MAX_OBJECT_NAME, comm->name);
  return MPI_SUCCESS;
}

// A communicator keeps those keys that the library knows (as Open MPI does); there are none.
int comm_set_info(MPI_Comm comm, MPI_Info info) {
  if (!is_any_comm(comm)) return fail_comm("MPI_Comm_set_info");
  if (!is_info(info)) {
    return fail("MPI_Comm_set_info", comm, MPI_ERR_INFO, "the info object is invalid");
  }
  return MPI_SUCCESS;
}

int comm_get_info(MPI_Comm comm, MPI_Info* info_used) {
  if (!is_any_comm(comm)) return fail_comm("MPI_Comm_get_info");
  *info_used = make_info();
  return MPI_SUCCESS;
}

int comm_get_parent(MPI_Comm* parent) {
  require_active("MPI_Comm_get_parent");
  *parent = MPI_COMM_NULL;
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
